package complete

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec/explain"
)

// completionLimit is how many jobs a shell is offered.
const completionLimit = 100

// Words that ask the shell to complete by itself.
const (
	fileWord    = ":files"
	programWord = ":programs"
)

// commonValues complete the values of flags that have the same meaning in all commands, by the flag's first name.
func commonValues() map[string]command.Source {
	return map[string]command.Source{
		"output": Words(string(table.AsTable), string(table.JSON)), "color": Words("auto", "always", "never"),
		"states": completeStates, "class": Words("te", "be"), "queue": completeQueues,
		"account": completeAccounts, "user": completeField(func(j *api.Job) string { return j.User }),
		"var-file": Files, "image": Files, "workdir": Files,
		"job": AllJobs, "jobs": AllJobs, "node": Nodes, "nodelist": Nodes, "exclude": Nodes, "open-mode": Words("append", "truncate"),
		"container-image": Files, "kill-on-invalid-dep": Words("yes", "no"),
	}
}

// Words offers fixed words.
func Words(all ...string) command.Source {
	return func(*command.Line) []command.Candidate {
		found := make([]command.Candidate, len(all))
		for i, word := range all {
			found[i].Word = word
		}
		return found
	}
}

// Files has the shell offer its files.
func Files(*command.Line) []command.Candidate { return []command.Candidate{{Word: fileWord}} }

// Programs has the shell offer its programs.
func Programs(*command.Line) []command.Candidate { return []command.Candidate{{Word: programWord}} }

// Subcommand is one source for the first argument and another for the rest.
func Subcommand(first, rest command.Source) command.Source {
	return func(l *command.Line) []command.Candidate {
		if len(l.Args) == 0 {
			return first(l)
		}
		return rest(l)
	}
}

// Commands offers the commands.
func Commands(l *command.Line) []command.Candidate {
	var found []command.Candidate
	for _, c := range l.Commands {
		if !c.Hidden {
			found = append(found, command.Candidate{Word: c.Name, About: c.Usage})
		}
	}
	return found
}

func completeStates(*command.Line) []command.Candidate {
	var found []command.Candidate
	for _, e := range explain.All() {
		if e.Kind == explain.State && e.Name == strings.ToUpper(e.Name) { // those of nodes are small
			found = append(found, command.Candidate{Word: e.Name, About: e.Title})
		}
	}
	return found
}

// jobs asks for the newest jobs.
func jobs(l *command.Line, f api.JobFilter) []api.Job {
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

// Jobs offers live jobs, those in one of the states if any are given.
func Jobs(codes ...cluster.JobState) command.Source {
	var f api.JobFilter
	for _, code := range codes {
		f.States = append(f.States, string(code))
	}
	return func(l *command.Line) []command.Candidate { return jobCandidates(jobs(l, f)) }
}

// AllJobs offers ended jobs too, as long as the controllers hold them.
func AllJobs(l *command.Line) []command.Candidate {
	return jobCandidates(jobs(l, api.JobFilter{All: true}))
}

// jobCandidates offers each job by the name that it is called by. Of an array's rest, 12_[4-9], that is the array's id: brackets are the shell's.
func jobCandidates(jobs []api.Job) []command.Candidate {
	var found []command.Candidate
	for i := range jobs {
		j := &jobs[i]
		word, _, _ := strings.Cut(show.JobName(j), "_[")
		found = append(found, command.Candidate{Word: word, About: fmt.Sprintf("%s %s", j.Code, j.Name)})
	}
	return found
}

// completeField offers what some member of the live jobs is, each value once.
func completeField(member func(*api.Job) string) command.Source {
	return func(l *command.Line) []command.Candidate {
		var all []string
		for _, j := range jobs(l, api.JobFilter{}) {
			all = append(all, member(&j))
		}
		slices.Sort(all)
		return Words(slices.Compact(all)...)(l)
	}
}

func completeQueues(l *command.Line) []command.Candidate {
	var names []string
	l.Ask(func(ctx context.Context, client *api.Client) error {
		config, _, err := client.Config(ctx, api.Read{})
		if err == nil {
			names = slices.Sorted(maps.Keys(config.Queues))
		}
		return err
	})
	return Words(names...)(l)
}

func completeAccounts(l *command.Line) []command.Candidate {
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
	return Words(names...)(l)
}

// Nodes offers the nodes.
func Nodes(l *command.Line) []command.Candidate {
	var found []command.Candidate
	l.Ask(func(ctx context.Context, client *api.Client) error {
		list, _, err := client.Nodes(ctx, api.Read{})
		if err != nil {
			return err
		}
		for _, n := range list.Items {
			found = append(found, command.Candidate{Word: n.Name, About: n.State})
		}
		return nil
	})
	return found
}

// JobNames offers the names of live jobs.
func JobNames(l *command.Line) []command.Candidate {
	return completeField(func(j *api.Job) string { return j.Name })(l)
}
