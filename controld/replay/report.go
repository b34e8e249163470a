package replay

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
)

// Schema is the version of the form of a report.
const Schema = 1

// Report is what a replay has found.
type Report struct {
	Schema       int         `json:"schema"`
	Cluster      string      `json:"cluster"`
	Cache        bool        `json:"cache"`          // one cycle cache for all plans
	From         uint64      `json:"from"`           // index of the state that it began with
	To           uint64      `json:"to"`             // index of the last state
	Commands     int         `json:"commands"`       // carried out
	Plans        int         `json:"plans"`          // committed
	Identical    int         `json:"identical"`      // decided in the same way
	Differing    int         `json:"differing"`      // decided otherwise
	OtherVersion int         `json:"other_versions"` // of other rules than this program has
	OutOfReach   int         `json:"out_of_reach"`   // based on a state before From
	Snapshots    int         `json:"snapshots"`      // compared with the state that the log makes
	First        *Difference `json:"first_difference,omitempty"`
	State        string      `json:"state_difference,omitempty"` // which snapshot is another state
}

// Same reports whether nothing was found that differs.
func (r *Report) Same() bool { return r.Differing == 0 && r.State == "" }

// Difference is where a plan of the log and the one decided again part.
type Difference struct {
	Entry   uint64        `json:"entry"`    // of the log
	Index   uint64        `json:"index"`    // of the plan's command
	BasedOn uint64        `json:"based_on"` // index of the state that it was decided on
	At      model.Instant `json:"at"`       // ms
	Policy  string        `json:"policy"`
	Action  int           `json:"action"` // from 1; 0: the actions are the same
	Logged  string        `json:"logged"`
	Decided string        `json:"decided"`
}

// String says it in words.
func (d *Difference) String() string {
	what := "beside its actions"
	if d.Action > 0 {
		what = fmt.Sprintf("action %d", d.Action)
	}
	return fmt.Sprintf("the plan at index %d (entry %d of the log), based on index %d and decided at %d ms by policy %s, "+
		"%s:\n  in the log:   %s\n  decided now:  %s", d.Index, d.Entry, d.BasedOn, d.At, d.Policy, what, d.Logged, d.Decided)
}

// whole tells what a plan has beside its actions.
func whole(p *fsm.CommitPlan) string {
	if p.Rotated {
		return "the service order was used"
	}
	return "the service order was not used"
}

// spoken is an action in words and as the log has it.
type spoken struct{ words, text string }

// actionAt returns action i of a plan, or that there is none.
func actionAt(p *fsm.CommitPlan, i int) spoken {
	if i >= len(p.Actions) {
		return spoken{words: "no action"}
	}
	text, err := fsm.EncodeAction(p.Actions[i])
	if err != nil {
		return spoken{words: p.Actions[i].String(), text: err.Error()}
	}
	return spoken{p.Actions[i].String(), string(text)}
}
