package input

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/script"
)

// WarnOfExports warns about requested environment variables that the job does not get. Those are
// values that are not UTF-8 and possible secrets. A star also leaves out unusual variables and
// shell functions.
func WarnOfExports(env *command.Env, req *Submission) {
	star := slices.Contains(req.Job.Export, "*")
	var secrets, unusual, functions, other []string
	for _, entry := range env.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		if function, is := strings.CutPrefix(name, "BASH_FUNC_"); is && star {
			functions = append(functions, strings.TrimRight(function, "%()"))
			continue
		}
		if !jobspec.ValidVariable(name) {
			continue
		}
		switch rule := exportOf(req.Job.Export, name, value); {
		case rule == copied && !utf8.ValidString(value):
			other = append(other, name)
		case rule == asSecret:
			secrets = append(secrets, name)
		case rule == notUsual:
			unusual = append(unusual, name)
		}
	}
	var warnings script.Problems
	leftOut := func(names []string, before, after, hint string) {
		if len(names) > 0 {
			warnings = append(warnings, script.Problem{Kind: script.Warning, Code: script.CodeChanged, Flag: "--export",
				Text: "leaves out " + before + listed(names) + after, Hint: hint})
		}
	}
	for _, names := range [][]string{secrets, unusual, functions, other} {
		slices.Sort(names)
	}
	leftOut(other, "", ": values must be UTF-8", "set it in the script")
	leftOut(secrets, "", ": what may be a secret is only copied if named", named(req, secrets))
	leftOut(unusual, "", ": it copies the usual variables, and others if named", named(req, unusual))
	leftOut(functions, "shell functions: ", "", "load the file that defines them in the script")
	req.warn(env, warnings)
}

// maxListed is how many names a warning lists.
const maxListed = 12

func listed(names []string) string {
	text := show.Clean(strings.Join(names[:min(len(names), maxListed)], ", "))
	if more := len(names) - maxListed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// named says how to name variables that are to be copied all the same.
func named(req *Submission, names []string) string {
	if len(names) == 0 {
		return ""
	}
	if req.IsScript {
		return "name those that the job needs, as in --export=ALL," + show.Clean(names[0])
	}
	return "name those that the job needs in export, as in " + show.Clean(names[0])
}

// SetOrigin sets the submit directory, the submit host, and the exported variables of a job.
func SetOrigin(env *command.Env, job *jobspec.Job) error {
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find the host name: %w", err)
	}
	job.SubmitDir, job.SubmitHost = dir, host
	job.Workdir = cmp.Or(job.Workdir, dir)
	job.ExportEnv = exported(job.Export, env.Environ())
	return nil
}

// exported returns the variables that a job gets: see [exportOf]. Values that are not UTF-8 are left
// out, because they would change on the way.
func exported(globs, environ []string) map[string]string {
	var out map[string]string
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || !jobspec.ValidVariable(name) || exportOf(globs, name, value) != copied || !utf8.ValidString(value) {
			continue
		}
		if out == nil {
			out = make(map[string]string)
		}
		out[name] = value
	}
	return out
}
