package jobs

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/problem"
	"github.com/rota-hpc/rota/controld/server/submission"
	"github.com/rota-hpc/rota/jobspec"
)

// submit adds jobs, all or none.
func (h *Handlers) submit(x *exchange.Exchange) (*api.SubmitResponse, error) {
	key := x.Request.Header.Get(api.HeaderIdempotencyKey)
	if err := checkKey(key, x.Request.Header.Values(api.HeaderIdempotencyKey)); err != nil {
		return nil, err
	}
	owner, err := h.owner(x)
	if err != nil {
		return nil, err
	}
	jobs, sum, err := jobs(x)
	if err != nil {
		return nil, err
	}
	runAs := ""
	if owner.UID != x.Caller.User.UID {
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
	command, err := h.checked(x, c)
	if err != nil {
		// A submission that was acknowledged stays so, also if the rules or the nodes have changed
		// since.
		if ids := h.Replica.Submitted(owner.UID, key, c.Digest); ids != nil {
			return &api.SubmitResponse{IDs: ids, RunAs: runAs}, nil
		}
		return nil, err
	}
	ids, err := exchange.ProposeFor[[]model.JobID](x, command)
	if errors.Is(err, fsm.ErrForgotten) { // a job that it depends on has just left the state: now the history has it
		if command, err = h.checked(x, c); err != nil {
			return nil, err
		}
		ids, err = exchange.ProposeFor[[]model.JobID](x, command)
	}
	if err != nil {
		return nil, err
	}
	x.About.AddJobs(ids)
	return &api.SubmitResponse{IDs: ids, Warnings: submission.Warnings(x.View, jobs), RunAs: runAs}, nil
}

// Jobs reads the body and returns its jobs, and its checksum.
func jobs(x *exchange.Exchange) (jobs []*jobspec.Job, sum [sha256.Size]byte, err error) {
	text, err := x.Body()
	if err != nil {
		return nil, sum, err
	}
	var b submission.Body
	if err := exchange.DecodeStrict(text, &b); err != nil {
		return nil, sum, err
	}
	jobs, err = b.Jobs()
	return jobs, sha256.Sum256(text), err
}

// checked returns a submission with what the history has of its dependencies, or why it is refused.
func (h *Handlers) checked(x *exchange.Exchange, c fsm.SubmitJobs) (fsm.Command, error) {
	x.View = h.Replica.View()
	defer func() { x.About.Account = c.Jobs[0].Account }()
	var err error
	if c.NewAccount, c.Group, err = submission.Accept(x.View, c.Owner, h.payer(x.Caller, c.Owner), c.Jobs); err != nil {
		return nil, err
	}
	c.Facts, err = x.Finder().Facts(x.Context(), c.Owner.User, c.Jobs)
	c.Admin, c.Unlimited = x.May(access.PartDepend), x.Roles&access.Operator != 0
	return c, err
}

// payer returns what decides which accounts a user may charge. The machine that vouches for the user
// names its primary group, or else this one does.
func (h *Handlers) payer(caller *identity.Caller, owner model.Identity) *submission.Payer {
	group := caller.Group
	if caller.User.UID != owner.UID {
		group = identity.Group{GID: owner.GID} // jobs of root belong to another user
	}
	return &submission.Payer{User: owner.User, Group: cmp.Or(group.Name, h.Groups.Name(group.GID)), GID: group.GID,
		Listed: func(names []string) bool { return h.Groups.Listed(owner, names) }}
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
func (h *Handlers) owner(x *exchange.Exchange) (model.Identity, error) {
	id := x.Caller.User
	if id.UID != 0 || h.AllowRootJobs {
		return id, nil
	}
	if h.RootJobsAs != "" {
		return h.Users.ByName(h.RootJobsAs)
	}
	return id, &api.Problem{Status: http.StatusForbidden, Code: api.CodeDenied,
		Detail: "jobs of root are refused: they would run as root on every node",
		Hint:   "submit as another user, or start rota-controld with --allow-root-jobs or --root-jobs-as NAME"}
}
