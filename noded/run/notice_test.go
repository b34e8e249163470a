package run

import (
	"testing"

	"github.com/rota-hpc/rota/controld/model"
)

func TestNoticeReasons(t *testing.T) {
	for cause, want := range map[model.Cause]string{
		model.CauseTE: "preempt", model.CauseReclaim: "preempt", model.CauseOrder: "preempt",
		model.CauseRequeue: "preempt",
		model.CauseShrink:  "shrink", model.CauseGrow: "grow", model.CauseMigrate: "migrate",
		model.CauseDrain:   "drain",
		model.CauseTimeout: "timeout", model.CauseCancelled: "cancel", model.CauseLease: "lease",
	} {
		if got := NoticeReason(cause); got != want {
			t.Errorf("%s: got %q, want %q", cause, got, want)
		}
	}
}
