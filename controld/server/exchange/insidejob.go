package exchange

import (
	"fmt"
	"net/http"

	"github.com/rota-hpc/rota/controld/api"
)

// InJob is what a process of a job may use a route for. A node vouches for such a process, by
// the socket in the job's container. It never has another role than user, and owner.
type InJob string

// Purposes for which processes of jobs may use routes.
const (
	ItsOwnJob InJob = "its own job"
	ReadOnly  InJob = "yes"
	NotInJob  InJob = "no"
)

// InsideJob returns what processes of jobs may use a route for: what reads, and nothing that acts,
// unless the route says otherwise.
func (rt *Route) InsideJob() InJob {
	switch {
	case rt.InJob != "":
		return rt.InJob
	case rt.Method == http.MethodGet:
		return ReadOnly
	}
	return NotInJob
}

// insideJob reports whether a process of a job makes the request, without a token of its own.
func (x *Exchange) insideJob() bool { return x.Caller != nil && x.Caller.Job != 0 }

// runsThere reports whether the job for whose process a node vouches runs on that node, and is of
// that user. A node that was broken into can speak for no other job.
func (x *Exchange) runsThere() bool {
	v := x.View
	if v == nil {
		v = x.s.Replica.View()
	}
	j := v.Job(x.Caller.Job)
	if j == nil || j.Live() == nil || j.Owner.UID != x.Caller.User.UID {
		return false
	}
	for i := range j.Live().Workers {
		if j.Live().Workers[i].Node == x.Caller.From {
			return true
		}
	}
	return false
}

// authoriseJob refuses requests that a process of a job may not make. It may change its own job
// alone; for a task of an array that is the task.
func (x *Exchange) authoriseJob() error {
	if !x.insideJob() {
		return nil
	}
	if !x.runsThere() {
		return refusedInJob("node %s sent a request for a process of job %d, which does not run there", x.Caller.From,
			x.Caller.Job)
	}
	switch x.Route.InsideJob() {
	case ReadOnly:
		return nil
	case ItsOwnJob:
		r, err := x.JobRef()
		if err == nil && r.Job != nil {
			if id, single := r.One(); single && id == x.Caller.Job {
				return nil
			}
		}
		if x.Route.Method == http.MethodGet {
			return refusedInJob("processes of a job can read the output and the metrics of that job only: this is job %d",
				x.Caller.Job)
		}
	}
	return refusedInJob("processes of a job can change only that job: this is job %d, and %s %s is not for it",
		x.Caller.Job, x.Route.Method, x.Request.URL.Path)
}

func refusedInJob(format string, args ...any) error {
	p := &api.Problem{Status: http.StatusForbidden, Code: api.CodeDenied, Detail: fmt.Sprintf(format, args...)}
	p.Hint = "run the command outside of the job, or give the job an API token as a secret and set ROTA_TOKEN and " +
		"ROTA_ADDR in it"
	return p
}
