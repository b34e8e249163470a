package fsm

import (
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
)

// Settle goes on with what follows from jobs that have ended, see View.HasUnsettled. Every entry
// does that. A plan has this action when there is no other entry.
type Settle struct{}

// String implements Action.
func (*Settle) String() string { return "settle dependencies" }

// PartOf implements Action.
func (*Settle) PartOf() steering.Switch { return "" }

func (*Settle) ends() bool                   { return true }
func (*Settle) names() (string, model.JobID) { return "", 0 }
func (*Settle) store(to *storedAction)       { to.Settle = true }

// act changes nothing by itself.
func (*Settle) act(*Machine) error { return nil }
