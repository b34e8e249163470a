package sched_test

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
	"github.com/rota-hpc/rota/controld/sched/scratch"
	"github.com/rota-hpc/rota/jobspec"
)

// judge knows the rules of TestInvariants and what has been, as far as a rule is about more than
// one instant.
type judge struct {
	*life
	stops    map[schedtest.Attempt]model.Stop  // as first seen
	promised map[model.JobID]model.Reservation // those for preemptors, as last seen
	expired  map[model.JobID]bool              // ended by the last plan, because their time was over
	held     map[model.JobID]int64             // ms of one GPU, by what was seen
	last     *observed                         // what was seen before; its holders hold until now
	could    map[model.JobID]model.Instant     // by when a trial-and-error job is to have started
	swaps    map[[2]model.JobID]model.Instant  // when one of two jobs last left for the other
	states   int

	falsify func(*observed)                  // plants a fault in what is seen
	spoil   func(*state.View, *[]fsm.Action) // and in what is planned
}

func newJudge(l *life) *judge {
	return &judge{
		life: l, stops: map[schedtest.Attempt]model.Stop{}, promised: map[model.JobID]model.Reservation{},
		held:  map[model.JobID]int64{},
		could: map[model.JobID]model.Instant{}, swaps: map[[2]model.JobID]model.Instant{},
	}
}

// chooses reports whether the policy decides by cost which jobs to displace.
func (j *judge) chooses() bool { return j.policy == "rota" || j.policy == "fairshare" }

// plan looks at what is about to be done.
func (j *judge) plan(v *state.View, plan fsm.CommitPlan, wake model.Instant) error {
	if wake != 0 && wake <= j.Now {
		return fmt.Errorf("the next wake-up %d is not after %d", wake, j.Now)
	}
	if again, at := sched.Cycle(v, j.Now, v.Config().Policy); !reflect.DeepEqual(plan, again) || at != wake {
		return fmt.Errorf("I4: the same view gives %+v and %+v", plan, again)
	}
	actions := plan.Actions
	if j.spoil != nil {
		actions = slices.Clone(actions)
		j.spoil(v, &actions)
	}
	j.expired = map[model.JobID]bool{}
	stopped := map[model.JobID]bool{}
	for _, a := range actions {
		switch a := a.(type) {
		case *fsm.ResizeJob:
			if err := j.resized(v, a, stopped); err != nil {
				return err
			}
		case *fsm.Unreserve:
			if r := v.Reservation(a.Job); r != nil && (r.Until <= j.Now || !comes(v, r)) {
				j.expired[r.Job] = true
			}
		case *fsm.StopJob:
			if a.Cause == model.CauseTimeout {
				continue
			}
			if stopped[a.Job] {
				return fmt.Errorf("A1: %s is disturbed twice", j.Names[a.Job])
			}
			stopped[a.Job] = true
			if err := j.displacement(v, a); err != nil {
				return err
			}
		}
	}
	return j.offered(v, actions)
}

// resized looks at an elastic job that is to have another size.
func (j *judge) resized(v *state.View, r *fsm.ResizeJob, stopped map[model.JobID]bool) error {
	job := v.Job(r.Job)
	switch e, elastic := job.Elastic(); {
	case stopped[r.Job] || job.Live() == nil || job.Live().Stop != nil:
		return fmt.Errorf("A1: %s is resized and leaves already", j.Names[r.Job])
	case !elastic || !e.Has(job.Size()-len(r.Leave)+len(r.Join)):
		return fmt.Errorf("A4: %s is to have %d workers", j.Names[r.Job], job.Size()-len(r.Leave)+len(r.Join))
	case r.For != 0 && (v.Job(r.For) == nil || !v.Job(r.For).Waits()):
		return fmt.Errorf("A12: %s is to shrink for job %d, which does not wait", j.Names[r.Job], r.For)
	}
	stopped[r.Job] = true
	j.seen["resize"]++
	return nil
}

