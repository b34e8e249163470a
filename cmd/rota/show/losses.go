package show

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// OutputLosses says which output of an attempt could not be written, a line for each worker and
// each step. It is about one worker if that is not negative, and then about no steps.
func OutputLosses(id model.JobID, a *api.Attempt, worker int) []string {
	var lines []string
	for _, l := range a.OutputLostBy {
		if worker < 0 || l.Worker == worker {
			lines = append(lines, fmt.Sprintf("%d bytes of output of worker %d were lost: %s on node %s", l.Bytes, l.Worker,
				Clean(l.Error), l.Node))
		}
	}
	for i := range a.Steps {
		if s := &a.Steps[i]; worker < 0 && s.OutputLost > 0 {
			lines = append(lines, fmt.Sprintf("%d bytes of output of step %d.%d were lost: %s where srun wrote it",
				s.OutputLost, id, s.ID, Clean(s.OutputError)))
		}
	}
	return lines
}

// OutputLost returns how many bytes of output of all attempts of a job could not be written.
func OutputLost(j *api.Job) (sum int64) {
	for i := range j.Attempts {
		sum += j.Attempts[i].OutputLost
	}
	return sum
}
