package rules_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/rules"
)

// pipeline is a job of three groups, the first of which has a helper beside its main task.
func pipeline() *jobspec.Job {
	task := func(name string) jobspec.Task { return jobspec.Task{Name: name, Command: []string{"true"}} }
	side := task("side")
	side.Lifecycle = &jobspec.Lifecycle{Hook: "poststart", Sidecar: true}
	return &jobspec.Job{Name: "p", Groups: []jobspec.Group{
		{Name: "prep", Tasks: []jobspec.Task{task("t"), side}},
		{Name: "train", DependsOn: []string{"prep"}, Tasks: []jobspec.Task{task("t")}},
		{Name: "eval", DependsOn: []string{"train:any", "prep:started"}, Tasks: []jobspec.Task{task("t")}},
	}}
}

// sweep is an array of six elements whose task uses its parameters.
func sweep() *jobspec.Job {
	job := minimal()
	job.Array = &jobspec.Array{Matrix: []jobspec.Axis{{Name: "lr", Values: []string{"1", "2", "3"}},
		{Name: "seed", Values: []string{"1", "2"}}}}
	job.Groups[0].Tasks[0].Command = []string{"run", "${array.lr}", "$${array.what}", "${array.index}.${array.seed}"}
	job.Groups[0].Tasks[0].Template = true
	return job
}

func TestGoodJobs(t *testing.T) {
	together := pipeline()
	together.GangScope = "job"
	for i := range together.Groups {
		together.Groups[i].DependsOn = nil
	}
	rows := sweep()
	rows.Array = &jobspec.Array{Columns: []string{"lr", "seed"}, Rows: [][]string{{"1", "2"}, {"", "4"}}, MaxParallel: 1,
		Order: "random"}
	sweepTogether := sweep()
	sweepTogether.GangScope = "job"
	sweepTogether.Groups = append(sweepTogether.Groups, together.Groups[0])
	for name, job := range map[string]*jobspec.Job{
		"pipeline": pipeline(), "sweep": sweep(), "together": together, "rows": rows,
		"sweep of several groups": sweepTogether,
	} {
		if problems := rules.Validate(job); problems != nil {
			t.Errorf("%s: %v", name, problems)
		}
		if warnings := rules.Warnings(job); warnings != nil {
			t.Errorf("%s: warnings %v", name, warnings)
		}
		once, err := job.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		job.Default()
		if problems := rules.Validate(job); problems != nil {
			t.Errorf("%s, with defaults: %v", name, problems)
		}
		if twice, _ := json.Marshal(job); string(once) != string(twice) {
			t.Errorf("%s: defaults filled in twice:\n%s\n%s", name, once, twice)
		}
	}
}

type rule struct {
	job   func() *jobspec.Job
	spoil func(*jobspec.Job)
	code  string
	path  string
}

// Parts of the jobs that break rules.
var (
	yes, no, minusTwo = true, false, -2
	many              = func() []string {
		list := make([]string, 100)
		for i := range list {
			list[i] = strings.Repeat("x", i+1)
		}
		return list
	}()
)

const first = "groups[0].tasks[0]"

func task(j *jobspec.Job) *jobspec.Task { return &j.Groups[0].Tasks[0] }

func depend(d jobspec.Dependency) func(*jobspec.Job) {
	return func(j *jobspec.Job) { j.Dependencies = []jobspec.Dependency{d} }
}

func policy(p jobspec.LogPolicy) func(*jobspec.Job) {
	return func(j *jobspec.Job) { j.LogPolicies = []jobspec.LogPolicy{p} }
}

func constrain(one jobspec.Constraint) func(*jobspec.Job) {
	return func(j *jobspec.Job) { j.Groups[0].Constraints = []jobspec.Constraint{one} }
}

func stop(s jobspec.ArrayStop) func(*jobspec.Job) {
	return func(j *jobspec.Job) { j.Array.Stop = &s }
}

func secret(s jobspec.Secret) func(*jobspec.Job) {
	return func(j *jobspec.Job) { task(j).Secrets = []jobspec.Secret{s} }
}

