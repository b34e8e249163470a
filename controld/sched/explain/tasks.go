package explain

import "github.com/rota-hpc/rota/controld/cluster"

// unmade says why a member of a record waits that has not been made: for what its record waits for,
// unless it is told apart.
func (r *Reasons) unmade(id cluster.JobID) cluster.Reason {
	record, n := r.before.View.Element(id)
	if record == nil || !record.Family.Waiting.Has(n) {
		return cluster.Reason{}
	}
	f := record.Family
	switch why := r.Reason(record.ID); {
	case record.Hold != cluster.NotHeld:
		return why
	case f.HeldAdmin.Has(n):
		return cluster.Reason{Code: cluster.ReasonHeldAdmin}
	case f.HeldUser.Has(n):
		return cluster.Reason{Code: cluster.ReasonHeldUser}
	case !record.MayStart().Has(n):
		return r.before.View.Waiting(record)
	case why.Code == cluster.ReasonNotScheduled && !r.starts(record.ID, n):
		return r.notYetItsTurn(record)
	default:
		return why
	}
}

// starts reports whether the cycle starts a member of a record.
func (r *Reasons) starts(record cluster.JobID, member int) bool {
	for _, a := range r.after.Actions {
		if a.Start != nil && a.Start.Job == record && a.Start.Member == member {
			return true
		}
	}
	return false
}

// notYetItsTurn says why a member does not start with those of its record that come before it.
func (r *Reasons) notYetItsTurn(record *cluster.Job) cluster.Reason {
	if r.after.Started[record.ID] >= record.Startable() {
		return filled(record)
	}
	return cluster.Reason{Code: cluster.ReasonPriority, For: record.ID, Need: record.Request.Active, Want: record.Workers}
}

// filled says why a record starts no more members although some wait.
func filled(j *cluster.Job) cluster.Reason {
	f := j.Family
	switch left := j.MayStart().Without(f.HeldUser).Without(f.HeldAdmin); {
	case len(left) > 0:
		return cluster.Reason{Code: cluster.ReasonArrayLimit, Want: j.Spec.Array.MaxParallel, Fit: f.Live}
	case len(f.HeldUser) > 0:
		return cluster.Reason{Code: cluster.ReasonHeldUser}
	}
	return cluster.Reason{Code: cluster.ReasonHeldAdmin}
}

// ofMembers says why a record waits all of whose members have been made: for what the first of them
// does, or for them to end.
func (r *Reasons) ofMembers(j *cluster.Job) cluster.Reason {
	if j.State != cluster.Pending {
		if j.State.Final() {
			return j.Reason
		}
		return cluster.Reason{Code: cluster.ReasonMembers}
	}
	for m := range r.before.View.Members(j.ID) {
		if m.State == cluster.Pending {
			return r.Reason(m.ID)
		}
	}
	return cluster.Reason{Code: cluster.ReasonMembers}
}
