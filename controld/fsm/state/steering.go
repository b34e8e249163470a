package state

import (
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
)

// Steering returns what operators have told the scheduler, never nil.
func (v *View) Steering() *steering.Steering { return v.steering }

// SetSteering replaces what operators have told the scheduler.
func (s *State) SetSteering(next *steering.Steering) { s.v.steering = next }

// MayDisplace reports whether a displacement that a dry run recorded could still happen: the
// attempt goes on, and the job for its room waits.
func (v *View) MayDisplace(d *steering.Displacement) bool {
	j := v.Job(d.Job)
	if j == nil {
		return false
	}
	a := j.Live()
	if a == nil || a.N != d.Attempt || a.Stop != nil {
		return false
	}
	if d.For == 0 {
		return true
	}
	beneficiary := v.Job(d.For)
	return beneficiary != nil && beneficiary.StillToStart() && !model.IsSetAside(beneficiary)
}

// Displacements returns what a dry run has recorded and could still happen, oldest first.
func (v *View) Displacements() []steering.Displacement {
	var list []steering.Displacement
	for i := range v.steering.Displacements {
		if d := &v.steering.Displacements[i]; v.MayDisplace(d) {
			list = append(list, *d)
		}
	}
	return list
}
