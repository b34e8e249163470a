package server

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
)

var updatePages = flag.Bool("update", false, "write docs/permissions.md anew")

// Cell is one square of the table of permissions. It says whether a caller in a role may use a route,
// or a part of it, while something is private.
type Cell struct {
	Method, Path string
	Params       []string // of the query
	Rule         *access.Rule
	Part         *access.Part // nil: the route itself
	Role         access.Role  // one role
	Private      string       // a word of the configuration, "" for none
	Allowed      bool
	InJob        string // what a process of a job may use the route for: "yes", "its own job" or ""
}

// Column is a role with all that a caller in this role has at least.
type Column struct{ Role, Has access.Role }

// Columns are the roles of the table, from left to right.
var Columns = []Column{
	{access.Owner, access.Owner | access.User | access.Anyone},
	{access.Coordinator, access.Coordinator | access.User | access.Anyone},
	{access.Operator, access.Operator | access.User | access.Anyone},
	{access.Admin, access.Admin | access.Operator | access.User | access.Anyone},
	{access.User, access.User | access.Anyone},
	{access.Node, access.Node | access.Anyone},
	{access.Login, access.Login | access.Anyone},
	{access.Controller, access.Controller | access.Anyone},
	{access.Local, access.Local | access.Anyone},
	{access.Anyone, access.Anyone},
}

// Cells returns every square of the table, with nothing private and with each word that matters to
// it.
func Cells() (cells []Cell) {
	for _, row := range rows(described()) {
		for _, word := range append([]string{""}, row.words()...) {
			for _, c := range Columns {
				if !row.rule().About.Has(c.Role) {
					continue
				}
				cell := Cell{Method: row.route.Method, Path: row.route.Path, Rule: row.rule(), Part: row.part,
					Role: c.Role, Private: word, Allowed: row.allows(c.Has, word),
					InJob: inJobText(row.route)}
				for _, p := range row.route.Query() {
					cell.Params = append(cell.Params, p.Name)
				}
				cells = append(cells, cell)
			}
		}
	}
	return cells
}

// row is a route, or a part of it.
type row struct {
	route *exchange.Route
	part  *access.Part
}

func rows(all []exchange.Route) (rows []row) {
	for i := range all {
		rows = append(rows, row{route: &all[i]})
		for _, p := range all[i].Rule.Parts {
			rows = append(rows, row{&all[i], p})
		}
	}
	return rows
}

func (w row) rule() *access.Rule { return &w.route.Rule }

func (w row) allows(has access.Role, private ...string) bool {
	return w.rule().Allows(has, private) && (w.part == nil || w.rule().AllowsPart(w.part, has, private))
}

