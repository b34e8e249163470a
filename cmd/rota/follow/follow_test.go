package follow

import (
	"maps"
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
			{Name: "fetch", Lifecycle: &jobspec.Lifecycle{Hook: "prestart"}}, {Name: "watch"},
			{Name: "lead", Leader: &yes, Log: &jobspec.Log{Join: &apart}},
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

// TestOutputElsewhere checks the notes for arrays and pipeline jobs.
func TestOutputElsewhere(t *testing.T) {
	index := 3
	for want, j := range map[string]*api.Job{
		"": {ID: 5},
		"job 5 is an array: \"rota logs 5_INDEX\" shows the output of one task": {ID: 5,
			Array: api.ArrayPlace{Size: 9}},
		"job 5 runs its groups one after another: \"rota logs 5.prep\" shows the output of the first": {ID: 5,
			Groups: []api.GroupState{{Name: "prep", ID: 6}}},
	} {
		if got := OutputElsewhere(j); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, j := range []*api.Job{{ID: 6, Array: api.ArrayPlace{Job: 5, Index: &index, Size: 9}},
		{ID: 7, Groups: []api.GroupState{{Name: "ps"}}}} {
		if got := OutputElsewhere(j); got != "" {
			t.Errorf("%+v: %q", j, got)
		}
	}
}

// TestWhoIsFollowed notices a worker that joins in the place of one that has left and is not
// followed, and one that is followed twice.
func TestWhoIsFollowed(t *testing.T) {
	s := &shownAttempt{following: &following{options: api.LogOptions{Worker: -1}}, n: 1}
	for i, step := range []struct {
		workers int
		ended   []int // whose output is complete before
		want    []int
	}{{1, nil, []int{0}}, {3, nil, []int{0, 1, 2}}, {2, nil, []int{0, 1, 2}}, {2, []int{2}, []int{0, 1}},
		{3, nil, []int{0, 1, 2}}} {
		for _, worker := range step.ended {
			s.follows[worker] = 0
		}
		s.start(t.Context(), &api.Job{Attempt: 1, Workers: step.workers})
		if got := slices.Sorted(maps.Keys(s.follows)); !slices.Equal(got, step.want) {
			t.Errorf("step %d: %v are followed", i, got)
		}
		for worker := range s.follows {
			s.follows[worker] = 1 // it goes on
		}
	}
}
