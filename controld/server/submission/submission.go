// Package submission reads submitted jobs and refuses those that could not run in this cluster.
package submission

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
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
		return nil, problem.Invalid("jobs is empty: submit at least one job")
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

// Accept fills in defaults and makes arrays of workers that start one by one. It refuses jobs that
// break a rule, that no node could run, that request unsupported things, or whose account the payer
// may not charge. It returns the account that is to be created, "" for none. It also returns the account of the
// payer's group, nil if the state has it.
func Accept(
	v *state.View, owner model.Identity, payer *Payer, jobs []*jobspec.Job,
) (create string, group *cluster.GroupAccount, err error) {
	if err := check(jobs); err != nil {
		return "", nil, err
	}
	if create, group, err = payer.charge(v, jobs); err != nil {
		return "", nil, err
	}
	known, found := map[model.Shape]fits{}, &findings{jobs: jobs}
	for i := range jobs {
		jobs[i] = jobs[i].Loosen()
		found.job = i
		found.impossible(v, jobs[i], known)
		found.notHonoured(v, owner, jobs[i])
	}
	return create, group, found.problem()
}

// findings are what keeps jobs from running in this cluster, so that all of it is said at once.
type findings struct {
	jobs   []*jobspec.Job
	job    int          // which of them is looked at
	first  *api.Problem // nil: nothing was found
	errors []string
}

// add notes what is wrong with a job, and what to do about it.
func (f *findings) add(code, hint, format string, args ...any) {
	detail := Prefix(f.jobs, f.job) + fmt.Sprintf(format, args...)
	if f.first == nil {
		f.first = &api.Problem{Status: http.StatusUnprocessableEntity, Code: code, Detail: detail, Hint: hint}
	}
	if len(f.errors) < maxProblems && !slices.Contains(f.errors, detail) {
		f.errors = append(f.errors, detail)
	}
}

// problem returns the answer, nil if nothing was found. It has all that was found, and the hint of the
// first.
func (f *findings) problem() error {
	if f.first == nil {
		return nil
	}
	if len(f.errors) > 1 {
		f.first.Errors = f.errors
	}
	return f.first
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

// fits says whether some node could ever do a shape, and else what it lacks.
type fits struct {
	ok  bool
	why model.Reason
}

// impossible finds what no node could ever do. known are the shapes that were looked up before.
func (f *findings) impossible(v *state.View, j *jobspec.Job, known map[model.Shape]fits) {
	f.unreachable(v, j.Workdir)
	if why := v.Config().LacksLicenses(&model.Job{Spec: j}, nil); why.Code != model.ReasonNone {
		f.add(api.CodeImpossible, "the cluster has "+cmp.Or(jobspec.LicenseText(v.Config().Licenses), "no licences"),
			"%s", why.Sentence())
	}
	queue := v.Config().Queues[v.Config().QueueName(j.Queue)]
	for _, s := range model.ShapesOf(j, queue.Where()) {
		at, seen := known[s]
		if !seen {
			at.ok, at.why = v.NearestFit(s)
			known[s] = at
		}
		if why := at.why; !at.ok {
			hint := "`rota nodes` shows the nodes' resources"
			if why.Need.Memory > why.Have.Memory && usualMemory(j) {
				hint = fmt.Sprintf("a task without memory (--mem) requests %v for each of its cores: set it; %s",
					jobspec.DefaultMemoryPerCore, hint)
			}
			f.add(api.CodeImpossible, hint, "%s", why.Sentence())
		}
	}
}

// misspelt finds names of nodes to keep away from that no node has. A job would run where it was not to run.
func (f *findings) misspelt(v *state.View, j *jobspec.Job) {
	names, _ := jobspec.ExpandNodes(j.ExcludeNodes) // an error is refused already
	for i := range j.Groups {
		for _, c := range j.Groups[i].Constraints { // so do components of a script say it
			if c.Attribute == "node.name" && c.Operator == "not_in" {
				names = append(names, c.Values...)
			}
		}
	}
	for _, name := range names {
		if n, _ := v.Node(name); n == nil {
			f.add(api.CodeInvalidJob, "`rota nodes` lists them",
				"exclude_nodes: invalid node name %q: the cluster has no such node", name)
			return // they may be many
		}
	}
}

// usualMemory reports whether a task asks for as much memory as one that does not say how much.
func usualMemory(j *jobspec.Job) bool {
	return slices.ContainsFunc(j.Groups, func(g jobspec.Group) bool {
		return slices.ContainsFunc(g.Tasks, func(t jobspec.Task) bool {
			usual := jobspec.Resources{Cores: t.Resources.Cores}
			usual.Default()
			return t.Resources.Memory == usual.Memory
		})
	})
}

// unreachable finds a working directory that is not below a path that the nodes share.
func (f *findings) unreachable(v *state.View, dir string) {
	nodes := v.Nodes()
	if dir == "" || len(nodes) == 0 {
		return
	}
	var shared []string
	for _, n := range nodes {
		for _, p := range n.SharedPath {
			if below(dir, p) {
				return
			}
			if !slices.Contains(shared, p) {
				shared = append(shared, p)
			}
		}
	}
	slices.Sort(shared)
	list := "the nodes have no shared path"
	if len(shared) > 0 {
		list = "the nodes share " + strings.Join(shared, ", ")
	}
	f.add(api.CodeInvalidJob, "submit from a directory below one of these, or set workdir",
		"the working directory %s does not exist on the nodes: %s", dir, list)
}

// below reports whether dir is root or lies in it.
func below(dir, root string) bool {
	dir, root = path.Clean(dir), path.Clean(root)
	return dir == root || root == "/" || strings.HasPrefix(dir, root+"/")
}

// notHonoured finds requests that this cluster would not honour: unknown nodes to avoid, another
// user, or a longer grace period than the queue allows.
func (f *findings) notHonoured(v *state.View, owner model.Identity, j *jobspec.Job) {
	f.misspelt(v, j)
	name := v.Config().QueueName(j.Queue)
	q, known := v.Config().Queues[name]
	if !known {
		f.add(api.CodeInvalidJob, "", "queue %q: %v: the cluster has %s", name, model.ErrNoQueue,
			strings.Join(slices.Sorted(maps.Keys(v.Config().Queues)), ", "))
	}
	for g := range j.Groups {
		for _, t := range j.Groups[g].Tasks {
			if t.User != "" && t.User != owner.User {
				f.add(api.CodeUnsupported, "", "user = %q: running as another user than the submitter (%s) is not supported yet",
					t.User, owner.User)
			}
			if known {
				f.tooLong("kill_timeout", t.KillTimeout, q.MaxGrace)
			}
		}
	}
	p := j.Preemption
	if !known || p == nil {
		return
	}
	if p.Mode == jobspec.PreemptSuspend && cmp.Or(j.Class, q.DefaultClass) == jobspec.TE {
		f.add(api.CodeInvalidJob, `leave mode out, or write class = "be"`,
			"preemption.mode: by default, jobs of queue %q are trial-and-error jobs, which are never preempted, so they "+
				"cannot be suspended either", name)
	}
	f.tooLong("grace_period", p.GracePeriod, q.MaxGrace)
}

// tooLong finds a time to stop that a queue does not allow. most 0 allows any.
func (f *findings) tooLong(name string, got, most jobspec.Seconds) {
	if most > 0 && got > most {
		f.add(api.CodeInvalidJob, "", "%s of %v is longer than the queue's max_grace of %v", name, got, most)
	}
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
