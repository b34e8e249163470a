package present

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
)

// elastic says how many workers an elastic job may have, how many it has, and why; nil if the
// number is fixed.
func elastic(j *cluster.Job) *api.Elastic {
	e, ok := j.Elastic()
	if !ok || j.Family != nil && j.Spec.Array == nil {
		return nil
	}
	out := &api.Elastic{Workers: j.Size(), Min: e.Min, Max: e.Max, MultipleOf: e.Unit, Text: sizeReason(j, e)}
	if j.Live() == nil {
		out.Workers = 0
	}
	return out
}

// sizeReason says why a job has as many elastic workers as it has.
func sizeReason(j *cluster.Job, e cluster.Elastic) string {
	a := j.Live()
	switch {
	case a == nil && j.State == cluster.Pending:
		return fmt.Sprintf("it starts when %d of its workers fit", e.Min)
	case a == nil:
		return ""
	case a.Stop != nil && a.Stop.Resize != nil:
		next := j.Size() - len(a.Stop.Resize.Leave) + len(a.Stop.Resize.Join)
		return fmt.Sprintf("its workers save and stop, to go on as %d%s", next, forJob(a.Stop.For))
	}
	if len(j.Attempts) < 2 {
		return startReason(j.Size(), e)
	}
	before := &j.Attempts[len(j.Attempts)-2]
	from := len(before.Workers) - e.Fixed
	switch before.Cause {
	case cluster.CauseShrink:
		return fmt.Sprintf("it has shrunk from %d%s", from, forJob(before.Stop.For))
	case cluster.CauseGrow:
		return fmt.Sprintf("it has grown from %d into free capacity", from)
	case cluster.CauseMigrate:
		return "some of its workers have moved"
	}
	return startReason(j.Size(), e)
}

func startReason(size int, e cluster.Elastic) string {
	switch size {
	case e.Min:
		return "it has started with the fewest"
	case e.Max:
		return "it has started with the most"
	}
	return "it has started with as many as fitted"
}

func forJob(id cluster.JobID) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf(" to make room for job %d", id)
}
