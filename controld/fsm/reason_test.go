package fsm

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

func TestReasonSentence(t *testing.T) {
	tests := []struct {
		reason model.Reason
		want   string
	}{
		{model.Reason{}, ""},
		{model.Reason{Code: model.ReasonPriority, For: 7}, "it waits behind job 7"},
		{model.Reason{Code: model.ReasonPriority}, "it waits behind a job that comes earlier in the order"},
		{model.Reason{Code: model.ReasonReservation, For: 3}, "the room that it needs is reserved for job 3"},
		{model.Reason{Code: model.ReasonGang, Fit: 1, Want: 2},
			"only 1 of its 2 workers would fit now, and all must start together"},
		{
			model.Reason{
				Code: model.ReasonResources, Node: "n2",
				Need: model.Vector{Cores: 8, Memory: 16 * jobspec.GiB, GPUs: 4000},
				Have: model.Vector{Cores: 8, Memory: 1536 * jobspec.MiB, GPUs: 1000},
			},
			"no node has enough free for one worker; the nearest, n2, has 1 of 4 GPUs, 1536 MiB of 16 GiB memory",
		},
		{model.Reason{Code: model.ReasonBadConstraint, Need: model.Vector{Cores: 9}},
			"no node of the cluster can run it, even if empty: 0 of 9 cores"},
		{model.Reason{Code: model.ReasonLaunchFailure, Node: "n1", Text: "no such image"},
			"it could not be launched (n1): no such image"},
		{model.Reason{Code: model.ReasonNonZeroExit, Fit: 2, Want: 9}, "2 of its 9 members failed"},
		{model.Reason{Code: model.ReasonArrayLimit, Fit: 4, Want: 4},
			"4 elements of its array are running, and max_parallel allows 4"},
		{model.Reason{Text: "only words"}, "only words"},
		{model.Reason{Code: model.ReasonResources, Need: model.Vector{GPUs: 500}, Have: model.Vector{GPUs: 250}},
			"no node has enough free for one worker: 0.250 of 0.500 GPUs"},
	}
	for _, test := range tests {
		if got := test.reason.Sentence(); got != test.want {
			t.Errorf("%+v\n got %q\nwant %q", test.reason, got, test.want)
		}
	}
}

// reasonCodes are all reason codes.
var reasonCodes = []model.ReasonCode{
	model.ReasonNotScheduled, model.ReasonPriority, model.ReasonResources, model.ReasonFragmentation, model.ReasonGang,
	model.ReasonReservation, model.ReasonCycleLimit,
	model.ReasonBackoff, model.ReasonHeldUser, model.ReasonHeldAdmin, model.ReasonMaxRequeue, model.ReasonLaunchFailure,
	model.ReasonNodeDown, model.ReasonNotAvail,
	model.ReasonBadConstraint, model.ReasonNonZeroExit, model.ReasonOOM, model.ReasonTimeLimit,
	model.ReasonArrayLimit, model.ReasonMembers, model.ReasonDependency, model.ReasonNeverMet, model.ReasonBegin,
	model.ReasonDeadline,
	model.ReasonPreempting, model.ReasonPreempted, model.ReasonNoVictim, model.ReasonTELimit,
}

// Every code has words of its own: none falls through to the bare code.
func TestReasonSentenceCoversEveryCode(t *testing.T) {
	seen := map[string]model.ReasonCode{}
	for _, code := range reasonCodes {
		s := model.Reason{Code: code}.Sentence()
		if s == "" || s == string(code) {
			t.Errorf("%s has no sentence", code)
		}
		if other, ok := seen[s]; ok {
			t.Errorf("%s and %s share the sentence %q", code, other, s)
		}
		if strings.HasSuffix(s, ".") {
			t.Errorf("%s ends in a full stop: %q", code, s)
		}
		seen[s] = code
	}
}
