package rules_test

import (
	"testing"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/rules"
)

// TestWorkersThatMeetByC10d notices workers on one node that would wait for each other for ever, and
// jobs that are refused although their workers find each other.
func TestWorkersThatMeetByC10d(t *testing.T) {
	no, oneOrTwo := false, &jobspec.Elastic{Min: 1, Max: 2}
	for name, c := range map[string]struct {
		edit   func(*jobspec.Group)
		refuse bool
	}{
		"two on a node":             {func(*jobspec.Group) {}, true},
		"it may grow to two":        {func(g *jobspec.Group) { g.Count, g.Elastic = 0, oneOrTwo }, true},
		"one worker":                {func(g *jobspec.Group) { g.Count = 1 }, false},
		"one on a node":             {func(g *jobspec.Group) { g.MaxWorkersPerNode = 1 }, false},
		"one on a node, by default": {func(g *jobspec.Group) { g.MaxWorkersPerNode = 0 }, false},
		"each by itself":            {func(g *jobspec.Group) { g.Gang = &no }, false},
		"static":                    {func(g *jobspec.Group) { g.Tasks[0].Launch.Rdzv = "static" }, false},
		"static, by default":        {func(g *jobspec.Group) { g.Tasks[0].Launch.Rdzv = "" }, false},
	} {
		job := minimal()
		g := &job.Groups[0]
		g.Count, g.MaxWorkersPerNode = 2, 2
		g.Tasks[0].Launch = &jobspec.Launch{Type: "torchrun", Rdzv: "c10d"}
		job.Checkpoint = &jobspec.Checkpoint{Path: "/shared/x"}
		c.edit(g)
		problems := rules.Validate(job)
		if refused := len(problems) == 1 && problems[0].Path == "groups[0].max_workers_per_node"; refused != c.refuse ||
			!c.refuse && len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

// TestWorkersOfStepsShareNoNode notices workers that only hold a job's part of a node, and share one.
func TestWorkersOfStepsShareNoNode(t *testing.T) {
	for perNode, refuse := range map[int]bool{0: false, 1: false, 2: true} {
		job := minimal()
		job.Groups[0].Count, job.Groups[0].MaxWorkersPerNode = 2, perNode
		job.Groups[0].Tasks[0].Launch = &jobspec.Launch{Type: jobspec.LaunchSteps}
		for _, defaults := range []bool{false, true} {
			if defaults {
				job.Default()
			}
			problems := rules.Validate(job)
			if refused := len(problems) == 1 && problems[0].Path == "groups[0].max_workers_per_node"; refused != refuse ||
				!refuse && len(problems) > 0 {
				t.Errorf("%d on a node, defaults %v: %v", perNode, defaults, problems)
			}
		}
	}
}

// TestScriptsThatMeetByC10d notices programs that call torchrun themselves, and would wait for ever
// when they share a node, without a warning.
func TestScriptsThatMeetByC10d(t *testing.T) {
	const call = "torchrun --rdzv-backend=c10d train.py"
	no, launched := false, &jobspec.Launch{Type: "torchrun", Rdzv: "c10d"}
	for name, c := range map[string]struct {
		edit func(*jobspec.Group)
		warn bool
	}{
		"a script":          {func(g *jobspec.Group) { g.Tasks[0].Command, g.Tasks[0].Script = nil, call }, true},
		"a command":         {func(*jobspec.Group) {}, true},
		"it may grow":       {func(g *jobspec.Group) { g.Count, g.Elastic = 0, &jobspec.Elastic{Min: 1, Max: 2} }, true},
		"one on a node":     {func(g *jobspec.Group) { g.MaxWorkersPerNode = 1 }, false},
		"one worker":        {func(g *jobspec.Group) { g.Count = 1 }, false},
		"whole nodes":       {func(g *jobspec.Group) { g.Exclusive = true }, false},
		"each by itself":    {func(g *jobspec.Group) { g.Gang = &no }, false},
		"another way":       {func(g *jobspec.Group) { g.Tasks[0].Command = []string{"torchrun", "train.py"} }, false},
		"launched torchrun": {func(g *jobspec.Group) { g.Tasks[0].Launch = launched }, false},
	} {
		for _, defaults := range []bool{false, true} {
			job := minimal()
			job.Checkpoint = &jobspec.Checkpoint{Path: "/shared/x"}
			g := &job.Groups[0]
			g.Count, g.Tasks[0].Command = 2, []string{"torchrun", "--rdzv-backend=c10d", "train.py"}
			if c.edit(g); defaults {
				job.Default()
			}
			w := rules.Warnings(job)
			if got := len(w) == 1 && w[0].Code == jobspec.CodeAlikeOnNode; got != c.warn || !c.warn && len(w) > 0 {
				t.Errorf("%s, defaults %v: %v", name, defaults, w)
			}
		}
	}
}
