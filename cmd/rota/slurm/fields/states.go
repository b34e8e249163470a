package fields

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/controld/model"
)

// slurmStates maps the letters of Slurm's job states to their names. Rota's jobs use only some of
// them.
var slurmStates = map[model.JobState]string{
	model.Pending: "PENDING", model.Configuring: "CONFIGURING", model.Running: "RUNNING", model.Suspended: "SUSPENDED",
	model.Completing: "COMPLETING", model.Completed: "COMPLETED", model.Failed: "FAILED", model.TimedOut: "TIMEOUT",
	model.OutOfMemory: "OUT_OF_MEMORY", model.Cancelled: "CANCELLED", model.NodeFailed: "NODE_FAIL",
	model.BootFailed: "BOOT_FAIL", model.PastDue: "DEADLINE", model.Preempted: "PREEMPTED",
	"LF": "LAUNCH_FAILED", "PO": "POWER_UP_NODE", "RD": "RESV_DEL_HOLD", "RF": "REQUEUE_FED", "RH": "REQUEUE_HOLD",
	"RQ": "REQUEUED", "RS": "RESIZING", "RV": "REVOKED", "SE": "SPECIAL_EXIT",
	"SI": "SIGNALING", //nolint:misspell // Slurm's word
	"SO": "STAGE_OUT",
	"ST": "STOPPED", "UF": "UPDATE_DB", "EX": "EXPEDITING",
}

// ReadStates parses a list of states, given as letters or long names. "all" selects every state
func ReadStates(text string) (states []model.JobState, all bool, err error) {
next:
	for _, word := range command.SplitList(text) {
		if strings.EqualFold(word, "all") {
			all = true
			continue
		}
		for code, name := range slurmStates {
			if strings.EqualFold(word, string(code)) || strings.EqualFold(word, name) {
				states = append(states, code)
				continue next
			}
		}
		return nil, false, fmt.Errorf("Invalid job state specified: %s: valid job states are %s", word, knownStates())
	}
	return states, all, nil
}

func knownStates() string {
	var names []string
	for _, name := range slurmStates {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}
