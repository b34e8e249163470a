// Package limits counts the jobs of accounts, users and queues that the configuration limits. It
// says which limit keeps a job from starting or from being submitted.
//
// A [Use] is the count of one owner. The state keeps one for each owner of a limit in a [Table],
// and changes it with each job. So a question costs the same however many jobs there are. A
// scheduling cycle copies them and adds its own starts. Both ask [Exceeded], so the state refuses
// no start that a cycle allows.
package limits

import (
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Part is the part of one job in the count of its owner.
type Part struct {
	Submitted int64        // unfinished jobs: itself, or its array tasks
	Live      bool         // it has an attempt in progress
	Total     model.Vector // of all its workers, while it is live
	// Thousandths of a GPU times seconds until the time limit. The attempt's limit ends at Ends, in
	// seconds of the log; 0: its clock does not run, and Left seconds are left.
	Ends, Left int64
}

// unlimited is the time, in seconds, for which a job without a time limit counts.
const unlimited = int64(jobspec.MaxDuration)

// PartOf returns the part of a job, which may be nil.
func PartOf(j *model.Job) Part {
	if j == nil || j.State.Final() {
		return Part{}
	}
	p := Part{Submitted: submitted(j)}
	a := j.Live()
	if a == nil {
		return p
	}
	p.Live, p.Total = true, j.Total()
	if r := a.Resize(); r != nil { // room of joining workers is taken already
		p.Total = larger(p.Total, j.Resized(len(r.Places(j, a))).Total())
	}
	if a.Suspended() { // it keeps its memory alone
		p.Total = model.Vector{Memory: p.Total.Memory}
	}
	switch {
	case a.Stop != nil && a.Stop.Resize == nil: // it leaves
	case j.Limit <= 0:
		p.Left = unlimited
	case a.Started.At == 0:
		p.Left = int64(j.Limit)
	case a.Suspended():
	default:
		p.Ends = (int64(a.Started.At)+999)/1000 + int64(j.Limit)
	}
	return p
}

// submitted counts a job, or the array tasks of a parent job that have not ended. A task counts
// with its parent.
func submitted(j *model.Job) int64 {
	switch f := j.Children; {
	case j.Parent != 0:
		return 0
	case f != nil:
		return int64(f.Live + f.Waiting.Len())
	}
	return 1
}

func larger(a, b model.Vector) model.Vector {
	return model.Vector{Cores: max(a.Cores, b.Cores), Memory: max(a.Memory, b.Memory), GPUs: max(a.GPUs, b.GPUs)}
}

// nodesOf returns the nodes on which a job runs, each once and in order.
func nodesOf(j *model.Job) []string {
	if j == nil || j.Live() == nil {
		return nil
	}
	a := j.Live()
	nodes := make([]string, 0, len(a.Workers))
	for i := range a.Workers {
		nodes = append(nodes, a.Workers[i].Node)
	}
	if r := a.Resize(); r != nil {
		for i := range r.Join {
			nodes = append(nodes, r.Join[i].Node)
		}
	}
	return Distinct(nodes)
}

// Distinct sorts names and leaves each out but once.
func Distinct(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
