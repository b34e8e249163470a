package fsm

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
)

// KindCommitPlan is the kind of [CommitPlan].
var KindCommitPlan = newKind("commit-plan/1")

// CommitPlan carries out what a scheduling cycle decided. Each action is checked against the
// present state with the same Fits that decided; one that no longer holds is refused alone, a gang
// whole. Its result is []error, one for each action.
//
// BasedOn, At and Rules are everything that a cycle knows beside the state. So the cycle can be run
// again on the state at BasedOn, and must decide the same. Apply does not look at them.
type CommitPlan struct {
	BasedOn uint64        `json:"based_on"`          // index of the view
	At      model.Instant `json:"at"`                // when the cycle decided
	Rules   int           `json:"rules"`             // the version of the policy's rules
	Part    int           `json:"part,omitempty"`    // of a plan in several entries: which this is, from 0
	Actions []Action      `json:"actions"`           // carried out in order; one that no longer fits is left out
	Rotated bool          `json:"rotated,omitempty"` // the cycle has looked whose turn it is among best-effort jobs
	// Would is what the cycle would have done to running jobs but for a dry run.
	Would []steering.Displacement `json:"would,omitempty"`
}

// Action is one decision: exactly one field is set.
type Action struct {
	Start     *StartJob          `json:"start,omitempty"`
	Stop      *StopJob           `json:"stop,omitempty"`
	End       *EndAttempt        `json:"end,omitempty"`
	Reserve   *model.Reservation `json:"reserve,omitempty"`
	Unreserve *model.JobID       `json:"unreserve,omitempty"`
	// GiveUp ends a waiting job that can no longer end by its deadline.
	GiveUp *model.JobID `json:"give_up,omitempty"`
	// Settle goes on with what follows from jobs that have ended, see View.Unsettled. Every entry
	// does; this is for when there is no other.
	Settle bool `json:"settle,omitempty"`
	// Resize gives an elastic job another number of workers.
	Resize *ResizeJob `json:"resize,omitempty"`
	// Suspend has an attempt pause where it is, and Resume has it go on.
	Suspend *SuspendJob `json:"suspend,omitempty"`
	Resume  *ResumeJob  `json:"resume,omitempty"`
	// Pack has a suspended attempt go on beside others on one GPU.
	Pack *PackJob `json:"pack,omitempty"`
	// Move has a job with a fixed number of workers go on elsewhere.
	Move *MoveJob `json:"move,omitempty"`
	// Early tells an attempt that its time limit comes.
	Early *EarlySignal `json:"early,omitempty"`
}

// StartJob begins a new attempt of a pending job with a worker at each place, in order. An elastic
// job takes as many as it gets places for.
type StartJob struct {
	Job        model.JobID   `json:"job"`
	TaskNumber int           `json:"task,omitempty"` // the child to make, Job being its parent job
	Places     []model.Place `json:"places"`
	Port       int           `json:"port"` // MASTER_PORT on the first place's node, free there
	// Bypasses is the blocked head that this start goes past, 0 if none. Apply adds one to its
	// Bypassed if it is still pending. It does so once for all starts of a plan, so that a long
	// queue is copied once for each plan, not for each start.
	Bypasses model.JobID `json:"bypasses,omitempty"`

	cause model.Cause  // why the attempt before was stopped to begin this one
	trial *model.Trial // what this one tries; nil: nothing
}

// StopJob asks a live attempt to stop for a cause; the grace follows from the cause and the job
// (contracts: one table).
type StopJob struct {
	Job     model.JobID `json:"job"`
	Attempt int         `json:"attempt"`
	Cause   model.Cause `json:"cause"`

	// For is the waiting job that gets the room; 0: none. When it does not wait any more the stop is
	// refused.
	For model.JobID `json:"for,omitempty"`

	// Inexact says that it is not proven that no other job could have left at less cost. It changes
	// nothing.
	Inexact bool `json:"inexact,omitempty"`
}

