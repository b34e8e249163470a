// Package jobfile converts a job file in HCL into a jobspec.Job. docs/jobfile.md describes the
// language.
package jobfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hclfile"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
	"github.com/rota-hpc/rota/jobspec/rules"
	"github.com/rota-hpc/rota/jobspec/template"
)

// Options are the sources of a job file's values. The zero value offers nothing but the file
// itself.
type Options struct {
	Vars     map[string]string                // -var name=value
	VarFiles []string                         // -var-file, a later one wins
	Getenv   func(name string) (string, bool) // ROTA_VAR_name, and env(); os.LookupEnv in a command
	AllowEnv []string                         // names that env() may read
	// the job file's directory: file(), script_file and *.auto.rotavars; "": none of them
	Dir      string
	ReadFile func(name string) ([]byte, error) // instead of reading below Dir
	Now      func() time.Time                  // for timestamp(); asked once
	NewUUID  func() string                     // for uuid(); asked each time
}

// Read is the content of a job file.
type Read struct {
	Job      *jobspec.Job           // with defaults; it breaks no rule
	Warnings diagnostic.Diagnostics // settings that are allowed but probably mistakes
	// paths in the job's JSON with sensitive content, which commands must not show
	Sensitive []string
}

// Parse parses a job file. Without diagnostics, the job is valid and has its defaults; otherwise it
// is nil. filename is used in messages, and distinguishes HCL from its JSON syntax.
func Parse(filename string, src []byte, opts Options) (*jobspec.Job, diagnostic.Diagnostics) {
	read, diags := Load(filename, src, opts)
	return read.Job, diags
}

// Load is [Parse] with warnings and sensitive values.
func Load(filename string, src []byte, opts Options) (Read, diagnostic.Diagnostics) {
	opts.Now = once(opts.Now)
	f := &file{}
	result, diags := hclfile.Load(filename, src, fileSchema, f, opts.forHCL())
	if f.job == nil || noBody(diags) {
		return Read{}, diags
	}
	problems := append(f.resolveTimes(opts.Now), rules.Validate(f.job)...)
	if opts.Now != nil {
		problems = append(problems, rules.ValidateAt(f.job, opts.Now().Unix())...)
	}
	unread := diags
	for _, p := range problems {
		if one := result.At(inFile(p.Path), p.Code, p.Text, p.Hint); !mayFollow(one, unread) {
			diags = append(diags, one)
		}
	}
	if diags = diags.Merge(nil); diags.HasErrors() {
		return Read{}, diags
	}
	read := Read{Job: f.job, Sensitive: result.Sensitive()}
	for _, p := range rules.Warnings(f.job) {
		read.Warnings = append(read.Warnings, result.At(inFile(p.Path), p.Code, p.Text, p.Hint))
	}
	settleTemplates(f.job)
	f.job.Default()
	return read, nil
}

// settleTemplates makes plain texts of the texts of each task that holds no reference after all.
// Its only references were in a branch of a condition that was not taken.
func settleTemplates(j *jobspec.Job) {
	for g := range j.Groups {
		for t := range j.Groups[g].Tasks {
			task := &j.Groups[g].Tasks[t]
			if !task.Template || hasReferences(task) {
				continue
			}
			for _, text := range task.Texts() {
				*text, _ = template.Expand(*text, nil) // nothing is looked up, so nothing can fail
			}
			task.Template = false
		}
	}
}

func hasReferences(t *jobspec.Task) bool {
	for _, text := range t.Texts() {
		if len(template.References(*text)) > 0 {
			return true
		}
	}
	return false
}

// once returns a clock that is read a single time, so that the whole file sees one time.
func once(now func() time.Time) func() time.Time {
	if now == nil {
		return nil
	}
	var at time.Time
	return func() time.Time {
		if at.IsZero() {
			at = now()
		}
		return at
	}
}

// resolveTimes replaces times relative to now, such as now+2h.
func (f *file) resolveTimes(now func() time.Time) []jobspec.Problem {
	var problems []jobspec.Problem
	for _, t := range []struct {
		path string
		text *string
	}{{"begin", &f.job.Begin}, {"deadline", &f.job.Deadline}} {
		ahead, relative := strings.CutPrefix(*t.text, "now")
		if !relative {
			continue
		}
		resolved, err := fromNow(ahead, now)
		if err != nil {
			problems = append(problems, jobspec.Problem{
				Code: jobspec.CodeTime, Path: t.path, Text: fmt.Sprintf("%q is not a time: %v", *t.text, err),
				Hint: `write "now+2h", or a time such as "2026-03-01T08:00:00Z"`,
			})
		}
		*t.text = resolved
	}
	return problems
}

