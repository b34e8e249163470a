package input

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/script"
)

// warnOfExports warns about environment variables that the job does not get. For job files these
// are variables that are not UTF-8; for scripts that export everything, also tokens and shell
// functions.
func warnOfExports(env *command.Env, req *Submission) {
	all := req.IsScript && slices.Contains(req.Job.Export, "*")
	var secrets, functions, other []string
	for _, entry := range env.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case jobspec.ValidVariable(name) && exports(req.Job.Export, name) && !utf8.ValidString(value):
			other = append(other, name)
		case !all:
		case strings.HasSuffix(name, "_TOKEN") && !slices.Contains(req.Job.Export, name):
			secrets = append(secrets, name)
		case strings.HasPrefix(name, "BASH_FUNC_"):
			functions = append(functions, strings.TrimRight(strings.TrimPrefix(name, "BASH_FUNC_"), "%()"))
		}
	}
	var warnings script.Problems
	leftOut := func(names []string, before, after, hint string) {
		if len(names) > 0 {
			slices.Sort(names)
			warnings = append(warnings, script.Problem{Kind: script.Warning, Code: script.CodeChanged, Flag: "--export",
				Text: "leaves out " + before + show.Clean(strings.Join(names, ", ")) + after, Hint: hint})
		}
	}
	leftOut(other, "", ": values must be UTF-8", "set it in the script")
	slices.Sort(secrets)
	leftOut(secrets, "", ": tokens are only copied if named", "write --export=ALL,"+show.Clean(strings.Join(secrets, ",")))
	leftOut(functions, "shell functions: ", "", "load the file that defines them in the script")
	req.warn(env, warnings)
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

// exported returns the variables that match globs. Variables of a batch system and tokens need
// their exact name: a job submitted from within another job must not inherit its identity, and a
// star must not export a secret. Values that are not UTF-8 are left out, because they would change
// on the way.
func exported(globs, environ []string) map[string]string {
	var out map[string]string
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || !jobspec.ValidVariable(name) || !exports(globs, name) || !utf8.ValidString(value) {
			continue
		}
		if out == nil {
			out = make(map[string]string)
		}
		out[name] = value
	}
	return out
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
