package present

import (
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/fsm/steering"
)

// Steering lists the switches that are on, nil if there are none.
func Steering(v *state.View) []api.SchedSetting {
	var list []api.SchedSetting
	for _, s := range v.Steering().Settings {
		list = append(list, api.SchedSetting{What: string(s.What), By: s.By, Reason: s.Reason, Since: api.At(s.Since.Wall)})
	}
	return list
}

// Displacement is a displacement that a dry run has recorded, or that is foreseen.
func Displacement(d *steering.Displacement) api.Displacement {
	return api.Displacement{Job: d.Job, Attempt: d.Attempt, For: d.For, Cause: d.Cause, Workers: d.Workers,
		Grace: d.GraceMS / 1000, LostGPUSeconds: d.LostMS / 1000, Since: api.At(d.Since.Wall)}
}