// broken has a job that breaks one rule for each way to break it.
var broken = map[string]rule{
	"begin": {minimal, func(j *jobspec.Job) { j.Begin = "tomorrow" }, jobspec.CodeTime, "begin"},
	"deadline": {minimal, func(j *jobspec.Job) { j.Deadline = "2026-02-30T00:00:00Z" }, jobspec.CodeTime,
		"deadline"},
	"deadline first": {minimal,
		func(j *jobspec.Job) { j.Begin, j.Deadline = "2026-01-02T00:00:00Z", "2026-01-02T00:30:00+01:00" },
		jobspec.CodeDeadline, "deadline"},
	"deadline too soon": {minimal, func(j *jobspec.Job) {
		j.Begin, j.Deadline, j.TimeLimit = "2026-01-02T00:00:00Z", "2026-01-02T01:00:00Z", 3601
	}, jobspec.CodeDeadline, "deadline"},
	"scope": {minimal, func(j *jobspec.Job) { j.GangScope = "node" }, jobspec.CodeChoice, "gang_scope"},
	"on failure": {minimal, func(j *jobspec.Job) { j.OnDependencyFailure = "wait" }, jobspec.CodeChoice,
		"on_dependency_failure"},
	"two groups": {pipeline, func(j *jobspec.Job) { j.Groups[2].Name, j.Groups[2].DependsOn = "prep", nil },
		jobspec.CodeDuplicate, "groups[2].name"},
	"unknown group": {pipeline, func(j *jobspec.Job) { j.Groups[1].DependsOn = []string{"pre"} },
		jobspec.CodeDependsOn, "groups[1].depends_on[0]"},
	"unknown condition": {pipeline, func(j *jobspec.Job) { j.Groups[1].DependsOn = []string{"prep:done"} },
		jobspec.CodeDependsOn, "groups[1].depends_on[0]"},
	"itself": {pipeline, func(j *jobspec.Job) { j.Groups[1].DependsOn = []string{"train:any"} },
		jobspec.CodeGroupCycle, "groups[1].depends_on[0]"},
	"ring": {pipeline, func(j *jobspec.Job) { j.Groups[0].DependsOn = []string{"eval"} },
		jobspec.CodeGroupCycle, "groups[1].depends_on[0]"},
	"waits twice": {pipeline, func(j *jobspec.Job) { j.Groups[1].DependsOn = []string{"prep:ok", "prep:failed"} },
		jobspec.CodeDuplicate, "groups[1].depends_on[1]"},
	"mixed scopes": {pipeline, func(j *jobspec.Job) { j.GangScope, j.Groups[2].DependsOn = "job", nil },
		jobspec.CodeUnsupported, "groups[1].depends_on"},
	"array of pipelines": {pipeline, func(j *jobspec.Job) { j.Array = &jobspec.Array{Indices: "0-3"} },
		jobspec.CodeUnsupported, "array"},
	"no gang": {pipeline, func(j *jobspec.Job) { j.Groups[1].Gang, j.Groups[1].Count = &no, 2 },
		jobspec.CodeUnsupported, "groups[1].gang"},
	"own limit": {together, func(j *jobspec.Job) { j.Groups[1].TimeLimit = 5 }, jobspec.CodeScope,
		"groups[1].time_limit"},
	"own restart": {together, func(j *jobspec.Job) { j.Groups[1].Restart = &jobspec.Restart{} }, jobspec.CodeScope,
		"groups[1].restart"},
	"one by one": {together, func(j *jobspec.Job) { j.Groups[1].Gang = &no }, jobspec.CodeScope,
		"groups[1].gang"},
	"workers in all": {together, func(j *jobspec.Job) { j.Groups[1].Count, j.Groups[2].Count = 4000, 96 },
		jobspec.CodeRange, "groups"},
	"longer than the job": {pipeline, func(j *jobspec.Job) { j.TimeLimit, j.Groups[1].TimeLimit = 60, 61 },
		jobspec.CodeConflict, "groups[1].time_limit"},
	"success": {pipeline, func(j *jobspec.Job) { j.Groups[1].Success = "most" }, jobspec.CodeChoice,
		"groups[1].success"},
	"on worker failure": {pipeline, func(j *jobspec.Job) { j.Groups[1].OnWorkerFailure = "retry" }, jobspec.CodeChoice,
		"groups[1].on_worker_failure"},
	"restart worker": {pipeline, func(j *jobspec.Job) { j.Groups[1].OnWorkerFailure = "restart_worker" },
		jobspec.CodeUnsupported, "groups[1].on_worker_failure"},
	"group restart": {pipeline, func(j *jobspec.Job) { j.Groups[1].Restart = &jobspec.Restart{Attempts: -1} },
		jobspec.CodeRange, "groups[1].restart.attempts"},
	"two tasks": {pipeline, func(j *jobspec.Job) { j.Groups[0].Tasks[1].Name = "t" }, jobspec.CodeDuplicate,
		"groups[0].tasks[1].name"},
	"no main task": {pipeline,
		func(j *jobspec.Job) { j.Groups[1].Tasks[0].Lifecycle = &jobspec.Lifecycle{Hook: "prestart"} }, jobspec.CodeLifecycle,
		"groups[1].tasks"},
	"hook": {pipeline, func(j *jobspec.Job) { j.Groups[0].Tasks[1].Lifecycle.Hook = "later" },
		jobspec.CodeChoice, "groups[0].tasks[1].lifecycle.hook"},
	"no hook": {pipeline, func(j *jobspec.Job) { j.Groups[0].Tasks[1].Lifecycle.Hook = "" },
		jobspec.CodeRequired, "groups[0].tasks[1].lifecycle.hook"},
	"sidecar at the end": {pipeline, func(j *jobspec.Job) { j.Groups[0].Tasks[1].Lifecycle.Hook = "poststop" },
		jobspec.CodeLifecycle, "groups[0].tasks[1].lifecycle.sidecar"},
	"sidecar leads": {pipeline, func(j *jobspec.Job) { j.Groups[0].Tasks[1].Leader = &yes }, jobspec.CodeLeader,
		"groups[0].tasks[1].leader"},
	"sidecar launches": {pipeline,
		func(j *jobspec.Job) { j.Groups[0].Tasks[1].Launch = &jobspec.Launch{Type: "slurm"} }, jobspec.CodeLifecycle,
		"groups[0].tasks[1].launch"},
	"no task leads": {pipeline, func(j *jobspec.Job) { task(j).Leader = &no }, jobspec.CodeLeader,
		"groups[0].tasks"},
	"two lead": {pipeline, func(j *jobspec.Job) {
		j.Groups[0].Tasks[1].Lifecycle = nil
		task(j).Leader, j.Groups[0].Tasks[1].Leader = &yes, &yes
	}, jobspec.CodeLeader, "groups[0].tasks[1].leader"},
	"two meet": {pipeline, func(j *jobspec.Job) {
		j.Groups[0].Tasks[1].Lifecycle = nil
		task(j).Launch, j.Groups[0].Tasks[1].Launch = &jobspec.Launch{Type: "torchrun"}, &jobspec.Launch{Type: "slurm"}
	}, jobspec.CodeConflict, "groups[0].tasks[1].launch"},
	"steps decide together": {minimal, func(j *jobspec.Job) {
		task(j).Launch, j.Groups[0].Success = &jobspec.Launch{Type: jobspec.LaunchSteps}, "any"
	}, jobspec.CodeConflict, "groups[0].success"},
	"steps without a gang": {minimal, func(j *jobspec.Job) {
		task(j).Launch, j.Groups[0].Gang, j.Groups[0].Count = &jobspec.Launch{Type: jobspec.LaunchSteps}, &no, 2
	}, jobspec.CodeConflict, "groups[0].gang"},
	"steps in a later group": {together, func(j *jobspec.Job) {
		j.Groups[1].Tasks[0].Launch = &jobspec.Launch{Type: jobspec.LaunchSteps}
	}, jobspec.CodeUnsupported, "groups[1].tasks"},
	"a later group with steps and a program": {components, func(j *jobspec.Job) {
		j.Groups[1].Tasks[0].Command = []string{"true"}
	}, jobspec.CodeProgram, "groups[1].tasks[0]"},
	"a first group with steps and no program": {components, func(j *jobspec.Job) { task(j).Script = "" },
		jobspec.CodeProgram, first},
	"a task without a program beside steps": {components, func(j *jobspec.Job) {
		t := j.Groups[1].Tasks[0]
		t.Name, t.Launch = "other", nil
		j.Groups[1].Tasks = append(j.Groups[1].Tasks, t)
	}, jobspec.CodeProgram, "groups[1].tasks[1]"},
	"steps in groups one after the other, without a program": {components, func(j *jobspec.Job) {
		j.GangScope = jobspec.ScopeGroup
	}, jobspec.CodeProgram, "groups[1].tasks[0]"},
	"too many GPUs": {pipeline,
		func(j *jobspec.Job) { task(j).Resources.GPUs, j.Groups[0].Tasks[1].Resources.GPUs = 60, 5 }, jobspec.CodeRange,
		"groups[0].tasks"},
	"no GPU to launch on": {minimal,
		func(j *jobspec.Job) { task(j).Launch = &jobspec.Launch{Type: "slurm", NprocGPU: true} }, jobspec.CodeNoGPUs,
		first + ".launch"},
	"no GPU to choose": {minimal, func(j *jobspec.Job) { task(j).Resources.GPU = &jobspec.GPU{Model: "H100*"} },
		jobspec.CodeNoGPUs, first + ".resources.gpu"},
	"vendor": {minimal,
		func(j *jobspec.Job) { task(j).Resources.GPUs, task(j).Resources.GPU = 1, &jobspec.GPU{Vendor: "3dfx"} },
		jobspec.CodeChoice, first + ".resources.gpu.vendor"},
	"rdma": {minimal, func(j *jobspec.Job) { task(j).Resources.RDMA = "some" }, jobspec.CodeChoice,
		first + ".resources.rdma"},
	"two reporters": {minimal, func(j *jobspec.Job) {
		second := j.Groups[0].Tasks[0]
		second.Name = "second"
		j.Groups[0].Tasks = append(j.Groups[0].Tasks, second)
		for i := range j.Groups[0].Tasks {
			j.Groups[0].Tasks[i].Progress = &jobspec.Progress{Metric: "loss"}
		}
	}, jobspec.CodeProgress, "groups[0].tasks[1].progress"},
	"rdma by number": {minimal, func(j *jobspec.Job) { task(j).Resources.RDMA = "2" }, jobspec.CodeUnsupported,
		first + ".resources.rdma"},
	"no elements": {sweep, func(j *jobspec.Job) { j.Array.Matrix, task(j).Template = nil, false }, jobspec.CodeArray,
		"array"},
	"elements twice": {sweep, func(j *jobspec.Job) { j.Array.Indices = "0-3" }, jobspec.CodeArray, "array"},
	"indices": {minimal, func(j *jobspec.Job) { j.Array = &jobspec.Array{Indices: "a-b"} }, jobspec.CodeIndices,
		"array.indices"},
	"overflow": {minimal, func(j *jobspec.Job) { j.Array = &jobspec.Array{Indices: "0,9223372036854775808"} },
		jobspec.CodeIndices, "array.indices"},
	"descending": {minimal, func(j *jobspec.Job) { j.Array = &jobspec.Array{Indices: "9-0"} }, jobspec.CodeIndexOrder,
		"array.indices"},
	"repeated": {minimal, func(j *jobspec.Job) { j.Array = &jobspec.Array{Indices: "0-9,4"} },
		jobspec.CodeIndexOrder, "array.indices"},
	"too many": {minimal, func(j *jobspec.Job) { j.Array = &jobspec.Array{Indices: "1-100001"} },
		jobspec.CodeElements, "array.indices"},
	"too many together": {sweep, func(j *jobspec.Job) {
		for range 11 {
			j.Array.Matrix = append(j.Array.Matrix, jobspec.Axis{Name: many[len(j.Array.Matrix)], Values: many})
		}
	}, jobspec.CodeElements, "array.matrix"},
	"empty matrix": {sweep, func(j *jobspec.Job) { j.Array.Matrix = []jobspec.Axis{}; task(j).Template = false },
		jobspec.CodeParameter, "array.matrix"},
	"no values": {sweep, func(j *jobspec.Job) { j.Array.Matrix[1].Values = nil }, jobspec.CodeParameter,
		"array.matrix[1]"},
	"parameter index": {sweep, func(j *jobspec.Job) {
		j.Array.Matrix = append(j.Array.Matrix, jobspec.Axis{Name: "index", Values: []string{"1"}})
	}, jobspec.CodeParameter, "array.matrix[2]"},
	"parameter name": {sweep, func(j *jobspec.Job) {
		j.Array.Matrix = append(j.Array.Matrix, jobspec.Axis{Name: "Rate", Values: []string{"1"}})
	}, jobspec.CodeParameter, "array.matrix[2]"},
	"parameter twice": {sweep, func(j *jobspec.Job) { j.Array.Matrix = append(j.Array.Matrix, j.Array.Matrix[0]) },
		jobspec.CodeDuplicate, "array.matrix[2]"},
	"no rows": {minimal,
		func(j *jobspec.Job) { j.Array = &jobspec.Array{Columns: []string{"a"}, Rows: [][]string{}} }, jobspec.CodeElements,
		"array.rows"},
	"no columns": {minimal, func(j *jobspec.Job) { j.Array = &jobspec.Array{Rows: [][]string{{"1"}}} },
		jobspec.CodeParameter, "array.rows"},
	"ragged rows": {minimal, func(j *jobspec.Job) {
		j.Array = &jobspec.Array{Columns: []string{"a"}, Rows: [][]string{{"1"}, {"1", "2"}}}
	}, jobspec.CodeParameter, "array.rows[1]"},
	"max_parallel": {sweep, func(j *jobspec.Job) { j.Array.MaxParallel = -1 }, jobspec.CodeRange,
		"array.max_parallel"},
	"max_failures": {sweep, func(j *jobspec.Job) { j.Array.MaxFailures = &minusTwo }, jobspec.CodeRange,
		"array.max_failures"},
	"order": {sweep, func(j *jobspec.Job) { j.Array.Order = "best" }, jobspec.CodeChoice, "array.order"},
	"stop: metric": {sweep, stop(jobspec.ArrayStop{AtStep: 1, Keep: "top 1"}), jobspec.CodeRequired,
		"array.stop.metric"},
	"stop: step": {sweep, stop(jobspec.ArrayStop{Metric: "m", Keep: "top 1"}), jobspec.CodeRequired,
		"array.stop.at_step"},
	"stop: step before": {sweep, stop(jobspec.ArrayStop{Metric: "m", AtStep: -1, Keep: "top 1"}), jobspec.CodeRange,
		"array.stop.at_step"},
	"stop: keep": {sweep, stop(jobspec.ArrayStop{Metric: "m", AtStep: 1, Keep: "25%"}), jobspec.CodeKeep,
		"array.stop.keep"},
	"stop: too late": {sweep, func(j *jobspec.Job) {
		stop(jobspec.ArrayStop{Metric: "m", AtStep: 9, Keep: "top 1"})(j)
		task(j).Progress = &jobspec.Progress{Total: 8}
	}, jobspec.CodeStop, "array.stop.at_step"},
	"stop: other way": {sweep, func(j *jobspec.Job) {
		stop(jobspec.ArrayStop{Metric: "m", AtStep: 9, Keep: "top 1", Goal: "min"})(j)
		task(j).Progress = &jobspec.Progress{Metric: "m", Goal: "max"}
	}, jobspec.CodeStop, "array.stop.goal"},
	"no such parameter": {sweep, func(j *jobspec.Job) { task(j).Command[1] = "${array.lrr}" }, jobspec.CodeNoParameter,
		first + ".command[1]"},
	"no array": {minimal,
		func(j *jobspec.Job) { task(j).Template, task(j).Env = true, map[string]string{"A": "${array.index}"} },
		jobspec.CodeNoParameter, first + ".env.A"},
	"target with a value": {sweep,
		func(j *jobspec.Job) { task(j).Mounts = []jobspec.Mount{{Source: "/a", Target: "/x/${array.lr}"}} }, jobspec.CodePath,
		first + ".mounts[0].target"},
	"dependency: type": {minimal, depend(jobspec.Dependency{Jobs: []string{"1"}}), jobspec.CodeRequired,
		"dependencies[0].type"},
	"dependency: ok": {minimal, depend(jobspec.Dependency{Type: "ok", Jobs: []string{"1"}}), jobspec.CodeChoice,
		"dependencies[0].type"},
	"dependency: match": {minimal, depend(jobspec.Dependency{Type: "after", Match: "one", Jobs: []string{"1"}}),
		jobspec.CodeChoice, "dependencies[0].match"},
	"dependency: id": {minimal, depend(jobspec.Dependency{Type: "after", Jobs: []string{"1", "2_[3-4]"}}),
		jobspec.CodeDependency, "dependencies[0].jobs[1]"},
	"dependency: zero": {minimal, depend(jobspec.Dependency{Type: "after", Jobs: []string{"0"}}),
		jobspec.CodeDependency, "dependencies[0].jobs[0]"},
	"dependency: huge": {minimal, depend(jobspec.Dependency{Type: "after", Jobs: []string{"1_99999999999"}}),
		jobspec.CodeDependency, "dependencies[0].jobs[0]"},
	"dependency: nothing": {minimal, depend(jobspec.Dependency{Type: "after"}), jobspec.CodeDependencyUse,
		"dependencies[0]"},
	"singleton of jobs": {minimal, depend(jobspec.Dependency{Type: "singleton", Jobs: []string{"1"}}),
		jobspec.CodeDependencyUse, "dependencies[0].jobs"},
	"aftercorr, no array": {minimal, depend(jobspec.Dependency{Type: "aftercorr", Jobs: []string{"1"}}),
		jobspec.CodeDependencyUse, "dependencies[0].type"},
	"aftercorr of one": {sweep, depend(jobspec.Dependency{Type: "aftercorr", Jobs: []string{"1_2"}}),
		jobspec.CodeDependencyUse, "dependencies[0].jobs[0]"},
	"waits for one twice": {minimal, depend(jobspec.Dependency{Type: "after", Jobs: []string{"a", "a"}}),
		jobspec.CodeDuplicate, "dependencies[0].jobs[1]"},
	"log policy: name": {minimal, policy(jobspec.LogPolicy{Pattern: "a", Action: "fail"}), jobspec.CodeName,
		"log_policies[0].name"},
	"log policy: action": {minimal, policy(jobspec.LogPolicy{Name: "x", Pattern: "a", Action: "mail"}),
		jobspec.CodeChoice, "log_policies[0].action"},
	"log policy: stream": {minimal, policy(jobspec.LogPolicy{Name: "x", Pattern: "a", Action: "fail", Stream: "log"}),
		jobspec.CodeChoice, "log_policies[0].stream"},
	"log policy: nothing": {minimal, policy(jobspec.LogPolicy{Name: "x", Action: "fail"}), jobspec.CodeRequired,
		"log_policies[0].pattern"},
	"log policy: RE2": {minimal, policy(jobspec.LogPolicy{Name: "x", Pattern: "a(?=b)", Action: "fail"}),
		jobspec.CodePattern, "log_policies[0].pattern"},
	"log policy: all": {minimal, policy(jobspec.LogPolicy{Name: "x", Pattern: ".*", Action: "fail"}),
		jobspec.CodePattern, "log_policies[0].pattern"},
	"log policy: long": {minimal,
		policy(jobspec.LogPolicy{Name: "x", Pattern: strings.Repeat("a", 1001), Action: "fail"}), jobspec.CodePattern,
		"log_policies[0].pattern"},
	"two log policies": {minimal, func(j *jobspec.Job) {
		policy(jobspec.LogPolicy{Name: "x", Pattern: "a", Action: "fail"})(j)
		j.LogPolicies = append(j.LogPolicies, j.LogPolicies[0])
	}, jobspec.CodeDuplicate, "log_policies[1].name"},
	"aftercorr of any": {sweep, depend(jobspec.Dependency{Type: "aftercorr", Jobs: []string{"1"}, Match: "any"}),
		jobspec.CodeDependencyUse, "dependencies[0].match"},
	"aftercorr, held": {sweep, func(j *jobspec.Job) {
		depend(jobspec.Dependency{Type: "aftercorr", Jobs: []string{"1"}})(j)
		j.OnDependencyFailure = "hold"
	}, jobspec.CodeDependencyUse, "dependencies[0].type"},
	"two words in a label": {minimal, constrain(jobspec.Constraint{Attribute: "node.label.a b", Value: "8"}),
		jobspec.CodeAttribute, "groups[0].constraints[0].attribute"},
	"texts": {minimal, func(j *jobspec.Job) {
		for range 3 {
			j.Groups[0].Tasks = append(j.Groups[0].Tasks, j.Groups[0].Tasks[0])
		}
		for i := range j.Groups[0].Tasks {
			t := &j.Groups[0].Tasks[i]
			t.Name, t.Command, t.Script = strings.Repeat("t", i+1), nil, strings.Repeat("x", jobspec.MaxScriptBytes)
		}
	}, jobspec.CodeTooLarge, ""},
	"attribute": {minimal, constrain(jobspec.Constraint{Attribute: "node.core", Value: "8"}),
		jobspec.CodeAttribute, "groups[0].constraints[0].attribute"},
	"operator": {minimal, constrain(jobspec.Constraint{Attribute: "node.cores", Operator: "==", Value: "8"}),
		jobspec.CodeOperator, "groups[0].constraints[0].operator"},
	"operator of a number": {minimal,
		constrain(jobspec.Constraint{Attribute: "node.cores", Operator: "glob", Value: "8*"}), jobspec.CodeOperator,
		"groups[0].constraints[0].operator"},
	"version": {minimal,
		constrain(jobspec.Constraint{Attribute: "node.label.driver", Operator: "version", Value: ">= new"}),
		jobspec.CodeConstraint, "groups[0].constraints[0].value"},
	"number": {minimal,
		constrain(jobspec.Constraint{Attribute: "node.cores", Operator: ">=", Value: "many"}), jobspec.CodeConstraint,
		"groups[0].constraints[0].value"},
	"constraint: RE2": {minimal,
		constrain(jobspec.Constraint{Attribute: "node.name", Operator: "regexp", Value: "["}), jobspec.CodePattern,
		"groups[0].constraints[0].value"},
	"list": {minimal, constrain(jobspec.Constraint{Attribute: "node.name", Operator: "in", Value: "a"}),
		jobspec.CodeConstraint, "groups[0].constraints[0].value"},
	"weight": {minimal, func(j *jobspec.Job) {
		j.Affinities = []jobspec.Affinity{{Constraint: jobspec.Constraint{Attribute: "node.name", Value: "a"}, Weight: 101}}
	}, jobspec.CodeRange, "affinities[0].weight"},
	"no weight": {minimal, func(j *jobspec.Job) {
		j.Affinities = []jobspec.Affinity{{Constraint: jobspec.Constraint{Attribute: "node.name", Value: "a"}}}
	}, jobspec.CodeRequired, "affinities[0].weight"},
	"nodes": {minimal, func(j *jobspec.Job) { j.Nodes = []string{"gpu[1-"} }, jobspec.CodeNodeNames,
		"nodes[0]"},
	"no node": {minimal, func(j *jobspec.Job) { j.Nodes = []string{""} }, jobspec.CodeNodeNames, "nodes[0]"},
	"no node left": {minimal,
		func(j *jobspec.Job) { j.Nodes, j.ExcludeNodes = []string{"gpu[1-2]"}, []string{"gpu2,gpu1"} }, jobspec.CodeNodeNames,
		"exclude_nodes"},
	"a million nodes": {minimal, func(j *jobspec.Job) { j.Nodes = []string{"a[0-60000]", "b[0-60000]", "c[0-60000]"} },
		jobspec.CodeTooLarge, "nodes"},
	"meta: one variable": {minimal, func(j *jobspec.Job) { j.Meta = map[string]string{"run-id": "1", "run_id": "2"} },
		jobspec.CodeDuplicate, "meta.run_id"},
	"groups: one variable": {minimal, func(j *jobspec.Job) {
		j.GangScope = "job"
		j.Groups[0].Name = "ps"
		j.Groups = append(j.Groups, j.Groups[0])
		j.Groups[1].Name = "PS"
	}, jobspec.CodeDuplicate, "groups[1].name"},
	"not UTF-8": {minimal, func(j *jobspec.Job) { j.Groups[0].Tasks[0].Command = []string{"cat", "caf\xe9"} },
		jobspec.CodeText, first + ".command[1]"},
	"not UTF-8: env": {minimal, func(j *jobspec.Job) { j.Groups[0].Tasks[0].Env = map[string]string{"A": "\xff"} },
		jobspec.CodeText, first + ".env.A"},
	"feature": {minimal, func(j *jobspec.Job) { j.Features = []string{"ib=1"} }, jobspec.CodeText,
		"features[0]"},
	"secret: name": {minimal, secret(jobspec.Secret{Name: "a b", Source: "/a", Env: "A"}), jobspec.CodeName,
		first + ".secrets[0].name"},
	"secret: nowhere": {minimal, secret(jobspec.Secret{Name: "a"}), jobspec.CodeRequired, first + ".secrets[0].source"},
	"secret: relative": {minimal, secret(jobspec.Secret{Name: "a", Source: "a"}), jobspec.CodePath,
		first + ".secrets[0].source"},
	"secret: both": {minimal, secret(jobspec.Secret{Name: "a", Source: "/a", Env: "A", File: "/b"}),
		jobspec.CodeSecret, first + ".secrets[0].file"},
	"secret: variable": {minimal, secret(jobspec.Secret{Name: "a", Source: "/a", Env: "1A"}), jobspec.CodeText,
		first + ".secrets[0].env"},
	"secret: ours": {minimal, secret(jobspec.Secret{Name: "a", Source: "/a", Env: "ROTA_JOB_ID"}),
		jobspec.CodeConflict, first + ".secrets[0].env"},
	"secret: in the way": {minimal, secret(jobspec.Secret{Name: "a", Source: "/a", File: "/dev/a"}), jobspec.CodePath,
		first + ".secrets[0].file"},
	"mount over /etc": {minimal, mounts(jobspec.Mount{Source: "/a", Target: "/etc/x"}), jobspec.CodePath,
		first + ".mounts[0].target"},
	"mount nothing": {minimal, mounts(jobspec.Mount{Type: "tmpfs", Target: "/x", ReadOnly: true}),
		jobspec.CodeConflict, first + ".mounts[0].read_only"},
	"mount back": {minimal, mounts(jobspec.Mount{Source: "/a/../b", Target: "/x"}), jobspec.CodePath,
		first + ".mounts[0].source"},
	"mount in a mount": {minimal,
		mounts(jobspec.Mount{Source: "/a", Target: "/x/y"}, jobspec.Mount{Source: "/a", Target: "/x/"}), jobspec.CodePath,
		first + ".mounts[0].target"},
	"secret: one file": {minimal, func(j *jobspec.Job) {
		j.Groups[0].Tasks[0].Secrets = []jobspec.Secret{{Name: "a", Source: "/a", File: "/run/rota/secrets/b"},
			{Name: "b", Source: "/b"}}
	}, jobspec.CodeDuplicate, first + ".secrets[1].file"},
	"secret: and env": {minimal, func(j *jobspec.Job) {
		secret(jobspec.Secret{Name: "a", Source: "/a", Env: "A"})(j)
		task(j).Env = map[string]string{"A": ""}
	}, jobspec.CodeDuplicate, first + ".secrets[0].env"},
	"two secrets": {minimal, func(j *jobspec.Job) {
		task(j).Secrets = []jobspec.Secret{{Name: "a", Source: "/a"}, {Name: "a", Source: "/a"}}
	}, jobspec.CodeDuplicate, first + ".secrets[1].name"},
	"nofile": {minimal, func(j *jobspec.Job) { task(j).Ulimits = &jobspec.Ulimits{Nofile: 1<<20 + 1} },
		jobspec.CodeRange, first + ".ulimits.nofile"},
	"memlock": {minimal, func(j *jobspec.Job) { task(j).Ulimits = &jobspec.Ulimits{Memlock: -2} },
		jobspec.CodeRange, first + ".ulimits.memlock"},
	"progress twice": {minimal,
		func(j *jobspec.Job) { task(j).Progress = &jobspec.Progress{File: "a", Pattern: `(?P<step>\d+)`} },
		jobspec.CodeProgress, first + ".progress.pattern"},
	"progress: no step": {minimal, func(j *jobspec.Job) { task(j).Progress = &jobspec.Progress{Pattern: `loss (\d+)`} },
		jobspec.CodeProgress, first + ".progress.pattern"},
	"progress: no metric": {minimal,
		func(j *jobspec.Job) { task(j).Progress = &jobspec.Progress{Pattern: `(?P<step>\d+)`, Metric: "loss"} },
		jobspec.CodeProgress, first + ".progress.pattern"},
	"progress: RE2": {minimal, func(j *jobspec.Job) { task(j).Progress = &jobspec.Progress{Pattern: `*`} },
		jobspec.CodePattern, first + ".progress.pattern"},
}

