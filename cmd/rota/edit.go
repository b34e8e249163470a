package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec/explain"
	"github.com/rota-hpc/rota/jobspec/hclfile"
	"github.com/rota-hpc/rota/jobspec/jobfile"
)

// fileCommands are those that write job files or tell of their language, without a cluster.
func (w *world) fileCommands() []*Command {
	return inCategory("Job files", []*Command{

		{Command: &cli.Command{Name: "validate", Usage: "check job files without a cluster", ArgsUsage: "FILE.hcl... [OPTIONS]", Action: w.validate,
			Description: "With -o json the canonical form of each job is printed, or what is wrong with the file.",
			Flags:       with(varFlags(), commonFlags())}, Arguments: CompleteFiles},
		w.convertCommand(),
		{Command: &cli.Command{Name: "fmt", Usage: "format job files as they are usually written", ArgsUsage: "[FILE.hcl|DIR|-]... [--check]", Action: w.fmt,
			Description: "Files are changed in place and their names printed; without any, those of this directory. - formats standard input.",
			Flags:       with([]cli.Flag{&cli.BoolFlag{Name: "check", Usage: "change nothing; exit code 1 when something would change"}}, commonFlags())}, Arguments: CompleteFiles},
		{Command: &cli.Command{Name: "parse", Usage: "print what a job file says, with every expression evaluated", ArgsUsage: "FILE.hcl|-", Action: w.parse,
			Description: "Values that came from sensitive variables are left out.",
			Flags: with(varFlags(), with([]cli.Flag{&cli.BoolFlag{Name: "sensitive", Usage: "print sensitive values too"},
				&cli.BoolFlag{Name: "digest", Usage: "print the job's version instead: what asks for the same has the same"}}, commonFlags()))}, Arguments: CompleteFiles},
		{Command: &cli.Command{Name: "init", Usage: "write a job file to begin with", ArgsUsage: "[FILE.hcl] --template NAME", Action: w.init,
			Description: "Without --template the templates are listed. FILE is job.hcl unless it is named; - prints. What is there already is not overwritten.",
			Flags:       with([]cli.Flag{&cli.StringFlag{Name: "template", Usage: "the kind of job: `NAME`"}}, commonFlags())}, Arguments: CompleteFiles, Values: map[string]Source{"template": completeTemplates}},
		{Command: &cli.Command{Name: "explain", Usage: "explain a code, a state, a reason, or an attribute of job files", ArgsUsage: "WORD...", Action: w.explain,
			Description: "Such as JS-112, PD, Priority, time_limit or group.count.", Flags: commonFlags()}, Arguments: completeExplained},
	})
}

// fmt formats job files.
func (w *world) fmt(c *cli.Context) error {
	if f := c.String("output"); f != "" {
		return usagef("-o %s: rota fmt prints the names of files", f)
	}
	args := c.Args().Slice()
	if len(args) == 0 {
		args = []string{"."}
	}
	changed, bad := 0, 0
	for _, arg := range args {
		names, err := jobFiles(arg)
		if err != nil {
			return err
		}
		for _, name := range names {
			did, err := w.formatOne(name, c.Bool("check"))
			if err != nil {
				bad++
				w.printError(false, err)
			}
			if did {
				changed++
			}
		}
	}
	switch {
	case bad > 0:
		return &codeError{code: exitUsage}
	case changed > 0 && c.Bool("check"):
		return &codeError{code: exitFailed}
	}
	return nil
}

// jobFiles returns the files that an argument means: those of a directory, or the one.
func jobFiles(arg string) ([]string, error) {
	info, err := os.Stat(arg)
	if arg == "-" || err != nil || !info.IsDir() {
		return []string{arg}, nil
	}
	names, err := filepath.Glob(filepath.Join(arg, "*.hcl"))
	if err == nil && len(names) == 0 {
		err = usagef("%s has no file *.hcl", arg)
	}
	return names, err
}

