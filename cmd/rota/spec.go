package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
	"github.com/rota-hpc/rota/jobspec/jobfile"
	"github.com/rota-hpc/rota/jobspec/rules"
	"github.com/rota-hpc/rota/jobspec/script"
)

// fileError is what is wrong with a job file or a script, place by place.
type fileError struct {
	name     string
	diags    diagnostic.Diagnostics
	problems script.Problems // of a script
}

// Error implements error.
func (e *fileError) Error() string {
	return fmt.Sprintf("%s: %s", e.name, count(len(e.diags)+len(e.problems), "mistake", "mistakes"))
}

// readJob reads and checks a job file or a script, "-" for standard input.
func (w *world) readJob(name string, c *cli.Context) (jobfile.Read, error) {
	src, shown, dir, err := jobfile.ReadFile(name, w.stdin)
	if err != nil {
		return jobfile.Read{}, unreadable(err)
	}
	if !looksLikeScript(name, src) {
		return w.loadJob(c, shown, src, dir)
	}
	req, err := w.scriptSubmission(c, name, src, nil, "")
	if err != nil {
		return jobfile.Read{}, err
	}
	if refused := req.read.Problems.Of(script.Mistake, script.Refused); len(refused) > 0 {
		return jobfile.Read{}, &fileError{name: req.shown, problems: refused}
	}
	w.warn(req.shown, false, req.read.Problems)
	return jobfile.Read{Job: req.job}, nil
}

// newUUID returns a random UUID, version 4 (RFC 9562).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func unreadable(err error) error {
	e := &usageError{text: fmt.Sprintf("job file: %v", err)}
	if errors.Is(err, jobfile.ErrNotAJobFile) {
		e.text = err.Error()
	}
	if errors.Is(err, fs.ErrNotExist) {
		e.hint = "give the path of a job file or a script, or - to read one from standard input"
	}
	return e
}

// lookup finds a variable of the environment.
func (w *world) lookup(name string) (string, bool) {
	for _, entry := range w.environ() {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// print shows every mistake with its place; in JSON as a problem that has them as diagnostics too.
func (e *fileError) print(w *world, asJSON bool) error {
	if !asJSON {
		fmt.Fprint(w.stderr, e.problems.Format(e.name))
		return e.diags.WriteText(w.stderr, w.colour(w.stderr))
	}
	b, err := json.Marshal(struct {
		*api.Problem
		Diagnostics diagnostic.Diagnostics  `json:"diagnostics,omitempty"`
		Files       []diagnostic.FileReport `json:"files,omitempty"` // the same as editors want it
		Problems    script.Problems         `json:"problems,omitempty"`
	}{&api.Problem{Title: "Invalid job file", Status: 422, Code: api.CodeInvalidJob, Detail: e.Error()}, e.diags, e.diags.Report().Files, e.problems})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w.stderr, "%s\n", b)
	return err
}

// override puts the options of the command line over what the file says.
func override(job *jobspec.Job, c *cli.Context) error {
	setString(&job.Name, c.String("name"))
	setString(&job.Queue, c.String("queue"))
	setString(&job.Account, c.String("account"))
	if class := c.String("class"); class != "" {
		job.Class = jobspec.Class(class)
	}
	if text := c.String("time"); text != "" {
		limit, err := parseLimit(text)
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

func setString(field *string, value string) {
	if value != "" {
		*field = value
	}
}

// checkJob tests a job that was made by the command line, of one group with one task.
func checkJob(job *jobspec.Job) error {
	problems := rules.Validate(job)
	for i := range problems {
		problems[i].Path = strings.TrimPrefix(strings.TrimPrefix(problems[i].Path, "groups[0]."), "tasks[0].") // nobody has written those
	}
	if len(problems) == 0 {
		return nil
	}
	if len(problems) == 1 {
		return &usageError{text: problems[0].Error()}
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.Error()
	}
	return &usageError{text: fmt.Sprintf("job %s breaks %d rules:\n  %s", job.Name, len(problems), strings.Join(lines, "\n  "))}
}

// fromHere fills in the submit directory, host, and exported variables.
func (w *world) fromHere(job *jobspec.Job) error {
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find the host name: %w", err)
	}
	job.SubmitDir, job.SubmitHost = dir, host
	setString(&dir, job.Workdir)
	job.Workdir = dir
	job.ExportEnv = exported(job.Export, w.environ())
	return nil
}

// exported picks the variables that match globs. Those of a job system, and tokens, need their exact name: a job that was submitted
// from within another must not take itself for that one, and a secret must not slip through a star. What is not in UTF-8 stays behind: it would
// arrive as another text.
func exported(globs, environ []string) map[string]string {
	var out map[string]string
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || !isVariable(name) || !exports(globs, name) || !utf8.ValidString(value) {
			continue
		}
		if out == nil {
			out = make(map[string]string)
		}
		out[name] = value
	}
	return out
}

// isVariable reports whether a shell could have set a variable of this name. Functions that a shell exports are none.
func isVariable(name string) bool {
	for i, c := range name {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

func exports(globs []string, name string) bool {
	guarded := strings.HasPrefix(name, "SLURM_") || strings.HasPrefix(name, "ROTA_") || strings.HasSuffix(name, "_TOKEN")
	for _, glob := range globs {
		if glob == name {
			return true
		}
		if ok, err := path.Match(glob, name); err == nil && ok && !guarded {
			return true
		}
	}
	return false
}
