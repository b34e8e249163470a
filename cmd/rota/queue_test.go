package main

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
)

// TestQueueOfJobsThatAreNotThere: named jobs that are not shown are told of, and lacking ones are a failure.
func TestQueueOfJobsThatAreNotThere(t *testing.T) {
	a := newAnswers(t)
	a.on("GET /v1/jobs", streamOf([]api.Job{{ID: 7, Name: "seven", State: "RUNNING", Code: cluster.Running}}))
	a.give("GET /v1/history", list("JobList", api.Job{ID: 6, Name: "six", State: "COMPLETED", Code: cluster.Completed}))
	a.give("GET /v1/jobs/6", api.Job{ID: 6, Code: cluster.Completed})
	a.give("GET /v1/jobs/7", api.Job{ID: 7, Code: cluster.Running})
	a.refuse("GET /v1/jobs/8", api.Problem{Status: 404, Code: api.CodeNotFound, Detail: "there is no job 8"})
	s := session{t: t, addr: a.URL}
	for _, c := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"queue", "-j", "7"}, 0, ""},
		{[]string{"queue", "-j", "6,7"}, 0, "rota: job 6 has ended: \"rota hist -j 6\" shows it\n"},
		{[]string{"queue", "-j", "6,7", "-u", "ada"}, 0, ""},
		{[]string{"queue", "-j", "7,8"}, exitNotFound, "rota: there is no job 8\n"},
		{[]string{"queue", "-j", "7,8", "-o", "json"}, exitNotFound,
			`{"type":"urn:rota:problem:not-found","title":"","status":404,"code":"not-found","detail":"there is no job 8"}` + "\n"},
		{[]string{"hist", "-j", "6"}, 0, ""},
		{[]string{"hist", "-j", "7,6"}, 0, "rota: job 7 has not ended: \"rota queue -j 7\" shows it\n"},
		{[]string{"hist", "-j", "8,6"}, exitNotFound, "rota: there is no job 8\n"},
	} {
		if got := s.run(c.args...); got.code != c.code || got.stderr != c.stderr {
			t.Errorf("rota %q: %+v", c.args, got)
		}
	}
}

// TestQueueRowOfWhatHasNotBegun: the row of an array is of elements that wait, in every column and for -t.
func TestQueueRowOfWhatHasNotBegun(t *testing.T) {
	a := newAnswers(t)
	a.on("GET /v1/jobs", streamOf([]api.Job{{ID: 7, Name: "a-name-that-is-much-longer-than-columns-are", State: "RUNNING", Code: cluster.Running, Elapsed: 60,
		Started: at("2026-11-21T08:00:05Z"), Workdir: "/shared/a/directory/that/is/rather/long", Array: api.ArrayPlace{Job: 7, Size: 9, Indices: "3-8%2"}}}))
	s := session{t: t, addr: a.URL}
	const row = "7_[3-8%2] PENDING PD 0:00  a-name-that-is-much-longer-than-columns-are /shared/a/directory/that/is/rather/long\n"
	if got := s.run("queue", "--no-header", "--columns", "id,state,code,time,started,name,workdir"); got.stdout != row {
		t.Errorf("%q, want %q", got.stdout, row)
	}
	for states, want := range map[string]string{"R": "", "R,CG": "", "PD": "7_[3-8%2]\n", "r,pending": "7_[3-8%2]\n"} {
		if got := s.run("queue", "--no-header", "--columns", "id", "-t", states); got.code != 0 || got.stdout != want {
			t.Errorf("-t %s: %+v", states, got)
		}
	}
}

// TestEmptyFilters: what an empty variable of a script leaves does not mean all jobs, least of all to cancel.
func TestEmptyFilters(t *testing.T) {
	a := newAnswers(t)
	s := session{t: t, addr: a.URL}
	for _, args := range [][]string{{"cancel", "-u", "", "-t", "PD"}, {"cancel", "-n", "", "--me"}, {"cancel", "-t", ",", "-u", "ada"}, {"cancel", "-A", " ", "-t", "R"},
		{"queue", "-j", ""}, {"queue", "-u", ""}, {"hist", "-j", ""}, {"hist", "-s", ","}} {
		if got := s.run(args...); got.code != exitUsage || !strings.Contains(got.stderr, "has an empty value") {
			t.Errorf("rota %q: %+v", args, got)
		}
	}
	if asked := a.asked(); len(asked) > 0 {
		t.Errorf("asked %+v", asked)
	}
}

// TestNodesThatAreNotThere: a misspelt node is no empty list.
func TestNodesThatAreNotThere(t *testing.T) {
	a := newAnswers(t)
	a.give("GET /v1/nodes", list("NodeList", api.Node{Name: "gpu01", State: "idle"}))
	s := session{t: t, addr: a.URL}
	for args, want := range map[string]string{"-w gpu01": "", "-w gpu[01-03]": "rota: there is no node gpu[02-03]\n", "-s -w nosuch": "rota: there is no node nosuch\n"} {
		got := s.run(append([]string{"nodes"}, strings.Fields(args)...)...)
		if got.stderr != want || (got.code == exitNotFound) != (want != "") {
			t.Errorf("nodes %s: %+v", args, got)
		}
	}
}