// EndAttempt ends an attempt without word from its nodes: they are lost and the lease has run out.
type EndAttempt struct {
	Job     model.JobID `json:"job"`
	Attempt int         `json:"attempt"`
	Cause   model.Cause `json:"cause"`
}

// Kind implements Command.
func (CommitPlan) Kind() Kind { return KindCommitPlan }

// Empty reports whether there is nothing in a plan to be carried out or noted.
func (c *CommitPlan) Empty() bool { return len(c.Actions) == 0 && !c.Rotated && len(c.Would) == 0 }

// apply carries out the actions of the plan in order. Each is checked against the state that the
// ones before it have left.
func (c CommitPlan) apply(m *Machine) (any, error) {
	errs := make([]error, len(c.Actions))
	passed := map[model.JobID]int{}
	var heads []model.JobID
	for i, a := range c.Actions {
		errs[i] = m.act(a)
		if past := startedPast(a); past != 0 && errs[i] == nil {
			if passed[past] == 0 {
				heads = append(heads, past)
			}
			passed[past]++
		}
	}
	for _, id := range heads {
		m.countBypass(id, passed[id])
	}
	if c.Rotated {
		m.s.Learn().Rotation()
	}
	m.recordDisplacements(c.Would)
	return errs, nil
}

func startedPast(a Action) model.JobID {
	if a.Start == nil {
		return 0
	}
	return a.Start.Bypasses
}

// countBypass notes that starts went past a blocked head.
func (m *Machine) countBypass(id model.JobID, n int) {
	m.applyChildChanges(id)
	if j := m.v.Job(id); j != nil && j.StillToStart() {
		next := *j
		next.Bypassed += int32(n)
		m.put(&next)
	}
}

func (m *Machine) act(a Action) error {
	set := 0
	for _, is := range []bool{a.Start != nil, a.Stop != nil, a.End != nil, a.Reserve != nil, a.Unreserve != nil,
		a.GiveUp != nil, a.Settle, a.Resize != nil, a.Suspend != nil, a.Resume != nil,
		a.Pack != nil, a.Move != nil, a.Early != nil} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return model.ErrBadAction
	case !MayDo(m.v.Steering(), &a):
		return model.ErrPaused // decided before an operator said so
	case a.Start != nil:
		return wrapJob("start", a.Start.Job, m.start(a.Start))
	case a.Stop != nil:
		return wrapJob("stop", a.Stop.Job, m.planStop(a.Stop))
	case a.End != nil:
		return wrapJob("end", a.End.Job, m.planEnd(a.End))
	case a.Reserve != nil:
		return wrapJob("reserve for", a.Reserve.Job, m.reserve(a.Reserve))
	case a.GiveUp != nil:
		return wrapJob("give up", *a.GiveUp, m.planGiveUp(*a.GiveUp))
	case a.Resize != nil:
		return wrapJob("resize", a.Resize.Job, m.planResize(a.Resize))
	case a.Suspend != nil:
		return wrapJob("suspend", a.Suspend.Job, m.planSuspend(a.Suspend))
	case a.Resume != nil:
		return wrapJob("resume", a.Resume.Job, m.planResume(a.Resume))
	case a.Pack != nil:
		return wrapJob("pack", a.Pack.Job, m.planPack(a.Pack))
	case a.Move != nil:
		return wrapJob("move", a.Move.Job, m.planMove(a.Move))
	case a.Early != nil:
		return wrapJob("tell of its time limit", a.Early.Job, m.planEarly(a.Early))
	case a.Settle:
		return nil
	}
	return wrapJob("unreserve", *a.Unreserve, m.planUnreserve(*a.Unreserve))
}

func wrapJob(what string, id model.JobID, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s job %d: %w", what, id, err)
}

