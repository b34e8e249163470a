// Package input reads a job from a job file or a batch script. It applies the flags of the command
// line, and adds what only the submit host knows.
package input

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
	"github.com/rota-hpc/rota/jobspec/jobfile"
	"github.com/rota-hpc/rota/jobspec/script"
)

// Submission is a job to submit or to plan, with the options about the submission itself.
type Submission struct {
	Job      *jobspec.Job
	Result   script.Result // from the script, or from the flags applied to the job file
	Shown    string        // name of the file in messages
	IsScript bool
	AsJSON   bool // whether -o asks for JSON

	IsCommand bool // a command line of rota run, without a file

	say   func(script.Problem)          // prints a warning; nil: as rota does
	again func(nodes int) script.Result // reads it for a number of nodes; nil: it says how many itself
}

// Sbatch reads a script as [Read] does, with the flags of a command line of Slurm's. It prints no
// problem itself: it gives the warnings to say, and returns the others.
func Sbatch(env *command.Env, name string, src []byte, args []string, flags []script.Flag,
	say func(script.Problem)) (*Submission, error) {
	return fromSlurm(env, name, flags, say, func(opts script.Options) script.Result {
		opts.Args = args
		return script.Read(src, opts)
	})
}

// Salloc reads the flags of a command line of salloc. Problems are treated as by [Sbatch]. The job runs where
// it was submitted, if the node has that.
func Salloc(env *command.Env, name string, flags []script.Flag, say func(script.Problem)) (*Submission, error) {
	return allocation(env, name, flags, say, script.Salloc)
}

// Srun is [Salloc] for the allocation of srun outside of a job.
func Srun(env *command.Env, name string, flags []script.Flag, say func(script.Problem)) (*Submission, error) {
	return allocation(env, name, flags, say, script.Srun)
}

func allocation(env *command.Env, name string, flags []script.Flag, say func(script.Problem),
	read func(script.Options) script.Result) (*Submission, error) {
	workdir := ""
	req, err := fromSlurm(env, name, flags, say, func(opts script.Options) script.Result {
		result := read(opts)
		if result.Job != nil {
			workdir = result.Job.Workdir
		}
		return result
	})
	if err == nil {
		req.Job.Workdir = workdir
	}
	return req, err
}

func fromSlurm(env *command.Env, name string, flags []script.Flag, say func(script.Problem),
	read func(script.Options) script.Result) (*Submission, error) {
	opts, err := optionsHere(env, flags)
	if err != nil {
		return nil, err
	}
	opts.Name, opts.Getenv = name, env.LookupEnv
	req := fromScript(name, opts, read)
	req.say = say
	return req, finish(env, req)
}

// Read reads the job file or the script in the arguments, and adds what only the submit host knows.
// It prints warnings and returns errors.
func Read(env *command.Env, c *cli.Context) (*Submission, error) {
	req, err := ReadUnchecked(env, c)
	if err != nil {
		return nil, err
	}
	return req, finish(env, req)
}

// finish adds what only the submit host knows. It returns what is wrong, and prints warnings.
func finish(env *command.Env, req *Submission) error {
	if err := req.check(env); err != nil {
		return err
	}
	if err := SetOrigin(env, req); err != nil {
		return err
	}
	if len(req.Result.Variables) > 0 {
		all := maps.Clone(req.Result.Variables)
		maps.Copy(all, req.Job.ExportEnv)
		req.Job.ExportEnv = all
	}
	WarnOfPaths(env, req)
	return nil
}

// check returns the mistakes in a script and what Rota refuses, otherwise it prints the warnings.
func (s *Submission) check(env *command.Env) error {
	if refused := s.Result.Problems.Of(script.Mistake, script.Refused); len(refused) > 0 {
		return &exit.FileError{Name: s.Shown, Problems: refused}
	}
	s.warn(env, s.Result.Problems)
	return nil
}

