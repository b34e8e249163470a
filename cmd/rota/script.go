package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hclfile"
	"github.com/rota-hpc/rota/jobspec/jobfile"
	"github.com/rota-hpc/rota/jobspec/script"
)

// submission is a job that is to be submitted or looked at, and what was said about doing so.
type submission struct {
	job      *jobspec.Job
	read     script.Result // of a script, or of the options that were put over a job file
	shown    string        // name for messages
	isScript bool
}

// scriptFlags are the options of sbatch. Those that are not honoured are known too, so that they can be refused or warned of by name, but not
// shown. --output is among commonFlags.
func scriptFlags() []cli.Flag {
	var flags []cli.Flag
	for _, s := range script.Flags() {
		if s.Name == "output" {
			continue
		}
		aliases := slices.Clone(s.Also)
		if s.Short != 0 {
			aliases = append(aliases, string(s.Short))
		}
		text := &cli.StringFlag{Name: s.Name, Aliases: aliases, Usage: s.Usage, Hidden: !s.Honoured()}
		switch s.Takes {
		case script.Nothing:
			flags = append(flags, &cli.BoolFlag{Name: s.Name, Aliases: aliases, Usage: s.Usage, Hidden: !s.Honoured()})
		case script.Perhaps:
			flags = append(flags, NewMaybeFlag(text))
		default:
			flags = append(flags, text)
		}
	}
	return flags
}

