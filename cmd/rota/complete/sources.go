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
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec/explain"
)

// completionLimit is how many jobs are offered at most.
const completionLimit = 100

// Words that have the shell complete files or programs itself.
const (
	fileWord    = ":files"
	programWord = ":programs"
)

// commonValues returns completions for flags that mean the same in all commands, by the flag's
// name.
func commonValues() map[string]command.Source {
	return map[string]command.Source{
		"output": Words(string(table.AsTable), string(table.JSON)), "color": Words("auto", "always", "never"),
		"states": completeStates, "class": Words("be", "te"), "queue": completeQueues,
		"account": completeAccounts, "user": completeField(func(j *api.Job) string { return j.User }),
		"var-file": Files, "image": Files, "workdir": Files,
		"job": AllJobs, "jobs": AllJobs, "node": Nodes, "nodelist": Nodes, "exclude": Nodes,
		"open-mode":       Words("append", "truncate"),
		"container-image": Files, "kill-on-invalid-dep": Words("yes", "no"),
	}
}

// Words offers a fixed list of words.
func Words(all ...string) command.Source {
	return func(*command.Line) []command.Candidate {
		found := make([]command.Candidate, len(all))
		for i, word := range all {
			found[i].Word = word
		}
		return found
	}
}

// Files offers file names, by the shell's own completion.
func Files(*command.Line) []command.Candidate { return []command.Candidate{{Word: fileWord}} }

// Programs offers programs, by the shell's own completion.
func Programs(*command.Line) []command.Candidate { return []command.Candidate{{Word: programWord}} }

// Subcommand uses first for the first argument, and rest for the others.
func Subcommand(first, rest command.Source) command.Source {
	return func(l *command.Line) []command.Candidate {
		if len(l.Args) == 0 {
			return first(l)
		}
		return rest(l)
	}
}

// Commands offers the commands that are not hidden.
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
		if e.Kind == explain.State && e.Name == strings.ToUpper(e.Name) { // states of nodes are lower case
			found = append(found, command.Candidate{Word: e.Name, About: e.Title})
		}
	}
	return found
}

// jobs returns the newest jobs, at most completionLimit.
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

// Jobs offers live jobs, or only those in the given states.
func Jobs(codes ...model.JobState) command.Source {
	f := api.JobFilter{States: show.Words(codes)}
	return func(l *command.Line) []command.Candidate { return jobCandidates(jobs(l, f)) }
}

// AllJobs offers all jobs that the controllers still have in memory.
func AllJobs(l *command.Line) []command.Candidate {
	return jobCandidates(jobs(l, api.JobFilter{All: true}))
}

// jobCandidates offers jobs by name. For the pending tasks of an array, 12_[4-9], that is the
// array's id, because shells expand brackets.
func jobCandidates(jobs []api.Job) []command.Candidate {
	var found []command.Candidate
	for i := range jobs {
		j := &jobs[i]
		word, _, _ := strings.Cut(show.JobName(j), "_[")
		found = append(found, command.Candidate{Word: word, About: fmt.Sprintf("%s %s", j.Code, j.Name)})
	}
	return found
}

// completeField offers the values of one field of the live jobs, each once.
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

// Nodes offers the nodes of the cluster, with their states.
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
