package main

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec/explain"
	"github.com/rota-hpc/rota/jobspec/jobfile"
)

// completionLimit bounds how many jobs a shell is offered, and completionWait how long whoever pressed Tab waits for them.
const (
	completionLimit = 100
	completionWait  = time.Second
)

// What a shell completes by itself.
const (
	completeFiles    = ":files"
	completePrograms = ":programs"
)

// candidate is one word that may follow, and what it means.
type candidate struct{ word, about string }

// source finds what may stand at a place, of which words before it on the line may tell.
type source func(l *line) []candidate

// line is a command line that ends in the word to complete.
type line struct {
	*world
	app     *cli.App
	command *cli.Command
	c       *cli.Context
	args    []string // of the command, before the word
	addr    string   // what --addr says on the line
}

// argumentSources say what the arguments of commands are; those of the others are nothing that is known.
func argumentSources() map[string]source {
	live := jobsIn()
	return map[string]source{
		"submit": files, "plan": files, "validate": files, "fmt": files, "parse": files, "init": files, "convert": files, "sim": files,
		"cancel": live, "update": live, "requeue": live, "hold": jobsIn(cluster.Pending), "release": jobsIn(cluster.Pending),
		"status": anyJobs, "why": anyJobs, "logs": anyJobs, "wait": anyJobs, "resubmit": anyJobs,
		"array": subcommand(words("prune"), live), "node": subcommand(words("drain", "resume"), nodeNames),
		"cluster": subcommand(words("remove"), controllerNames),
		"explain": explainWords, "completion": shellNames, "help": commandNames, "run": programs, "dev": programs,
	}
}

// flagSources say what the values of flags are, by command and name or by name alone.
func flagSources() map[string]source {
	return map[string]source{
		"output": formats, "columns": columnNames, "sort": columnNames, "color": words("auto", "always", "never"),
		"states": states, "class": words("te", "be"), "goal": words("min", "max"), "template": templateNames,
		"queue": queueNames, "account": accountNames, "user": fromJobs(func(j *api.Job) string { return j.User }), "queue name": fromJobs(func(j *api.Job) string { return j.Name }),
		"cancel name": fromJobs(func(j *api.Job) string { return j.Name }),
		"jobs":        anyJobs, "job": anyJobs, "node": nodeNames, "nodes": nodeNames, "type": words(eventTypes()...),
		"var-file": files, "image": files, "workdir": files, "dir": files, "run nodes": words(),
		"nodelist": nodeNames, "exclude": nodeNames, "open-mode": words("append", "truncate"), "container-image": files, "kill-on-invalid-dep": words("yes", "no"),
	}
}

// eventTypes are the types that events have.
func eventTypes() []string {
	all := []cluster.EventType{cluster.EventSubmitted, cluster.EventHeld, cluster.EventReleased, cluster.EventUpdated, cluster.EventAssigned,
		cluster.EventCreated, cluster.EventStarted, cluster.EventStopping, cluster.EventPolicy, cluster.EventEnded, cluster.EventRequeued,
		cluster.EventFinished, cluster.EventReserved, cluster.EventUnreserved, cluster.EventNodeUp, cluster.EventNodeDown,
		cluster.EventNodeDrain, cluster.EventConfig}
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = string(t)
	}
	return names
}

// complete prints what may follow the words of a command line, for the shells' completions: rota complete SHELL -- WORD... Whatever
// goes wrong, it prints less; nobody who presses Tab wants to read of it.
func (w *world) complete(c *cli.Context) error {
	given := c.Args().Slice()
	if len(given) < 2 {
		return nil
	}
	shell, given := given[0], joinAssignments(given[0], given[1:])
	l := &line{world: w, app: c.App, c: c}
	out := bufio.NewWriter(w.stdout)
	for _, found := range l.candidates(given[:len(given)-1], given[len(given)-1], shell == "bash") {
		if !strings.HasPrefix(found.word, ":") && strings.ContainsAny(found.word, " \t\n'\"\\$`!*?;&|<>(){}#~") {
			continue // a shell would read it otherwise
		}
		if found.about == "" || shell == "bash" {
			fmt.Fprintln(out, found.word)
		} else {
			fmt.Fprintf(out, "%s\t%s\n", found.word, clean(found.about))
		}
	}
	return out.Flush()
}

// joinAssignments undoes what bash does to --output=json, which it takes apart at the sign.
func joinAssignments(shell string, given []string) []string {
	if shell != "bash" {
		return given
	}
	var joined []string
	for i, word := range given {
		last := len(joined) - 1
		switch {
		case word == "=" && last >= 0 && strings.HasPrefix(joined[last], "--"):
			joined[last] += "="
		case i > 0 && given[i-1] == "=" && last >= 0 && strings.HasSuffix(joined[last], "="):
			joined[last] += word
		default:
			joined = append(joined, word)
		}
	}
	return joined
}

