package present

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// elastic says how many workers an elastic job may have, how many it has, and why; nil if the
// number is fixed.
func elastic(j *model.Job) *api.Elastic {
	e, ok := j.Elastic()
	if !ok || j.Children != nil && j.Spec.Array == nil {
		return nil
	}
	out := &api.Elastic{Workers: j.Size(), Min: e.Min, Max: e.Max, MultipleOf: e.Unit, Text: sizeReason(j, e)}
	if j.Live() == nil {
		out.Workers = 0
	}
	return out
}

// sizeReason says why a job has as many elastic workers as it has.
func sizeReason(j *model.Job, e model.Elastic) string {
	a := j.Live()
	switch {
	case a == nil && j.State == model.Pending:
		return fmt.Sprintf("it starts once %d of its workers fit", e.Min)
	case a == nil:
		return ""
	case a.Stop != nil && a.Stop.Resize != nil:
		next := j.Size() - len(a.Stop.Resize.Leave) + len(a.Stop.Resize.Join)
		return fmt.Sprintf("its workers are saving and stopping, to continue as %d%s", next, forJob(a.Stop.For))
	case a.Shrinking():
		return fmt.Sprintf("it shrinks to %d while it runs%s", a.Staying()-e.Fixed, forJob(a.Shrink.For))
	case a.Resizing != nil:
		return resizedReason(j.Size(), a)
	}
	if len(j.Attempts) < 2 {
		return startReason(j.Size(), e)
	}
	before := &j.Attempts[len(j.Attempts)-2]
	from := len(before.Workers) - e.Fixed
	switch before.Cause {
	case model.CauseShrink:
		return fmt.Sprintf("it has shrunk from %d%s", from, forJob(before.Stop.For))
	case model.CauseGrow:
		return fmt.Sprintf("it has grown from %d into free capacity", from)
	case model.CauseMigrate:
		return "some of its workers have moved"
	}
	return startReason(j.Size(), e)
}

// resizedReason says why an attempt that was resized while it ran has so many elastic workers.
func resizedReason(size int, a *model.Attempt) string {
	joined := 0
	for i := range a.Workers {
		if a.Workers[i].Joined == a.Resizing.N {
			joined++
		}
	}
	switch {
	case a.Stop == nil && a.Joining():
		return fmt.Sprintf("it grows from %d into free capacity while it runs", size-joined)
	case joined > 0:
		return fmt.Sprintf("it has grown from %d into free capacity", size-joined)
	}
	return fmt.Sprintf("it has shrunk to %d while it ran", size)
}

func startReason(size int, e model.Elastic) string {
	switch size {
	case e.Min:
		return "it started with its minimum"
	case e.Max:
		return "it started with its maximum"
	}
	return "it started with as many as fitted"
}

func forJob(id model.JobID) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf(" to make room for job %d", id)
}
