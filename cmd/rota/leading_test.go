package main

import (
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
)

// TestTheStreamsAreThoseOfTheTaskThatLeads in the group that the job runs.
func TestTheStreamsAreThoseOfTheTaskThatLeads(t *testing.T) {
	apart, yes := false, true
	spec := &jobspec.Job{Groups: []jobspec.Group{
		{Name: "prep", Tasks: []jobspec.Task{{Name: "t"}}},
		{Name: "train", Tasks: []jobspec.Task{
			{Name: "fetch", Lifecycle: &jobspec.Lifecycle{Hook: "prestart"}}, {Name: "watch"}, {Name: "lead", Leader: &yes, Log: &jobspec.Log{Join: &apart}},
		}},
	}}
	both := []string{"stdout", "stderr"}
	for group, want := range map[string][]string{"": both[:1], "prep": both[:1], "train": both} {
		j := &api.Job{Spec: spec}
		if group != "" {
			j.Group = &api.GroupPlace{Job: 1, Name: group}
		}
		if got := outputsOf(j); !slices.Equal(got, want) {
			t.Errorf("group %q: %v", group, got)
		}
	}
	if got := outputsOf(&api.Job{}); !slices.Equal(got, both[:1]) {
		t.Errorf("without a specification: %v", got)
	}
}
