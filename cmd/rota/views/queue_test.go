package views

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
)

// TestQueueOfJobsThatAreNotThere: named jobs that are not shown are told of, and lacking ones are a
// failure.
func TestQueueOfJobsThatAreNotThere(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.On("GET /v1/jobs", rotatest.StreamOf([]api.Job{{ID: 7, Name: "seven", State: "RUNNING", Code: cluster.Running}}))
	a.Give("GET /v1/history", rotatest.List("JobList", api.Job{ID: 6, Name: "six", State: "COMPLETED",
		Code: cluster.Completed}))
	a.Give("GET /v1/jobs/6", api.Job{ID: 6, Code: cluster.Completed})
	a.Give("GET /v1/jobs/7", api.Job{ID: 7, Code: cluster.Running})
	a.Refuse("GET /v1/jobs/8", api.Problem{Status: 404, Code: api.CodeNotFound, Detail: "there is no job 8"})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	for _, c := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"queue", "-j", "7"}, 0, ""},
		{[]string{"queue", "-j", "6,7"}, 0, "rota: job 6 has ended: \"rota hist -j 6\" shows it\n"},
		{[]string{"queue", "-j", "6,7", "-u", "ada"}, 0, ""},
		{[]string{"queue", "-j", "7,8"}, exit.NotFound, "rota: there is no job 8\n"},
		{[]string{"queue", "-j", "7,8", "-o", "json"}, exit.NotFound,
			`{"type":"urn:rota:problem:not-found","title":"","status":404,"code":"not-found","detail":"there is no job 8"}` +
				"\n"},
		{[]string{"hist", "-j", "6"}, 0, ""},
		{[]string{"hist", "-j", "7,6"}, 0, "rota: job 7 has not ended: \"rota queue -j 7\" shows it\n"},
		{[]string{"hist", "-j", "8,6"}, exit.NotFound, "rota: there is no job 8\n"},
	} {
		if got := s.Run(c.args...); got.Code != c.code || got.Stderr != c.stderr {
			t.Errorf("rota %q: %+v", c.args, got)
		}
	}
}

// TestQueueRowOfWhatHasNotBegun: the row of an array is of elements that wait, in every column and
// for -t.
func TestQueueRowOfWhatHasNotBegun(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.On("GET /v1/jobs", rotatest.StreamOf([]api.Job{{ID: 7, Name: "a-name-that-is-much-longer-than-columns-are",
		State: "RUNNING", Code: cluster.Running, Elapsed: 60,
		Started: rotatest.At("2026-11-21T08:00:05Z"), Workdir: "/shared/a/directory/that/is/rather/long",
		Array: api.ArrayPlace{Job: 7, Size: 9, Indices: "3-8%2"}}}))
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	const row = "7_[3-8%2] PENDING PD 0:00  a-name-that-is-much-longer-than-columns-are " +
		"/shared/a/directory/that/is/rather/long\n"
	if got := s.Run("queue", "--no-header", "--columns", "id,state,code,time,started,name,workdir"); got.Stdout != row {
		t.Errorf("%q, want %q", got.Stdout, row)
	}
	for states, want := range map[string]string{"R": "", "R,CG": "", "PD": "7_[3-8%2]\n", "r,pending": "7_[3-8%2]\n"} {
		if got := s.Run("queue", "--no-header", "--columns", "id", "-t", states); got.Code != 0 || got.Stdout != want {
			t.Errorf("-t %s: %+v", states, got)
		}
	}
}

// TestEmptyFilters: what an empty variable of a script leaves does not mean all jobs, least of all
// to cancel.
func TestEmptyFilters(t *testing.T) {
	a := rotatest.NewAnswers(t)
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	for _, args := range [][]string{{"cancel", "-u", "", "-t", "PD"}, {"cancel", "-n", "", "--me"},
		{"cancel", "-t", ",", "-u", "ada"}, {"cancel", "-A", " ", "-t", "R"},
		{"queue", "-j", ""}, {"queue", "-u", ""}, {"hist", "-j", ""}, {"hist", "-s", ","}} {
		if got := s.Run(args...); got.Code != exit.Usage || !strings.Contains(got.Stderr, "is empty") {
			t.Errorf("rota %q: %+v", args, got)
		}
	}
	if asked := a.Requests(); len(asked) > 0 {
		t.Errorf("asked %+v", asked)
	}
}

// TestNodesThatAreNotThere: a misspelt node is no empty list.
func TestNodesThatAreNotThere(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("GET /v1/nodes", rotatest.List("NodeList", api.Node{Name: "gpu01", State: "idle"}))
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	for args, want := range map[string]string{"-w gpu01": "", "-w gpu[01-03]": "rota: unknown node gpu[02-03]\n",
		"-s -w nosuch": "rota: unknown node nosuch\n"} {
		got := s.Run(append([]string{"nodes"}, strings.Fields(args)...)...)
		if got.Stderr != want || (got.Code == exit.NotFound) != (want != "") {
			t.Errorf("nodes %s: %+v", args, got)
		}
	}
}
