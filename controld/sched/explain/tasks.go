package explain

import (
	"github.com/rota-hpc/rota/controld/model"
)

// unmade says why a member of a record waits that has not been made: for what its record waits for,
// unless it is told apart.
func (r *Reasons) unmade(id model.JobID) model.Reason {
	record, n := r.before.View.ParentOf(id)
	if record == nil || !record.Children.Waiting.Has(n) {
		return model.Reason{}
	}
	f := record.Children
	switch why := r.Reason(record.ID); {
	case record.Hold != model.NotHeld:
		return why
	case f.HeldAdmin.Has(n):
		return model.Reason{Code: model.ReasonHeldAdmin}
	case f.HeldUser.Has(n):
		return model.Reason{Code: model.ReasonHeldUser}
	case !record.MayStart().Has(n):
		return r.before.View.DependencyReason(record)
	case why.Code == model.ReasonNotScheduled && !r.starts(record.ID, n):
		return r.notYetItsTurn(record)
	default:
		return why
	}
}

// starts reports whether the cycle starts a member of a record.
func (r *Reasons) starts(record model.JobID, member int) bool {
	for _, a := range r.after.Actions {
		if a.Start != nil && a.Start.Job == record && a.Start.TaskNumber == member {
			return true
		}
	}
	return false
}

// notYetItsTurn says why a member does not start with those of its record that come before it.
func (r *Reasons) notYetItsTurn(record *model.Job) model.Reason {
	if r.after.Started[record.ID] >= record.Startable() {
		return filled(record)
	}
	return model.Reason{Code: model.ReasonPriority, For: record.ID, Need: record.Request.Active, Want: record.Workers}
}

// filled says why a record starts no more members although some wait.
func filled(j *model.Job) model.Reason {
	f := j.Children
	switch left := j.MayStart().Without(f.HeldUser).Without(f.HeldAdmin); {
	case len(left) > 0:
		return model.Reason{Code: model.ReasonArrayLimit, Want: j.Spec.Array.MaxParallel, Fit: f.Live}
	case len(f.HeldUser) > 0:
		return model.Reason{Code: model.ReasonHeldUser}
	}
	return model.Reason{Code: model.ReasonHeldAdmin}
}

// ofMembers says why a record waits all of whose members have been made: for what the first of them
// does, or for them to end.
func (r *Reasons) ofMembers(j *model.Job) model.Reason {
	if j.State != model.Pending {
		if j.State.Final() {
			return j.Reason
		}
		return model.Reason{Code: model.ReasonMembers}
	}
	for m := range r.before.View.ChildrenOf(j.ID) {
		if m.State == model.Pending {
			return r.Reason(m.ID)
		}
	}
	return model.Reason{Code: model.ReasonMembers}
}
