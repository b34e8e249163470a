package cluster

import (
	"fmt"
	"slices"
)

// Limits of the state. Each keeps one map or list from growing without bound.
const (
	MaxJobs         = 1_000_000 // in the state, finished ones that are not trimmed included: a few GiB
	MaxJobsPerCall  = 10_000    // in one SubmitJobs or ControlJobs: a few ms of Apply, during which nothing else is applied
	MaxNodes        = 16_384    // beyond the 10,000 that scheduling is measured with
	MaxKeys         = 1_000_000 // idempotency keys
	MaxReservations = 1_024     // more would keep the cluster from being used
	MaxQueues       = 1_024
	MaxSpecBytes    = 2 << 20 // texts of one job: a script of 1 MiB and as much again
	MaxExclude      = 16      // nodes that one job avoids; the oldest is forgiven
)

// State is the replicated state machine. It belongs to one goroutine; others read its views.
type State struct {
	v      View // the present; its tables are written through the methods of State only
	cached *View

	epoch             uint64 // raised by View: what carries an older one is shared with a view
	gridEpoch         uint64
	nodeSetEpoch      uint64
	workloadMixEpoch  uint64
	statisticsEpoch   uint64
	runtimeEpoch      uint64
	recentEpoch       uint64
	shapes            numbers[Shape]
	leaves            numbers[Leaf]
	slots             map[GroupKey]int64 // of v.groups
	freeSlots         []int64
	nextSlot          int64
	keyAt             map[keyName]int64 // of v.keys
	firstKey          int64
	nextKey           int64
	childChanges      map[JobID]*childChanges // what the present command has done to children; empty between commands
	eventArray        []Event                 // that v.events is part of
	eventsEpoch       uint64                  // of it
	faults            []error                 // illegal steps that Apply took, for Check
	changedJobs       changedJobs
	moves             map[GroupKey]*moves // what is to be done to groups; empty between commands
	moved             []GroupKey          // the keys of moves, and perhaps others, in order
	touchedGroups     []*Group            // groups whose fronts may be outdated; empty between commands
	contents          map[Digest]*text    // scripts of jobs in the state
	shared            shared
	names             map[nameKey]*named // see sameName; nil until somebody asks
	dependents        map[JobID][]JobID  // jobs by the jobs that they wait for; nil until there is something to tell them
	due               idHeap             // jobs to look at because of what they wait for; empty between commands, but for what is unsettled
	ended             []endedTasks       // children that have ended, to be told to those that follow them; empty between commands
	usageAt           map[Leaf]int64     // of v.usage
	loading           bool               // a snapshot is being read, which says since when leaves are active
	nextUsage         int64
	sharesArrays      bool           // arrays of jobs are another state's too
	touched           *touched       // since an auditor last asked; nil: there is none
	usageCounterAt    map[Leaf]int64 // of v.standings
	freeUsageCounters []int64
}

// New returns the empty state with a configuration, which must be the same on every replica.
func New(cfg Config) *State {
	s := &State{epoch: 1, gridEpoch: 1, slots: map[GroupKey]int64{}, keyAt: map[keyName]int64{}, usageAt: map[Leaf]int64{}}
	s.v.config, s.v.models, s.v.inventory = &cfg, modelsIn(&cfg), &Inventory{}
	s.v.grid = newGrid(nil)
	return s
}

// Index returns that of the last entry applied.
func (s *State) Index() uint64 { return s.v.index }

// At returns the last instant in the log.
func (s *State) At() Instant { return s.v.at }

// View returns the state as it is now. It may be called by the goroutine of Apply only; the result may be read by anyone.
func (s *State) View() *View {
	if s.cached != nil && s.cached.index == s.v.index {
		return s.cached
	}
	if s.gridEpoch == s.epoch {
		s.v.grid.seal()
	}
	s.epoch++
	v := &View{
		index: s.v.index, at: s.v.at, wall: s.v.wall, config: s.v.config,
		lastJob: s.v.lastJob, lastSeq: s.v.lastSeq, trimmed: s.v.trimmed, leasedUntil: s.v.leasedUntil, njobs: s.v.njobs, statistics: s.v.statistics,
		jobs: s.v.jobs.view(), nodes: s.v.nodes, reservations: s.v.reservations, keys: s.v.keys.view(),
		live: s.v.live.view(), finished: s.v.finished.view(), groups: s.v.groups.view(), fronts: s.v.fronts.view(), elasticFirst: s.v.elasticFirst, nodeSets: s.v.nodeSets,
		holdings: s.v.holdings.view(), grid: s.v.grid, events: slices.Clip(s.v.events),
		runs: s.v.runs.view(), usageCounters: s.v.usageCounters.view(), models: s.v.models, inventory: s.v.inventory,
		usage: s.v.usage.view(), needing: s.v.needing.view(), dated: s.v.dated.view(), unsettled: s.v.unsettled,
	}
	s.cached = v
	return v
}

