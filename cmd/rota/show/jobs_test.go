package show

import (
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// TestNamesOfJobs notices a name by which the controllers would find another job.
func TestNamesOfJobs(t *testing.T) {
	zero, four := 0, 4
	for want, j := range map[string]api.Job{
		"7": {ID: 7}, "12_4": {ID: 17, Array: api.ArrayPlace{Job: 12, Index: &four}},
		"12_0": {ID: 13, Array: api.ArrayPlace{Job: 12, Index: &zero}}, "12_[5-9%2]": {ID: 12,
			Array: api.ArrayPlace{Indices: "5-9%2"}},
		"20.train": {ID: 21, Group: &api.GroupPlace{Job: 20, Name: "train"}},
	} {
		if got := JobName(&j); got != want {
			t.Errorf("%+v: %s, want %s", j, got, want)
		}
	}
	array, task := api.Job{Array: api.ArrayPlace{Size: 3}}, api.Job{Array: api.ArrayPlace{Size: 3, Job: 1, Index: &zero}}
	if !IsArray(&array) || IsArray(&task) || IsArray(&api.Job{}) {
		t.Error("arrays and their tasks are mixed up")
	}
	groups := api.Job{Groups: []api.GroupState{{Name: "a"}}}
	if IsPipeline(&groups) || IsPipeline(&api.Job{}) {
		t.Error("a gang of groups is no pipeline")
	}
	if groups.Groups[0].ID = 5; !IsPipeline(&groups) {
		t.Error("groups with jobs of their own are a pipeline")
	}
}

// TestCancelledBy notices a user that did not cancel a job, and one that is not named.
func TestCancelledBy(t *testing.T) {
	const nobodys = 4_000_001 // a number that no user of this machine has
	for _, c := range []struct {
		job  api.Job
		want string
	}{
		{api.Job{Code: model.Cancelled}, ""},
		{api.Job{Code: model.Cancelled, CancelledBy: new(uint32(0)), UID: 7}, "user root"},
		{api.Job{Code: model.Cancelled, CancelledBy: new(uint32(nobodys))}, "user 4000001"},
		{api.Job{Code: model.Cancelled, CancelledBy: new(uint32(7)), UID: 7}, ""},
		{api.Job{Code: model.Completing, CancelledBy: new(uint32(0)), UID: 7}, ""},
	} {
		if got := CancelledBy(&c.job); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestWordsAboutJobs notices a number, a reason or a dependency that is shown as another.
func TestWordsAboutJobs(t *testing.T) {
	j := api.Job{Workers: 4, ExitCode: 3, Signal: 9, Dependencies: []api.Dependency{{Type: "afterok",
		Jobs: []model.JobID{7, 8}},
		{Type: "afterany", Jobs: []model.JobID{9}, Match: "any", Delay: 90}, {Type: "singleton"}}}
	for what, c := range map[string][2]string{
		"dependencies": {Dependencies(&j), "afterok:7:8,any of afterany:9+1:30,singleton"}, "exit": {Exit(&j), "3:9"},
		"workers": {Workers(&j), "4"}, "nodes of a pending job": {Nodes(&j), "4"},
		"nodes":   {Nodes(&api.Job{Workers: 4, Nodes: []string{"a", "b", "a", "b"}}), "2"},
		"elastic": {Nodes(&api.Job{Workers: 4, Elastic: &api.Elastic{Workers: 2, Min: 1, Max: 8}}), "2/1-8"},
		"ids":     {IDs([]model.JobID{1, 22}), "1,22"}, "no ids": {IDs(nil), ""},
		"reason": {Reason(api.Reason{Code: "Resources", Text: "no room"}), "Resources: no room"},
		"code":   {Reason(api.Reason{Code: "Resources"}), "Resources"}, "text": {Reason(api.Reason{Text: "no room"}),
			"no room"},
		"hosts": {Hosts([]string{"gpu01", "gpu02", "gpu01", "cpu"}), "gpu[01-02],cpu"}, "no hosts": {Hosts(nil), ""},
		"limit": {Limit(0), "none"}, "a limit": {Limit(90), "1:30"}, "hours": {Hours(5400), "1.50"},
		"count": {Count(1, "job", "jobs"), "1 job"}, "counts": {Count(0, "job", "jobs"), "0 jobs"},
		"dash": {DashIfEmpty(""), "-"}, "no dash": {DashIfEmpty("x"), "x"}, "zero": {NumberOrDash(0), "-"},
		"number": {NumberOrDash(int64(-3)), "-3"}, "clean": {Clean("a\tb\x1b[1m\u202eß"), "a?b?[1m?ß"},
		"plain": {Clean("ä b"), "ä b"},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %q, want %q", what, c[0], c[1])
		}
	}
	if got := Words([]model.JobState{model.Running}); len(got) != 1 || got[0] != "R" {
		t.Errorf("words: %q", got)
	}
}
