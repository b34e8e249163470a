package state

import (
	"cmp"
	"iter"
	"slices"
	"sort"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/fsm/groups"
	"github.com/rota-hpc/rota/controld/fsm/index"
	"github.com/rota-hpc/rota/controld/fsm/limits"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/fsm/table"
	"github.com/rota-hpc/rota/controld/fsm/topology"
	"github.com/rota-hpc/rota/controld/fsm/versions"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/model/witness"
)

// View is the state at one index. It never changes: its holder reads it without locks.
type View struct {
	index  uint64
	at     model.Instant
	wall   model.UnixMS
	config *cluster.Config
	trust  *trust.Trust // replaced, never changed
	// how the present generation began; replaced, never changed
	recovery *generation.Recovery
	chosen   *witness.Chosen // as witnesses of outages; replaced, never changed

	lastJob model.JobID // the greatest id given
	lastSeq int64       // the greatest history number given
	trimmed int64       // history numbers up to here have left the state

	njobs     int   // weight of all jobs, see MaxJobs
	specBytes int64 // of specifications of all jobs

	leasedUntil model.Instant // leases from before they were shortened may last until here, the margin included

	statistics *estimate.Statistics // from what has happened; nil: nothing yet

	jobs          table.Table[*model.Job]
	nodes         []*model.Node // by name
	reservations  []*model.Reservation
	keys          index.Keys
	steering      *steering.Steering
	versions      *versions.History         // of the configuration
	accounts      []*cluster.CreatedAccount // by name; the list is replaced, never changed
	groupAccounts []cluster.GroupAccount    // by number; likewise
	tokens        []*trust.APIToken         // by id; likewise
	usage         estimate.UsageTable
	licenses      map[string]int // held by live attempts; replaced, never changed

	// The fields below are derived from those above and not in the snapshot.
	live     table.Table[*model.Job] // with an attempt in progress
	finished table.Table[*model.Job] // by Seq
	groups   groups.View

	nodeSets topology.NodeSets
	holdings table.Table[*holding]              // by position of the node
	runs     table.Table[*estimate.LiveAttempt] // attempts in progress
	paused   int                                // those of them that are suspended, or about to be
	models   []string                           // see Models
	grid     *grid.Grid
	events   []model.Event

	usageCounters estimate.UsageCounterTable
	limitUses     limits.Table      // of owners of limits
	limited       bool              // the configuration has a limit
	queueNodes    map[string]string // of queues that do not have all nodes: see [cluster.Config.NodesByQueue]
	inventory     *model.Inventory

	dependents index.Dependents
	dated      table.Table[*model.Job] // waiting ones with a deadline
	unsettled  bool                    // more follows from jobs that have ended than one entry of the log may do
}

// DesiredWorker is a worker that a node should run or be stopping.
type DesiredWorker struct {
	Job    *model.Job
	Worker int
}

// holding is what one node has been given.
type holding struct {
	workers  []HeldWorker // by job and worker
	ports    []int        // MASTER_PORTs in use, ascending
	modified uint64
	epoch    uint64        // at which the lists became its own
	freed    model.Instant // when room was last given back for good: see [View.FreedAt]
}

func (w HeldWorker) compare(o HeldWorker) int {
	return cmp.Or(cmp.Compare(w.Job, o.Job), cmp.Compare(w.Worker, o.Worker))
}

// Index is that of the last command applied.
func (v *View) Index() uint64 { return v.index }

// At is the last instant in the log.
func (v *View) At() model.Instant { return v.at }

// Wall is the wall clock of the last command, for display.
func (v *View) Wall() model.UnixMS { return v.wall }

// Config returns the replicated configuration. The caller must not change it.
func (v *View) Config() *cluster.Config { return v.config }

// Trust returns what is known of the cluster's members. The caller must not change it.
func (v *View) Trust() *trust.Trust { return v.trust }

// Recovery returns how the present generation of the cluster began. The caller must not change it.
func (v *View) Recovery() *generation.Recovery { return v.recovery }

// Chosen returns which nodes were chosen as witnesses of outages of the controllers.
func (v *View) Chosen() *witness.Chosen { return v.chosen }

// HeldByWitnesses reports whether jobs may go on at a node that is down, although its lease is
// over. Its witnesses may say that they hear of no leader either. Without witnesses no lease is
// extended.
func (v *View) HeldByWitnesses(n *model.Node) bool { return v.chosen.Last > 0 && !n.Gone }

