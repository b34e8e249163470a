package server

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

// The rules of routes. Each route is registered with one of them; what is only for some of the
// callers of a route is a part of it. Handlers ask for parts, with may and mayOn, and for nothing
// else.
const (
	family    = access.Owner | access.Coordinator // of a job
	operators = access.Operator
)

// Parts of routes.
var (
	// partDetails is what present.Redact takes away.
	partDetails = &access.Part{Name: "command, script, environment, secrets, paths, parameters, output of a job",
		Roles: family | operators}
	partJobs   = otherJobs()
	partEnded  = otherJobs(cluster.PrivateUsage)
	partEvents = otherJobs(cluster.PrivateEvents)
	partNodes  = &access.Part{Name: "events of nodes", Roles: access.User | operators,
		Private: []string{cluster.PrivateEvents}}
	partAct     = &access.Part{Name: "a job of the selection", Roles: family | operators}
	partHold    = &access.Part{Name: "a hold that its owner cannot end", Roles: access.Coordinator | operators}
	partRelease = &access.Part{Name: "a job that an operator holds", Roles: access.Coordinator | operators}
	partBeyond  = &access.Part{Name: "a time limit above the queue's maximum, or a longer one while the job runs",
		Roles: operators}
	partDepend = &access.Part{Name: "a dependency on a job of another user", Roles: operators}
	partUsage  = &access.Part{Name: "shares of other users",
		Roles: access.User | access.Coordinator | operators, Private: []string{cluster.PrivateUsage}}
	partTokens = &access.Part{Name: "API tokens of other users, but not of root", Roles: access.Admin}
	partAudit  = &access.Part{Name: "requests of other users", Roles: access.Admin}

	partFigures = &access.Part{Name: "figures of accounts", Roles: access.Local | access.Members | operators,
		Private: []string{cluster.PrivateAccounts, cluster.PrivateUsage}}
	partAccounts = &access.Part{Name: "accounts that the user is not in",
		Roles: access.User | access.Coordinator | operators, Private: []string{cluster.PrivateAccounts}}
)

// otherJobs is the part of an answer that is about jobs of other users. It is private with the jobs
// themselves.
func otherJobs(words ...string) *access.Part {
	return &access.Part{Name: "jobs of other users", Roles: access.User | family | operators,
		Private: append([]string{cluster.PrivateJobs}, words...)}
}

var (
	forUsers       = access.Rule{Roles: access.User}
	forOperators   = access.Rule{Roles: operators}
	forAdmins      = access.Rule{Roles: access.Admin}
	forItself      = access.Rule{Roles: access.Node, About: access.OneNode}
	forMembers     = access.Rule{Roles: access.Members}
	forControllers = access.Rule{Roles: access.Controller}
	forAnyone      = access.Rule{Roles: access.Anyone}
	actOnJob       = access.Rule{Roles: family | operators, About: access.OneJob}
	// what runs in the name of the job's user
	ofOwner = access.Rule{Roles: access.Owner, About: access.OneJob}
	seeJob  = access.Rule{Roles: access.User | family | operators, About: access.OneJob,
		Private: []string{cluster.PrivateJobs}}
	seeNodes = access.Rule{Roles: access.User | operators, About: access.ManyJobs,
		Private: []string{cluster.PrivateNodes}}
	seeAccounts = access.Rule{Roles: access.User, About: access.Accounts}
	seeJobs     = access.Rule{Roles: access.User, About: access.ManyJobs}
)

// with returns a rule with parts of its own.
func with(rule access.Rule, parts ...*access.Part) access.Rule {
	rule.Parts = append(slices.Clone(rule.Parts), parts...)
	return rule
}

// checkRules returns why the routes cannot be served: each has a rule.
func checkRules(all []route) error {
	for i := range all {
		if err := all[i].rule.Check(); err != nil {
			return fmt.Errorf("route %s %s: %w", all[i].Method, all[i].Path, err)
		}
	}
	return nil
}

// identify finds out which caller makes the request. A route that is open to its caller without
// that does not ask.
func (x *exchange) identify() error {
	x.roles = access.Anyone
	if fromLoopback(x.r) {
		x.roles |= access.Local
	}
	if x.rt.rule.Allows(x.roles, nil) {
		return nil
	}
	caller, err := x.s.callerOf(x.r)
	if err == nil {
		x.caller = &caller
	}
	return err
}