// start begins a new attempt, the gang whole or not at all.
func (m *Machine) start(c *StartJob) error {
	j := m.v.Job(c.Job)
	switch {
	case j == nil:
		return model.ErrNoJob
	case c.TaskNumber != 0 || j.Children != nil:
		return m.startTask(j, c)
	case j.State != model.Pending:
		return model.ErrWrongState
	case model.IsSetAside(j) || j.Eligible > m.v.At():
		return model.ErrNotEligible
	}
	return m.launch(j, c)
}

// launch begins an attempt of a job that may start, if it fits where it is put.
func (m *Machine) launch(j *model.Job, c *StartJob) error {
	if j.MayHave(len(c.Places)) {
		j = j.Resized(len(c.Places))
	}
	if why := m.v.LacksLicenses(j); why.Code != model.ReasonNone {
		return &model.FitError{Job: j.ID, Reason: why}
	}
	at, err := m.locate(j, c.Places)
	if err != nil {
		return err
	}
	if err := m.checkPorts(j, c.Port, c.Places, at); err != nil {
		return err
	}
	if err := m.s.Occupy(j, c.Job, c.Places, at); err != nil {
		return err
	}
	m.begin(j, c, at)
	return nil
}

// begin stores the new attempt, whose room has been taken.
func (m *Machine) begin(j *model.Job, c *StartJob, at []int) {
	m.s.Learn().QueueWait(j)
	next, a := copyWithAttempt(j, len(c.Places))
	next.Attempt = max(next.Attempt, m.v.Recovery().RanOf(next.ID).Attempt) + 1
	a.N, a.Assigned, a.MasterPort, a.Released = next.Attempt, m.s.Now(), c.Port, j.Workers == 1
	a.Waits = m.v.Config().WaitsIfLost(j, len(m.v.Nodes()))
	fresh := m.withoutWorkers(at)
	for i, p := range c.Places {
		a.Workers[i] = model.Worker{Index: i, Place: p, State: model.WorkerAssigned,
			Whole: m.v.WholeOf(j.RequestOf(i), at[i])}
		m.s.Hold(at[i], j.ID, i, a.Ports(i))
	}
	next.State, next.Reason, next.Bypassed, next.OwnRoomFirst = model.Configuring, model.Reason{}, 0, false
	if c.trial != nil {
		a.Trials = []model.Trial{*c.trial}
	}
	m.enterTurns(next, a)
	m.s.Unreserve(c.Job)
	m.s.Learn().ElasticStart(next)
	m.put(next)
	for _, i := range fresh {
		m.s.NoteWitnesses(i, m.v.Chosen().Last)
	}
	if next.Parent != 0 {
		m.childChangesOf(next.Parent).began = true
	}
	m.s.EmitJob(model.EventAssigned, next, c.cause)
}

// withoutWorkers returns those of some nodes that run nothing, and are not known to have the newest
// witnesses. These nodes hear of their first workers together with the newest witnesses.
func (m *Machine) withoutWorkers(at []int) []int {
	var fresh []int
	for _, i := range at {
		if m.v.Nodes()[i].Witnesses < m.v.Chosen().Last && !m.v.RunsWorkers(i) {
			fresh = append(fresh, i)
		}
	}
	return fresh
}

// planStop asks a live attempt to stop. Grace does not count against the time limit, so a timeout
// never replaces another stop.
func (m *Machine) planStop(c *StopJob) error {
	a, err := m.attempt(c.Job, c.Attempt)
	switch {
	case err != nil:
		return err
	case !plannable(c.Cause):
		return fmt.Errorf("%q: %w", c.Cause, model.ErrBadCause)
	case a.Stop != nil && (c.Cause == model.CauseTimeout || !lifecycle.Outranks(c.Cause, a.Stop)):
		return model.ErrStopping
	case c.For != 0 && !m.wantsRoom(c.For):
		return fmt.Errorf("for job %d: %w", c.For, model.ErrNotWanted)
	}
	next, a := copyToChange(m.v.Job(c.Job))
	m.stop(next, a, model.Stop{Cause: c.Cause, For: c.For})
	if c.Cause == model.CauseMigrate && c.For == 0 {
		m.recordMove(next, a)
	}
	m.put(next)
	return nil
}

