package state

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/fsm/groups"
	"github.com/rota-hpc/rota/controld/fsm/index"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/fsm/texts"
	"github.com/rota-hpc/rota/controld/fsm/versions"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/model/witness"
)

// State is what a replica holds: tables of jobs, nodes and reservations, and the indexes that
// follow from them. Its methods change one thing each and keep all indexes in step; what a command
// means is for package fsm. It belongs to one goroutine; others read its views.
type State struct {
	v      View // the present; its tables are written through the methods of State only
	cached *View

	epoch        uint64 // raised by View: what carries an older one is shared with a view
	gridEpoch    uint64
	recorder     estimate.Recorder // writes v.statistics
	groups       *groups.Queue     // writes v.groups
	eventArray   []model.Event     // that v.events is part of
	eventsEpoch  uint64            // of it
	faults       []error           // illegal steps that Apply took, for Check
	changedJobs  changedJobs
	texts        texts.Store
	names        index.Names
	unfinished   map[uint32]int // jobs by uid of their owners; nil until it is first asked
	held         *heldBytes     // of specifications; nil: a fork does not count them
	loading      bool           // a snapshot is being read, which says since when leaves are active
	sharesArrays bool           // arrays of jobs are another state's too
	touched      *touched       // since an auditor last asked; nil: there is none
}

// New returns the empty state with a configuration, which must be the same on every replica.
func New(cfg cluster.Config) *State {
	s := &State{epoch: 1, gridEpoch: 1, held: newHeldBytes()}
	s.v.config, s.v.models, s.v.inventory = &cfg, modelsIn(&cfg), &model.Inventory{}
	s.v.limited, s.v.queueNodes = cfg.HasLimits(), cfg.NodesByQueue()
	s.v.trust, s.v.steering, s.v.versions = &trust.Trust{}, &steering.Steering{}, &versions.History{}
	s.v.recovery, s.v.chosen = &generation.Recovery{}, &witness.Chosen{}
	s.v.grid = grid.NewGrid(nil)
	s.groups = groups.New(&s.v.groups)
	s.names = index.NewNames(s.v.Jobs)
	s.recorder = estimate.NewRecorder(&s.v.statistics)
	return s
}

// Index returns that of the last entry applied.
func (s *State) Index() uint64 { return s.v.index }

// At returns the last instant in the log.
func (s *State) At() model.Instant { return s.v.at }

// View returns the state as it is now. It may be called by the goroutine of Apply only; the result
// may be read by anyone.
func (s *State) View() *View {
	if s.cached != nil && s.cached.index == s.v.index {
		return s.cached
	}
	if s.gridEpoch == s.epoch {
		s.v.grid.Seal()
	}
	s.epoch++
	v := &View{
		index: s.v.index, at: s.v.at, wall: s.v.wall, config: s.v.config, trust: s.v.trust,
		recovery: s.v.recovery, chosen: s.v.chosen,
		lastJob: s.v.lastJob, lastSeq: s.v.lastSeq, trimmed: s.v.trimmed, leasedUntil: s.v.leasedUntil, njobs: s.v.njobs,
		specBytes:  s.v.specBytes,
		statistics: s.v.statistics,
		jobs:       s.v.jobs.View(), nodes: s.v.nodes, reservations: s.v.reservations, keys: s.v.keys.View(),
		live: s.v.live.View(), finished: s.v.finished.View(), groups: s.groups.View(), nodeSets: s.v.nodeSets.View(),
		holdings: s.v.holdings.View(), grid: s.v.grid, events: slices.Clip(s.v.events),
		runs: s.v.runs.View(), paused: s.v.paused,
		usageCounters: s.v.usageCounters.View(), models: s.v.models, inventory: s.v.inventory,
		accounts: s.v.accounts, groupAccounts: s.v.groupAccounts, tokens: s.v.tokens, steering: s.v.steering,
		versions: s.v.versions,
		usage:    s.v.usage.View(), dependents: s.v.dependents.View(), dated: s.v.dated.View(), unsettled: s.v.unsettled,
		licenses: s.v.licenses, limited: s.v.limited, queueNodes: s.v.queueNodes, limitUses: s.v.limitUses.View(),
	}
	s.cached = v
	return v
}

// Present returns the state as it is now, for reading before the next entry is applied and not
// later: its content may change then. It spares a caller that decides and applies by turns what a
// View costs, which is a copy of whatever is written next.
func (s *State) Present() *View { return &s.v }

