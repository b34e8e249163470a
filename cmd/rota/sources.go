package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec/explain"
)

// Candidate is one word that may follow, and what it means.
type Candidate struct{ Word, About string }

// Source finds the words that may stand at a place of a command line.
type Source func(l *Line) []Candidate

// Line is a command line up to the word to complete.
type Line struct {
	*world
	Context  context.Context
	Commands []*Command
	Command  *Command // without a name where the command is to be completed
	Args     []string // of the command
	Addr     string   // of --addr on the line, "" if it is not there
}

// A shell is offered at most completionLimit jobs, and waits completionWait for them.
const (
	completionLimit = 100
	completionWait  = time.Second
)

// Words that ask the shell to complete by itself.
const (
	fileWord    = ":files"
	programWord = ":programs"
)

// commonValues complete the values of flags that have the same meaning in all commands, by the flag's first name.
func commonValues() map[string]Source {
	return map[string]Source{
		"output": CompleteWords(string(formatTable), string(formatJSON)), "color": CompleteWords("auto", "always", "never"),
		"states": completeStates, "class": CompleteWords("te", "be"), "queue": completeQueues,
		"account": completeAccounts, "user": completeField(func(j *api.Job) string { return j.User }),
		"var-file": CompleteFiles, "image": CompleteFiles, "workdir": CompleteFiles,
		"job": CompleteAllJobs, "jobs": CompleteAllJobs, "node": CompleteNodes, "nodelist": CompleteNodes, "exclude": CompleteNodes, "open-mode": CompleteWords("append", "truncate"),
		"container-image": CompleteFiles, "kill-on-invalid-dep": CompleteWords("yes", "no"),
	}
}

// CompleteWords offers fixed words.
func CompleteWords(all ...string) Source {
	return func(*Line) []Candidate {
		found := make([]Candidate, len(all))
		for i, word := range all {
			found[i].Word = word
		}
		return found
	}
}

// CompleteFiles has the shell offer its files.
func CompleteFiles(*Line) []Candidate { return []Candidate{{Word: fileWord}} }

// CompletePrograms has the shell offer its programs.
func CompletePrograms(*Line) []Candidate { return []Candidate{{Word: programWord}} }

// CompleteSubcommand is one source for the first argument and another for the rest.
func CompleteSubcommand(first, rest Source) Source {
	return func(l *Line) []Candidate {
		if len(l.Args) == 0 {
			return first(l)
		}
		return rest(l)
	}
}

// CompleteCommands offers the commands.
func CompleteCommands(l *Line) []Candidate {
	var found []Candidate
	for _, c := range l.Commands {
		if !c.Hidden {
			found = append(found, Candidate{c.Name, c.Usage})
		}
	}
	return found
}

func completeStates(*Line) []Candidate {
	var found []Candidate
	for _, e := range explain.All() {
		if e.Kind == explain.State && e.Name == strings.ToUpper(e.Name) { // those of nodes are small
			found = append(found, Candidate{e.Name, e.Title})
		}
	}
	return found
}

// Ask does something with the cluster that the line means, if there is one.
func (l *Line) Ask(do func(context.Context, *api.Client) error) {
	addr := l.Addr
	if addr == "" {
		addr = api.DefaultAddr(l.getenv)
	}
	client, err := api.Dial(addr)
	if err != nil {
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(l.Context, completionWait)
	defer cancel()
	_ = do(ctx, client) // what was found until then is offered
}

// jobs asks for the newest jobs.
func (l *Line) jobs(f api.JobFilter) []api.Job {
	var found []api.Job
	l.Ask(func(ctx context.Context, client *api.Client) error {
		_, err := client.EachJob(ctx, f, api.Read{}, func(j *api.Job) error {
			found = append(found, *j)
			return nil
		})
		return err
	})
	slices.Reverse(found)
	return found[:min(len(found), completionLimit)]
}

// CompleteJobs offers live jobs, those in one of the states if any are given.
func CompleteJobs(codes ...cluster.JobState) Source {
	var f api.JobFilter
	for _, code := range codes {
		f.States = append(f.States, string(code))
	}
	return func(l *Line) []Candidate { return named123(l.jobs(f)) }
}

// CompleteAllJobs offers ended jobs too, as long as the controllers hold them.
func CompleteAllJobs(l *Line) []Candidate { return named123(l.jobs(api.JobFilter{All: true})) }

// named123 offers each job by the name that it is called by. Of an array's rest, 12_[4-9], that is the array's id: brackets are the shell's.
func named123(jobs []api.Job) []Candidate {
	var found []Candidate
	for i := range jobs {
		j := &jobs[i]
		word, _, _ := strings.Cut(calledAs(j), "_[")
		found = append(found, Candidate{word, fmt.Sprintf("%s %s", j.Code, j.Name)})
	}
	return found
}

// completeField offers what some member of the live jobs is, each value once.
func completeField(member func(*api.Job) string) Source {
	return func(l *Line) []Candidate {
		var all []string
		for _, j := range l.jobs(api.JobFilter{}) {
			all = append(all, member(&j))
		}
		slices.Sort(all)
		return CompleteWords(slices.Compact(all)...)(l)
	}
}

func completeQueues(l *Line) []Candidate {
	var names []string
	l.Ask(func(ctx context.Context, client *api.Client) error {
		config, _, err := client.Config(ctx, api.Read{})
		if err == nil {
			names = slices.Sorted(maps.Keys(config.Queues))
		}
		return err
	})
	return CompleteWords(names...)(l)
}

func completeAccounts(l *Line) []Candidate {
	var names []string
	l.Ask(func(ctx context.Context, client *api.Client) error {
		list, _, err := client.Shares(ctx, api.Read{})
		if err != nil {
			return err
		}
		for _, s := range list.Items {
			names = append(names, s.Account)
		}
		return nil
	})
	return CompleteWords(names...)(l)
}

// CompleteNodes offers the nodes.
func CompleteNodes(l *Line) []Candidate {
	var found []Candidate
	l.Ask(func(ctx context.Context, client *api.Client) error {
		list, _, err := client.Nodes(ctx, api.Read{})
		if err != nil {
			return err
		}
		for _, n := range list.Items {
			found = append(found, Candidate{n.Name, n.State})
		}
		return nil
	})
	return found
}

// CompleteJobNames offers the names of live jobs.
func CompleteJobNames(l *Line) []Candidate {
	return completeField(func(j *api.Job) string { return j.Name })(l)
}