// displacement checks a job that is asked to leave.
func (j *judge) displacement(v *state.View, s *fsm.StopJob) error {
	o, p := v.Job(s.Job), v.Config().Policy
	a, taker := o.Live(), v.Job(s.For)
	switch {
	case a.Stop != nil:
		return fmt.Errorf("A1: %s is asked to leave and is leaving", j.Names[o.ID])
	case o.Class == jobspec.TE:
		return fmt.Errorf("%s is a trial-and-error job and is asked to leave", j.Names[o.ID])
	case taker == nil || !taker.Waits() || taker.Hold != model.NotHeld:
		return fmt.Errorf("A12: %s is asked to leave for job %d, which does not wait", j.Names[o.ID], s.For)
	case j.policy == "rota" && s.Cause != model.CauseReclaim && s.Cause != model.CauseMigrate &&
		o.DisplacedSince(j.Now-scratch.Day) >= p.MaxPreempts:
		return fmt.Errorf("P: %s is displaced too often", j.Names[o.ID])
	case (s.Cause == model.CauseOrder || s.Cause == model.CauseMigrate) && o.Spec.Checkpoint == nil:
		return fmt.Errorf("%s loses its turn or moves although it cannot save its state", j.Names[o.ID])
	case s.Cause != model.CauseTE && j.Now-a.Started.At < model.Instant(p.MinRuntimeMS):
		return fmt.Errorf("%s has run for %d ms and leaves for %s", j.Names[o.ID], j.Now-a.Started.At, j.Names[s.For])
	}
	if lost, held := wasteBy(o, j.Now); j.chooses() && o.Spec.Checkpoint != nil && lost*5 > held {
		return fmt.Errorf("A6: %s leaves for %s and has then lost %d ms of %d", j.Names[o.ID], j.Names[s.For], lost, held)
	}
	return j.swap(o, s, model.Instant(p.MinRuntimeMS))
}

// wasteBy returns the cost in ms of a job's displacements within a day if it is displaced now:
// unsaved work and restarts. It also returns how long the job has held its room.
func wasteBy(o *model.Job, now model.Instant) (lost, held int64) {
	from, again := now-scratch.Day, false
	for i := range o.Attempts {
		a := &o.Attempts[i]
		end, displaced := a.Ended.At, slices.Contains([]model.Cause{model.CauseTE, model.CauseOrder,
			model.CauseReclaim, model.CauseMigrate}, a.Cause)
		if end == 0 {
			end, displaced = now, true
		}
		if end <= from {
			again = displaced
			continue
		}
		held += int64(end - max(a.Assigned.At, from))
		began := a.Started.At
		if began == 0 {
			began = end
		}
		if again {
			lost += max(0, int64(began-max(a.Assigned.At, from)))
		}
		if again = displaced; displaced && a.Started.At != 0 && o.Spec.Checkpoint != nil && o.Spec.Checkpoint.Interval > 0 {
			until := end
			if a.Stop != nil {
				until = a.Stop.At
			}
			lost += int64(until-began) % (int64(o.Spec.Checkpoint.Interval) * 1000)
		}
	}
	return lost, held
}

// swap is I3, which also turns among jobs obey.
func (j *judge) swap(o *model.Job, s *fsm.StopJob, least model.Instant) error {
	if s.Cause == model.CauseTE {
		return nil
	}
	pair := [2]model.JobID{min(o.ID, s.For), max(o.ID, s.For)}
	if at, ok := j.swaps[pair]; ok && j.Now-at < least {
		return fmt.Errorf("I3: %s and %s swap after %d ms", j.Names[pair[0]], j.Names[pair[1]], j.Now-at)
	}
	j.swaps[pair] = j.Now
	return nil
}

// offered is A12: no job of its class starts before one that has left for none, if that one fits.
func (j *judge) offered(v *state.View, actions []fsm.Action) error {
	var first []*model.Job
	for o := range v.Jobs() {
		if o.OwnRoomFirst && o.Waits() && o.Hold == model.NotHeld && o.Eligible <= j.Now {
			first = append(first, o)
		}
	}
	if len(first) == 0 || !j.chooses() {
		return nil
	}
	copied := fsm.Fork(v)
	for i, a := range actions {
		if start, ok := a.(*fsm.StartJob); ok {
			y := v.Job(start.Job)
			if y.OwnRoomFirst {
				j.seen["offered first"]++
			}
			for _, f := range first {
				if now := copied.View().Job(f.ID); y.Class == f.Class && !y.OwnRoomFirst && now.Waits() &&
					schedtest.CouldStart(copied.View(), now) {
					return fmt.Errorf("A12: %s starts before %s, which left for no job and fits", j.Names[y.ID], j.Names[f.ID])
				}
			}
		}
		entry := fsm.Entry{Stamp: model.Stamp{At: j.Now, Wall: 1},
			Command: fsm.CommitPlan{Actions: []fsm.Action{a}}}
		if _, err := copied.Apply(j.Index+uint64(i)+1, entry); err != nil {
			return err
		}
	}
	return nil
}

// state looks at what a command has left.
func (j *judge) state(o *observed) error {
	if j.falsify != nil {
		j.falsify(o)
	}
	j.integrate(o)
	for _, job := range o.jobs {
		for _, rule := range []func(*observed, *model.Job) error{j.clock, j.whole, counted, j.charged} {
			if err := rule(o, job); err != nil {
				return err
			}
		}
	}
	if err := once(o); err != nil {
		return err
	}
	return j.kept(o)
}