// TestRules breaks one rule at a time.
func TestRules(t *testing.T) {
	for name, c := range broken {
		t.Run(name, func(t *testing.T) { c.check(t) })
	}
}

func together() *jobspec.Job {
	job := pipeline()
	job.GangScope, job.Groups[1].DependsOn, job.Groups[2].DependsOn = "job", nil, nil
	return job
}

// components is a job whose script starts steps in two groups.
func components() *jobspec.Job {
	steps := func() *jobspec.Launch { return &jobspec.Launch{Type: jobspec.LaunchSteps, Nproc: 2} }
	return &jobspec.Job{Name: "het", GangScope: jobspec.ScopeJob, Groups: []jobspec.Group{
		{Name: "het-0", Tasks: []jobspec.Task{{Name: "main", Script: "#!/bin/sh\nsrun --het-group=1 x\n", Launch: steps()}}},
		{Name: "het-1", Tasks: []jobspec.Task{{Name: "main", Launch: steps()}}}}}
}

// TestComponents notices a job of several components that is refused.
func TestComponents(t *testing.T) {
	job := components()
	if problems := rules.Validate(job); len(problems) > 0 {
		t.Error(problems)
	}
	job.Default()
	if problems := rules.Validate(job); len(problems) > 0 {
		t.Error(problems)
	}
}

