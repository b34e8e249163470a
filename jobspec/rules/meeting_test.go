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
