package server

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/problem"
	"github.com/rota-hpc/rota/controld/server/submission"
	"github.com/rota-hpc/rota/jobspec"
)

// submit adds jobs, all or none.
func submit(x *exchange) (*api.SubmitResponse, error) {
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
	runAs := ""
	if owner.UID != x.caller.User.UID {
		runAs = owner.User
		for _, j := range jobs {
			for _, name := range loginVariables { // they are root's
				delete(j.ExportEnv, name)
			}
		}
	}
	c := fsm.SubmitJobs{Owner: owner, Key: key, Jobs: jobs}
	if key != "" {
		c.Digest = hex.EncodeToString(sum[:])
	}
	command, err := x.checked(c)
	if err != nil {
		// A submission that was acknowledged stays so, also if the rules or the nodes have changed
		// since.
		if ids := x.s.Replica.Submitted(owner.UID, key, c.Digest); ids != nil {
			return &api.SubmitResponse{IDs: ids, RunAs: runAs}, nil
		}
		return nil, err
	}
	ids, err := proposeFor[[]model.JobID](x, command)
	if errors.Is(err, fsm.ErrForgotten) { // a job that it depends on has just left the state: now the history has it
		if command, err = x.checked(c); err != nil {
			return nil, err
		}
		ids, err = proposeFor[[]model.JobID](x, command)
	}
	if err != nil {
		return nil, err
	}
	x.about.ofJobs(ids)
	return &api.SubmitResponse{IDs: ids, Warnings: submission.Warnings(x.view, jobs), RunAs: runAs}, nil
}

// jobs reads the body and returns its jobs, and its checksum.
func (x *exchange) jobs() (jobs []*jobspec.Job, sum [sha256.Size]byte, err error) {
	text, err := x.body()
	if err != nil {
		return nil, sum, err
	}
	var b submission.Body
	if err := decodeStrict(text, &b); err != nil {
		return nil, sum, err
	}
	jobs, err = b.Jobs()
	return jobs, sha256.Sum256(text), err
}

// checked returns a submission with what the history has of its dependencies, or why it is refused.
func (x *exchange) checked(c fsm.SubmitJobs) (fsm.Command, error) {
	x.view = x.s.Replica.View()
	defer func() { x.about.account = c.Jobs[0].Account }()
	var err error
	if c.NewAccount, err = submission.Accept(x.view, c.Owner, x.s.payer(c.Owner), c.Jobs); err != nil {
		return nil, err
	}
	c.Facts, err = x.finder().Facts(x.ctx(), c.Owner.User, c.Jobs)
	c.Admin, c.Unlimited = x.may(partDepend), x.roles&operators != 0
	return c, err
}

// payer returns what decides which accounts a user may charge.
func (s *Server) payer(owner model.Identity) *submission.Payer {
	return &submission.Payer{User: owner.User, Group: s.groups.Name(owner.GID), GID: owner.GID,
		Listed: func(names []string) bool { return s.groups.Listed(owner, names) }}
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
		return problem.Invalid("%s %q: a key has 1 to 64 visible ASCII characters", api.HeaderIdempotencyKey,
			key[:min(len(key), 80)])
	}
	return nil
}

// loginVariables say which user it is.
var loginVariables = []string{"HOME", "USER", "LOGNAME"}

// owner is the account that the jobs will belong to and run as.
func (x *exchange) owner() (model.Identity, error) {
	id := x.caller.User
	if id.UID != 0 || x.s.AllowRootJobs {
		return id, nil
	}
	if x.s.RootJobsAs != "" {
		return x.s.Users.ByName(x.s.RootJobsAs)
	}
	return id, &api.Problem{Status: http.StatusForbidden, Code: api.CodeDenied,
		Detail: "jobs of root are refused: they would run as root on every node",
		Hint:   "submit as another user, or start rota-controld with --allow-root-jobs or --root-jobs-as NAME"}
}