// Begin opens an entry of the log, whose index must be above that of the last one.
func (s *State) Begin(index uint64, at model.Stamp) error {
	if index <= s.v.index {
		return fmt.Errorf("entry %d after %d: %w", index, s.v.index, model.ErrOldIndex)
	}
	// The clock starts at 1, so that 0 can mean "not yet" everywhere.
	s.v.index, s.v.at, s.v.wall = index, max(at.At, s.v.at, 1), at.Wall
	return nil
}

// End closes an entry: the groups of pending jobs take in all that it has changed.
func (s *State) End() { s.groups.Settle() }

// Now is the stamp of the entry in progress.
func (s *State) Now() model.Stamp { return model.Stamp{At: s.v.at, Wall: s.v.wall} }

// moment is when a table that the present command writes changes.
func (s *State) moment() estimate.Moment {
	return estimate.Moment{At: s.v.at, Epoch: s.epoch, Loading: s.loading}
}

// Learn returns what takes in what the present command has seen.
func (s *State) Learn() *estimate.Recorder {
	s.recorder.Moment = s.moment()
	return &s.recorder
}

// GiveIDs takes the next n ids for jobs and returns the first of them.
func (s *State) GiveIDs(n int) model.JobID {
	first := s.v.lastJob + 1
	s.v.lastJob += model.JobID(n)
	return first
}

// NextSeq takes the next number of the history for a job that ends.
func (s *State) NextSeq() int64 {
	s.v.lastSeq++
	return s.v.lastSeq
}

// Pack lets a new job share what it has in common with others. Doing it twice changes nothing.
func (s *State) Pack(j *model.Job) { s.texts.Pack(j) }

// Charge enters that a leaf has held something from an instant until now.
func (s *State) Charge(leaf model.Association, held model.Vector, since model.Instant) {
	s.v.usage.Charge(leaf, held, since, s.moment())
}

// Put stores a job that a command has made or changed and keeps every index of jobs in step. It
// returns what the job was before, nil if it is new.
func (s *State) Put(next *model.Job) (old *model.Job) {
	old = s.v.Job(next.ID)
	s.checkStep(old, next)
	s.store(old, next)
	return old
}

// store puts a job in place of old, which is nil for a new one.
func (s *State) store(old, next *model.Job) {
	next.Modified = s.v.index
	next.SettlePlacing(old, s.v.queueNodes[next.Queue])
	next.Bounded = s.v.boundedBy(next)
	if old == nil {
		s.texts.Keep(next)
		s.v.njobs += next.Weight()
	}
	s.changedJobs.add(next.ID)
	s.touched.job(next.ID)
	s.v.jobs.Set(int64(next.ID), next)
	if s.groups.Update(old, next) {
		s.v.nodeSets.Keep(model.ShapeOf(next), s.v.nodes, s.epoch)
	}
	switch wasLive := old != nil && old.Live() != nil; {
	case next.Live() != nil:
		s.v.live.Set(int64(next.ID), next)
	case wasLive:
		s.v.live.Drop(int64(next.ID))
	}
	s.updateLicenses(old, next)
	s.updateLimits(old, next)
	s.updateRun(old, next)
	if next.Seq > 0 {
		s.v.finished.Set(next.Seq, next)
	}
	s.names.Update(old, next)
	s.updateDeadlines(old, next)
	s.v.dependents.Update(old, next)
	s.v.usage.UpdateActive(old, next, s.moment())
	s.updateUnfinished(old, next)
	s.updateBytes(old, next)
}

// checkStep records a step that the table of states does not allow, for Check to report.
func (s *State) checkStep(old, next *model.Job) {
	var from model.JobState
	if old != nil {
		from = old.State
	}
	allowed := model.Steps[from]
	switch {
	case next.Children != nil:
		allowed = model.ParentSteps[from]
	case next.Parent != 0 && old == nil:
		allowed = []model.JobState{model.Pending, model.Configuring} // made when it is submitted, or when it starts
	}
	if from == next.State && !from.Final() || slices.Contains(allowed, next.State) || len(s.faults) >= 100 {
		return
	}
	s.faults = append(s.faults, fmt.Errorf("job %d went from %q to %q at index %d", next.ID, from, next.State, s.v.index))
}

// ownGrid returns the grid ready to be written.
func (s *State) ownGrid() *grid.Grid {
	if s.gridEpoch != s.epoch {
		g := new(grid.Grid)
		g.CopyFrom(s.v.grid)
		s.v.grid, s.gridEpoch = g, s.epoch
	}
	return s.v.grid
}
