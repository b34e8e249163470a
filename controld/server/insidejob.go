package server

import (
	"fmt"
	"net/http"

	"github.com/rota-hpc/rota/controld/api"
)

// insideJob is what a process of a job may use a route for. A node vouches for such a process, by
// the socket in the job's container. It never has another role than user, and owner.
type insideJob string

// Purposes for which processes of jobs may use routes.
const (
	itsOwn   insideJob = "its own job"
	readOnly insideJob = "yes"
	notInJob insideJob = "no"
)

// insideJob returns what processes of jobs may use a route for: what reads, and nothing that acts,
// unless the route says otherwise.
func (rt *route) insideJob() insideJob {
	switch {
	case rt.inJob != "":
		return rt.inJob
	case rt.Method == http.MethodGet:
		return readOnly
	}
	return notInJob
}

// insideJob reports whether a process of a job makes the request, without a token of its own.
func (x *exchange) insideJob() bool { return x.caller != nil && x.caller.Job != 0 }

// runsThere reports whether the job for whose process a node vouches runs on that node, and is of
// that user. A node that was broken into can speak for no other job.
func (x *exchange) runsThere() bool {
	v := x.view
	if v == nil {
		v = x.s.Replica.View()
	}
	j := v.Job(x.caller.Job)
	if j == nil || j.Live() == nil || j.Owner.UID != x.caller.User.UID {
		return false
	}
	for i := range j.Live().Workers {
		if j.Live().Workers[i].Node == x.caller.From {
			return true
		}
	}
	return false
}

// authoriseJob refuses requests that a process of a job may not make. It may change its own job
// alone; for a task of an array that is the task.
func (x *exchange) authoriseJob() error {
	if !x.insideJob() {
		return nil
	}
	if !x.runsThere() {
		return refusedInJob("node %s vouches for a process of job %d, which does not run there", x.caller.From, x.caller.Job)
	}
	switch x.rt.insideJob() {
	case readOnly:
		return nil
	case itsOwn:
		r, err := x.jobRef()
		if err == nil && r.Job != nil {
			if id, single := r.One(); single && id == x.caller.Job {
				return nil
			}
		}
		if x.rt.Method == http.MethodGet {
			return refusedInJob("from inside a job only the output and the metrics of its own job can be read: this is job %d",
				x.caller.Job)
		}
	}
	return refusedInJob("from inside a job only its own job can be changed: this is job %d, and %s %s is not for it",
		x.caller.Job, x.rt.Method, x.r.URL.Path)
}

func refusedInJob(format string, args ...any) error {
	p := &api.Problem{Status: http.StatusForbidden, Code: api.CodeDenied, Detail: fmt.Sprintf(format, args...)}
	p.Hint = "do it outside of the job, or give the job an API token as a secret and set ROTA_TOKEN and ROTA_ADDR there"
	return p
}