func fromNow(ahead string, now func() time.Time) (string, error) {
	if now == nil {
		return "", errors.New("the current time is not available here")
	}
	at := now().Unix()
	if ahead = strings.TrimSpace(ahead); ahead != "" {
		text, plus := strings.CutPrefix(ahead, "+")
		if !plus {
			return "", fmt.Errorf("%q does not begin with +", ahead)
		}
		d, err := jobspec.ParseSeconds(strings.TrimSpace(text))
		if err != nil {
			return "", err
		}
		at += int64(d)
	}
	return jobspec.FormatTime(at), nil
}

// inFile returns the path in the job file if it differs from the path in JSON.
func inFile(path string) string {
	if strings.HasPrefix(path, "array.columns") {
		return "array.rows"
	}
	return path
}

// noBody reports whether the file could not be parsed at all, so that rules about its content would
// only confuse.
func noBody(diags diagnostic.Diagnostics) bool {
	return slices.ContainsFunc(diags, func(d diagnostic.Diagnostic) bool {
		switch d.Code {
		case diagnostic.CodeSyntax, diagnostic.CodeEncoding, diagnostic.CodeLimit:
			return true
		}
		return false
	})
}

// mayFollow reports whether a problem may follow from an earlier mistake: its value was unreadable,
// or its place has a mistake already.
func mayFollow(one diagnostic.Diagnostic, unread diagnostic.Diagnostics) bool {
	if !unread.HasErrors() {
		return false
	}
	switch one.Code {
	case jobspec.CodeRequired, jobspec.CodeProgram, jobspec.CodeConflict, jobspec.CodeNoGPUs, jobspec.CodeArray,
		jobspec.CodeDependencyUse,
		jobspec.CodeNoParameter, jobspec.CodeDependsOn, jobspec.CodeLifecycle:
		return true
	}
	return slices.ContainsFunc(unread,
		func(d diagnostic.Diagnostic) bool { return d.File == one.File && d.Start == one.Start })
}

func (o Options) forHCL() hclfile.Options {
	h := hclfile.Options{
		Vars: o.Vars, VarFiles: o.VarFiles, Getenv: o.Getenv, AllowEnv: o.AllowEnv, Now: o.Now, NewUUID: o.NewUUID,
		ReadFile: o.ReadFile, ReadVars: readVars,
		Quantities: map[string]func(string) (int64, error){"duration": readDuration, "size": readSize},
	}
	if o.Dir != "" {
		h.AutoFiles, _ = filepath.Glob(filepath.Join(globEscape(o.Dir), "*.auto.rotavars")) // sorted; the pattern is valid
		if h.ReadFile == nil {
			h.ReadFile = func(name string) ([]byte, error) { return readBelow(o.Dir, name) }
		}
	}
	return h
}

func globEscape(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}

func readDuration(text string) (int64, error) {
	d, err := jobspec.ParseSeconds(text)
	return int64(d), err
}

func readSize(text string) (int64, error) {
	b, err := jobspec.ParseSize(text)
	return int64(b), err
}

func readVars(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return readBounded(f)
}

// readBelow reads a file that lies below dir even after its symbolic links are followed.
func readBelow(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // the file was only read
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	return readBounded(f)
}

// readBounded reads a regular file, at most one byte more than a job file may have. It refuses
// devices and pipes, because they may have no end.
func readBounded(f fs.File) ([]byte, error) {
	defer func() { _ = f.Close() }() // the file was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", info.Name())
	}
	return io.ReadAll(io.LimitReader(f, hclfile.MaxFileBytes+1))
}

// ErrNotAJobFile is returned by [ReadFile] for something that cannot be a job file.
var ErrNotAJobFile = errors.New("not a job file")

// ReadFile reads a job file, "-" for stdin, and returns its text, the name for messages and the
// directory for [Options].
func ReadFile(name string, stdin io.Reader) (src []byte, shown, dir string, err error) {
	if name == "-" {
		src, err = io.ReadAll(io.LimitReader(stdin, hclfile.MaxFileBytes+1))
		return src, "<stdin>", ".", err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, "", "", err
	}
	if src, err = readBounded(f); err != nil {
		return nil, "", "", fmt.Errorf("%w: %w", ErrNotAJobFile, err)
	}
	return src, name, filepath.Dir(name), nil
}
