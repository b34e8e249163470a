package input

import (
	"path"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/jobspec"
)

// activation is a kind of environment that a person activates in a shell. Its programs come first in
// the shell's PATH.
type activation struct {
	kind  string   // as a message calls it
	mark  string   // variable that is set while such an environment is active
	names string   // variable with its short name, if that is not mark
	takes []string // names and patterns of the variables that make it up, PATH first
}

// moduleVariables are the variables that modules change, and those by which a shell finds the command
// module.
var moduleVariables = strings.Fields(`
	PATH LD_LIBRARY_PATH LIBRARY_PATH LD_RUN_PATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH PKG_CONFIG_PATH CMAKE_PREFIX_PATH
	ACLOCAL_PATH MANPATH INFOPATH PYTHONPATH CUDA_* EBROOT* EBVERSION* EBDEVEL* LOADEDMODULES _LMFILES_ MODULE* LMOD_*
	__LMOD_* __MODULES_* _ModuleTable* BASH_ENV FPATH
`)

// activations are the environments that a job without export takes over.
var activations = []activation{
	{kind: "the virtual environment", mark: "VIRTUAL_ENV", takes: []string{"PATH", "VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT"}},
	{kind: "the conda environment", mark: "CONDA_PREFIX", names: "CONDA_DEFAULT_ENV",
		takes: []string{"PATH", "CONDA_*", "MAMBA_*", "PIXI_*"}},
	{kind: "pyenv's version", mark: "PYENV_VERSION", takes: []string{"PATH", "PYENV_*"}},
	{kind: "the Spack environment", mark: "SPACK_ENV", takes: append([]string{"SPACK_*"}, moduleVariables...)},
	{kind: "the modules", mark: "LOADEDMODULES", takes: moduleVariables},
}

// activeEnvironments returns the environments that are active in the shell, as messages call them, and
// the names and patterns of their variables. The command module counts if the text of a job's programs
// calls it.
func activeEnvironments(getenv func(string) string, text string) (active, takes []string) {
	add := func(name string, globs []string) {
		active = append(active, show.Clean(name))
		for _, glob := range globs {
			if !slices.Contains(takes, glob) {
				takes = append(takes, glob)
			}
		}
	}
	for _, a := range activations {
		value := getenv(a.mark)
		if value == "" {
			continue
		}
		if a.names != "" && getenv(a.names) != "" {
			value = getenv(a.names)
		}
		add(a.kind+" "+strings.ReplaceAll(value, ":", ", "), a.takes)
	}
	calls := func(word string) bool { return slices.Contains(alwaysCopied, word) }
	if getenv("LOADEDMODULES") == "" && getenv("MODULEPATH") != "" &&
		slices.ContainsFunc(slices.Collect(wordsOf(text)), calls) {
		add("the command module", moduleVariables)
	}
	return active, takes
}

// takeActive returns the patterns of a job that says nothing about export: those of the environments
// that are active in the submitting shell. It says so in a line. A task with an image has the image's
// programs, so a job with images takes nothing over.
func takeActive(env *command.Env, req *Submission) []string {
	active, takes := activeEnvironments(env.Getenv, programText(req.Job))
	if len(active) == 0 {
		return nil
	}
	tasks := slices.Collect(tasksOf(req.Job))
	images := 0
	for _, t := range tasks {
		if t.Image != "" {
			images++
		}
	}
	if images > 0 {
		if images < len(tasks) {
			req.note(env, "the job does not get %s, because some of its tasks run in images; export = [\"PATH\"] copies PATH "+
				"to all tasks", strings.Join(active, " and "))
		}
		return nil
	}
	var used []string
	for _, glob := range takes {
		if slices.ContainsFunc(env.Environ(), func(entry string) bool {
			name, value, _ := strings.Cut(entry, "=")
			ok, err := path.Match(glob, name)
			return err == nil && ok && value != "" && exportOf([]string{glob}, name, value) == copied
		}) {
			used = append(used, glob)
		}
	}
	if slices.Contains(used, "PATH") { // it is the one that counts
		used = append([]string{"PATH"}, slices.DeleteFunc(used, func(glob string) bool { return glob == "PATH" })...)
	}
	req.note(env, "the job gets %s of this shell, because of %s; %s turns that off", strings.Join(used, ", "),
		strings.Join(active, " and "), req.exportNothing())
	return takes
}

// exportNothing says how to write that a job gets no variables of the shell.
func (s *Submission) exportNothing() string {
	if s.IsCommand {
		return "--export=NONE"
	}
	return "export = [] in the job file"
}

// tasksOf yields the tasks of a job.
func tasksOf(job *jobspec.Job) func(yield func(*jobspec.Task) bool) {
	return func(yield func(*jobspec.Task) bool) {
		for g := range job.Groups {
			for t := range job.Groups[g].Tasks {
				if !yield(&job.Groups[g].Tasks[t]) {
					return
				}
			}
		}
	}
}
