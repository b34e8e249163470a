package views

import (
	"bytes"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// leaver is a job that has left its place once, and is leaving it again.
func leaver() *api.Job {
	at := func(minute int) *api.Time {
		return &api.Time{Time: time.Date(2026, 11, 21, 8, minute, 0, 0, time.UTC)}
	}
	return &api.Job{ID: 7, Name: "train", Code: model.Checkpointing, State: "CHECKPOINTING", User: "ada",
		Account: "vision", Nodes: []string{"n1"}, GPUs: 4, Attempt: 2, Preemptions: api.Preemptions{TE: 1},
		Attempts: []api.Attempt{
			{N: 1, Start: at(0), End: at(10), Nodes: []string{"n1"}, ExitCode: 85, Cause: model.CauseTE, For: 8,
				ForUser: "bo", ForAccount: "speech", LostGPUSeconds: 150,
				Lost: &api.Lost{GPUSeconds: 150, Work: 100, Grace: 40, Restart: 10}},
			{N: 2, Start: at(20), Nodes: []string{"n1"}, Cause: model.CauseReclaim, For: 9, ForUser: "cy",
				ForAccount: "speech", LeaveBy: at(31), LostGPUSeconds: 60, Lost: &api.Lost{GPUSeconds: 60, Work: 60}},
		}}
}

// TestAJobSaysWhyItLeaves: in its grace period, and of each time before.
func TestAJobSaysWhyItLeaves(t *testing.T) {
	var out bytes.Buffer
	if err := printStatus(&out, table.Screen{}, leaver(), true); err != nil {
		t.Fatal(err)
	}
	want := `Job 7  train

State
  state        CHECKPOINTING (CK)
  leaving      reclaim: another account takes back its quota, job 9 (cy/speech)
  leaves by    2026-11-21T08:31:00Z, then it is killed
  lost so far  60 GPU seconds: 60 of work, 0 of grace, 0 of restart
  elapsed      0:00 of none
  charged      0.00 GPU hours

Request
  user         ada (uid 0)
  account      vision
  priority     0
  workers      0
  total        4 GPUs, 0 cores, 0B memory

Placement
  nodes        n1

Attempts
  N START                END                  CAUSE   FOR           LOST GPU S EXIT NODELIST
  1 2026-11-21T08:00:00Z 2026-11-21T08:10:00Z te      8 (bo/speech)        150 85:0 n1
  2 2026-11-21T08:20:00Z -                    reclaim 9 (cy/speech)         60    - n1
  preempted    1 by te, 0 by reclaim, 0 by order; 0 resizes, 0 migrations
  lost         210 GPU seconds: 160 of work, 40 of grace, 10 of restart
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := notWaiting(leaver(), true), "it is leaving n1: reclaim: another account takes back its quota, job 9 "+
		"(cy/speech)"; got != want {
		t.Errorf("why says %q, want %q", got, want)
	}
	if got, want := show.AllLeft(leaver()), "te:8(bo/speech),reclaim:9(cy/speech)"; got != want {
		t.Errorf("the history says %q, want %q", got, want)
	}
	if got := show.LostGPUSeconds(leaver()); got != 210 {
		t.Errorf("the history says that %d s are lost", got)
	}
}
