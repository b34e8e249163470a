package input_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// environment is one that a shell may have active, with the variables that it sets.
type environment struct {
	name      string // in the message
	variables []string
	lost      []string // variables that a job does not get all the same
}

var environments = []environment{
	{"the virtual environment /v/e", []string{"VIRTUAL_ENV=/v/e", "VIRTUAL_ENV_PROMPT=(e)"}, []string{"PS1=(e)"}},
	{"the conda environment base",
		[]string{"CONDA_PREFIX=/c", "CONDA_DEFAULT_ENV=base", "CONDA_SHLVL=1", "CONDA_EXE=/c/bin/conda"},
		[]string{"CONDA_TOKEN=x"}},
	{"the conda environment /m/x", []string{"CONDA_PREFIX=/m/x", "MAMBA_EXE=/m/micromamba"}, []string{"OTHER=1"}},
	{"the conda environment p",
		[]string{"CONDA_PREFIX=/p/.pixi/envs/p", "CONDA_DEFAULT_ENV=p", "PIXI_PROJECT_NAME=p"}, nil},
	{"pyenv's version 3.12", []string{"PYENV_VERSION=3.12", "PYENV_ROOT=/pyenv"}, nil},
	{"the Spack environment /s", []string{"SPACK_ENV=/s", "LD_LIBRARY_PATH=/s/lib"}, nil},
	{"the modules gcc/12, cuda/12.4", []string{"LOADEDMODULES=gcc/12:cuda/12.4", "_LMFILES_=/m/gcc/12:/m/cuda/12.4",
		"LD_LIBRARY_PATH=/l", "CUDA_HOME=/cuda", "MODULEPATH=/m", "BASH_ENV=/lmod/init/bash", "LMOD_CMD=/lmod"},
		[]string{"HF_HOME=/h", "HOME=/home/u"}},
}

// submitted is the job of the first request that submits one.
func submitted(t *testing.T, a *rotatest.Answers) *jobspec.Job {
	t.Helper()
	for _, asked := range a.Requests() {
		var r api.SubmitRequest
		if asked.Body != "" && json.Unmarshal([]byte(asked.Body), &r) == nil && len(r.Jobs) == 1 {
			return r.Jobs[0]
		}
	}
	t.Fatal("no job was submitted")
	return nil
}

// TestActiveEnvironments submits from a shell with each kind of active environment, in every way that
// has a default of its own. The job gets the environment unless its author decided otherwise, and a line
// says so.
func TestActiveEnvironments(t *testing.T) {
	file := func(export, image string) []string {
		return []string{fmt.Sprintf("job \"x\" {\n%s  task \"t\" {\n    command = [\"mypy\"]\n%s  }\n}\n", export, image),
			"submit", "-"}
	}
	image := "    image = \"/images/a\"\n"
	for _, way := range []struct {
		name  string
		input []string // standard input, and the command
		takes bool
		off   string // how the line says that it is turned off
	}{
		{"a job file", file("", ""), true, "export = [] in the job file turns that off"},
		{"export = []", file("  export = []\n", ""), false, ""},
		{"--export=NONE", append(file("", ""), "--export=NONE"), false, ""},
		{"a job file with an image", file("", image), false, ""},
		{"run", []string{"", "run", "--", "mypy"}, true, "--export=NONE turns that off"},
		{"run --export=NONE", []string{"", "run", "--export=NONE", "--", "mypy"}, false, ""},
		{"run --export=", []string{"", "run", "--export=", "--", "mypy"}, false, ""},
		{"run --image", []string{"", "run", "--image", "/images/a", "--", "mypy"}, false, ""},
	} {
		for _, e := range environments {
			a := takesJobs(t)
			a.Give("GET /v1/jobs/17", api.Job{ID: 17, Code: model.Completed})
			s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Stdin: way.input[0],
				Env: slices.Concat([]string{"PATH=/e/bin:/bin"}, e.variables, e.lost)}
			got := s.Run(way.input[1:]...)
			if got.Code != 0 {
				t.Fatalf("%s: %+v", way.name, got)
			}
			want := map[string]string{}
			if way.takes {
				for _, entry := range append(e.variables, "PATH=/e/bin:/bin") {
					name, value, _ := strings.Cut(entry, "=")
					want[name] = value
				}
			}
			if env := submitted(t, a).ExportEnv; !maps.Equal(env, want) {
				t.Errorf("%s in %s: the job gets %v, want %v", way.name, e.name, env, want)
			}
			said := strings.Contains(got.Stderr, "rota: the job gets PATH, ") &&
				strings.Contains(got.Stderr, " of this shell, because of "+e.name+"; "+way.off+"\n")
			if said != way.takes || strings.Count(got.Stderr, "\n") > 1 || !way.takes && got.Stderr != "" {
				t.Errorf("%s in %s says %q", way.name, e.name, got.Stderr)
			}
		}
	}
}

