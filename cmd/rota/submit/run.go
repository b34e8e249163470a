package submit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/follow"
	"github.com/rota-hpc/rota/cmd/rota/input"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/rules"
	"github.com/rota-hpc/rota/jobspec/script"
)

// runCommand submits a command as a job, shows its output, and ends with its exit code.
func runCommand(env *command.Env, c *cli.Context) error {
	job, err := jobFromArgs(env, c)
	if err != nil {
		return err
	}
	if count := job.Groups[0].Count; c.Bool("pty") && count > 1 {
		return exit.Usagef("--pty: a terminal needs a job of one worker, but this job has %d", count).
			WithHint("submit the job without --pty, and open shells in its workers: rota shell JOB.WORKER")
	}
	session, err := env.Dial(c)
	if err != nil {
		return err
	}
	if c.Bool("pty") {
		return atTerminal(c.Context, session, job)
	}
	return attached(c.Context, session, job)
}

// jobFromArgs returns a job with one task, from the flags and arguments of run.
func jobFromArgs(env *command.Env, c *cli.Context) (*jobspec.Job, error) {
	words := c.Args().Slice()
	if len(words) == 0 {
		return nil, exit.Usagef("no command given: rota run %s", c.Command.ArgsUsage)
	}
	apart := false
	task := jobspec.Task{Name: "main", Command: words, Image: c.String("image"), Log: &jobspec.Log{Join: &apart},
		Resources: jobspec.Resources{Cores: c.Int("cores")}}
	if text := c.String("gpus"); text != "" {
		if err := task.Resources.SetGPUs(text); err != nil {
			return nil, exit.Usagef("--gpus: %v", err)
		}
	}
	if text := c.String("mem"); text != "" {
		size, err := command.ParseSize(text)
		if err != nil {
			return nil, err
		}
		task.Resources.Memory = size
	}
	variables, err := command.Assignments("--env", c.StringSlice("env"))
	if err != nil {
		return nil, err
	}
	task.Env = variables
	group := jobspec.Group{Name: "main", Tasks: []jobspec.Task{task}}
	if group.Count, group.MaxWorkersPerNode, err = workersOf(c); err != nil {
		return nil, err
	}
	job := &jobspec.Job{Name: jobName(words[0]), Export: exportOf(c), Workdir: c.String("workdir"),
		Groups: []jobspec.Group{group}}
	if job.Workdir, err = command.AbsolutePath(job.Workdir); err != nil {
		return nil, err
	}
	job.Default()
	if err := override(job, c); err != nil {
		return nil, err
	}
	req := &input.Submission{Job: job, Shown: c.Command.HelpName, IsCommand: true}
	workdir := job.Workdir
	if err := input.SetOrigin(env, req); err != nil {
		return nil, err
	}
	input.WarnOfPaths(env, req)
	job.Workdir = workdir // without one it runs where it was submitted, if the node has that
	return job, nil
}

// exportOf returns the names and patterns of --export. Without the flag it is nil: the job gets the
// variables of an active environment. NONE and an empty text ask for no variables.
func exportOf(c *cli.Context) []string {
	if !c.IsSet("export") {
		return nil
	}
	if text := c.String("export"); text != "" && !strings.EqualFold(text, "NONE") {
		return command.SplitList(text)
	}
	return []string{}
}

// workersOf returns how many workers a command runs in, and how many of them may share a node; 0 for
// as many as have room.
func workersOf(c *cli.Context) (count, perNode int, err error) {
	for _, name := range []string{"nodes", "workers"} {
		if n := c.Int(name); c.IsSet(name) && n < 1 {
			return 0, 0, exit.Usagef("--%s %d: must be at least 1", name, n)
		}
	}
	switch nodes, workers := c.Int("nodes"), c.Int("workers"); {
	case !c.IsSet("workers"):
		return nodes, 1, nil
	case c.IsSet("nodes") && nodes != workers:
		return 0, 0, exit.Usagef("--nodes %d and --workers %d: with --nodes each worker has its own node", nodes, workers).
			WithHint("leave out one of them, or write a job file with count and max_workers_per_node")
	case c.IsSet("nodes"):
		return nodes, 1, nil
	default:
		return workers, 0, nil
	}
}

// jobName returns a job name for a command: its base name, with invalid characters replaced.
func jobName(command string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, filepath.Base(command))
	name = strings.TrimLeft(name, "-._")
	if name == "" {
		return "run"
	}
	return name[:min(len(name), 60)]
}

// attend waits for a submitted job, as wait does, and ends with its exit code. Ctrl-C does not
// cancel the job.
func attend(parent context.Context, session *command.Session, id model.JobID,
	wait func(context.Context, *command.Session, model.JobID) (*api.Job, error)) error {
	ctx, stop := command.Interruptible(parent)
	defer stop()
	job, err := wait(ctx, session, id)
	if err == nil {
		return exitLikeJob(session.Env, job)
	}
	if errors.Is(context.Cause(ctx), exit.ErrInterrupted) {
		return fmt.Errorf("job %d continues (\"rota cancel %d\" cancels it): %w", id, id, exit.ErrInterrupted)
	}
	return fmt.Errorf("job %d: %w", id, err)
}

// Await waits for a submitted job, and ends with its exit code.
func Await(ctx context.Context, session *command.Session, id model.JobID) error {
	return attend(ctx, session, id, follow.WaitForEnd)
}

// sbatchHint returns a hint for a flag that submit has and run does not, "" for others.
func sbatchHint(flag string) string {
	word, _, _ := strings.Cut(flag, "=")
	name := strings.TrimLeft(word, "-")
	honoured := slices.ContainsFunc(script.Flags(), func(s script.Spec) bool {
		short := s.Short != 0 && !strings.HasPrefix(flag, "--") && strings.HasPrefix(name, string(s.Short))
		return s.Honoured() && (s.Name == name || slices.Contains(s.Also, name) || short)
	})
	if !honoured {
		return ""
	}
	return fmt.Sprintf("only rota submit has %s: use rota submit --follow OPTIONS --wrap COMMAND, or see \"rota help "+
		"run\"",
		word)
}

// override applies the flags of run to the job.
func override(job *jobspec.Job, c *cli.Context) error {
	job.Name = cmp.Or(c.String("name"), job.Name)
	job.Queue = cmp.Or(c.String("queue"), job.Queue)
	job.Account = cmp.Or(c.String("account"), job.Account)
	if class := c.String("class"); class != "" {
		job.Class = jobspec.Class(class)
	}
	if text := c.String("time"); text != "" {
		limit, err := command.ParseLimit(text)
		if err != nil {
			return err
		}
		job.TimeLimit = limit
	}
	if c.IsSet("priority") {
		n := c.Int("priority")
		job.Priority = &n
	}
	job.Hold = job.Hold || c.Bool("hold")
	return checkJob(job)
}

// checkJob validates a job with one group and one task, which the command line described.
func checkJob(job *jobspec.Job) error {
	problems := rules.Validate(job)
	for i := range problems {
		// the user did not write those
		problems[i].Path = strings.TrimPrefix(strings.TrimPrefix(problems[i].Path, "groups[0]."), "tasks[0].")
	}
	if len(problems) == 0 {
		return nil
	}
	if len(problems) == 1 {
		return exit.Usagef("%v", problems[0])
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.Error()
	}
	return exit.Usagef("job %s has %d errors:\n  %s", job.Name, len(problems),
		strings.Join(lines, "\n  "))
}