// Present returns the state as it is now, to be read before the next entry is applied and not later: nothing keeps what it shows from changing
// then. It spares whoever decides and applies by turns what a View costs, which is a copy of whatever is written next.
func (s *State) Present() *View { return &s.v }

// Apply carries out one entry of the log. Its result is that of the command; its error is a refusal, which is as much a part of
// the replicated history as a success. Only an *UnknownKindError means that this replica must stop.
func (s *State) Apply(index uint64, e Entry) (any, error) {
	if index <= s.v.index {
		return nil, fmt.Errorf("entry %d after %d: %w", index, s.v.index, ErrOldIndex)
	}
	if err := checkKind(e.Command); err != nil {
		return nil, err
	}
	// The clock starts at 1, so that 0 can mean "not yet" everywhere.
	s.v.index, s.v.at, s.v.wall = index, max(e.At, s.v.at, 1), e.Wall
	result, err := e.Command.apply(s)
	s.settleParents()
	s.settleNeeds()
	s.regroupAll()
	return result, err
}

// now is the stamp of the command being applied.
func (s *State) now() Stamp { return Stamp{At: s.v.at, Wall: s.v.wall} }

// put stores a job that a command has made or changed, and keeps every index of jobs in step.
func (s *State) put(next *Job) {
	old := s.v.Job(next.ID)
	s.checkStep(old, next)
	s.store(old, next)
}

// store puts a job in place of old, which is nil for a new one.
func (s *State) store(old, next *Job) {
	next.modified = s.v.index
	next.settlePlacing(old)
	if old == nil {
		s.keepTexts(next)
		s.v.njobs += next.weight()
	}
	s.changedJobs.add(next.ID)
	s.touched.job(next.ID)
	s.v.jobs.set(int64(next.ID), next)
	s.queue(old, next)
	switch wasLive := old != nil && old.Live() != nil; {
	case next.Live() != nil:
		s.v.live.set(int64(next.ID), next)
	case wasLive:
		s.v.live.drop(int64(next.ID))
	}
	s.updateRun(old, next)
	if next.Seq > 0 {
		s.v.finished.set(next.Seq, next)
	}
	s.renamed(old, next)
	s.updateDeadlines(old, next)
	s.updateDependents(old, next)
	s.updateActive(old, next)
}

// steps lists the states that may follow each state, itself left out.
var steps = map[JobState][]JobState{
	"":          {Pending},
	Pending:     {Configuring, Cancelled, PastDue},
	Configuring: {Running, Completing, Pending, Completed, Failed, TimedOut, OutOfMemory, Cancelled, NodeFailed, BootFailed},
	Running:     {Completing, Pending, Completed, Failed, TimedOut, OutOfMemory, Cancelled, NodeFailed},
	Completing:  {Pending, Completed, Failed, TimedOut, OutOfMemory, Cancelled, NodeFailed, BootFailed},
}

// parentSteps is steps for parent jobs. They run nothing themselves, so all that can be said of them is that they have begun.
var parentSteps = map[JobState][]JobState{
	"":      {Pending},
	Pending: {Running, Completed, Failed, Cancelled, PastDue},
	Running: {Completed, Failed, Cancelled, PastDue},
}

// checkStep records a step that the table of states does not allow, for Check to report.
func (s *State) checkStep(old, next *Job) {
	var from JobState
	if old != nil {
		from = old.State
	}
	allowed := steps[from]
	switch {
	case next.Family != nil:
		allowed = parentSteps[from]
	case next.Parent != 0 && old == nil:
		allowed = []JobState{Pending, Configuring} // made when it is submitted, or when it starts
	}
	if from == next.State && !from.Final() || slices.Contains(allowed, next.State) || len(s.faults) >= 100 {
		return
	}
	s.faults = append(s.faults, fmt.Errorf("job %d went from %q to %q at index %d", next.ID, from, next.State, s.v.index))
}

// ownGrid returns the grid ready to be written.
func (s *State) ownGrid() *Grid {
	if s.gridEpoch != s.epoch {
		g := new(Grid)
		g.CopyFrom(s.v.grid)
		s.v.grid, s.gridEpoch = g, s.epoch
	}
	return s.v.grid
}