// check wants exactly one problem, and the same one after defaults were filled in.
func (c rule) check(t *testing.T) {
	job := c.job()
	c.spoil(job)
	problems := rules.Validate(job)
	if len(problems) != 1 || problems[0].Code != c.code || problems[0].Path != c.path || problems[0].Text == "" {
		t.Errorf("got %v, want %s at %s", problems, c.code, c.path)
	}
	job.Default()
	if after := rules.Validate(job); !reflect.DeepEqual(after, problems) {
		t.Errorf("with defaults: %v, without: %v", after, problems)
	}
}

func TestPatternPosition(t *testing.T) {
	job := minimal()
	job.LogPolicies = []jobspec.LogPolicy{{Name: "x", Pattern: "äöü(?=b)", Action: "fail"}}
	p := rules.Validate(job)
	if len(p) != 1 || !strings.Contains(p[0].Text, "at character 4: (?=") {
		t.Errorf("%v", p)
	}
}

func TestSuggestions(t *testing.T) {
	job := sweep()
	job.Groups[0].Tasks[0].Command[1] = "${array.sed}"
	if p := rules.Validate(job); len(p) != 1 || p[0].Hint != `did you mean "seed"?` {
		t.Errorf("%v", p)
	}
	job.Groups[0].Tasks[0].Command[1] = "${array.momentum}"
	if p := rules.Validate(job); len(p) != 1 || p[0].Hint != "the array has index, lr, seed" {
		t.Errorf("%v", p)
	}
}

