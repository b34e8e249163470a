package rules_test

import (
	"testing"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/rules"
)

// stretchy is a job whose number of workers may change.
func stretchy(edit ...func(*jobspec.Elastic)) *jobspec.Job {
	job := minimal()
	e := &jobspec.Elastic{Min: 2, Max: 8}
	for _, f := range edit {
		f(e)
	}
	job.Groups[0].Elastic = e
	job.Checkpoint = &jobspec.Checkpoint{Path: "/shared/x"}
	return job
}

func TestElastic(t *testing.T) {
	job := stretchy(func(e *jobspec.Elastic) { e.MultipleOf, e.Resize = 2, jobspec.ResizeRestart })
	for range 2 {
		if problems := rules.Validate(job); problems != nil {
			t.Errorf("%v", problems)
		}
		if warnings := rules.Warnings(job); warnings != nil {
			t.Errorf("warnings %v", warnings)
		}
		job.Default()
	}
	g := job.Groups[0]
	if want := (jobspec.Elastic{Min: 2, Max: 8, MultipleOf: 2, Step: 2, Cooldown: 300,
		GrowAfter: 60}); *g.Elastic != want || g.Count != 0 {
		t.Errorf("with defaults %+v, count %d", *g.Elastic, g.Count)
	}
	if g.Fewest() != 2 || g.Most() != 8 {
		t.Errorf("from %d to %d", g.Fewest(), g.Most())
	}
	job.Checkpoint = nil
	if w := rules.Warnings(job); len(w) != 1 || w[0].Code != jobspec.CodeForgetful {
		t.Errorf("without a checkpoint: %v", w)
	}
}

func TestElasticRules(t *testing.T) {
	in := func(edit func(*jobspec.Elastic)) func() *jobspec.Job {
		return func() *jobspec.Job { return stretchy(edit) }
	}
	for name, r := range map[string]rule{
		"nothing":  {in(func(e *jobspec.Elastic) { e.Min = 0 }), same, jobspec.CodeRange, "groups[0].elastic.min"},
		"too many": {in(func(e *jobspec.Elastic) { e.Max = 5000 }), same, jobspec.CodeRange, "groups[0].elastic.max"},
		"order":    {in(func(e *jobspec.Elastic) { e.Max = 1 }), same, jobspec.CodeConflict, "groups[0].elastic.max"},
		"multiple": {in(func(e *jobspec.Elastic) { e.MultipleOf, e.Max = 2, 7 }), same, jobspec.CodeConflict,
			"groups[0].elastic.max"},
		"step": {in(func(e *jobspec.Elastic) { e.MultipleOf, e.Step = 2, 3 }), same, jobspec.CodeConflict,
			"groups[0].elastic.step"},
		"negative unit": {in(func(e *jobspec.Elastic) { e.MultipleOf = -2 }), same, jobspec.CodeRange,
			"groups[0].elastic.multiple_of"},
		"signal": {in(func(e *jobspec.Elastic) { e.Resize = "signal" }), same, jobspec.CodeUnsupported,
			"groups[0].elastic.resize"},
		"resize": {in(func(e *jobspec.Elastic) { e.Resize = "magic" }), same, jobspec.CodeChoice,
			"groups[0].elastic.resize"},
		"cooldown": {in(func(e *jobspec.Elastic) { e.Cooldown = -1 }), same, jobspec.CodeRange,
			"groups[0].elastic.cooldown"},
		"grow after": {in(func(e *jobspec.Elastic) { e.GrowAfter = 1 << 40 }), same, jobspec.CodeRange,
			"groups[0].elastic.grow_after"},
		"te": {in(same2), func(j *jobspec.Job) { j.Class = jobspec.TE }, jobspec.CodeConflict,
			"groups[0].elastic"},
		"count": {in(same2), func(j *jobspec.Job) { j.Groups[0].Count = 2 }, jobspec.CodeConflict,
			"groups[0].elastic"},
		"no gang": {in(same2), func(j *jobspec.Job) { j.Groups[0].Gang = &no }, jobspec.CodeConflict,
			"groups[0].elastic"},
		"never again": {in(same2), func(j *jobspec.Job) {
			j.Checkpoint, j.Preemption = nil, &jobspec.Preemption{Requeue: &no}
		},
			jobspec.CodeConflict, "groups[0].elastic"},
		"two in a gang": {together, func(j *jobspec.Job) {
			j.Groups[0].Elastic, j.Groups[2].Elastic = &jobspec.Elastic{Min: 1, Max: 2}, &jobspec.Elastic{Min: 1, Max: 2}
		}, jobspec.CodeUnsupported, "groups[2].elastic"},
		"too many together": {together, func(j *jobspec.Job) { j.Groups[1].Elastic = &jobspec.Elastic{Min: 1, Max: 4095} },
			jobspec.CodeRange, "groups"},
	} {
		t.Run(name, func(t *testing.T) { r.check(t) })
	}
}

func same(*jobspec.Job)      {}
func same2(*jobspec.Elastic) {}
