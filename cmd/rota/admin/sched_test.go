package admin

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// noon is when the switches of these tests were turned.
var noon = &api.Time{Time: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}

// lastAsked returns the body of the last request.
func lastAsked[T any](a *rotatest.Answers) (body T) {
	all := a.Requests()
	if err := json.Unmarshal([]byte(all[len(all)-1].Body), &body); err != nil {
		panic(err)
	}
	return body
}

// TestTheSchedulerIsSteered notices a switch that is turned the wrong way, and a reason that is
// lost.
func TestTheSchedulerIsSteered(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/sched", api.Sched{Settings: []api.SchedSetting{}})
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	for line, want := range map[string]api.SchedRequest{
		"pause":                        {What: "all", On: true},
		"pause preemption --reason x":  {What: "preemption", On: true, Reason: "x"},
		"resume growth":                {What: "growth"},
		"resume":                       {What: "all"},
		"dry-run on --reason rehearse": {What: "dry-run", On: true, Reason: "rehearse"},
		"dry-run off":                  {What: "dry-run"},
	} {
		got := s.Run(append([]string{"sched"}, strings.Fields(line)...)...)
		if asked := lastAsked[api.SchedRequest](a); got.Code != 0 || got.Stdout != "nothing is paused\n" || asked != want {
			t.Errorf("rota sched %s: %+v asked %+v", line, got, asked)
		}
	}
	before := len(a.Requests())
	for _, line := range []string{"pause dry-run", "pause preemption growth", "resume --reason x", "dry-run",
		"dry-run maybe", "dry-run off --reason x", "stop", "status growth", "--reason x"} {
		if got := s.Run(append([]string{"sched"}, strings.Fields(line)...)...); got.Code != exit.Usage || got.Stdout != "" {
			t.Errorf("rota sched %s: %+v", line, got)
		}
	}
	if n := len(a.Requests()); n != before {
		t.Errorf("wrong command lines asked %d times", n-before)
	}
}

// TestStatusOfTheScheduler notices a setting that is left out, and a user that cannot see pauses
// because the list of jobs is for operators.
func TestStatusOfTheScheduler(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("GET /v1/sched", api.Sched{Settings: []api.SchedSetting{
		{What: "all", By: "root", Since: noon}, {What: "dry-run", By: "ann", Since: noon},
		{What: "growth", By: "ann", Since: noon, Reason: "a test"}}})
	a.Give("GET /v1/sched/displacements", api.List[api.Displacement]{Items: []api.Displacement{
		{Job: 4, For: 9, Cause: model.CauseTE, Grace: 30, LostGPUSeconds: 7, Since: noon},
		{Job: 5, Cause: model.CauseShrink, Workers: 2, Since: noon}}})
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	pauses := `all scheduling was paused by root at 2026-11-21T12:00:00Z (end it with "rota sched resume")
a dry run was started by ann at 2026-11-21T12:00:00Z: jobs that would be displaced are only recorded ` +
		`(end it with "rota sched dry-run off")
growth was paused by ann at 2026-11-21T12:00:00Z, reason: a test (end it with "rota sched resume growth")
`
	list := `  2026-11-21T12:00:00Z  job 4 would have been asked to leave for job 9 (te, grace 30 s, 7 GPU s lost)
  2026-11-21T12:00:00Z  job 5 would have been asked to give up 2 workers (shrink, grace 0 s, 0 GPU s lost)
`
	if got := s.Run("sched", "status", "--utc"); got.Code != 0 || got.Stdout != pauses+list {
		t.Errorf("%+v", got)
	}
	a.Refuse("GET /v1/sched/displacements", denied)
	if got := s.Run("sched", "--utc"); got.Code != 0 || got.Stdout != pauses || got.Stderr != "" {
		t.Errorf("a user without the list: %+v", got)
	}
}
