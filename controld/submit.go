package controld

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// submission is the body of POST /v1/jobs in its two forms: one job, or a list of them.
type submission struct {
	Jobs *[]*jobspec.Job `json:"jobs"`
	jobspec.Job
}

// maxProblems bounds what one answer says about a submission of many jobs.
const maxProblems = 100

// submit adds jobs, all or none.
func submit(x *exchange) (any, error) {
	key := x.r.Header.Get(api.HeaderIdempotencyKey)
	if err := checkKey(key, x.r.Header.Values(api.HeaderIdempotencyKey)); err != nil {
		return nil, err
	}
	owner, err := x.owner()
	if err != nil {
		return nil, err
	}
	jobs, sum, err := x.jobs()
	if err != nil {
		return nil, err
	}
	c := cluster.SubmitJobs{Owner: owner, Key: key, Jobs: jobs}
	if key != "" {
		c.Digest = hex.EncodeToString(sum[:])
	}
	command, err := x.checked(c)
	if err != nil {
		// What was acknowledged once stays so, also when the rules or the nodes have changed since.
		if ids := x.d.machine.recall(owner.UID, key, c.Digest); ids != nil {
			return api.SubmitResponse{IDs: ids}, nil
		}
		return nil, err
	}
	result, err := x.propose(command)
	if errors.Is(err, cluster.ErrForgotten) { // what it depends on has just left the state: now the history is asked
		if command, err = x.checked(c); err != nil {
			return nil, err
		}
		result, err = x.propose(command)
	}
	if err != nil {
		return nil, err
	}
	ids, ok := result.([]cluster.JobID)
	if !ok {
		return nil, fmt.Errorf("submit: the state answered with a %T", result)
	}
	return api.SubmitResponse{IDs: ids}, nil
}

// jobs reads the body, and returns its sum as well, which tells it from others.
func (x *exchange) jobs() (jobs []*jobspec.Job, sum [sha256.Size]byte, err error) {
	body, err := x.body()
	if err != nil {
		return nil, sum, err
	}
	jobs, err = readJobs(body)
	return jobs, sha256.Sum256(body), err
}

// checked holds a submission to every rule and returns the command for it.
func (x *exchange) checked(c cluster.SubmitJobs) (cluster.Command, error) {
	if err := x.accept(c.Jobs); err != nil {
		return nil, err
	}
	x.view = x.d.machine.view.Load()
	if err := honoured(x.view, c.Owner, c.Jobs); err != nil {
		return nil, err
	}
	var err error
	c.Facts, err = x.facts(x.ctx(), c.Owner.User, c.Jobs)
	c.Admin = x.admin()
	return c, err
}

// propose replicates a command; what is read afterwards for this request has it. Once it went out it is waited for, even when the
// client goes away.
func (x *exchange) propose(c cluster.Command) (any, error) {
	value, _, err := x.d.propose(context.WithoutCancel(x.ctx()), c)
	x.view = x.d.machine.view.Load()
	return value, err
}

// checkKey accepts a key of 1 to 64 visible ASCII characters, or none.
func checkKey(key string, all []string) error {
	if len(all) == 0 {
		return nil
	}
	ok := len(all) == 1 && len(key) >= 1 && len(key) <= 64
	for i := 0; ok && i < len(key); i++ {
		ok = key[i] > ' ' && key[i] < 0x7f
	}
	if !ok {
		return invalid("%s %q: a key has 1 to 64 visible ASCII characters", api.HeaderIdempotencyKey, key[:min(len(key), 80)])
	}
	return nil
}

// owner is who the jobs will belong to and run as.
func (x *exchange) owner() (cluster.Identity, error) {
	if x.caller.Machine {
		return cluster.Identity{}, denied("a machine cannot submit jobs without saying for whom")
	}
	id := x.caller.User
	if id.UID != 0 || x.d.cfg.AllowRootJobs {
		return id, nil
	}
	if x.d.cfg.RootJobsAs != "" {
		return x.d.users.ByName(x.d.cfg.RootJobsAs)
	}
	return id, &api.Problem{Status: http.StatusForbidden, Code: api.CodeDenied, Detail: "jobs of root are refused: they would run as root on every node",
		Hint: "submit as another user, or start rota-controld with --allow-root-jobs or --root-jobs-as NAME"}
}

// readJobs reads a submission in either form.
func readJobs(body []byte) ([]*jobspec.Job, error) {
	var s submission
	if err := decodeStrict(body, &s); err != nil {
		return nil, err
	}
	if s.Jobs == nil {
		return []*jobspec.Job{&s.Job}, nil
	}
	switch n := len(*s.Jobs); {
	case n == 0:
		return nil, invalid("jobs is empty: a submission has at least one job")
	case n > cluster.MaxJobsPerCall:
		return nil, &api.Problem{Status: http.StatusRequestEntityTooLarge, Code: api.CodeTooLarge,
			Detail: fmt.Sprintf("%d jobs in one request, at most %d are allowed", n, cluster.MaxJobsPerCall), Hint: "send them in several requests"}
	}
	for i, j := range *s.Jobs {
		if j == nil {
			return nil, invalid("jobs[%d] is null", i)
		}
	}
	return *s.Jobs, nil
}

// accept fills defaults in, makes arrays of workers that start one by one, and refuses what cannot run: rules of the language first, then what no node has.
func (x *exchange) accept(jobs []*jobspec.Job) error {
	var problems []string
	code := api.CodeUnsupported
	for i, j := range jobs {
		j.Default()
		for _, p := range j.Validate() {
			if p.Code != jobspec.CodeUnsupported {
				code = api.CodeInvalidJob
			}
			if len(problems) < maxProblems {
				problems = append(problems, prefix(jobs, i)+p.Error())
			}
		}
	}
	if len(problems) > 0 {
		return &api.Problem{Status: http.StatusUnprocessableEntity, Code: code, Detail: problems[0], Errors: problems}
	}
	v := x.d.machine.view.Load()
	known := map[cluster.Shape]bool{}
	for i := range jobs {
		jobs[i] = jobs[i].Loosen()
		if p := possible(v, jobs[i], known); p != nil {
			p.Detail = prefix(jobs, i) + p.Detail
			return p
		}
	}
	return nil
}

func prefix(jobs []*jobspec.Job, i int) string {
	if len(jobs) == 1 {
		return ""
	}
	return fmt.Sprintf("jobs[%d]: ", i)
}

// possible refuses a job that no node could ever run.
func possible(v *cluster.View, j *jobspec.Job, known map[cluster.Shape]bool) *api.Problem {
	if p := reachable(v, j.Workdir); p != nil {
		return p
	}
	for _, s := range cluster.ShapesOf(j) {
		if known[s] {
			continue
		}
		if ok, why := v.Nearest(s); !ok {
			return &api.Problem{Status: http.StatusUnprocessableEntity, Code: api.CodeImpossible,
				Detail: why.Sentence(), Hint: "`rota nodes` shows what the nodes have"}
		}
		known[s] = true
	}
	return nil
}

// reachable refuses a working directory that is on no node: it has to lie below a path that the nodes share.
func reachable(v *cluster.View, dir string) *api.Problem {
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