// clock is A1: the clock of a stop is never started again.
func (j *judge) clock(_ *observed, job *model.Job) error {
	a := job.Live()
	if a == nil || a.Stop == nil {
		return nil
	}
	key := schedtest.Attempt{Job: job.ID, N: a.N}
	first, known := j.stops[key]
	if known && (a.Stop.At != first.At || a.Stop.KillAt > first.KillAt) {
		return fmt.Errorf("A1: the clock of %s was started again: %+v, before %+v", j.Names[job.ID], *a.Stop, first)
	}
	if !known {
		j.stops[key] = *a.Stop
	}
	return nil
}

// whole is A3 and A4: an attempt has all of the requested workers. When one has failed, the others
// are stopped.
func (j *judge) whole(_ *observed, job *model.Job) error {
	a := job.Live()
	if a == nil {
		if job.Waits() && !lawfulSize(job) {
			return fmt.Errorf("A4: %s waits for %d workers, which it may not have", j.Names[job.ID], job.Workers)
		}
		return nil
	}
	failed, going := 0, 0
	for i := range a.Workers {
		switch w := &a.Workers[i]; {
		case !w.State.Final():
			going++
		case w.ExitCode != 0 || w.Signal != 0:
			failed++
		}
	}
	switch {
	case len(a.Workers) != job.Workers:
		return fmt.Errorf("A4: %s has %d workers of %d", j.Names[job.ID], len(a.Workers), job.Workers)
	case !lawfulSize(job):
		return fmt.Errorf("A4: %s has %d workers, which it may not have", j.Names[job.ID], job.Workers)
	case failed > 0 && going > 0 && a.Stop == nil:
		return fmt.Errorf("A3: %s goes on with %d workers although %d failed", j.Names[job.ID], going, failed)
	}
	return nil
}

// lawfulSize reports whether a job has as many workers as it may.
func lawfulSize(job *model.Job) bool {
	e, elastic := job.Elastic()
	if !elastic {
		return true
	}
	n := job.Workers - e.Fixed
	return n == job.Size() && n >= e.Min && n <= e.Max && n%e.Unit == 0
}

// counted is A7: displacements are counted by their cause, and retries are used up by the job's own
// failures alone.
func counted(_ *observed, job *model.Job) error {
	n := map[model.Cause]int32{}
	for i := range job.Attempts {
		n[job.Attempts[i].Cause]++
	}
	k, failed := job.Counters, n[model.CauseFailed]+n[model.CauseOOM]
	if job.Attempt <= model.MaxAttemptsKept && (k.TE != n[model.CauseTE] || k.Order != n[model.CauseOrder] ||
		k.Reclaim != n[model.CauseReclaim] || k.UserFailures != failed || len(job.Failures) > int(failed)) {
		return fmt.Errorf("A7: job %d: %+v and %d retries used, of attempts that ended by %v", job.ID, k, len(job.Failures),
			n)
	}
	return nil
}

// integrate adds up what was held since the last look.
func (j *judge) integrate(o *observed) {
	if j.last != nil {
		for _, job := range j.last.jobs {
			if a := job.Live(); a != nil {
				for i := range a.Workers {
					if !a.Workers[i].State.Final() {
						j.held[job.ID] += model.GPUTime(int64(o.now-a.Assigned.At), job.RequestOf(i).Active.GPUs) -
							model.GPUTime(int64(j.last.now-a.Assigned.At), job.RequestOf(i).Active.GPUs)
					}
				}
			}
		}
	}
	j.last = o
}

// charged is A10: what a job was charged, and what it will be for what it holds, is what it has
// held.
func (j *judge) charged(o *observed, job *model.Job) error {
	total := job.Ledger.GPUMS
	if a := job.Live(); a != nil {
		for i := range a.Workers {
			if !a.Workers[i].State.Final() {
				total += model.GPUTime(int64(o.now-a.Assigned.At), job.RequestOf(i).Active.GPUs)
			}
		}
	}
	if total != j.held[job.ID] {
		return fmt.Errorf("A10: %s is charged %d ms of a GPU and has held %d", j.Names[job.ID], total, j.held[job.ID])
	}
	return nil
}