// Job returns the job with an id, or nil if there is none or it has been trimmed.
func (v *View) Job(id model.JobID) *model.Job {
	j, _ := v.jobs.Get(int64(id))
	return j
}

// LastJob returns the greatest job id given so far.
func (v *View) LastJob() model.JobID { return v.lastJob }

// Jobs yields all jobs, the finished ones that have not been trimmed included, in order of id.
func (v *View) Jobs() iter.Seq[*model.Job] { return v.jobs.Values() }

// Unassigned yields the jobs that have no attempt in progress: those that wait, parents, and
// finished ones, in order of id.
func (v *View) Unassigned() iter.Seq[*model.Job] { return v.jobs.Without(&v.live) }

// JobsAfter is Jobs from the first id above one.
func (v *View) JobsAfter(id model.JobID) iter.Seq[*model.Job] {
	return func(yield func(*model.Job) bool) {
		for _, j := range v.jobs.From(int64(id) + 1) {
			if !yield(j) {
				return
			}
		}
	}
}

// JobBefore returns the job with the greatest id that is not above one, or nil.
func (v *View) JobBefore(id model.JobID) *model.Job {
	j, _ := v.jobs.Before(int64(id))
	return j
}

// Live yields the jobs with an attempt in progress, in order of id.
func (v *View) Live() iter.Seq[*model.Job] { return v.live.Values() }

// CountLive counts the jobs with an attempt in progress.
func (v *View) CountLive() int { return v.live.Size() }

// QueueGroups yields the pending jobs, group by group. The order of the groups means nothing and
// may differ between replicas: a caller that decides by it must order them.
func (v *View) QueueGroups() iter.Seq[*groups.Group] { return v.groups.Groups().Values() }

// QueueHeads yields the head of every group, in the order of Groups, with the number by which
// GroupAt finds the group. In a long queue it is much faster than looking at the groups, since the
// fronts lie side by side in memory. The caller must not change them.
func (v *View) QueueHeads() iter.Seq2[int64, *groups.Head] { return v.groups.Heads().Refs }

// QueueGroupAt returns the group with a number.
func (v *View) QueueGroupAt(number int64) *groups.Group {
	g, _ := v.groups.Groups().Get(number)
	return g
}

// ElasticHeads counts the groups whose first job is elastic.
func (v *View) ElasticHeads() int { return v.groups.ElasticHeads() }

// Nodes returns all nodes by name; their positions are those of the grid. The caller must not
// change it.
func (v *View) Nodes() []*model.Node { return v.nodes }

// Node returns the node with a name and its position, or nil and -1.
func (v *View) Node(name string) (*model.Node, int) {
	i, ok := v.position(name)
	if !ok {
		return nil, -1
	}
	return v.nodes[i], i
}

