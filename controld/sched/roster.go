package sched

import (
	"cmp"
	"math"
	"math/bits"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// one is 1 as a score or a cost: they are fixed-point numbers, so that they compare alike on every machine.
const one = int64(1) << 32

// victim is a running best-effort job that nobody has asked to stop yet.
type victim struct {
	run     *cluster.Run
	job     *cluster.Job
	attempt *cluster.Attempt
	shares  []share // what it holds, one for each of its nodes
	size    float64 // of all it holds, as a length: each resource counts in parts of the largest node
	grace   int64   // ms
	score   int64   // what it costs to take it
	taken   bool    // in this cycle

	// Of policy rota.
	unsaved    int64     // ms of one GPU of work that would be lost
	reluctance int       // how readily it may be taken by the search at hand: see maker.lawful and maker.tier
	surplus    *flexible // only what this job has beyond its least; nil: all of it
	twin       int32     // number, from 1, of the victim that is the other dish of the same job; 0: there is none
	barred     bool      // left out of the search at hand: its account may not lose so much
	turnOver   bool      // it may leave for one that has had less
	turn       *turn     // its place among those who take turns; nil: nobody asked
}

// share is what one attempt holds on one node.
type share = cluster.NodeRoom

// roster is all that could be asked to leave, and what is leaving already.
type roster struct {
	victims  []victim
	on       [][]int32         // by node: indices of victims that hold room there, ascending
	draining []cluster.Request // by node: held by attempts that are being stopped
	over     []cluster.Instant // by node: when the last of those is killed
	largest  cluster.Vector    // the most that any node that is up has of each resource
	weight   int64             // of grace in the score
	longest  int64             // grace, in ms
	greatest float64           // size

	called map[cluster.JobID]cluster.Instant // when a job was last stopped for this one, of those that are still leaving
}

// newRoster looks at every live attempt once. What has been started in this cycle is not among them: it would be displaced by a later one.
func newRoster(t *trial) *roster {
	n, lives := len(t.view.Nodes()), t.view.Lives()
	r := &roster{
		victims: make([]victim, 0, lives),
		on:      make([][]int32, n), draining: make([]cluster.Request, n), over: make([]cluster.Instant, n), called: map[cluster.JobID]cluster.Instant{},
	}
	for i := range r.on {
		if t.room.Up(i) {
			r.largest = most(r.largest, t.room.Total(i))
		}
	}
	ending := t.endingNow()
	for run := range t.view.Runs() {
		switch {
		case ending != nil && ending[run.Job.ID]:
		case run.Stopping:
			r.leave(run)
		case run.BestEffort:
			r.add(run)
		}
	}
	r.list()
	return r
}

// list notes which victims are on which node, in one array for all nodes.
func (r *roster) list() {
	count := make([]int32, len(r.on)+1)
	all := 0
	for i := range r.victims {
		for _, s := range r.victims[i].shares {
			count[s.Node]++
			all++
		}
	}
	array := make([]int32, all)
	for node := range r.on {
		n := count[node]
		r.on[node], array = array[:0:n], array[n:]
	}
	for i := range r.victims {
		for _, s := range r.victims[i].shares {
			r.on[s.Node] = append(r.on[s.Node], int32(i))
		}
	}
}

// endingNow are the jobs that the phases before have ended or asked to stop.
func (t *trial) endingNow() map[cluster.JobID]bool {
	var ids map[cluster.JobID]bool
	for _, a := range t.actions {
		if ids == nil && (a.Stop != nil || a.End != nil || a.Resize != nil) {
			ids = map[cluster.JobID]bool{}
		}
		if a.Stop != nil {
			ids[a.Stop.Job] = true
		}
		if a.End != nil {
			ids[a.End.Job] = true
		}
		if a.Resize != nil {
			ids[a.Resize.Job] = true
		}
	}
	return ids
}

// leave notes an attempt that is being stopped. Of one that goes on with other workers only those free their room that do not stay.
func (r *roster) leave(run *cluster.Run) {
	stop := run.Attempt.Stop
	for i := range run.Frees {
		r.drain(run.Frees[i], stop.KillAt)
	}
	if stop.For != 0 {
		r.called[stop.For] = max(r.called[stop.For], stop.At)
	}
}

func (r *roster) drain(s share, over cluster.Instant) {
	r.draining[s.Node] = fit.Plus(r.draining[s.Node], s.Room)
	r.over[s.Node] = max(r.over[s.Node], over)
}

// add lists an attempt as a possible victim.
func (r *roster) add(run *cluster.Run) {
	var held cluster.Request
	for i := range run.Rooms {
		held = fit.Plus(held, run.Rooms[i].Room)
	}
	r.victims = append(r.victims, victim{
		run: run, job: run.Job, attempt: run.Attempt, shares: run.Rooms, grace: run.Grace, size: length(held.Active, r.largest),
	})
}

func addShare(list []share, node int, room cluster.Request) []share {
	for i := range list {
		if list[i].Node == node {
			list[i].Room = fit.Plus(list[i].Room, room)
			return list
		}
	}
	return append(list, share{Node: node, Room: room})
}

// at returns what a victim holds on a node.
func (v *victim) at(node int) cluster.Request {
	for i := range v.shares {
		if v.shares[i].Node == node {
			return v.shares[i].Room
		}
	}
	return cluster.Request{}
}

// graceOf returns how long a job may take to leave, in ms, by what it has declared.
func graceOf(j *cluster.Job) int64 {
	const usual = 30_000
	if p := j.Spec.Preemption; p != nil && p.GracePeriod > 0 {
		return int64(p.GracePeriod) * 1000
	}
	return usual
}

func most(a, b cluster.Vector) cluster.Vector {
	return cluster.Vector{Cores: max(a.Cores, b.Cores), Memory: max(a.Memory, b.Memory), GPUs: max(a.GPUs, b.GPUs)}
}

// length is the Euclidean length of an amount in parts of a capacity. Each product is rounded by itself, since some machines would
// otherwise fuse it with the sum and come to another score.
func length(v, of cluster.Vector) float64 {
	sum := float64(0)
	for _, p := range [3][2]int64{{v.Cores, of.Cores}, {int64(v.Memory), int64(of.Memory)}, {v.GPUs, of.GPUs}} {
		if p[1] <= 0 {
			continue
		}
		part := float64(float64(p[0]) / float64(p[1]))
		sum = float64(sum + float64(part*part))
	}
	return math.Sqrt(sum)
}

// part returns a / b as a fixed-point number, 0 if b is 0.
func part(a, b float64) int64 {
	if b <= 0 {
		return 0
	}
	return int64(float64(float64(a/b) * float64(one)))
}

// ratio is part for integers; neither is negative, and a is not above b.
func ratio(a, b int64) int64 {
	if b <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(min(a, b)), uint64(one))
	q, _ := bits.Div64(hi, lo, uint64(b))
	return int64(q)
}