// callerOf identifies the caller of a request: by its API token if it shows one, and otherwise by
// its connection.
func (s *Server) callerOf(r *http.Request) (identity.Caller, error) {
	if !shown(r) {
		return s.guard.Caller(r)
	}
	c, err := s.bearer(r)
	if r.Header.Get(headerForwarded) != "" {
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
func (x *exchange) authorise() error {
	if err := x.authoriseToken(); err != nil {
		return err
	}
	if err := x.authoriseJob(); err != nil {
		return err
	}
	rule := &x.rt.rule
	cfg := x.config()
	x.roles &= access.Anyone | access.Local
	if x.caller != nil {
		x.roles |= x.s.rolesOf(x.caller, cfg)
	}
	x.coordinated = nil
	has := x.roles
	if rule.About == access.OneNode && !x.isNode() {
		has &^= access.Node
	}
	if rule.About != access.OneJob {
		return x.refuseUnless(rule.Allows(has, cfg.Private))
	}
	if has&access.User == 0 {
		return x.refuseUnless(false)
	}
	r, err := x.jobRef()
	if err == nil {
		x.about.jobs = r.Spans()
	}
	switch {
	case err != nil:
		return err
	case r.Job == nil:
		x.about.hidden = x.hides(r.ID)
		return problem.NotFound("there is no job %s", r.Text)
	case rule.Allows(x.rolesTo(r.Job), cfg.Private):
		return nil
	}
	return x.deniedJob(r.Job.ID)
}

// hides reports whether there is a job that is hidden from the caller.
func (x *exchange) hides(id model.JobID) bool {
	f := x.finder()
	if f.Hides == nil {
		return false
	}
	f.Hides = nil
	j, err := f.Find(x.ctx(), id)
	return err == nil && j != nil
}

// deniedJob is the refusal of a request for another user's job. It tells nothing of the job.
func (x *exchange) deniedJob(id model.JobID) error {
	may := "its owner, coordinators of its account, operators and admins"
	if x.rt.rule.Roles == access.Owner {
		may = "its owner"
	}
	return problem.Denied("job %d is another user's: only %s may do this", id, may)
}

func (x *exchange) refuseUnless(allowed bool) error {
	if allowed {
		return nil
	}
	return problem.Denied("%s %s is not for this caller, but for: %s", x.rt.Method, x.rt.Path, x.rt.rule.Roles)
}

// isNode reports whether the request is of the node that the path names.
func (x *exchange) isNode() bool {
	return x.caller != nil && x.caller.From == x.r.PathValue("name")
}

func (x *exchange) config() *cluster.Config {
	if x.view == nil {
		return x.s.Replica.View().Config()
	}
	return x.view.Config()
}

// memberRoles are the roles of members by those of their certificates.
var memberRoles = map[string]access.Role{string(pki.Node): access.Node, string(pki.Login): access.Login,
	string(pki.Controller): access.Controller}

// throughNode reports whether a compute node vouches for the caller's user. Jobs run there, and a
// job that breaks out as root could name any user of the cluster. So such a caller is an ordinary
// user.
func throughNode(c *identity.Caller) bool {
	return c.Token == "" && !c.Machine && c.Role == string(pki.Node)
}

// elevated reports whether what the configuration gives the caller's user beyond an ordinary user
// counts.
func elevated(c *identity.Caller) bool {
	if c.Token != "" {
		return trust.TokenScope(c.Scope) == trust.ScopeAll
	}
	return !throughNode(c)
}

// rolesOf returns the roles that a caller has whatever its request is about. Root of a login node is
// no more than a user. It could make a token of root there, so that a token of root is no more
// either.
func (s *Server) rolesOf(c *identity.Caller, cfg *cluster.Config) access.Role {
	ofController := c.Token == "" && c.Role == "" || c.Role == string(pki.Controller)
	switch {
	case c.Machine:
		return memberRoles[c.Role]
	case !elevated(c):
		return access.User
	case c.User.UID == 0 && ofController, s.groups.Listed(c.User, cfg.Admins):
		return access.User | access.Operator | access.Admin
	case s.groups.Listed(c.User, cfg.Operators):
		return access.User | access.Operator
	}
	return access.User
}

// rolesTo returns the roles of the caller with those that it has towards a job.
func (x *exchange) rolesTo(j *model.Job) access.Role {
	has := x.roles
	if has&access.User == 0 {
		return has
	}
	// the jobs of root run as another account, and are root's all the same
	asRoot := x.caller.User.UID == 0 && x.s.RootJobsAs != "" && j.Owner.User == x.s.RootJobsAs
	if j.Owner.UID == x.caller.User.UID || asRoot {
		has |= access.Owner
	}
	if x.coordinates(j.Account) {
		has |= access.Coordinator
	}
	return has
}

// mayOnAccount reports whether the caller may use a part of the route for an account.
func (x *exchange) mayOnAccount(p *access.Part, account string) bool {
	has := x.roles
	if x.coordinates(account) {
		has |= access.Coordinator
	}
	return x.rt.rule.AllowsPart(p, has, x.config().Private)
}

// coordinates reports whether the caller is a coordinator of an account.
func (x *exchange) coordinates(account string) bool {
	does, known := x.coordinated[account]
	if !known {
		does = elevated(x.caller) && x.s.listedIn(x.caller, x.config().CoordinatorLists(account))
		if x.coordinated == nil {
			x.coordinated = map[string]bool{}
		}
		x.coordinated[account] = does
	}
	return does
}

// listedIn reports whether one of the lists has the caller's user.
func (s *Server) listedIn(c *identity.Caller, lists [][]string) bool {
	return slices.ContainsFunc(lists, func(names []string) bool { return s.groups.Listed(c.User, names) })
}

// explained adds to the refusal of a request through a compute node where a user that has a role
// makes it.
func (x *exchange) explained(p *api.Problem) *api.Problem {
	if p.Status != http.StatusForbidden || p.Hint != "" || x.caller == nil || !throughNode(x.caller) {
		return p
	}
	cfg := x.config()
	lists := [][]string{cfg.Operators, cfg.Admins}
	for name := range cfg.Accounts {
		lists = append(lists, cfg.CoordinatorLists(name)...)
	}
	if !x.s.listedIn(x.caller, lists) {
		return p
	}
	told := *p
	told.Hint = fmt.Sprintf("node %s runs jobs, so it vouches for ordinary users only: operators, admins and "+
		"coordinators use a login node, a controller or an API token", x.caller.From)
	return &told
}

// may reports whether the caller may use a part of the route.
func (x *exchange) may(p *access.Part) bool {
	return x.rt.rule.AllowsPart(p, x.roles, x.config().Private)
}

// mayOn reports whether the caller may use a part of the route for a job.
func (x *exchange) mayOn(p *access.Part, j *model.Job) bool {
	if p == partDetails && x.insideJob() && j.ID != x.caller.Job {
		return false
	}
	return x.rt.rule.AllowsPart(p, x.rolesTo(j), x.config().Private)
}
