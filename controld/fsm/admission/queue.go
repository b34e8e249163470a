package admission

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// CheckQueue refuses a job that exceeds the limits of its queue, which has a name.
func CheckQueue(j *model.Job, name string, q *model.Queue) error {
	if q.MaxTime > 0 {
		if err := model.SecondsLimit("time_limit in queue "+name, j.Limit, q.MaxTime); err != nil {
			return err
		}
	}
	if j.Class != jobspec.TE {
		return nil
	}
	if q.TEMaxTime > 0 {
		if err := model.SecondsLimit("time_limit of a te job in queue "+name, j.Limit, q.TEMaxTime); err != nil {
			return err
		}
	}
	if q.TEMaxGPUs > 0 {
		gpus := model.RoundUp(j.Total().GPUs) / model.WholeGPU
		return model.Limit("the number of GPUs of a te job in queue "+name, gpus, int64(q.TEMaxGPUs), "")
	}
	return nil
}
