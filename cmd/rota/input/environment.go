package input

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/script"
)

// Umask returns the mask of this process. The kernel tells the old one when it is set.
func Umask() jobspec.Umask {
	mask := unix.Umask(0o077)
	unix.Umask(mask)
	return jobspec.NewUmask(mask)
}

// SetOrigin sets the submit directory, the submit host, and the exported variables of a job. A job
// without export gets the variables of an environment that is active here. It prints what the job
// takes over by itself, and warns of variables that the job asks for and does not get.
func SetOrigin(env *command.Env, req *Submission) error {
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find the host name: %w", err)
	}
	job := req.Job
	job.SubmitDir, job.SubmitHost = dir, host
	job.Workdir, job.Umask = cmp.Or(job.Workdir, dir), Umask()
	globs, asked := job.Export, job.Export != nil
	if !asked {
		globs = takeActive(env, req)
	}
	found := exportsOf(globs, env.Environ(), programText(job), existing)
	job.ExportEnv = found.variables
	if asked {
		warnOfExports(env, req, found)
	}
	return nil
}

// exports are the variables of the submitting shell, divided by what becomes of them.
type exports struct {
	variables map[string]string // those that the job gets
	secrets   []string          // names that may hold secrets
	unusual   []string          // names that a star does not copy
	broken    []string          // names whose values are not UTF-8, which would change on the way
}

// exportsOf divides the variables of the shell by the names and patterns of a job. A variable that a
// star leaves out is listed only if the text of the job's programs names it.
func exportsOf(globs, environ []string, text string, existing func(paths []string) map[string]bool) exports {
	var out exports
	copies := func(name, value string) {
		if !utf8.ValidString(value) {
			if asksFor(globs, name) || namedIn(text, name) {
				out.broken = append(out.broken, name)
			}
			return
		}
		if out.variables == nil {
			out.variables = make(map[string]string)
		}
		out.variables[name] = value
	}
	unusual := map[string]string{}
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || !jobspec.ValidVariable(name) && !slices.Contains(globs, name) {
			continue
		}
		switch exportOf(globs, name, value) {
		case copied:
			copies(name, value)
		case asSecret:
			if asksFor(globs, name) || namedIn(text, name) {
				out.secrets = append(out.secrets, name)
			}
		case notUsual:
			unusual[name] = value
		case notAsked, otherwise:
		}
	}
	there := existing(pathsIn(slices.Collect(maps.Values(unusual))))
	for name, value := range unusual {
		if slices.ContainsFunc(pathsIn([]string{value}), func(p string) bool { return there[p] }) {
			copies(name, value)
		} else if namedIn(text, name) {
			out.unusual = append(out.unusual, name)
		}
	}
	for name, body := range functionsFor(globs, environ, text) {
		if holdsSecret(body) {
			out.secrets = append(out.secrets, name)
		} else {
			copies(name, body)
		}
	}
	for _, names := range [][]string{out.secrets, out.unusual, out.broken} {
		slices.Sort(names)
	}
	return out
}

// warnOfExports warns of variables that the job asks for and does not get.
func warnOfExports(env *command.Env, req *Submission, found exports) {
	var warnings script.Problems
	leftOut := func(names []string, why, hint string) {
		if len(names) > 0 {
			warnings = append(warnings, script.Problem{Kind: script.Warning, Code: script.CodeChanged, Flag: "--export",
				Text: "leaves out " + show.Clean(strings.Join(names, ", ")) + ": " + why, Hint: hint})
		}
	}
	leftOut(found.broken, "values must be UTF-8", "set it in the script")
	leftOut(found.secrets, "variables that may hold secrets are only copied if named", named(req, found.secrets))
	leftOut(found.unusual, "the usual variables and paths are copied, others only if named", named(req, found.unusual))
	req.warn(env, warnings)
}

// named says how to name variables that are to be copied all the same.
func named(req *Submission, names []string) string {
	switch {
	case len(names) == 0:
		return ""
	case req.IsScript:
		return "name the variables that the job needs, as in --export=ALL," + show.Clean(strings.Join(names, ","))
	case req.IsCommand:
		return "name the variables that the job needs, as in --export '*," + show.Clean(strings.Join(names, ",")) + "'"
	}
	return "name the variables that the job needs in export, as in " + show.Clean(strings.Join(names, ", "))
}