// TestNoActiveEnvironment notices variables that a job file takes over without an active environment.
func TestNoActiveEnvironment(t *testing.T) {
	for _, env := range [][]string{{"PATH=/bin", "HOME=/h"}, {"PATH=/bin", "VIRTUAL_ENV="}, {"PATH=/bin", "LOADEDMODULES=",
		"MODULEPATH=/m", "CONDA_EXE=/c", "BASH_FUNC_module%%=() { :; }"}} {
		a := takesJobs(t)
		s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Env: env,
			Stdin: "job \"x\" {\n  task \"t\" {\n    command = [\"true\"]\n  }\n}\n"}
		if got := s.Run("submit", "-"); got.Code != 0 || got.Stderr != "" || len(sent(t, a).ExportEnv) > 0 {
			t.Errorf("%v: %+v, %v", env, got, sent(t, a).ExportEnv)
		}
	}
}

// TestModuleInAJobFile: a script in a job file that calls module gets the command of the shell.
func TestModuleInAJobFile(t *testing.T) {
	a := takesJobs(t)
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL,
		Env: []string{"PATH=/bin", "LOADEDMODULES=", "MODULEPATH=/m", "BASH_FUNC_module%%=() { _raw; }",
			"BASH_FUNC__raw%%=() { :; }", "BASH_FUNC_no%%=() { :; }", "BASH_ENV=/i"},
		Stdin: "job \"x\" {\n  task \"t\" {\n    script = \"module load cuda\"\n  }\n}\n"}
	got := s.Run("submit", "-")
	want := "map[BASH_ENV:/i BASH_FUNC__raw%%:() { :; } BASH_FUNC_module%%:() { _raw; } LOADEDMODULES: MODULEPATH:/m " +
		"PATH:/bin]"
	if got.Code != 0 || fmt.Sprint(sent(t, a).ExportEnv) != want ||
		got.Stderr != "rota: the job gets PATH, MODULE*, BASH_ENV of this shell, because of the command module; "+
			"export = [] in the job file turns that off\n" {
		t.Errorf("%+v, %v", got, sent(t, a).ExportEnv)
	}
}

// TestImagesBesideHostPrograms: of a job with both, PATH is copied for neither, and a line says so.
func TestImagesBesideHostPrograms(t *testing.T) {
	a := takesJobs(t)
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Env: []string{"PATH=/bin", "VIRTUAL_ENV=/v"},
		Stdin: "job \"x\" {\n  group \"a\" {\n    task \"t\" {\n      command = [\"mypy\"]\n    }\n  }\n  group \"b\" {\n" +
			"    task \"t\" {\n      image   = \"/images/a\"\n      command = [\"true\"]\n    }\n  }\n}\n"}
	got := s.Run("submit", "-")
	if got.Code != 0 || len(sent(t, a).ExportEnv) > 0 || got.Stderr != "rota: the job does not get the virtual "+
		"environment /v, because some of its tasks run in images; export = [\"PATH\"] copies PATH to all tasks\n" {
		t.Errorf("%+v, %v", got, sent(t, a).ExportEnv)
	}
}