// score rates all victims as FitGpp does: size and, weight thousandths of it, grace, each as a part of the greatest.
func (r *roster) score(weight int64) {
	var size float64
	var grace int64
	for i := range r.victims {
		if v := &r.victims[i]; !v.taken {
			size, grace = max(size, v.size), max(grace, v.grace)
		}
	}
	r.weight, r.longest, r.greatest = weight, grace, size
	for i := range r.victims {
		v := &r.victims[i]
		v.score = part(v.size, size) + ratio(v.grace, grace)*weight/1000
	}
}

// compareVictims orders by score, then by how often they have been displaced, then the later start, then the lower id.
func compareVictims(a, b *victim) int {
	return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(displacements(a.job), displacements(b.job)),
		cmp.Compare(b.attempt.Assigned.At, a.attempt.Assigned.At), cmp.Compare(a.job.ID, b.job.ID))
}

// displacements returns how often a job has been displaced in its life.
func displacements(j *cluster.Job) int { return j.Counters.TE + j.Counters.Reclaim + j.Counters.Order }

// stop asks a victim to leave for a job.
func (r *roster) stop(t *trial, v *victim, cause cluster.Cause, beneficiary cluster.JobID) {
	v.taken = true
	over := t.now + cluster.Instant(v.grace)
	for _, s := range v.shares {
		r.drain(s, over)
	}
	r.called[beneficiary] = t.now
	t.act(cluster.Action{Stop: &cluster.StopJob{Job: v.job.ID, Attempt: v.attempt.N, Cause: cause, For: beneficiary}})
	if t.stopping == nil {
		t.stopping = map[cluster.JobID]cluster.JobID{}
	}
	t.stopping[v.job.ID] = beneficiary
}

// coming returns what a node will have for a part when all have left that are asked to, and nobody else has claimed it. It can be negative.
func (r *roster) coming(t *trial, node int, p *fit.Part) cluster.Request {
	return fit.Plus(t.room.AvailableTo(node, p), r.draining[node])
}

// draw returns a number below n that depends on nothing but the numbers given: chance that is the same on every replica.
func draw(n int, seeds ...uint64) int {
	x := uint64(0x9e3779b97f4a7c15)
	for _, s := range seeds {
		x = mix(x ^ s)
	}
	hi, _ := bits.Mul64(x, uint64(n))
	return int(hi)
}

// mix is the finaliser of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