func (v *View) position(name string) (int, bool) {
	low, high := 0, len(v.nodes)
	for low < high {
		if mid := int(uint(low+high) / 2); v.nodes[mid].Name < name {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, low < len(v.nodes) && v.nodes[low].Name == name
}

// Grid returns the room on every node. The caller must not change it, but CopyFrom it.
func (v *View) Grid() *grid.Grid { return v.grid }

// Reservations returns the reservations in order of job id. The caller must not change it.
func (v *View) Reservations() []*model.Reservation { return v.reservations }

// Reservation returns a job's reservation, or nil.
func (v *View) Reservation(id model.JobID) *model.Reservation {
	if i, ok := v.findReservation(id); ok {
		return v.reservations[i]
	}
	return nil
}

func (v *View) findReservation(id model.JobID) (int, bool) {
	return slices.BinarySearchFunc(v.reservations, id,
		func(r *model.Reservation, id model.JobID) int { return cmp.Compare(r.Job, id) })
}

// LiftClaims lifts the claims that do not bind a job from g, a copy of the view's grid: see
// [grid.LiftClaims]. Apply asks Fits about a start with the same claims lifted.
func (v *View) LiftClaims(g *grid.Grid, id model.JobID) grid.LiftedClaims {
	return grid.LiftClaims(g, v.Reservation(id), v.reservations, func(node string) int {
		if i, ok := v.position(node); ok {
			return i
		}
		return -1
	})
}

func (v *View) eachClaim(r *model.Reservation, do func(node int, room model.Vector)) {
	for _, c := range r.Claims {
		if i, ok := v.position(c.Node); ok {
			do(i, c.Resources)
		}
	}
}

// LastSeq returns the greatest history number given so far.
func (v *View) LastSeq() int64 { return v.lastSeq }

// Trimmed returns the history number up to which finished jobs have left the state.
func (v *View) Trimmed() int64 { return v.trimmed }

// Finished returns the finished jobs with a greater Seq, in its order.
func (v *View) Finished(after int64) []*model.Job {
	var jobs []*model.Job
	for _, j := range v.finished.From(after + 1) {
		jobs = append(jobs, j)
	}
	return jobs
}

// Weight returns the weight of all jobs, see [model.MaxJobs].
func (v *View) Weight() int { return v.njobs }

// SpecBytes returns how many bytes the specifications of all jobs have, as [cluster.Config.MaxAllSpecBytes] counts
// them.
func (v *View) SpecBytes() int64 { return v.specBytes }

// JobModified returns the index at which a job last changed, 0 if there is no such job.
func (v *View) JobModified(id model.JobID) uint64 {
	if j := v.Job(id); j != nil {
		return j.Modified
	}
	return 0
}

// NodeModified returns the index at which the inventory of a node, or what it should run, last
// changed; 0 if there is no such node.
func (v *View) NodeModified(name string) uint64 {
	if h := v.holding(name); h != nil {
		return h.modified
	}
	return 0
}

func (v *View) holding(name string) *holding {
	i, ok := v.position(name)
	if !ok {
		return nil
	}
	h, _ := v.holdings.Get(int64(i))
	return h
}

// Desired returns the workers that a node should run or be stopping, by job and worker: those of
// live attempts that are not final.
func (v *View) Desired(node string) []DesiredWorker {
	h := v.holding(node)
	if h == nil || len(h.workers) == 0 {
		return nil
	}
	desired := make([]DesiredWorker, 0, len(h.workers))
	for _, w := range h.workers {
		j := v.Job(w.Job)
		if workers := j.Live().Workers; w.Worker >= len(workers) || workers[w.Worker].State.Final() {
			continue // its room is kept for the next attempt
		}
		desired = append(desired, DesiredWorker{Job: j, Worker: w.Worker})
	}
	return desired
}

// PortsUsed returns the MASTER_PORTs that live attempts hold on a node, ascending. The caller must
// not change it.
func (v *View) PortsUsed(node string) []int {
	if h := v.holding(node); h != nil {
		return h.ports
	}
	return nil
}

// FreePort returns the lowest port of a node's range that is not held and not in taken; false if
// there is none.
func (v *View) FreePort(node string, taken ...int) (int, bool) {
	n, _ := v.Node(node)
	if n == nil || n.PortMin <= 0 {
		return 0, false
	}
	used := v.PortsUsed(node)
	for port := n.PortMin; port <= n.PortMax; port++ {
		if _, held := slices.BinarySearch(used, port); !held && !slices.Contains(taken, port) &&
			!slices.Contains(n.PortsTaken, port) {
			return port, true
		}
	}
	return 0, false
}

// Events returns what has happened after an index, oldest first, as far as this replica remembers:
// the last 10,000 events since it started. The caller must not change it.
func (v *View) Events(after uint64) []model.Event {
	i := sort.Search(len(v.events), func(i int) bool { return v.events[i].Index > after })
	return slices.Clip(v.events[i:])
}

// LostAt is the instant from which nothing can run on a node that is down. Its shims' leases are
// over then, and so is the margin for drifting clocks.
func (v *View) LostAt(n *model.Node) model.Instant {
	return max(n.Since.At+v.config.LeaseSpan(), v.leasedUntil)
}

// anyLive reports whether an attempt is in progress.
func (v *View) anyLive() bool {
	for range v.live.Values() {
		return true
	}
	return false
}

// Usages yields what each leaf has used, in no particular order.
func (v *View) Usages() iter.Seq[*estimate.PastUse] { return v.usage.Values() }

// Statistics returns what the cluster has learnt, nil if that is nothing yet. The caller must not
// change it.
func (v *View) Statistics() *estimate.Statistics { return v.statistics }
