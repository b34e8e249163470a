// Package admission refuses jobs that the state machine must not take. They break a rule of package
// rules, ask for something that only the simulator can run, or are not allowed by their queue.
package admission

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/rules"
)

// CheckSpec refuses a specification that no cluster can carry out. A snapshot's jobs are held to it
// too.
func CheckSpec(spec *jobspec.Job) error {
	if spec == nil {
		return &model.SpecError{Text: "a job is missing"}
	}
	if problems := rules.ValidateScheduling(spec); len(problems) > 0 {
		return &model.SpecError{Text: problems[0].Error()}
	}
	for i := range spec.Groups {
		g := &spec.Groups[i]
		if g.Loose() {
			return &model.SpecError{Text: "gang = false with several workers is not supported: use an array, whose elements " +
				"start one by one"}
		}
		if err := model.CheckShares(g); err != nil {
			return err
		}
	}
	return nil
}

// CheckQueue refuses a job that exceeds the limits of its queue, which has a name.
func CheckQueue(j *model.Job, name string, q *cluster.Queue) error {
	if q.MaxTime > 0 {
		if err := model.SecondsLimit("time_limit in queue "+name, j.Limit, q.MaxTime); err != nil {
			return err
		}
	}
	if k := j.Spec.Checkpoint; k != nil && k.BeforeLimit > 0 && k.BeforeLimit >= j.Limit {
		return &model.SpecError{Text: fmt.Sprintf("checkpoint.before_limit (%v) is not shorter than the time limit, which "+
			"is %v in queue %s: make it shorter, or write a longer time_limit", k.BeforeLimit, j.Limit, name)}
	}
	if j.Class != jobspec.TE {
		return nil
	}
	if q.TEMaxTime > 0 {
		if err := model.SecondsLimit("time_limit of a te job in queue "+name, j.Limit, q.TEMaxTime); err != nil {
			return fmt.Errorf("%w: write a shorter time_limit, or class = \"be\"", err)
		}
	}
	if q.TEMaxGPUs > 0 {
		gpus := model.RoundUp(j.Total().GPUs) / model.WholeGPU
		if err := model.Limit("the number of GPUs of a te job in queue "+name, gpus, int64(q.TEMaxGPUs), ""); err != nil {
			return fmt.Errorf("%w: ask for fewer, or write class = \"be\"", err)
		}
	}
	return nil
}
