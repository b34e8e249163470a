package exchange

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// identify finds out which caller makes the request. A route that is open to its caller without
// that does not ask.
func (x *Exchange) identify() error {
	x.Roles = access.Anyone
	if fromLoopback(x.Request) {
		x.Roles |= access.Local
	}
	if x.Route.Rule.Allows(x.Roles, nil) {
		return nil
	}
	caller, err := x.s.callerOf(x.Request)
	if err == nil {
		x.Caller = &caller
	}
	return err
}

// AskIdentity finds out which caller makes a request of a route that asks for no identity, as far as the
// caller shows one.
func (x *Exchange) AskIdentity() {
	if x.Caller != nil {
		return
	}
	if caller, err := x.s.callerOf(x.Request); err == nil {
		x.Caller, x.Roles = &caller, x.Roles|x.s.rolesOf(&caller, x.Config())
	}
}

// callerOf identifies the caller of a request: by its API token if it shows one, and otherwise by
// its connection.
func (s *Service) callerOf(r *http.Request) (identity.Caller, error) {
	if !shown(r) {
		return s.guard.Caller(r)
	}
	c, err := s.bearer(r)
	if r.Header.Get(HeaderForwarded) != "" {
		if by, err := s.guard.Caller(r); err == nil {
			c.Origin = by.Origin
		}
	}
	return c, err
}

