package rules_test

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/rules"
)

// TestValidate breaks one rule at a time, as a client without a job file can.
func TestValidate(t *testing.T) {
	keep := -1
	task := func(j *jobspec.Job) *jobspec.Task { return &j.Groups[0].Tasks[0] }
	for name, c := range map[string]struct {
		spoil      func(*jobspec.Job)
		code, path string
	}{
		"no name":   {func(j *jobspec.Job) { j.Name = "" }, jobspec.CodeName, "name"},
		"no groups": {func(j *jobspec.Job) { j.Groups = nil }, jobspec.CodeRequired, "groups"},
		"no tasks":  {func(j *jobspec.Job) { j.Groups[0].Tasks = nil }, jobspec.CodeRequired, "groups[0].tasks"},
		"class":     {func(j *jobspec.Job) { j.Class = "x" }, jobspec.CodeChoice, "class"},
		"time":      {func(j *jobspec.Job) { j.TimeLimit = -1 }, jobspec.CodeRange, "time_limit"},
		"memory": {func(j *jobspec.Job) { task(j).Resources.Memory = -5 }, jobspec.CodeRange,
			"groups[0].tasks[0].resources.memory"},
		"cores": {func(j *jobspec.Job) { task(j).Resources.Cores = -1 }, jobspec.CodeRange,
			"groups[0].tasks[0].resources.cores"},
		"keep": {func(j *jobspec.Job) { task(j).Log = &jobspec.Log{Keep: &keep} }, jobspec.CodeRange,
			"groups[0].tasks[0].log.keep"},
		"workdir": {func(j *jobspec.Job) { j.Workdir = "x" }, jobspec.CodePath, "workdir"},
		"NUL": {func(j *jobspec.Job) { task(j).Command = []string{"a\x00b"} }, jobspec.CodeText,
			"groups[0].tasks[0].command[0]"},
		"two programs": {func(j *jobspec.Job) { task(j).Script = "x" }, jobspec.CodeProgram, "groups[0].tasks[0].script"},
		"script": {func(j *jobspec.Job) { task(j).Command, task(j).Script = nil, strings.Repeat("x", 1<<20+1) },
			jobspec.CodeTooLarge, "groups[0].tasks[0].script"},
		"signal": {func(j *jobspec.Job) { task(j).KillSignal = "KILL" }, jobspec.CodeSignal,
			"groups[0].tasks[0].kill_signal"},
		"mpi": {func(j *jobspec.Job) { task(j).Launch = &jobspec.Launch{Type: "mpi"} }, jobspec.CodeUnsupported,
			"groups[0].tasks[0].launch.type"},
		"nproc twice": {func(j *jobspec.Job) { task(j).Launch = &jobspec.Launch{Type: "slurm", Nproc: 2, NprocGPU: true} },
			jobspec.CodeConflict, "groups[0].tasks[0].launch.nproc"},
		"mount options": {func(j *jobspec.Job) {
			task(j).Mounts = []jobspec.Mount{{Source: "/a", Target: "/b", Options: []string{"x"}}}
		}, jobspec.CodeUnsupported, "groups[0].tasks[0].mounts[0].options"},
		"dev": {func(j *jobspec.Job) { task(j).Mounts = []jobspec.Mount{{Source: "/a", Target: "/x/../dev/shm"}} },
			jobspec.CodePath, "groups[0].tasks[0].mounts[0].target"},
	} {
		t.Run(name, func(t *testing.T) {
			job := minimal()
			c.spoil(job)
			problems := rules.Validate(job)
			if len(problems) != 1 || problems[0].Code != c.code || problems[0].Path != c.path {
				t.Errorf("got %v, want %s at %s", problems, c.code, c.path)
			}
			job.Default()
			if after := rules.Validate(job); len(after) == 0 || after[0] != problems[0] {
				t.Errorf("with defaults: %v, without: %v", after, problems)
			}
		})
	}
}

// TestValidateScheduling applies the rules that simulated jobs keep too.
func TestValidateScheduling(t *testing.T) {
	simulated := func() *jobspec.Job {
		return &jobspec.Job{Name: "job of a trace", Account: "a/b", Groups: []jobspec.Group{{Tasks: []jobspec.Task{{
			Resources: jobspec.Resources{Cores: 5000, Memory: 1, GPUs: 1, GPU: &jobspec.GPU{Share: 500}},
		}}}}}
	}
	if problems := rules.ValidateScheduling(simulated()); problems != nil {
		t.Errorf("a simulated job is refused: %v", problems)
	}
	if problems := rules.Validate(simulated()); len(problems) != 7 {
		t.Errorf("as a user's job it has %d problems: %v", len(problems), problems)
	}
	for path, edit := range map[string]func(*jobspec.Job){
		"groups[0].tasks[0].resources.cores":  func(j *jobspec.Job) { j.Groups[0].Tasks[0].Resources.Cores = 1<<20 + 1 },
		"groups[0].tasks[0].resources.memory": func(j *jobspec.Job) { j.Groups[0].Tasks[0].Resources.Memory = -1 },
		"groups[0].count":                     func(j *jobspec.Job) { j.Groups[0].Count = 5000 },
		"groups[0].tasks":                     func(j *jobspec.Job) { j.Groups[0].Tasks = nil },
		"priority":                            func(j *jobspec.Job) { n := 101; j.Priority = &n },
		"dependencies[0].delay": depend(jobspec.Dependency{
			Type: "after", Jobs: []string{"1"}, Delay: jobspec.MaxDuration + 1,
		}),
	} {
		job := simulated()
		edit(job)
		if problems := rules.ValidateScheduling(job); len(problems) != 1 || problems[0].Path != path {
			t.Errorf("%s: %v", path, problems)
		}
	}
}

func minimal() *jobspec.Job {
	return &jobspec.Job{Name: "a",
		Groups: []jobspec.Group{{Tasks: []jobspec.Task{{Name: "t", Command: []string{"true"}}}}}}
}