// formatOne formats one file and reports whether that changes it.
func (w *world) formatOne(name string, check bool) (bool, error) {
	src, shown, _, err := jobfile.ReadFile(name, w.stdin)
	if err != nil {
		return false, unreadable(err)
	}
	out, err := hclfile.Format(shown, src)
	if err != nil {
		var diags jobfile.Diagnostics
		if errors.As(err, &diags) {
			return false, &fileError{name: shown, diags: diags}
		}
		return false, fmt.Errorf("%s: %w", shown, err)
	}
	same := bytes.Equal(out, src)
	switch {
	case name == "-" && !check:
		_, err = w.stdout.Write(out)
		return !same, err
	case same:
		return false, nil
	case !check:
		if err := rewrite(name, out); err != nil {
			return false, err
		}
	}
	_, err = fmt.Fprintln(w.stdout, shown)
	return true, err
}

// rewrite puts a file's new text in place of the old one, whole or not at all.
func rewrite(name string, text []byte) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(name), ".rota-fmt-*")
	if err != nil {
		return err
	}
	defer os.Remove(next.Name()) // is gone when all went well
	_, err = next.Write(text)
	if err := errors.Join(err, next.Chmod(info.Mode().Perm()), next.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return os.Rename(next.Name(), name)
}

// parse prints the canonical form of a job.
func (w *world) parse(c *cli.Context) error {
	form, err := w.format(c, formatJSON, formatYAML)
	if err != nil {
		return err
	}
	if c.Args().Len() != 1 {
		return usagef("rota parse takes one job file, or - for standard input: rota parse %s", c.Command.ArgsUsage)
	}
	read, err := w.readJob(c.Args().First(), c)
	if err != nil {
		return err
	}
	if c.Bool("digest") {
		version, err := read.Job.Version()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(w.stdout, version)
		return err
	}
	if c.Bool("sensitive") {
		read.Sensitive = nil
	}
	value, err := shownJob(read)
	if err != nil {
		return err
	}
	if form == formatYAML {
		return printYAML(w, value)
	}
	return printJSON(w.stdout, value)
}

// shownJob is the canonical form of a job without what came from sensitive variables.
func shownJob(read jobfile.Read) (any, error) {
	text, err := read.Job.Canonical()
	if err != nil {
		return nil, err
	}
	value, err := decodeAny(text)
	if err != nil {
		return nil, err
	}
	for _, path := range read.Sensitive {
		conceal(value, steps(path))
	}
	return value, nil
}

// loadJob reads the text of a job file with everything that there is to know of it, and warns of what is probably not meant.
func (w *world) loadJob(c *cli.Context, shown string, src []byte, dir string) (jobfile.Read, error) {
	vars, err := assignments("-var", c.StringSlice("var"))
	if err != nil {
		return jobfile.Read{}, err
	}
	read, diags := jobfile.Load(shown, src, jobfile.Options{Vars: vars, VarFiles: c.StringSlice("var-file"), Dir: dir, Now: w.now,
		Getenv: w.lookup, AllowEnv: splitList(c.String("allow-env")), NewUUID: newUUID})
	if diags.HasErrors() {
		return jobfile.Read{}, &fileError{name: shown, diags: diags}
	}
	return read, w.warnOfFile(read.Warnings, c)
}

// warnOfFile says on stderr what is allowed in a job file and probably not meant; with -o json as editors want it.
func (w *world) warnOfFile(warnings jobfile.Diagnostics, c *cli.Context) error {
	if len(warnings) == 0 {
		return nil
	}
	if c.String("output") != string(formatJSON) {
		return warnings.WriteText(w.stderr, w.colour(w.stderr))
	}
	var report hclfile.Report
	report.Warn(warnings)
	b, err := json.Marshal(report)
	if err == nil {
		_, err = fmt.Fprintf(w.stderr, "%s\n", b)
	}
	return err
}

// decodeAny reads JSON into maps and lists.
func decodeAny(text []byte) (any, error) {
	var value any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	return value, nil
}

// concealed stands for a value that came from a sensitive variable.
const concealed = "(sensitive)"