// candidates lists what may stand in the place of word. With apart, a value behind an equals sign is offered without its flag.
func (l *line) candidates(before []string, word string, apart bool) []candidate {
	flags, name, rest, err := splitCommand(before)
	if err != nil {
		return nil
	}
	if name == "" {
		l.command = &cli.Command{Flags: commonFlags()}
		rest = flags
	} else if l.command = l.app.Command(name); l.command == nil {
		return nil
	} else {
		rest = append(flags, rest...)
	}
	wanted, own := l.read(rest)
	if flag, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(word, "--") && wanted == "" && !own {
		found := matching(l.values(strings.TrimLeft(flag, "-")), value)
		for i := range found {
			if !apart && !strings.HasPrefix(found[i].word, ":") {
				found[i].word = flag + "=" + found[i].word
			}
		}
		return found
	}
	switch {
	case wanted != "":
		return matching(l.values(wanted), word)
	case own:
		return matching(words(completeFiles)(l), word)
	case strings.HasPrefix(word, "-"):
		return matching(l.options(), word)
	case name == "":
		return matching(commandNames(l), word)
	}
	if of, ok := argumentSources()[l.command.Name]; ok {
		return matching(of(l), word)
	}
	return nil
}

// read goes through the words behind a command. It returns the flag whose value comes next, if one does, and whether what comes next
// belongs to a command line within this one.
func (l *line) read(given []string) (wanted string, own bool) {
	table := tableOf(l.command.Flags)
	for i := 0; i < len(given); i++ {
		a := given[i]
		if a == "--" {
			l.args = append(l.args, given[i+1:]...)
			return "", takesCommand(l.command) && len(l.args) > 0
		}
		if !isFlag(a) {
			l.args = append(l.args, a)
			if takesCommand(l.command) {
				return "", true
			}
			continue
		}
		name, value, glued := strings.Cut(strings.TrimLeft(a, "-"), "=")
		kind, known := table[name]
		if known && kind != switchFlag && !glued {
			if i+1 == len(given) {
				return name, false
			}
			i++
			value = given[i]
		}
		if name == "addr" {
			l.addr = value
		}
	}
	return "", false
}

// values lists what a flag may have, by its first name.
func (l *line) values(name string) []candidate {
	for _, f := range l.command.Flags {
		if !slices.Contains(f.Names(), name) {
			continue
		}
		for _, known := range f.Names() {
			if of, ok := flagSources()[l.command.Name+" "+known]; ok {
				return of(l)
			}
			if of, ok := flagSources()[known]; ok && !(likeSbatch(l.command) && known == "nodes") { // a number there
				return of(l)
			}
		}
	}
	return nil
}

// options lists the flags of the command, each once.
func (l *line) options() []candidate {
	var found []candidate
	for _, f := range l.command.Flags {
		if !visible(f) {
			continue
		}
		about := ""
		if doc, ok := f.(cli.DocGenerationFlag); ok {
			about = strings.ReplaceAll(doc.GetUsage(), "`", "")
		}
		found = append(found, candidate{dashed(longest(f.Names())), about})
	}
	slices.SortFunc(found, func(a, b candidate) int { return strings.Compare(a.word, b.word) })
	return found
}

// longest is the flag's first name that is a word, for its letters say nothing.
func longest(names []string) string {
	for _, n := range names {
		if len(n) > 1 {
			return n
		}
	}
	return names[0]
}

// matching keeps what begins as word does. Of a list with commas the last item is completed.
func matching(all []candidate, word string) []candidate {
	list, last := "", word
	if i := strings.LastIndexByte(word, ','); i >= 0 {
		list, last = word[:i+1], word[i+1:]
	}
	var found []candidate
	for _, one := range all {
		switch {
		case one.word == completeFiles || one.word == completePrograms:
			found = append(found, one)
		case strings.HasPrefix(one.word, last):
			one.word = list + one.word
			found = append(found, one)
		}
	}
	return found
}

func words(all ...string) source {
	return func(*line) []candidate {
		found := make([]candidate, len(all))
		for i, word := range all {
			found[i].word = word
		}
		return found
	}
}

func files(*line) []candidate { return []candidate{{word: completeFiles}} }

func programs(*line) []candidate { return []candidate{{word: completePrograms}} }

// subcommand is one source for the first argument and another for the rest.
func subcommand(first, rest source) source {
	return func(l *line) []candidate {
		if len(l.args) == 0 {
			return first(l)
		}
		return rest(l)
	}
}

func commandNames(l *line) []candidate {
	var found []candidate
	for _, c := range l.app.Commands {
		if !c.Hidden {
			found = append(found, candidate{c.Name, c.Usage})
		}
	}
	return found
}

func shellNames(*line) []candidate {
	var found []candidate
	for _, s := range shells {
		found = append(found, candidate{word: s.name})
	}
	return found
}

func templateNames(*line) []candidate {
	var found []candidate
	for _, t := range jobfile.Templates() {
		found = append(found, candidate{t.Name, t.Doc})
	}
	return found
}

