// Package submission reads submitted jobs and refuses those that could not run in this cluster.
package submission

import (
	"cmp"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/problem"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/rules"
)

// Body is the body of POST /v1/jobs in its two forms: one job, or a list of them.
type Body struct {
	List *[]*jobspec.Job `json:"jobs"`
	jobspec.Job
}

// Jobs returns the jobs of a body.
func (b *Body) Jobs() ([]*jobspec.Job, error) {
	if b.List == nil {
		return []*jobspec.Job{&b.Job}, nil
	}
	switch n := len(*b.List); {
	case n == 0:
		return nil, problem.Invalid("jobs is empty: a submission has at least one job")
	case n > model.MaxJobsPerCall:
		return nil, &api.Problem{Status: http.StatusRequestEntityTooLarge, Code: api.CodeTooLarge,
			Detail: fmt.Sprintf("%d jobs in one request, at most %d are allowed", n, model.MaxJobsPerCall),
			Hint:   "send them in several requests"}
	}
	for i, j := range *b.List {
		if j == nil {
			return nil, problem.Invalid("jobs[%d] is null", i)
		}
	}
	return *b.List, nil
}

// maxProblems is how many problems one answer lists.
const maxProblems = 100

// Accept fills in defaults, makes arrays of workers that start one by one, and refuses jobs that
// break a rule of the language, that no node could run, or that ask for what this cluster does not
// do, or whose account the payer may not charge. It returns the account that is to be created, ""
// for none.
func Accept(v *state.View, owner model.Identity, payer *Payer, jobs []*jobspec.Job) (create string, err error) {
	if err := check(jobs); err != nil {
		return "", err
	}
	if create, err = payer.charge(v, jobs); err != nil {
		return "", err
	}
	known := map[model.Shape]bool{}
	for i := range jobs {
		jobs[i] = jobs[i].Loosen()
		if p := possible(v, jobs[i], known); p != nil {
			p.Detail = Prefix(jobs, i) + p.Detail
			return "", p
		}
	}
	return create, honoured(v, owner, jobs)
}

// check fills in defaults and refuses jobs that break a rule of the language, with all problems.
func check(jobs []*jobspec.Job) error {
	var problems []string
	code := api.CodeUnsupported
	for i, j := range jobs {
		j.Default()
		for _, p := range rules.Validate(j) {
			if p.Code != jobspec.CodeUnsupported {
				code = api.CodeInvalidJob
			}
			if len(problems) < maxProblems {
				problems = append(problems, Prefix(jobs, i)+p.Error())
			}
		}
	}
	if len(problems) > 0 {
		return &api.Problem{Status: http.StatusUnprocessableEntity, Code: code, Detail: problems[0], Errors: problems}
	}
	return nil
}

// Prefix says which of several jobs a message is about.
func Prefix(jobs []*jobspec.Job, i int) string {
	if len(jobs) == 1 {
		return ""
	}
	return fmt.Sprintf("jobs[%d]: ", i)
}

// possible refuses a job that no node could ever run.
func possible(v *state.View, j *jobspec.Job, known map[model.Shape]bool) *api.Problem {
	if p := reachable(v, j.Workdir); p != nil {
		return p
	}
	for _, s := range model.ShapesOf(j) {
		if known[s] {
			continue
		}
		if ok, why := v.NearestFit(s); !ok {
			return &api.Problem{Status: http.StatusUnprocessableEntity, Code: api.CodeImpossible,
				Detail: why.Sentence(), Hint: "`rota nodes` shows what the nodes have"}
		}
		known[s] = true
	}
	return nil
}

// reachable refuses a working directory that is not below a path that the nodes share.
func reachable(v *state.View, dir string) *api.Problem {
	nodes := v.Nodes()
	if dir == "" || len(nodes) == 0 {
		return nil
	}
	var shared []string
	for _, n := range nodes {
		for _, p := range n.SharedPath {
			if below(dir, p) {
				return nil
			}
			if !slices.Contains(shared, p) {
				shared = append(shared, p)
			}
		}
	}
	slices.Sort(shared)
	list := "the nodes share no path"
	if len(shared) > 0 {
		list = "the nodes share " + strings.Join(shared, ", ")
	}
	return &api.Problem{Status: http.StatusUnprocessableEntity, Code: api.CodeInvalidJob,
		Detail: fmt.Sprintf("the working directory %s is not on the nodes: %s", dir, list),
		Hint:   "submit from a directory below one of these, or set workdir"}
}

// below reports whether dir is root or lies in it.
func below(dir, root string) bool {
	dir, root = path.Clean(dir), path.Clean(root)
	return dir == root || root == "/" || strings.HasPrefix(dir, root+"/")
}

// honoured refuses what a job asks of this cluster and would not get: another user, or more time to
// stop than its queue allows.
func honoured(v *state.View, owner model.Identity, jobs []*jobspec.Job) error {
	for i, j := range jobs {
		q, known := v.Config().Queues[cmp.Or(j.Queue, "default")]
		for g := range j.Groups {
			for _, t := range j.Groups[g].Tasks {
				if t.User != "" && t.User != owner.User {
					return &api.Problem{Status: http.StatusUnprocessableEntity, Code: api.CodeUnsupported,
						Detail: fmt.Sprintf("%suser = %q: running as another user than the submitter (%s) is not supported yet",
							Prefix(jobs, i), t.User, owner.User)}
				}
				if known && q.MaxGrace > 0 && t.KillTimeout > q.MaxGrace {
					return tooLong(jobs, i, "kill_timeout", t.KillTimeout, q.MaxGrace)
				}
			}
		}
		if p := j.Preemption; known && p != nil && p.Mode == jobspec.PreemptSuspend &&
			cmp.Or(j.Class, q.DefaultClass) == jobspec.TE {
			return &api.Problem{Status: http.StatusUnprocessableEntity, Code: api.CodeInvalidJob,
				Detail: fmt.Sprintf("%spreemption.mode: jobs of queue %q are trial-and-error jobs unless they say otherwise, "+
					"which are never asked to leave, so they do not pause either", Prefix(jobs, i), cmp.Or(j.Queue, "default")),
				Hint: `leave mode out, or write class = "be"`}
		}
		if p := j.Preemption; known && p != nil && q.MaxGrace > 0 && p.GracePeriod > q.MaxGrace {
			return tooLong(jobs, i, "grace_period", p.GracePeriod, q.MaxGrace)
		}
	}
	return nil
}

func tooLong(jobs []*jobspec.Job, i int, name string, got, most jobspec.Seconds) error {
	return &api.Problem{Status: http.StatusUnprocessableEntity, Code: api.CodeInvalidJob,
		Detail: fmt.Sprintf("%s%s of %v is longer than the queue's max_grace of %v", Prefix(jobs, i), name, got, most)}
}

// Warnings says what jobs that were accepted ask for and do not get with the nodes that there are.
func Warnings(v *state.View, jobs []*jobspec.Job) []string {
	pauses := func(j *jobspec.Job) bool { return j.Preemption != nil && j.Preemption.Mode == jobspec.PreemptSuspend }
	if v.AnySuspends() || !slices.ContainsFunc(jobs, pauses) {
		return nil
	}
	return []string{`preemption mode "suspend": no node can suspend jobs, so the job is stopped instead when another ` +
		"job gets its room"}
}