// conceal replaces what lies at a path of a value made of maps and lists.
func conceal(value any, path []string) {
	for i, step := range path {
		last := i == len(path)-1
		switch v := value.(type) {
		case map[string]any:
			if _, there := v[step]; last && there {
				v[step] = concealed
			}
			value = v[step]
		case []any:
			n, err := strconv.Atoi(step)
			if err != nil || n < 0 || n >= len(v) {
				return
			}
			if last {
				v[n] = concealed
			}
			value = v[n]
		default:
			return
		}
	}
}

var pathSteps = regexp.MustCompile(`[^.\[\]]+`)

// steps splits a path such as groups[0].tasks[1].env.KEY.
func steps(path string) []string { return pathSteps.FindAllString(path, -1) }

// init writes a job file to begin with.
func (w *world) init(c *cli.Context) error {
	if f := c.String("output"); f != "" {
		return usagef("-o %s: rota init writes a job file", f)
	}
	name := c.String("template")
	templates := jobfile.Templates()
	if name == "" && c.Args().Len() == 0 {
		t := &table{columns: []column{{title: "TEMPLATE"}, {title: "WHAT IT IS"}}}
		for _, one := range templates {
			t.add(one.Name, one.Doc)
		}
		return t.print(w.stdout, formatWide, true)
	}
	if c.Args().Len() > 1 {
		return usagef("rota init writes one file: rota init %s", c.Command.ArgsUsage)
	}
	for _, one := range templates {
		if one.Name == name {
			return w.writeNew(c.Args().First(), one.Text)
		}
	}
	return noTemplate(name, templates)
}

func noTemplate(name string, templates []jobfile.Template) error {
	names := make([]string, len(templates))
	for i, t := range templates {
		names[i] = t.Name
	}
	if name == "" {
		return usagef("which template? --template %s", strings.Join(names, ", "))
	}
	e := usagef("there is no template %q: there are %s", name, strings.Join(names, ", "))
	if near := nearest(name, names); near != "" {
		e.hint = "did you mean " + near + "?"
	}
	return e
}

// writeNew writes a file that must not be there yet.
func (w *world) writeNew(name, text string) error {
	if name == "-" {
		_, err := fmt.Fprint(w.stdout, text)
		return err
	}
	if name == "" {
		name = "job.hcl"
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return &usageError{text: name + " is there already", hint: "name another file, or - to print it"}
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = fmt.Fprintf(w.stdout, "%s written; \"rota submit %s\" submits it\n", name, name)
	return err
}

// explain says what words mean.
func (w *world) explain(c *cli.Context) error {
	asJSON, err := w.plainOrJSON(c)
	if err != nil {
		return err
	}
	if c.Args().Len() == 0 {
		return usagef("explain what? rota explain JS-112, PD, Priority, or time_limit")
	}
	var found []explain.Entry
	for _, word := range c.Args().Slice() {
		entries := explain.Find(word)
		if len(entries) == 0 {
			p := &api.Problem{Title: "Not Found", Status: http.StatusNotFound, Code: api.CodeNotFound,
				Detail: fmt.Sprintf("%q is no code, state, reason, attribute or block", word)}
			if near := explain.Nearest(word); len(near) > 0 {
				p.Hint = "did you mean " + strings.Join(near, " or ") + "?"
			}
			return p
		}
		found = append(found, entries...)
	}
	if asJSON {
		return printJSON(w.stdout, found)
	}
	return explain.Write(w.stdout, found)
}

func completeTemplates(*Line) []Candidate {
	var found []Candidate
	for _, t := range jobfile.Templates() {
		found = append(found, Candidate{t.Name, t.Doc})
	}
	return found
}

func completeExplained(*Line) []Candidate {
	var found []Candidate
	seen := map[string]bool{}
	for _, e := range explain.All() {
		if !seen[e.Name] {
			seen[e.Name] = true
			found = append(found, Candidate{e.Name, e.Title})
		}
	}
	return found
}