// TestOverwhelming wants jobs beyond every limit to be refused without looking at all of them.
func TestOverwhelming(t *testing.T) {
	job := minimal()
	for len(job.Groups) < 10000 {
		job.Groups = append(job.Groups, job.Groups[0])
	}
	if p := rules.Validate(job); len(p) != 1 || p[0].Code != jobspec.CodeTooLarge || p[0].Path != "groups" {
		t.Errorf("%d problems", len(p))
	}
	job = minimal()
	for len(job.Groups[0].Tasks) < 10000 {
		job.Groups[0].Tasks = append(job.Groups[0].Tasks, job.Groups[0].Tasks[0])
	}
	if p := rules.Validate(job); len(p) != 1 || p[0].Code != jobspec.CodeTooLarge || p[0].Path != "groups[0].tasks" {
		t.Errorf("%d problems", len(p))
	}
}

func TestValidateAt(t *testing.T) {
	now, _ := jobspec.ParseTime("2026-01-02T00:00:00Z")
	job := minimal()
	if p := rules.ValidateAt(job, now); p != nil {
		t.Errorf("%v", p)
	}
	job.Deadline, job.TimeLimit = "2026-01-02T02:00:00Z", 7200
	if p := rules.ValidateAt(job, now); p != nil {
		t.Errorf("%v", p)
	}
	for _, at := range []int64{now + 1, now + 7200, now + 7201} {
		if p := rules.ValidateAt(job, at); len(p) != 1 || p[0].Code != jobspec.CodeDeadline {
			t.Errorf("at %d: %v", at, p)
		}
	}
}

