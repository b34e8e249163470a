package rota_test

import (
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/rota"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// rotaOn returns policy rota in a cycle.
func rotaOn(t *scratch.State) *rota.RotaPolicy { return rota.NewRota(t, &rota.Cache{}) }

// makerOn returns the preemptor of policy rota in a cycle.
func makerOn(t *scratch.State) *rota.Preemptor { return rota.NewPreemptor(rotaOn(t), &preempt.Cache{}) }