// once is A2: no node has given out more than it has, and no GPU twice.
func once(o *observed) error {
	used := map[string]model.Vector{}
	gpus := map[string]int64{} // thousandths held
	for _, job := range o.jobs {
		a := job.Live()
		if a == nil {
			continue
		}
		for i := range a.Workers {
			w := &a.Workers[i]
			if w.State.Final() {
				continue
			}
			v, q := used[w.Node], job.RequestOf(i).Active
			used[w.Node] = model.Vector{Cores: v.Cores + q.Cores, Memory: v.Memory + q.Memory, GPUs: v.GPUs + q.GPUs}
			for _, g := range w.GPUs {
				name := fmt.Sprintf("%s/%d", w.Node, g)
				if gpus[name] += min(1000, q.GPUs); gpus[name] > 1000 {
					return fmt.Errorf("A2: of GPU %s %d thousandths are held", name, gpus[name])
				}
			}
		}
	}
	for _, n := range o.nodes {
		if v := used[n.Name]; v.Cores > n.Cores || v.Memory > n.Memory || v.GPUs > int64(len(n.GPUs))*1000 {
			return fmt.Errorf("A2: %+v is held on %s, which has %d cores, %d bytes, %d GPUs", v, n.Name, n.Cores, n.Memory,
				len(n.GPUs))
		}
	}
	return nil
}

// kept is A5: room that is taken from others for a job stays the job's own. It ends when the job
// starts or no longer wants it, or when its time is over. Room that others leave anyway may go back
// to them.
func (j *judge) kept(o *observed) error {
	now := map[model.JobID]model.Reservation{}
	claimed := map[string]model.Vector{}
	for _, r := range o.reservations {
		if !r.ForPreemptor {
			continue
		}
		now[r.Job] = *r
		for _, c := range r.Claims {
			v := claimed[c.Node]
			claimed[c.Node] = model.Vector{Cores: v.Cores + c.Resources.Cores, Memory: v.Memory + c.Resources.Memory,
				GPUs: v.GPUs + c.Resources.GPUs}
		}
	}
	before := j.promised
	j.promised = now
	for _, job := range o.jobs {
		r, was := before[job.ID]
		if _, still := now[job.ID]; was && !still && !r.Leftover && job.Waits() && job.Hold == model.NotHeld &&
			!j.expired[job.ID] && r.Until > o.now {
			return fmt.Errorf("A5: room was taken for %s, which still waits, and is kept no more", j.Names[job.ID])
		}
	}
	for i, n := range o.nodes {
		have := schedtest.WillBeFree(o.view, slices.Values(o.jobs), i)
		switch {
		case n.State == model.NodeUp && !fit.Covers(have, fit.Both(claimed[n.Name])):
			return fmt.Errorf("A5: on %s %+v is or will be free of %+v that was taken for a job", n.Name, have,
				claimed[n.Name])
		case o.atRest && n.State != model.NodeUp && claimed[n.Name] != model.Vector{}:
			return fmt.Errorf("A5: on %s, which is %s, a job waits in vain for %+v", n.Name, n.State, claimed[n.Name])
		}
	}
	return nil
}

// comes reports whether what a reservation claims is or will be free beside what others claim for
// which room was taken.
func comes(v *state.View, r *model.Reservation) bool {
	for _, c := range r.Claims {
		n, node := v.Node(c.Node)
		have := schedtest.WillBeFree(v, v.Live(), node)
		inParts := comesInParts(v, r.Job, c, node)
		for _, o := range v.Reservations() {
			for _, other := range o.Claims {
				if o.ForPreemptor && o.Job != r.Job && other.Node == c.Node {
					have = have.Minus(fit.Both(other.Resources))
				}
			}
		}
		if n.State != model.NodeUp || inParts || !fit.Covers(have, fit.Both(c.Resources)) {
			return false
		}
	}
	return true
}

// comesInParts reports whether the workers of a job with a reservation on a node will lack GPUs
// there after all leaving jobs have left. The remaining jobs then hold a part of too many GPUs.
func comesInParts(v *state.View, id model.JobID, c model.Claim, node int) bool {
	r := v.Job(id).RequestOf(0)
	if r.Active.GPUs == 0 {
		return false
	}
	free := make([]int64, len(v.Nodes()[node].GPUs))
	for gpu := range free {
		if v.Nodes()[node].GPUs[gpu].Healthy {
			free[gpu] = 1000
		}
	}
	for job := range v.Live() {
		a := job.Live()
		for i := range a.Workers {
			w := &a.Workers[i]
			if resized := a.Stop != nil && a.Stop.Resize != nil; w.Node != c.Node || a.Stop != nil &&
				(!resized || slices.Contains(a.Stop.Resize.Leave, i)) || !resized && w.State.Final() {
				continue
			}
			for _, gpu := range w.GPUs {
				free[gpu] -= min(1000, job.RequestOf(i).Active.GPUs)
			}
		}
	}
	each, found := min(1000, r.Active.GPUs), int64(0)
	for _, left := range free {
		found += max(0, left) / each * each
	}
	return found < min(c.Resources.GPUs, int64(len(free))*1000)
}