// fromLoopback reports whether the other end of a request's connection is on this machine.
func fromLoopback(r *http.Request) bool {
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && addr.Network() == "unix" {
		return true
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && from.Addr().Unmap().IsLoopback()
}

// authorise refuses the request unless the rule of its route allows it to its caller. This is the
// one place where rules are enforced. A long poll asks again when its wait is over.
func (x *Exchange) authorise() error {
	if err := x.authoriseToken(); err != nil {
		return err
	}
	if err := x.authoriseJob(); err != nil {
		return err
	}
	rule := &x.Route.Rule
	cfg := x.Config()
	x.Roles &= access.Anyone | access.Local
	if x.Caller != nil {
		x.Roles |= x.s.rolesOf(x.Caller, cfg)
	}
	x.coordinated = nil
	has := x.Roles
	if rule.About == access.OneNode && !x.isNode() {
		has &^= access.Node
	}
	if rule.About != access.OneJob {
		return x.refuseUnless(rule.Allows(has, cfg.Private))
	}
	if has&access.User == 0 {
		return x.refuseUnless(false)
	}
	r, err := x.JobRef()
	if err == nil {
		x.About.Jobs = r.Spans()
	}
	switch {
	case err != nil:
		return err
	case r.Job == nil:
		x.About.hidden = x.hides(r.ID)
		return problem.NotFound("unknown job %s", r.Text)
	case rule.Allows(x.RolesTo(r.Job), cfg.Private):
		return nil
	}
	return x.DeniedJob(r.Job.ID)
}

// hides reports whether there is a job that is hidden from the caller.
func (x *Exchange) hides(id model.JobID) bool {
	f := x.Finder()
	if f.Hides == nil {
		return false
	}
	f.Hides = nil
	j, err := f.Find(x.Context(), id)
	return err == nil && j != nil
}

// DeniedJob is the refusal of a request for another user's job. It tells nothing of the job.
func (x *Exchange) DeniedJob(id model.JobID) error {
	may := "its owner, coordinators of its account, operators and admins"
	if x.Route.Rule.Roles == access.Owner {
		may = "its owner"
	}
	return problem.Denied("job %d is another user's: only %s may do this", id, may)
}

func (x *Exchange) refuseUnless(allowed bool) error {
	if allowed {
		return nil
	}
	return problem.Denied("%s %s is allowed only for: %s", x.Route.Method, x.Route.Path, x.Route.Rule.Roles)
}

// isNode reports whether the request is of the node that the path names.
func (x *Exchange) isNode() bool {
	return x.Caller != nil && x.Caller.From == x.Request.PathValue("name")
}

// Config is the replicated configuration in the state that the answer is made from.
func (x *Exchange) Config() *cluster.Config {
	if x.View == nil {
		return x.s.Replica.View().Config()
	}
	return x.View.Config()
}

// memberRoles are the roles of members by those of their certificates.
var memberRoles = map[string]access.Role{string(pki.Node): access.Node, string(pki.Login): access.Login,
	string(pki.Controller): access.Controller}

// ThroughNode reports whether a compute node vouches for the caller's user. Jobs run there, and a
// job that breaks out as root could name any user of the cluster. So such a caller is an ordinary
// user.
func ThroughNode(c *identity.Caller) bool {
	return c.Token == "" && !c.Machine && c.Role == string(pki.Node)
}

// elevated reports whether what the configuration gives the caller's user beyond an ordinary user
// counts.
func elevated(c *identity.Caller) bool {
	if c.Token != "" {
		return trust.TokenScope(c.Scope) == trust.ScopeAll
	}
	return !ThroughNode(c)
}

// rolesOf returns the roles that a caller has whatever its request is about. Root of a login node is
// no more than a user. It could make a token of root there, so that a token of root is no more
// either.
func (s *Service) rolesOf(c *identity.Caller, cfg *cluster.Config) access.Role {
	ofController := c.Token == "" && c.Role == "" || c.Role == string(pki.Controller)
	switch {
	case c.Machine:
		return memberRoles[c.Role]
	case !elevated(c):
		return access.User
	case c.User.UID == 0 && ofController, s.Groups.Listed(c.User, cfg.Admins):
		return access.User | access.Operator | access.Admin
	case s.Groups.Listed(c.User, cfg.Operators):
		return access.User | access.Operator
	}
	return access.User
}

// RolesTo returns the roles of the caller with those that it has towards a job.
func (x *Exchange) RolesTo(j *model.Job) access.Role {
	has := x.Roles
	if has&access.User == 0 {
		return has
	}
	// the jobs of root run as another account, and are root's all the same
	asRoot := x.Caller.User.UID == 0 && x.s.RootJobsAs != "" && j.Owner.User == x.s.RootJobsAs
	if j.Owner.UID == x.Caller.User.UID || asRoot {
		has |= access.Owner
	}
	if x.coordinates(j.Account) {
		has |= access.Coordinator
	}
	return has
}

// MayOnAccount reports whether the caller may use a part of the route for an account.
func (x *Exchange) MayOnAccount(p *access.Part, account string) bool {
	has := x.Roles
	if x.coordinates(account) {
		has |= access.Coordinator
	}
	return x.Route.Rule.AllowsPart(p, has, x.Config().Private)
}

// coordinates reports whether the caller is a coordinator of an account.
func (x *Exchange) coordinates(account string) bool {
	does, known := x.coordinated[account]
	if !known {
		does = elevated(x.Caller) && x.s.listedIn(x.Caller, x.Config().CoordinatorLists(account))
		if x.coordinated == nil {
			x.coordinated = map[string]bool{}
		}
		x.coordinated[account] = does
	}
	return does
}

// listedIn reports whether one of the lists has the caller's user.
func (s *Service) listedIn(c *identity.Caller, lists [][]string) bool {
	return slices.ContainsFunc(lists, func(names []string) bool { return s.Groups.Listed(c.User, names) })
}

// explained adds to the refusal of a request through a compute node where a user that has a role
// makes it.
func (x *Exchange) explained(p *api.Problem) *api.Problem {
	if p.Status != http.StatusForbidden || p.Hint != "" || x.Caller == nil || !ThroughNode(x.Caller) {
		return p
	}
	cfg := x.Config()
	lists := [][]string{cfg.Operators, cfg.Admins}
	for name := range cfg.Accounts {
		lists = append(lists, cfg.CoordinatorLists(name)...)
	}
	if !x.s.listedIn(x.Caller, lists) {
		return p
	}
	told := *p
	told.Hint = fmt.Sprintf("node %s runs jobs, so only ordinary users can send requests through it: operators, admins "+
		"and coordinators must use a login node, a controller or an API token", x.Caller.From)
	return &told
}

// May reports whether the caller may use a part of the route.
func (x *Exchange) May(p *access.Part) bool {
	return x.Route.Rule.AllowsPart(p, x.Roles, x.Config().Private)
}

// MayOn reports whether the caller may use a part of the route for a job.
func (x *Exchange) MayOn(p *access.Part, j *model.Job) bool {
	if p == access.PartDetails && x.insideJob() && j.ID != x.Caller.Job {
		return false
	}
	return x.Route.Rule.AllowsPart(p, x.RolesTo(j), x.Config().Private)
}

// OwnAccounts returns the accounts that name the caller, its default account, and those in which it
// has jobs.
func (x *Exchange) OwnAccounts() map[string]bool {
	own, user := map[string]bool{}, x.Caller.User.User
	for name, a := range x.View.Config().Accounts {
		_, own[name] = a.Users[user]
	}
	if name := x.View.Config().DefaultAccountOf(user); name != "" {
		own[name] = true
	}
	for _, id := range x.s.Replica.JobsOf(user) {
		if j := x.View.Job(id); j != nil {
			own[j.Account] = true
		}
	}
	return own
}