// withOutput adds the flags that every command has, with both meanings of -o.
func withOutput(flags []cli.Flag) []cli.Flag {
	for _, f := range commonFlags() {
		if f.Names()[0] == "output" {
			f = &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FILE` that the job writes to, such as %x-%j.out; or json, to print the answer so"}
		}
		flags = append(flags, f)
	}
	return flags
}

// givenFlags are the options of sbatch that c has; file is what -o names.
func givenFlags(c *cli.Context, file string) []script.Flag {
	var given []script.Flag
	for _, s := range script.Flags() {
		switch {
		case s.Name == "output" && file != "":
			given = append(given, script.Flag{Name: s.Name, Value: file, Has: true})
		case s.Name == "output" || !c.IsSet(s.Name):
		case s.Takes == script.Nothing:
			if c.Bool(s.Name) {
				given = append(given, script.Flag{Name: s.Name})
			}
		default:
			given = append(given, script.Flag{Name: s.Name, Value: c.String(s.Name), Has: s.Takes == script.Value || c.String(s.Name) != ""})
		}
	}
	return given
}

// output tells the two meanings of -o apart: a format such as json, else the file that the job writes to.
func (w *world) output(c *cli.Context) (asJSON bool, file string, err error) {
	text := c.String("output")
	isFormat := slices.Contains(listFormats, format(text)) || strings.HasPrefix(text, string(formatTemplate)+"=")
	if text != "" && !isFormat {
		return false, text, nil
	}
	asJSON, err = w.plainOrJSON(c)
	return asJSON, "", err
}

// submission reads the job file or the script of c's arguments, and fills in what only the submit host knows. Warnings have been printed.
func (w *world) submission(c *cli.Context, asJSON bool, file string) (*submission, error) {
	req, err := w.readSubmission(c, file)
	if err != nil {
		return nil, err
	}
	if refused := req.read.Problems.Of(script.Mistake, script.Refused); len(refused) > 0 {
		return nil, &fileError{name: req.shown, problems: refused}
	}
	w.warn(req.shown, asJSON, req.read.Problems)
	w.warnOfExports(req, asJSON)
	return req, w.fromHere(req.job)
}

// readSubmission reads a job without looking at what is wrong with a script.
func (w *world) readSubmission(c *cli.Context, file string) (*submission, error) {
	args := c.Args().Slice()
	if c.IsSet("wrap") {
		if len(args) > 0 {
			return nil, usagef("--wrap stands for a script, so %q cannot be one: give one of them", args[0])
		}
		command := c.String("wrap")
		if strings.TrimSpace(command) == "" {
			return nil, usagef("--wrap needs a command")
		}
		return w.scriptSubmission(c, "wrap", script.Wrap(command), nil, file)
	}
	if len(args) == 0 && w.piped() != nil {
		args = []string{"-"} // as sbatch has it
	}
	if len(args) == 0 {
		return nil, usagef("rota %s takes a job file or a script, or - for standard input: rota %s %s", c.Command.Name, c.Command.Name, c.Command.ArgsUsage)
	}
	if args[0] == ":" {
		return nil, &usageError{text: "the components of a heterogeneous job cannot be said on the command line", hint: "write a job file: one group for each component, and gang_scope = \"job\""}
	}
	src, shown, dir, err := jobfile.ReadFile(args[0], w.stdin)
	if err != nil {
		return nil, unreadable(err)
	}
	if looksLikeScript(args[0], src) {
		if args[0] == "-" {
			return w.scriptSubmission(c, "sbatch", src, args[1:], file)
		}
		return w.scriptSubmission(c, args[0], src, args[1:], file)
	}
	if len(args) > 1 {
		return nil, usagef("rota %s takes one job file, or - for standard input: rota %s %s", c.Command.Name, c.Command.Name, c.Command.ArgsUsage)
	}
	return w.fileSubmission(c, shown, src, dir, file)
}

func (w *world) scriptSubmission(c *cli.Context, name string, src []byte, args []string, file string) (*submission, error) {
	opts, err := w.scriptOptions(c, file)
	if err != nil {
		return nil, err
	}
	opts.Name, opts.Args, opts.Getenv = name, args, w.lookup
	if extra := c.StringSlice("var"); len(extra) > 0 {
		return nil, &usageError{text: "-var is for job files: a script has no variables of its own", hint: "write the value behind the script's name, where it is $1, or --export=ALL,NAME=VALUE"}
	}
	read := script.Read(src, opts)
	return &submission{job: read.Job, read: read, shown: name, isScript: true}, nil
}

func (w *world) fileSubmission(c *cli.Context, shown string, src []byte, dir, file string) (*submission, error) {
	loaded, err := w.loadJob(c, shown, src, dir)
	if err != nil {
		return nil, err
	}
	job := loaded.Job
	opts, err := w.scriptOptions(c, file)
	if err != nil {
		return nil, err
	}
	read := script.Override(job, opts)
	read.Problems = slices.DeleteFunc(read.Problems, func(p script.Problem) bool {
		return slices.ContainsFunc(loaded.Warnings, func(d hclfile.Diagnostic) bool { return d.Code == p.Code }) // told already, with its place
	})
	return &submission{job: job, read: read, shown: shown}, nil
}

func (w *world) scriptOptions(c *cli.Context, file string) (script.Options, error) {
	dir, err := os.Getwd()
	if err != nil {
		return script.Options{}, fmt.Errorf("find the working directory: %w", err)
	}
	return script.Options{Dir: dir, Flags: givenFlags(c, file), Clock: clockOf(w.now())}, nil
}

// clockOf is the time and its zone.
func clockOf(now time.Time) script.Clock {
	zone := now.Location()
	return script.Clock{
		Now: now.Unix(),
		Civil: func(at int64) script.Civil {
			t := time.Unix(at, 0).In(zone)
			return script.Civil{Year: t.Year(), Month: int(t.Month()), Day: t.Day(), Hour: t.Hour(), Minute: t.Minute(), Second: t.Second()}
		},
		At: func(c script.Civil) int64 {
			return time.Date(c.Year, time.Month(c.Month), c.Day, c.Hour, c.Minute, c.Second, 0, zone).Unix()
		},
	}
}

// peekBytes is how much of a file is read to see what it is.
const peekBytes = 64 << 10

// looksLikeScript reports whether a file is a batch script and no job file, by its name, else by how it begins.
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

// namesScript reports whether an argument is a script, behind which the options end: what follows is for the script.
func namesScript(name string) bool {
	info, err := os.Stat(name)
	if name == "-" || err != nil || !info.Mode().IsRegular() {
		return name != "-" && looksLikeScript(name, nil)
	}
	f, err := os.Open(name)
	if err != nil {
		return looksLikeScript(name, nil)
	}
	defer closeQuietly(f)
	src, err := io.ReadAll(io.LimitReader(f, peekBytes))
	return err == nil && looksLikeScript(name, src)
}

// warn prints what there is to say about a job that is all right otherwise.
func (w *world) warn(name string, asJSON bool, problems script.Problems) {
	warnings := problems.Of(script.Warning)
	if len(warnings) == 0 {
		return
	}
	if !asJSON {
		fmt.Fprint(w.stderr, warnings.Format(name))
		return
	}
	b, err := json.Marshal(map[string]any{"warnings": warnings})
	if err == nil {
		fmt.Fprintf(w.stderr, "%s\n", b)
	}
}

// warnOfExports names the variables that a job does not get although they were meant: of a job file those that no job can get, of a script, which
// gets all when nobody says otherwise, also those that are left out for a reason.
func (w *world) warnOfExports(req *submission, asJSON bool) {
	all := req.isScript && slices.Contains(req.job.Export, "*")
	var secrets, functions, other []string
	for _, entry := range w.environ() {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case isVariable(name) && exports(req.job.Export, name) && !utf8.ValidString(value):
			other = append(other, name)
		case !all:
		case strings.HasSuffix(name, "_TOKEN") && !slices.Contains(req.job.Export, name):
			secrets = append(secrets, name)
		case strings.HasPrefix(name, "BASH_FUNC_"):
			functions = append(functions, strings.TrimRight(strings.TrimPrefix(name, "BASH_FUNC_"), "%()"))
		}
	}
	slices.Sort(secrets)
	slices.Sort(functions)
	slices.Sort(other)
	var told script.Problems
	if len(other) > 0 {
		told = append(told, script.Problem{Kind: script.Warning, Code: script.CodeChanged, Flag: "--export",
			Text: "leaves out " + strings.Join(other, ", ") + ": texts are passed on in UTF-8", Hint: "set it in the script"})
	}
	if len(secrets) > 0 {
		told = append(told, script.Problem{Kind: script.Warning, Code: script.CodeChanged, Flag: "--export",
			Text: "leaves out " + clean(strings.Join(secrets, ", ")) + ": tokens are copied by name only", Hint: "write --export=ALL," + clean(strings.Join(secrets, ","))})
	}
	if len(functions) > 0 {
		told = append(told, script.Problem{Kind: script.Warning, Code: script.CodeChanged, Flag: "--export",
			Text: "leaves out the functions of your shell: " + clean(strings.Join(functions, ", ")), Hint: "source the file that defines them in the script"})
	}
	w.warn(req.shown, asJSON, told)
}