// TestSavedByCriu notices jobs that CRIU cannot save.
func TestSavedByCriu(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*jobspec.Job)
		ok   bool
	}{
		"one worker": {func(*jobspec.Job) {}, true},
		"an array":   {func(j *jobspec.Job) { j.Array = &jobspec.Array{Indices: "0-3"} }, true},
		"workers":    {func(j *jobspec.Job) { j.Groups[0].Count = 2 }, false},
		"elastic":    {func(j *jobspec.Job) { j.Groups[0].Elastic = &jobspec.Elastic{Min: 1, Max: 2} }, false},
		"groups": {func(j *jobspec.Job) {
			j.Groups = append(j.Groups, j.Groups[0])
			j.Groups[1].Name = "other"
		}, false},
		"tasks": {func(j *jobspec.Job) {
			g := &j.Groups[0]
			g.Tasks = append(g.Tasks, g.Tasks[0])
			g.Tasks[1].Name = "other"
		}, false},
	} {
		job := minimal()
		job.Checkpoint = &jobspec.Checkpoint{Criu: true}
		c.edit(job)
		found := rules.Validate(job)
		says := slices.ContainsFunc(found, func(p jobspec.Problem) bool { return p.Path == "checkpoint.criu" })
		if says == c.ok || c.ok && len(found) > 0 {
			t.Errorf("%s: %v", name, found)
		}
		if w := rules.Warnings(job); c.ok && len(w) > 0 {
			t.Errorf("%s: %v", name, w)
		}
	}
}

func TestWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		spoil      func(*jobspec.Job)
		code, path string
	}{
		"long": {func(j *jobspec.Job) { j.Class, j.TimeLimit = "te", 7201 }, jobspec.CodeTryTooMuch, "time_limit"},
		"large": {func(j *jobspec.Job) { j.Class, j.Groups[0].Count, j.Groups[0].Tasks[0].Resources.GPUs = "te", 3, 8 },
			jobspec.CodeTryTooMuch, "groups"},
		"no path": {func(j *jobspec.Job) { j.Checkpoint = &jobspec.Checkpoint{} }, jobspec.CodeNoPath, "checkpoint"},
		"no trap": {func(j *jobspec.Job) { j.Preemption = &jobspec.Preemption{GracePeriod: 300} }, jobspec.CodeNoTrap,
			"preemption.grace_period"},
	} {
		job := minimal()
		c.spoil(job)
		for range 2 {
			if w := rules.Warnings(job); len(w) != 1 || w[0].Code != c.code || w[0].Path != c.path ||
				rules.Validate(job) != nil {
				t.Errorf("%s: %v, %v", name, w, rules.Validate(job))
			}
			job.Default()
		}
	}
}

// TestOneLogOfMany warns where workers or elements have nothing in the path of their log that tells
// them apart.
func TestOneLogOfMany(t *testing.T) {
	no := false
	for path, c := range map[string]struct{ workers, elements, loose bool }{
		"/a/%j-%%n":             {workers: true},
		"/a/%A":                 {true, true, true},
		"/a/%4n":                {elements: true, loose: true},
		"/a/%a":                 {workers: true},
		"/a/${worker.index}":    {elements: true, loose: true},
		"/a/${array.index}.out": {workers: true},
		"/a/${job.id}/%N":       {workers: true},
		"/dev/stdout":           {},
		"":                      {},
	} {
		for what, want := range map[string]bool{"workers": c.workers, "elements": c.elements, "loose": c.loose,
			"one": false, "steps": false, "apart": c.workers && path != "/a/${job.id}/%N"} {
			job := minimal()
			task := &job.Groups[0].Tasks[0]
			task.Template, task.Log = true, &jobspec.Log{Stderr: path, Join: &no}
			switch what {
			case "elements":
				job.Array = &jobspec.Array{Indices: "0-1"}
			case "workers", "loose", "steps", "apart":
				job.Groups[0].Count = 2
			}
			if what == "apart" { // each on a node of its own
				job.Groups[0].MaxWorkersPerNode = 1
			}
			if what == "steps" { // the first worker alone writes
				task.Launch = &jobspec.Launch{Type: jobspec.LaunchSteps}
			}
			if what == "loose" {
				job.Groups[0].Gang = &no
			}
			w := rules.Warnings(job)
			if got := len(w) == 1 && w[0].Code == jobspec.CodeOneLog &&
				w[0].Path == "groups[0].tasks[0].log.stderr"; got != want || len(w) > 1 {
				t.Errorf("%q of %s: %v", path, what, w)
			}
		}
	}
}