// words are those of the list private that matter.
func (w row) words() []string {
	words := slices.Clone(w.rule().Private)
	if w.part != nil {
		words = append(words, w.part.Private...)
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// TestPermissionsPage compares docs/permissions.md with the rules of the routes.
func TestPermissionsPage(t *testing.T) {
	const file = "../../docs/permissions.md"
	want := permissionsPage()
	if *updatePages {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s differs from the rules of the routes (%v): run make golden, and read the diff", file, err)
	}
}

const permissionsHead = `# Permissions

Which callers may use which route of the API, and which part of it. "make golden" writes this page from the rules
that the routes are registered with (controld/server/routes.go). A test asks every route in every role, over HTTP
and over the unix socket, with each of its parameters. [Operating](operating.md#users-and-permissions) says how users
get their roles.

| role | callers |
| --- | --- |
| owner | the user that submitted the job |
| coordinator | a user that the configuration names for the account, or for an account above it |
| operator | a user that the configuration names as operator; admins are operators too |
| admin | a user that the configuration names as admin, and root of a controller's machine |
| user | any other authenticated user |
| node, login, controller | a daemon with a certificate of this role; where a path names a node, that node only |
| unauthenticated, loopback | any process on the controller's machine |
| unauthenticated | any caller |

A row without "part" is about the route as a whole. Callers in a role that the row does not list are refused. Owner
and coordinator are roles only where a row is about jobs or accounts; elsewhere they are users. No parameter widens a
rule: not "attempt", "worker" or "task" of a log, nor "user" or "account" of a list. A private job of another user
answers like an unknown job.

**Token** is the scope that an API token needs: "all" includes "submit", which includes "read". No token may use a
route without a scope. With scope "read" or "submit" a token has role user, and owner of the user's jobs, and no other
role. The same holds for a user for which a compute node vouches: operators, admins and coordinators use a login node,
a controller or a token, and no token of scope "all" is made through a compute node. Only members of the cluster pass
requests of their users on: no user may speak for another user.

**In a job** is for processes of jobs, which ask by the socket in their container. Their node vouches for the job,
which must run there. Such a process has role user, and owner, and no other role of its user. "Its own job" means that
any other job is refused, also a job of the same user. For a task of an array its own job is the task. The process sees
details of no other job. A request that shows an API token counts by that token alone.

"POST /v1/backup" answers root alone, by the socket of the controller, because a backup has the scripts and
environments of all users. Every other admin is refused.

`

// permissionsPage returns the page: a table with a line for each route and for each part of it.
func permissionsPage() []byte {
	var b bytes.Buffer
	b.WriteString(permissionsHead + "| route | part | parameters | token | in a job | roles |\n" +
		"| --- | --- | --- | --- | --- | --- |\n")
	for _, row := range rows(described()) {
		part, params, token, inJob := "", []string{}, string(row.route.TokenScope()), inJobText(row.route)
		if row.part != nil {
			part, token, inJob = row.part.Name, "", ""
		} else {
			for _, p := range row.route.Query() {
				params = append(params, "`"+p.Name+"`")
			}
		}
		fmt.Fprintf(&b, "| `%s %s` | %s | %s | %s | %s | %s |\n", row.route.Method, row.route.Path, part,
			strings.Join(params, " "), token, inJob, row.roles())
	}
	return b.Bytes()
}

// Roles lists the roles that may use a row.
func (w row) roles() string {
	var names []string
	for _, c := range Columns {
		switch text := w.text(c); {
		case text == "" || text == "–":
		case c.Role == access.Anyone:
			return "any caller"
		case text == "yes":
			names = append(names, c.Role.String())
		default:
			names = append(names, c.Role.String()+" ("+text+")")
		}
	}
	return strings.Join(names, ", ")
}

// inJobText is what the page has of processes of jobs.
func inJobText(rt *exchange.Route) string {
	switch {
	case rt.Rule.Roles&access.Anyone != 0: // such a caller is not identified
		return string(exchange.ReadOnly)
	case rt.InsideJob() == exchange.NotInJob, rt.Rule.Roles&(access.User|access.Owner) == 0:
		return ""
	}
	return string(rt.InsideJob())
}

// text says whether a role may use a row: "" for no, "–" where the role has no meaning.
func (w row) text(c Column) string {
	switch {
	case !w.rule().About.Has(c.Role):
		return "–"
	case !w.allows(c.Has):
		return ""
	case !w.allows(c.Has, w.words()...):
		return "unless private: " + strings.Join(w.words(), ", ")
	case c.Role == access.Node && w.rule().About == access.OneNode:
		return "itself"
	}
	return "yes"
}

// TestRulesThatMustNotChange holds what no change of the table may widen. It notices a route that
// is registered with a rule for more callers, such as requeue for any user. It does so even if the page
// of permissions is written anew.
func TestRulesThatMustNotChange(t *testing.T) {
	open := []string{}
	for _, rt := range described() {
		name := rt.Method + " " + rt.Path
		switch rule := &rt.Rule; {
		case rt.Method == "POST" && strings.Contains(rt.Path, "/steps") && !strings.HasSuffix(rt.Path, "/signal"),
			strings.HasSuffix(rt.Path, "/exec"), strings.HasSuffix(rt.Path, "/attach"):
			if rule.Roles != access.Owner || rule.About != access.OneJob { // it runs in the name of the job's user
				t.Errorf("%s is for %s", name, rule.Roles)
			}
		case strings.HasSuffix(rt.Path, "/logs"), rt.Method == "POST" && strings.HasPrefix(rt.Path, "/v1/jobs/{id}"):
			if rule.Roles != access.Owner|access.Coordinator|access.Operator || rule.About != access.OneJob {
				t.Errorf("%s is for %s", name, rule.Roles)
			}
		case strings.Contains(rt.Path, "/internal/"):
			if rule.Roles != access.Controller {
				t.Errorf("%s is for %s", name, rule.Roles)
			}
		case strings.HasPrefix(rt.Path, "/v1/nodes/{name}/"):
			ofNode := access.Node
			if strings.HasSuffix(rt.Path, "drain") || strings.HasSuffix(rt.Path, "resume") {
				ofNode = access.Operator
			}
			if strings.HasSuffix(rt.Path, "/kept/drop") {
				ofNode = access.ForAdmins.Roles
			}
			if strings.HasSuffix(rt.Path, "/kept") {
				ofNode = access.Operator
			}
			if rule.Roles != ofNode || ofNode == access.Node && rule.About != access.OneNode {
				t.Errorf("%s is for %s", name, rule.Roles)
			}
		case rule.Roles&access.Anyone != 0:
			open = append(open, rt.Path)
		}
		for _, p := range rt.Rule.Parts {
			private := p == access.PartDetails || p == access.PartAct || p == access.PartBeyond || p == access.PartDepend
			if private && p.Roles&(access.User|access.Members|access.Local|access.Anyone) != 0 {
				t.Errorf("%s: %s is for %s", name, p.Name, p.Roles)
			}
		}
	}
	if want := []string{"/v1/join", "/v1/healthz", "/v1/readyz", "/openapi.json"}; !slices.Equal(open, want) {
		t.Errorf("open to any caller: %v, want %v", open, want)
	}
}

// TestARouteWithoutARuleDoesNotStart: a route is added and its rule forgotten.
func TestARouteWithoutARuleDoesNotStart(t *testing.T) {
	if err := exchange.CheckRules(described()); err != nil {
		t.Fatal(err)
	}
	for what, rule := range map[string]access.Rule{
		"none":                     {},
		"an owner of nothing":      {Roles: access.Owner},
		"a coordinator of nothing": {Roles: access.Coordinator, About: access.OneNode},
		"a part without a rule":    {Roles: access.User, Parts: []*access.Part{{Name: "all"}}},
	} {
		all := append(described(), exchange.Route{Operation: exchange.Get("/v1/new", "New"), Rule: rule})
		if err := exchange.CheckRules(all); err == nil || !strings.Contains(err.Error(), "/v1/new") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestScopesOfRoutes: a route without a word on tokens is for reading, or for scope all; one that
// makes tokens or ends them is for none. No POST route is for scope read.
func TestScopesOfRoutes(t *testing.T) {
	all := described()
	for i := range all {
		rt := &all[i]
		needs := rt.TokenScope()
		path := strings.TrimPrefix(rt.Path, "/v1/")
		switch {
		case rt.Method == "GET" && needs != trust.ScopeRead,
			rt.Method == "POST" && strings.HasPrefix(path, "tokens") && needs != exchange.ScopeNever,
			rt.Method == "POST" && (strings.HasPrefix(path, "jobs") || path == "plan") && needs != trust.ScopeSubmit,
			rt.Method == "POST" && needs == trust.ScopeRead,
			rt.Method == "POST" && strings.HasPrefix(path, "nodes") && needs != trust.ScopeAll:
			t.Errorf("%s %s needs scope %s", rt.Method, rt.Path, needs)
		}
	}
}