// ReadUnchecked reads a job and leaves a script's problems in the result.
func ReadUnchecked(env *command.Env, c *cli.Context) (*Submission, error) {
	asJSON, file, err := outputFlag(env, c)
	if err != nil {
		return nil, err
	}
	req, err := readArguments(env, c, file)
	if err == nil {
		req.AsJSON = asJSON
	}
	return req, err
}

// readArguments reads a job; file is where its output goes, "" for the default.
func readArguments(env *command.Env, c *cli.Context, file string) (*Submission, error) {
	later, args, err := laterComponents(c.Args().Slice())
	if err != nil {
		return nil, err
	}
	if c.IsSet("wrap") {
		if len(args) > 0 {
			return nil, exit.Usagef("--wrap and a script exclude each other: got --wrap and %q", args[0])
		}
		command := c.String("wrap")
		if strings.TrimSpace(command) == "" {
			return nil, exit.Usagef("--wrap needs a command")
		}
		return readScript(env, c, "wrap", script.Wrap(command), nil, file, later...)
	}
	if len(args) == 0 && env.PipedInput() != nil {
		args = []string{"-"} // as sbatch does
	}
	if len(args) == 0 {
		return nil, exit.Usagef("rota %s needs a job file or a script, or - for standard input: rota %s %s",
			c.Command.Name, c.Command.Name, c.Command.ArgsUsage)
	}
	src, shown, dir, err := jobfile.ReadFile(args[0], env.Stdin)
	if err != nil {
		return nil, UnreadableFile(err)
	}
	if looksLikeScript(args[0], src) {
		name := args[0]
		if name == "-" {
			name = "sbatch"
		}
		return readScript(env, c, name, src, args[1:], file, later...)
	}
	if len(later) > 0 {
		return nil, exit.Usagef("a colon separates components of a script").
			WithHint("write a group for each component into the job file, and gang_scope = \"job\"")
	}
	if len(args) > 1 {
		return nil, exit.Usagef("rota %s needs one job file, or - for standard input: rota %s %s", c.Command.Name,
			c.Command.Name, c.Command.ArgsUsage)
	}
	return readFile(env, c, shown, src, dir, file)
}

// laterComponents reads the flags of a heterogeneous job's components behind the first, each of which
// begins with a colon. It returns the words behind them.
func laterComponents(args []string) (flags []script.Flag, rest []string, err error) {
	if len(args) == 0 || args[0] != ":" {
		return nil, args, nil
	}
	flags, rest, bad := script.SbatchFlags(args)
	if len(bad) > 0 {
		return nil, nil, &exit.FileError{Name: "command line", Problems: bad}
	}
	if slices.ContainsFunc(flags, func(f script.Flag) bool { return f.Name == "wrap" }) {
		return nil, nil, exit.Usagef("--wrap belongs before the first colon")
	}
	return flags, rest, nil
}

// readScript reads a script with its arguments. Flags of the command line, whose output goes to a
// file, belong to the first component; later flags belong to others.
func readScript(env *command.Env, c *cli.Context, name string, src []byte, args []string, file string,
	later ...script.Flag) (*Submission, error) {
	opts, err := scriptOptions(env, c, file)
	if err != nil {
		return nil, err
	}
	opts.Flags = append(opts.Flags, later...)
	opts.Name, opts.Args, opts.Getenv = name, args, env.LookupEnv
	if extra := c.StringSlice("var"); len(extra) > 0 {
		return nil, exit.Usagef("-var is for job files only: scripts have no variables").
			WithHint("pass the value after the script's name, as $1, or by --export=ALL,NAME=VALUE")
	}
	return fromScript(name, opts, func(opts script.Options) script.Result { return script.Read(src, opts) }), nil
}

func fromScript(name string, opts script.Options, read func(script.Options) script.Result) *Submission {
	result := read(opts)
	req := &Submission{Job: result.Job, Result: result, Shown: name, IsScript: true}
	if result.Tasks > 0 {
		req.again = func(nodes int) script.Result {
			opts.Nodes = nodes
			return read(opts)
		}
	}
	return req
}

