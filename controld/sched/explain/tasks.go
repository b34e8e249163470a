package explain

import (
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
)

// An array job is the parent of its tasks, and a pipeline job of its group jobs: its children.

// uncreated explains the wait of a child that has not been made. It is the parent's reason, unless
// the child has its own.
func (r *Reasons) uncreated(id model.JobID) model.Reason {
	parent, n := r.before.View.ParentOf(id)
	if parent == nil || !parent.Children.Waiting.Has(n) {
		return model.Reason{}
	}
	f := parent.Children
	switch why := r.Reason(parent.ID); {
	case parent.Hold != model.NotHeld:
		return why
	case f.HeldAdmin.Has(n):
		return model.Reason{Code: model.ReasonHeldAdmin}
	case f.HeldUser.Has(n):
		return model.Reason{Code: model.ReasonHeldUser}
	case !parent.MayStart().Has(n):
		return r.before.View.DependencyReason(parent)
	case why.Code == model.ReasonNotScheduled && !r.starts(parent.ID, n):
		return r.notYetItsTurn(parent)
	default:
		return why
	}
}

// starts reports whether the cycle starts a child of a parent.
func (r *Reasons) starts(parent model.JobID, child int) bool {
	for _, a := range r.after.Actions {
		if a, ok := a.(*fsm.StartJob); ok && a.Job == parent && a.TaskNumber == child {
			return true
		}
	}
	return false
}

// notYetItsTurn explains the wait of a child whose parent starts other children first.
func (r *Reasons) notYetItsTurn(parent *model.Job) model.Reason {
	if r.after.Started[parent.ID] >= parent.Startable() {
		return filled(parent)
	}
	if why := r.after.Barred(parent); why.Code != model.ReasonNone {
		return why
	}
	return model.Reason{Code: model.ReasonPriority, For: parent.ID, Need: parent.Request.Active, Want: parent.Workers}
}

// filled says why a parent starts no more children although some wait.
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

// ofChildren explains the wait of a parent whose children all exist: the reason of the first, or
// their end.
func (r *Reasons) ofChildren(j *model.Job) model.Reason {
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
