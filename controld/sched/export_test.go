package sched

import (
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// What tests of this package look at beside its exported names.
func DeskCandidates(x *Desk) *preempt.Cache           { return &x.candidates }
func DeskDue(x *Desk) *scratch.Pages[cluster.Instant] { return &x.due }