// plannable reports whether a plan may stop an attempt for a cause; the others follow from what
// nodes and users say.
func plannable(c model.Cause) bool {
	switch c {
	case model.CauseTimeout, model.CauseTE, model.CauseReclaim, model.CauseOrder, model.CauseShrink, model.CauseGrow,
		model.CauseDrain, model.CauseMigrate:
		return true
	}
	return false
}

// attempt returns a job's live attempt if it has that number.
func (m *Machine) attempt(id model.JobID, n int) (*model.Attempt, error) {
	j := m.v.Job(id)
	if j == nil {
		return nil, model.ErrNoJob
	}
	a := j.Live()
	if a == nil || a.N != n {
		return nil, fmt.Errorf("attempt %d: %w", n, model.ErrOldAttempt)
	}
	return a, nil
}

// planEnd gives up the workers of an attempt whose nodes have been down until the lease, and the
// margin after it, were over.
func (m *Machine) planEnd(c *EndAttempt) error {
	a, err := m.attempt(c.Job, c.Attempt)
	if err != nil {
		return err
	}
	if c.Cause != model.CauseNodeLost {
		return fmt.Errorf("%q: %w", c.Cause, model.ErrBadCause)
	}
	if a.Waits {
		return model.ErrAwaitsNode
	}
	gone := func(w *model.Worker) bool { return m.leaseOver(w.Node) }
	if !slices.ContainsFunc(a.Workers, func(w model.Worker) bool { return !w.State.Final() && gone(&w) }) {
		return model.ErrLeaseRunning
	}
	m.lose(m.v.Job(c.Job), gone, "the node was lost")
	return nil
}

func (m *Machine) leaseOver(node string) bool {
	n, _ := m.v.Node(node)
	return n.State == model.NodeDown && m.v.At() >= m.v.LostAt(n) && !m.v.HeldByWitnesses(n)
}

// reserve keeps room for a job that waits or is moving, in place of what was kept for it before. It
// keeps its rank among reservations.
func (m *Machine) reserve(c *model.Reservation) error {
	j := m.v.Job(c.Job)
	switch {
	case j == nil:
		return model.ErrNoJob
	case !j.Moving() && (!j.StillToStart() || j.Hold != model.NotHeld):
		return model.ErrWrongState
	}
	r := model.Reservation{Job: c.Job, Claims: c.Claims, At: m.v.At(), Until: c.Until, ForPreemptor: c.ForPreemptor,
		Leftover: c.Leftover, Guaranteed: c.Guaranteed}
	old := m.v.Reservation(c.Job)
	if old != nil {
		r.At = old.At
	} else if err := model.Limit("the number of reservations", int64(len(m.v.Reservations())+1), model.MaxReservations,
		""); err != nil {
		return err
	}
	if err := m.checkClaims(r.Claims); err != nil {
		return err
	}
	m.s.Reserve(&r)
	return nil
}

func (m *Machine) checkClaims(claims []model.Claim) error {
	seen := map[string]bool{}
	for _, c := range claims {
		n, _ := m.v.Node(c.Node)
		if n == nil || seen[c.Node] || c.Resources.Negative() || !c.Resources.Within(grid.Capacity(n)) {
			return fmt.Errorf("node %s: %w", c.Node, model.ErrBadClaim)
		}
		seen[c.Node] = true
	}
	if len(claims) == 0 {
		return model.ErrBadClaim
	}
	return nil
}

func (m *Machine) planUnreserve(id model.JobID) error {
	if m.v.Reservation(id) == nil {
		return model.ErrNoReservation
	}
	m.s.Unreserve(id)
	return nil
}