func readFile(env *command.Env, c *cli.Context, shown string, src []byte, dir, file string) (*Submission, error) {
	loaded, err := LoadFile(env, c, shown, src, dir)
	if err != nil {
		return nil, err
	}
	job := loaded.Job
	opts, err := scriptOptions(env, c, file)
	if err != nil {
		return nil, err
	}
	read := script.Override(job, opts)
	read.Problems = slices.DeleteFunc(read.Problems, func(p script.Problem) bool {
		// already printed with its place
		return slices.ContainsFunc(loaded.Warnings, func(d diagnostic.Diagnostic) bool { return d.Code == p.Code })
	})
	return &Submission{Job: job, Result: read, Shown: shown}, nil
}

func scriptOptions(env *command.Env, c *cli.Context, file string) (script.Options, error) {
	return optionsHere(env, givenFlags(c, file))
}

// optionsHere returns what the meaning of flags depends on: this directory, and the time.
func optionsHere(env *command.Env, flags []script.Flag) (script.Options, error) {
	dir, err := os.Getwd()
	if err != nil {
		return script.Options{}, fmt.Errorf("find the working directory: %w", err)
	}
	return script.Options{Dir: dir, Flags: flags, Clock: clockOf(env.Now())}, nil
}

// clockOf returns the time with its zone.
func clockOf(now time.Time) script.Clock {
	zone := now.Location()
	return script.Clock{
		Now: now.Unix(),
		Civil: func(at int64) script.Civil {
			t := time.Unix(at, 0).In(zone)
			return script.Civil{Year: t.Year(), Month: int(t.Month()), Day: t.Day(), Hour: t.Hour(), Minute: t.Minute(),
				Second: t.Second()}
		},
		At: func(c script.Civil) int64 {
			return time.Date(c.Year, time.Month(c.Month), c.Day, c.Hour, c.Minute, c.Second, 0, zone).Unix()
		},
	}
}

// peekBytes is how much of a file is read to recognise a script.
const peekBytes = 64 << 10

// looksLikeScript reports whether a file is a batch script, by its name, otherwise by its
// beginning.
func looksLikeScript(name string, src []byte) bool {
	switch filepath.Ext(name) {
	case ".sh", ".bash", ".sbatch", ".slurm", ".job", ".sub":
		return true
	case ".hcl", ".json":
		return false
	}
	src = src[:min(len(src), peekBytes)]
	for _, mark := range []string{"#!", "#SBATCH ", "#ROTA "} {
		if bytes.HasPrefix(src, []byte(mark)) || mark != "#!" && bytes.Contains(src, []byte("\n"+mark)) {
			return true
		}
	}
	return bytes.IndexByte(src, 0) >= 0
}

// IsScript reports whether an argument is a script. Flags end there, because what follows is passed
// to the script, and at a colon, behind which they are of another component.
func IsScript(name string) bool {
	if name == ":" {
		return true
	}
	info, err := os.Stat(name)
	if name == "-" || err != nil || !info.Mode().IsRegular() {
		return name != "-" && looksLikeScript(name, nil)
	}
	f, err := os.Open(name)
	if err != nil {
		return looksLikeScript(name, nil)
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, peekBytes))
	return err == nil && looksLikeScript(name, src)
}

// note prints a line about a job that is no warning.
func (s *Submission) note(env *command.Env, format string, args ...any) {
	if !s.Result.Quiet && !s.AsJSON {
		env.Notef(format, args...)
	}
}

// warn prints the warnings about a job.
func (s *Submission) warn(env *command.Env, problems script.Problems) {
	warnings := problems.Of(script.Warning)
	if len(warnings) == 0 || s.Result.Quiet {
		return
	}
	if s.say != nil {
		for _, w := range warnings {
			s.say(w)
		}
		return
	}
	if !s.AsJSON {
		fmt.Fprint(env.Stderr, warnings.Format(s.Shown))
		return
	}
	b, err := json.Marshal(map[string]any{"warnings": warnings})
	if err == nil {
		fmt.Fprintf(env.Stderr, "%s\n", b)
	}
}