func TestLeaders(t *testing.T) {
	yes, job := true, pipeline()
	second := job.Groups[0].Tasks[0]
	second.Name, second.Leader = "u", &yes
	job.Groups[0].Tasks = append(job.Groups[0].Tasks, second)
	job.Groups[1].Tasks = append([]jobspec.Task{job.Groups[0].Tasks[1]}, job.Groups[1].Tasks...)
	if p := rules.Validate(job); p != nil {
		t.Fatal(p)
	}
	job.Default()
	var leaders []bool
	for _, g := range job.Groups[:2] {
		for _, task := range g.Tasks {
			leaders = append(leaders, *task.Leader)
		}
	}
	if !reflect.DeepEqual(leaders, []bool{false, false, true, false, true}) {
		t.Errorf("%v", leaders)
	}
}

func mounts(list ...jobspec.Mount) func(*jobspec.Job) {
	return func(j *jobspec.Job) { j.Groups[0].Tasks[0].Mounts = list }
}

// TestMountsThatAreFine takes what a node takes too: a slash at the end, and a directory in one
// that is in memory.
func TestMountsThatAreFine(t *testing.T) {
	job := minimal()
	mounts(jobspec.Mount{Source: "/shared/a/", Target: "/data//"}, jobspec.Mount{Type: "tmpfs", Target: "/scratch"},
		jobspec.Mount{Source: "/shared/b", Target: "/scratch/b"},
		jobspec.Mount{Source: "/shared/c", Target: "/database"})(job)
	if problems := rules.Validate(job); problems != nil {
		t.Fatal(problems)
	}
	job.Default()
	if m := job.Groups[0].Tasks[0].Mounts[0]; m.Source != "/shared/a" || m.Target != "/data" {
		t.Errorf("got %+v", m)
	}
}

// TestVersion wants jobs that ask for the same to have one version, from wherever they come.
func TestVersion(t *testing.T) {
	a, b := sweep(), sweep()
	b.Default()
	b.SubmitDir, b.SubmitHost = "/home/b", "login2"
	before, _ := json.Marshal(a)
	va, err := a.Version()
	vb, errB := b.Version()
	if err != nil || errB != nil || va != vb || len(va) != 64 {
		t.Errorf("%s and %s, %v, %v", va, vb, err, errB)
	}
	if after, _ := json.Marshal(a); string(before) != string(after) {
		t.Errorf("asking for the version changed the job:\n%s\n%s", before, after)
	}
	b.Groups[0].Tasks[0].Command[0] = "walk"
	if vc, _ := b.Version(); vc == va {
		t.Error("another command has the same version")
	}
}