// rest looks at a state in which nothing more is to be done.
func (j *judge) rest(o *observed) error {
	j.states++
	o.atRest = true
	if err := j.state(o); err != nil {
		return err
	}
	for _, job := range o.jobs {
		if !job.Waits() || job.Eligible > o.now || job.Hold != model.NotHeld {
			continue
		}
		if err := j.idle(o, job); err != nil {
			return err
		}
		if job.Class == jobspec.TE && j.policy == "rota" {
			if err := j.served(o, job); err != nil {
				return err
			}
		}
	}
	return j.onTime(o)
}

// idle is I5: a job that fits has started, unless a limit keeps it. The paper serves strictly in
// order, so there only the first is asked. Nor are elastic jobs to which more room is
// promised than they would start with now.
func (j *judge) idle(o *observed, job *model.Job) error {
	if j.policy == "fitgpp" && !firstInOrder(o, job) || !schedtest.CouldStart(o.view, job) &&
		!schedtest.HasCome(o.view, job) {
		return nil
	}
	if _, elastic := job.Elastic(); elastic && o.view.Reservation(job.ID) != nil {
		return nil
	}
	if why := o.reason(job.ID); why.Code != model.ReasonTELimit && !why.Code.IsLimit() {
		return fmt.Errorf("I5: %s waits although it fits, or its room has come: %+v", j.Names[job.ID], why)
	}
	return nil
}

// firstInOrder reports whether a job is one that policy fitgpp serves now: a trial-and-error job,
// or the first best-effort one while none of those waits.
func firstInOrder(o *observed, job *model.Job) bool {
	if job.Class == jobspec.TE {
		return true
	}
	return !slices.ContainsFunc(o.jobs, func(other *model.Job) bool {
		return other.Waits() && other.Hold == model.NotHeld && other.Eligible <= o.now &&
			(other.Class == jobspec.TE || other.ID < job.ID)
	})
}

// served is A8: a trial-and-error job waits for jobs that leave for it, or may not or cannot be
// served. It never waits for room to turn up.
func (j *judge) served(o *observed, job *model.Job) error {
	why := o.reason(job.ID)
	j.seen[string(why.Code)]++
	switch why.Code {
	case model.ReasonPreempting:
	case model.ReasonNoVictim, model.ReasonTELimit, model.ReasonBadConstraint:
		delete(j.could, job.ID)
		return nil
	case model.ReasonNodeDown, model.ReasonNotAvail:
		if j.faulty || len(job.Exclude) > 0 {
			return nil
		}
		fallthrough
	default:
		return fmt.Errorf("A8: %s is a trial-and-error job and waits for %+v", j.Names[job.ID], why)
	}
	if j.faulty {
		return nil
	}
	over := model.Instant(0)
	for _, v := range o.jobs {
		if a := v.Live(); a != nil && a.Stop != nil && (a.Stop.For == job.ID || onClaim(o, job.ID, a)) {
			over = max(over, a.Stop.KillAt)
		}
	}
	if over == 0 {
		return fmt.Errorf("A8: %s waits for others to leave, and none leaves: %+v", j.Names[job.ID], why)
	}
	if _, known := j.could[job.ID]; !known {
		j.could[job.ID] = over
	}
	return nil
}

// onClaim reports whether an attempt holds room on a node that is kept for a job.
func onClaim(o *observed, id model.JobID, a *model.Attempt) bool {
	for _, r := range o.reservations {
		if r.Job != id {
			continue
		}
		for _, c := range r.Claims {
			for i := range a.Workers {
				if !a.Workers[i].State.Final() && a.Workers[i].Node == c.Node {
					return true
				}
			}
		}
	}
	return false
}

// onTime is A8 as well: a preemptor with a reservation has started at most a second after the grace
// of those that leave was over.
func (j *judge) onTime(o *observed) error {
	for _, job := range o.jobs {
		by, promised := j.could[job.ID]
		if !promised {
			continue
		}
		if !job.Waits() || job.Hold != model.NotHeld || job.Eligible > o.now {
			if a := job.Live(); a != nil && a.Assigned.At > by+1000 {
				return fmt.Errorf("A8: %s started at %d and could have at %d", j.Names[job.ID], a.Assigned.At, by)
			}
			delete(j.could, job.ID)
			continue
		}
		if o.now > by+1000 {
			return fmt.Errorf("A8: %s waits at %d and could have started at %d", j.Names[job.ID], o.now, by)
		}
	}
	return nil
}