func explainWords(*line) []candidate {
	var found []candidate
	seen := map[string]bool{}
	for _, e := range explain.All() {
		if !seen[e.Name] {
			seen[e.Name] = true
			found = append(found, candidate{e.Name, e.Title})
		}
	}
	return found
}

func states(*line) []candidate {
	var found []candidate
	for _, e := range explain.All() {
		if e.Kind == explain.State && e.Name == strings.ToUpper(e.Name) { // those of nodes are small
			found = append(found, candidate{e.Name, e.Title})
		}
	}
	return found
}

// formats lists what -o takes: of a list all formats, of other commands a few.
func formats(l *line) []candidate {
	if tableOf(l.command.Flags)["columns"] != textFlag || columnsOf(l.command.Name) == nil {
		return words(string(formatTable), string(formatJSON))(l)
	}
	var found []candidate
	for _, f := range listFormats {
		word := string(f)
		if f == formatTemplate {
			word += "="
		}
		found = append(found, candidate{word: word})
	}
	return found
}

func columnNames(l *line) []candidate { return words(columnsOf(l.command.Name)...)(l) }

// columnsOf names the columns of a command that shows a list.
func columnsOf(command string) []string {
	switch command {
	case "queue":
		return (&view[job]{cells: queueCells}).names()
	case "hist":
		return (&view[job]{cells: histCells}).names()
	case "nodes":
		return (&view[api.Node]{cells: nodeCells}).names()
	case "share":
		return (&view[shareLine]{cells: shareCells}).names()
	case "events":
		return (&view[api.Event]{cells: eventCells}).names()
	}
	return nil
}

// ask does something with the cluster that the line means, if there is one.
func (l *line) ask(do func(context.Context, *api.Client) error) {
	addr := l.addr
	if addr == "" {
		addr = api.DefaultAddr(l.getenv)
	}
	client, err := api.Dial(addr)
	if err != nil {
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(l.c.Context, completionWait)
	defer cancel()
	_ = do(ctx, client) // what was found until then is offered
}

// jobs asks for the newest jobs.
func (l *line) jobs(f api.JobFilter) []api.Job {
	var found []api.Job
	l.ask(func(ctx context.Context, client *api.Client) error {
		_, err := client.EachJob(ctx, f, api.Read{}, func(j *api.Job) error {
			found = append(found, *j)
			return nil
		})
		return err
	})
	slices.Reverse(found)
	return found[:min(len(found), completionLimit)]
}

// jobsIn offers live jobs, those in one of the states if any are given.
func jobsIn(codes ...cluster.JobState) source {
	var f api.JobFilter
	for _, code := range codes {
		f.States = append(f.States, string(code))
	}
	return func(l *line) []candidate { return named123(l.jobs(f)) }
}

// anyJobs offers ended jobs too, as long as the controllers hold them.
func anyJobs(l *line) []candidate { return named123(l.jobs(api.JobFilter{All: true})) }

// named123 offers each job by the name that it is called by. Of an array's rest, 12_[4-9], that is the array's id: brackets are the shell's.
func named123(jobs []api.Job) []candidate {
	var found []candidate
	for i := range jobs {
		j := &jobs[i]
		word, _, _ := strings.Cut(calledAs(j), "_[")
		found = append(found, candidate{word, fmt.Sprintf("%s %s", j.Code, j.Name)})
	}
	return found
}

// fromJobs offers what some member of the live jobs is, each value once.
func fromJobs(member func(*api.Job) string) source {
	return func(l *line) []candidate {
		var all []string
		for _, j := range l.jobs(api.JobFilter{}) {
			all = append(all, member(&j))
		}
		slices.Sort(all)
		return words(slices.Compact(all)...)(l)
	}
}

func queueNames(l *line) []candidate {
	var names []string
	l.ask(func(ctx context.Context, client *api.Client) error {
		config, _, err := client.Config(ctx, api.Read{})
		if err == nil {
			names = slices.Sorted(maps.Keys(config.Queues))
		}
		return err
	})
	return words(names...)(l)
}

func accountNames(l *line) []candidate {
	var names []string
	l.ask(func(ctx context.Context, client *api.Client) error {
		list, _, err := client.Shares(ctx, api.Read{})
		if err != nil {
			return err
		}
		for _, s := range list.Items {
			names = append(names, s.Account)
		}
		return nil
	})
	return words(names...)(l)
}

func controllerNames(l *line) []candidate {
	var found []candidate
	l.ask(func(ctx context.Context, client *api.Client) error {
		cl, _, err := client.Cluster(ctx)
		if err != nil {
			return err
		}
		for _, m := range cl.Controllers {
			found = append(found, candidate{m.Name, strings.TrimPrefix(roleOf(&m), ", ")})
		}
		return nil
	})
	return found
}

func nodeNames(l *line) []candidate {
	var found []candidate
	l.ask(func(ctx context.Context, client *api.Client) error {
		list, _, err := client.Nodes(ctx, api.Read{})
		if err != nil {
			return err
		}
		for _, n := range list.Items {
			found = append(found, candidate{n.Name, n.State})
		}
		return nil
	})
	return found
}
