package controld

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// honoured refuses by name what a job asks of this cluster and would not get: another user, or longer to stop than its queue allows.
func honoured(v *cluster.View, owner cluster.Identity, jobs []*jobspec.Job) error {
	for i, j := range jobs {
		q, known := v.Config().Queues[cmp.Or(j.Queue, "default")]
		for g := range j.Groups {
			for _, t := range j.Groups[g].Tasks {
				if t.User != "" && t.User != owner.User {
					return &api.Problem{Status: http.StatusUnprocessableEntity, Code: api.CodeUnsupported,
						Detail: fmt.Sprintf("%suser = %q: running as somebody else than the submitter (%s) is not supported yet", prefix(jobs, i), t.User, owner.User)}
				}
				if known && q.MaxGrace > 0 && t.KillTimeout > q.MaxGrace {
					return tooLong(jobs, i, "kill_timeout", t.KillTimeout, q.MaxGrace)
				}
			}
		}
		if p := j.Preemption; known && p != nil && q.MaxGrace > 0 && p.GracePeriod > q.MaxGrace {
			return tooLong(jobs, i, "grace_period", p.GracePeriod, q.MaxGrace)
		}
	}
	return nil
}

func tooLong(jobs []*jobspec.Job, i int, name string, got, most jobspec.Seconds) error {
	return &api.Problem{Status: http.StatusUnprocessableEntity, Code: api.CodeInvalidJob,
		Detail: fmt.Sprintf("%s%s of %v is longer than the queue's max_grace of %v", prefix(jobs, i), name, got, most)}
}
