package views

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// explained has answers that say why: quotas, what would be after preemption, the order of jobs, and
// how shares come about.
func explained(t *testing.T) *rotatest.Answers {
	a := rotatest.NewAnswers(t)
	a.Give("GET /v1/jobs/8/why", api.Why{ID: 8, Reason: api.Reason{Code: "Resources", Text: "no node has enough free"},
		Funnel: []api.FunnelStep{{What: "up", Nodes: 12}, {What: "enough GPUs free now"}},
		Quotas: []api.Quota{
			{Account: "vision", User: "ada", Kind: "limit", Resource: "gpus", Used: 8000, Most: 8000, Binds: true,
				Text:    "user ada in account vision may hold 8 GPUs and holds 8 GPUs",
				Holders: []api.Holder{{User: "ada", Account: "vision", Held: 8000, Jobs: []model.JobID{3, 5}}}},
			{Account: "vision", Kind: "deserved", Resource: "gpus", Used: 9500, Most: 12000,
				Text: "account vision deserves 12 GPUs and holds 9.5 GPUs",
				Holders: []api.Holder{{User: "ada", Account: "vision", Held: 8000, Jobs: []model.JobID{3, 5}},
					{Held: 1500}}},
		},
		After: &api.AfterPreemption{By: model.CauseOrder, Jobs: 3, Fits: true, Spared: []api.Spared{
			{Rule: "started less than min_runtime ago, 10m", Count: 2, Jobs: []model.JobID{3, 5}},
			{Rule: "jobs without a checkpoint block, which cannot save their state", Count: 1}},
			Text: "it would fit if jobs of lower precedence left, but rules protect them"}})
	half := api.Fairness{Weight: 1, Deserved: 500, Alloc: 250}
	a.Give("GET /v1/priorities", rotatest.List("PriorityList",
		api.Priority{Position: 1, ID: 12, Ref: "12", User: "bo", Account: "speech", Class: jobspec.TE, Priority: 50, Age: 3,
			AccountShare: half, Reason: api.Reason{Code: "Preempting"}},
		api.Priority{Position: 2, ID: 9, Ref: "9_[0-7]", User: "ada", Account: "vision", Class: jobspec.BE, Priority: 50,
			Level: 3, Service: 7200, Age: 4000, AccountShare: half, UserShare: half, Reason: api.Reason{Code: "Resources"}},
		api.Priority{Position: 3, ID: 7, Ref: "7", Name: "train", User: "cy", Account: "vision", Class: jobspec.BE,
			Priority: 50, AccountsOver: 1 << 14, UserOver: true, OwnRoom: true, Reserved: true,
			Reason: api.Reason{Code: "Resources"}},
		api.Priority{ID: 6, Ref: "6", User: "cy", Account: "vision", Class: jobspec.BE, Priority: 50,
			Reason: api.Reason{Code: "JobHeldUser"}}))
	a.Give("GET /v1/shares", rotatest.List("ShareList", api.Share{Account: "other"}, api.Share{Account: "vision",
		Parent:   "science",
		Fairness: api.Fairness{Weight: 2, Deserved: 250, Fair: 300, Alloc: 500, Borrowed: 250, Usage: 90_061, Ratio: 1204},
		Explanation: &api.ShareExplanation{Promised: true, HalfLife: 604800, Influence: 300, Over: 200,
			By: []api.ShareOf{{Account: "speech", Part: 125}},
			Steps: []api.ShareStep{
				{Account: "science", Weight: 1, Weights: 3, Configured: true, Deserved: 500, Demand: 2000, Fair: 600, Alloc: 500},
				{Account: "vision", Weight: 2, Weights: 2, Configured: true, Deserved: 250, Demand: 1100, Fair: 300, Alloc: 500},
			}}}))
	return a
}

func TestExplanations(t *testing.T) {
	s := rotatest.Session{Commands: groups, T: t, Addr: explained(t).URL}
	var all strings.Builder
	for _, c := range []string{"why 8", "prio", "prio -u cy --columns pos,id,name,level,reserved", "prio -j 9,12",
		"prio -o csv", "share --explain vision", "share --explain none"} {
		got := s.Run(append(strings.Fields(c), "--utc")...)
		all.WriteString("$ rota " + c + "\n" + got.Stdout + got.Stderr + "\n")
	}
	rotatest.Golden(t, *update, "explain.txt", all.String())
}
