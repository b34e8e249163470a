package exchange

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/openapi"
	"github.com/rota-hpc/rota/controld/server/problem"
	"github.com/rota-hpc/rota/controld/server/servertest"
)

// The tests here ask each guard on both sides of its bound, and with each of its conditions turned
// alone.

func TestParametersOfTheQuery(t *testing.T) {
	rt := &Route{Operation: openapi.Operation{Poll: true, Params: []openapi.Param{
		{Name: "limit", In: "query", Kind: openapi.Integer}, {Name: "page", In: "query", Kind: openapi.Page},
		{Name: "all", In: "query", Kind: openapi.Boolean}, {Name: "since", In: "query", Kind: openapi.Instant},
		{Name: "user", In: "query", Kind: openapi.String}, {Name: "id", In: "path", Kind: openapi.Integer}}}}
	for query, good := range map[string]bool{"": true, "limit=1": true, "limit=0": false, "limit=-1": false,
		"limit=x": false,
		"limit=":  true, "page=0": true, "page=-1": false, "page=7": true, "all=true": true, "all=0": true, "all=2": false,
		"wait=60s": true, "wait=0s": true, "wait=7": false, "wait=x": false, "after=3": true, "after=-3": false,
		"consistent=yes": false, "since=2026-01-31T08:00:00Z": true, "since=yesterday": false, "user=0": true,
		"users=ann": false, "id=7": false, "limit=3&user=ann": true, "limit=3&usr=ann": false} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if err := rt.checkQuery(q); (err == nil) != good {
			t.Errorf("%q: %v", query, err)
		}
	}
	x := ask("GET", "/v1/x?n=0&five=5&most=10000&more=10001&yes=true&wait=2s&at=1970-01-01T00:00:01Z", nil)
	if x.Number("n", 7) != 0 || x.Number("five", 7) != 5 || x.Number("absent", 7) != 7 || !x.Flag("yes") ||
		x.Flag("absent") || x.Duration("wait") != 2*time.Second || x.Duration("absent") != 0 || x.Instant("at") != 1000 ||
		x.Instant("absent") != 0 {
		t.Error("a parameter is read wrongly")
	}
	for text, want := range map[string]int{"": defaultList, "1": 1, "9999": 9999, "10000": MaxList, "10001": MaxList} {
		if x.Query = (url.Values{"limit": {text}}); x.Limit() != want {
			t.Errorf("limit=%s: %d", text, x.Limit())
		}
	}
}

func TestHowMuchABodySays(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		good bool
	}{
		"as many objects":      {strings.Repeat("{", 20*model.MaxJobsPerCall), true},
		"one more":             {strings.Repeat("{", 20*model.MaxJobsPerCall+1), false},
		"as many values":       {strings.Repeat(",", 2_000_000-1) + "[", true},
		"one value more":       {strings.Repeat(",", 2_000_000) + "[", false},
		"braces in a text":     {`"` + strings.Repeat("{", maxObjects+1) + `"`, true},
		"after a text":         {`"a"` + strings.Repeat("{", 20*model.MaxJobsPerCall+1), false},
		"after a quote":        {`"\"` + strings.Repeat("{", maxObjects+1) + `"`, true},
		"after a backslash":    {`"\\"` + strings.Repeat("{", 20*model.MaxJobsPerCall+1), false},
		"a backslash outside":  {`\"` + strings.Repeat("{", maxObjects+1), true},
		"commas in a text too": {`"` + strings.Repeat(",", maxValues+1) + `"`, true},
	} {
		if err := checkValues([]byte(c.text)); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
	for text, good := range map[string]bool{`{"reason":"x"}`: true, ` {"reason":"x"} `: true, `{"raison":"x"}`: false,
		`{"reason":"x"}{}`: false, `{"reason":"x"} 7`: false, `{"reason":`: false} {
		if err := DecodeStrict([]byte(text), new(api.NodeRequest)); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestHowMuchMemoryBodiesTake: of one caller, of strangers together, and of all.
func TestHowMuchMemoryBodiesTake(t *testing.T) {
	var m bodyMemory
	for i, c := range []struct {
		caller string
		n      int64
		taken  bool
	}{{"a", maxCallerBodies, true}, {"a", 1, false}, {"", maxStrangerBodies - 1, true}, {"", 1, true}, {"", 1, false},
		{"b", maxCallerBodies, true}, {"c", maxCallerBodies, true}, {"d", maxCallerBodies - maxStrangerBodies, true},
		{"e", 1, false}} {
		if m.take(c.caller, c.n) != c.taken {
			t.Errorf("step %d, %d bytes of %q: taken %t", i, c.n, c.caller, !c.taken)
		}
	}
	m.release("a", maxCallerBodies-1)
	if m.by["a"] != 1 || m.all != maxBodies-maxCallerBodies+1 || !m.take("e", 1) {
		t.Errorf("after a release %d of a, %d of all", m.by["a"], m.all)
	}
	m.release("a", 1)
	if _, known := m.by["a"]; known {
		t.Error("a caller without bodies is known")
	}
	controller := &identity.Caller{Machine: true, Role: "controller", From: "c2"}
	for name, c := range map[string]struct {
		caller *identity.Caller
		limit  int64
		payer  string
	}{"a stranger": {nil, maxStrangerBody, ""}, "a user": {servertest.Named("ann", 7), maxBody, "uid 7"},
		"a controller": {controller, maxMemberBody, "controller c2"},
		"a node":       {&identity.Caller{Machine: true, Role: "node", From: "n1"}, maxBody, "node n1"},
		"through a controller": {&identity.Caller{Role: "controller", From: "c2", User: model.Identity{UID: 8}}, maxBody,
			"uid 8"}} {
		x := ask("POST", "/v1/x", c.caller)
		if x.bodyLimit() != c.limit || x.payer() != c.payer {
			t.Errorf("%s: %d bytes, %q", name, x.bodyLimit(), x.payer())
		}
	}
	x := ask("POST", "/v1/x", servertest.Named("ann", 7))
	x.Request = httptest.NewRequest("POST", "/v1/x", strings.NewReader("seven b"))
	if _, err := x.Body(); err != nil || x.s.bodies.by["uid 7"] != 7 || x.bodyBytes != 7 {
		t.Errorf("a body counts %d, %d: %v", x.s.bodies.by["uid 7"], x.bodyBytes, err)
	}
	if again, err := x.Body(); string(again) != "seven b" || err != nil {
		t.Errorf("read again: %q, %v", again, err)
	}
	x.endBody()
	x.endBody()
	if x.s.bodies.all != 0 {
		t.Errorf("after the answer it counts %d", x.s.bodies.all)
	}
	busy := ask("POST", "/v1/x", servertest.Named("ann", 7))
	busy.Request = httptest.NewRequest("POST", "/v1/x", strings.NewReader("x"))
	busy.s.bodies.all = maxBodies
	_, err := busy.Body()
	servertest.WantCode(t, err, api.CodeBusy)
	for _, c := range []struct {
		err  error
		code string
	}{{&http.MaxBytesError{Limit: 1 << 10}, api.CodeTooLarge}, {errBusy, api.CodeBusy}, {io.EOF, api.CodeInvalid}} {
		servertest.WantCode(t, bodyError(c.err), c.code)
	}
	if !strings.Contains(bodyError(io.EOF).Error(), "unexpected EOF") ||
		!strings.Contains(tooLarge(3<<20+1).Error(), "3072 KiB") {
		t.Error(bodyError(io.EOF), tooLarge(3<<20+1))
	}
}

func TestScopesCover(t *testing.T) {
	for _, c := range []struct {
		has, needs trust.TokenScope
		want       bool
	}{{trust.ScopeRead, trust.ScopeRead, true}, {trust.ScopeRead, trust.ScopeSubmit, false},
		{trust.ScopeSubmit, trust.ScopeRead, true}, {trust.ScopeSubmit, trust.ScopeSubmit, true},
		{trust.ScopeSubmit, trust.ScopeAll, false}, {trust.ScopeAll, trust.ScopeAll, true}, {trust.ScopeAll, ScopeNever,
			false},
		{"odd", trust.ScopeRead, false}, {"", trust.ScopeRead, false}, {"root", trust.ScopeRead, false}, {trust.ScopeAll, "",
			false},
		{trust.ScopeRead, trust.ScopeAll, false}, {trust.ScopeAll, trust.ScopeRead, true}, {trust.ScopeAll, trust.ScopeSubmit,
			true}, {trust.ScopeAll, trust.ScopeAll, true}, {"odd", ScopeNever, false}} {
		if got := covers(c.has, c.needs); got != c.want {
			t.Errorf("%s covers %s: %t", c.has, c.needs, got)
		}
	}
}

// TestWhichRequestsAreOfBrowsers goes through what a web page can have a browser send.
func TestWhichRequestsAreOfBrowsers(t *testing.T) {
	s := &Service{Config: Config{HTTP: "ctl.example:8443"}}
	tcp := &net.TCPAddr{IP: net.ParseIP("10.0.0.5"), Port: 8443}
	for name, c := range map[string]struct {
		host    string
		headers []string // pairs
		at      net.Addr
		tls     bool
		status  int // 0: none
	}{
		"a program":                 {"10.0.0.5:8443", nil, tcp, false, 0},
		"an address without a port": {"10.0.0.5", nil, tcp, false, 0},
		"another address":           {"10.0.0.6:8443", nil, tcp, false, 421},
		"localhost":                 {"LocalHost:1", nil, tcp, false, 0},
		"its name":                  {"CTL.example", nil, tcp, false, 0},
		"another name":              {"evil.example", nil, tcp, false, 421},
		"no name":                   {"", nil, tcp, false, 421},
		"another name with TLS":     {"evil.example", nil, tcp, true, 0},
		"mapped":                    {"[::ffff:10.0.0.5]:8443", nil, tcp, false, 0},
		"in brackets":               {"[10.0.0.5]", nil, tcp, false, 0},
		"by a socket":               {"evil.example", []string{"Origin", "x"}, &net.UnixAddr{Net: "unix"}, false, 0},
		"no address":                {"10.0.0.5", nil, nil, false, 421},
		"an origin":                 {"10.0.0.5", []string{"Origin", "https://evil"}, tcp, false, 403},
		"an empty origin":           {"10.0.0.5", []string{"Origin", ""}, tcp, false, 403},
		"an origin with TLS":        {"x", []string{"Origin", "https://evil"}, tcp, true, 403},
		"the same site":             {"10.0.0.5", []string{"Sec-Fetch-Site", "same-origin"}, tcp, false, 0},
		"typed":                     {"10.0.0.5", []string{"Sec-Fetch-Site", "none"}, tcp, false, 0},
		"another site":              {"10.0.0.5", []string{"Sec-Fetch-Site", "cross-site"}, tcp, false, 403},
		"the same domain":           {"10.0.0.5", []string{"Sec-Fetch-Site", "same-site"}, tcp, false, 403},
		"a form":                    {"10.0.0.5", []string{"Content-Type", "text/plain"}, tcp, false, 415},
		"JSON": {"10.0.0.5", []string{"Content-Type", "application/json; charset=utf-8"}, tcp, false,
			0},
		"no type for what cannot be": {"10.0.0.5", []string{"Content-Type", ";"}, tcp, false, 415},
	} {
		r := httptest.NewRequest("GET", "/v1/jobs", nil)
		r.Host, r.TLS = c.host, nil
		if c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		if c.at != nil {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, c.at))
		}
		for i := 0; i < len(c.headers); i += 2 {
			r.Header[c.headers[i]] = []string{c.headers[i+1]}
		}
		got := 0
		if p := s.fromBrowser(r); p != nil {
			got = p.Status
		}
		if got != c.status {
			t.Errorf("%s: status %d, want %d", name, got, c.status)
		}
	}
	for length, good := range map[int64]bool{0: true, 1: false, -1: false} { // without a type
		r := httptest.NewRequest("POST", "/v1/jobs", nil)
		r.ContentLength = length
		if p := checkContentType(r); (p == nil) != good {
			t.Errorf("length %d without a type: %v", length, p)
		}
	}
	if cut(strings.Repeat("x", 81)) != strings.Repeat("x", 80) || cut("ab") != "ab" {
		t.Error("what a stranger wrote is cut in the wrong place")
	}
	for host, want := range map[string]string{"a:1": "a", "a": "a", "[::1]:2": "::1", "[::1]": "::1", "": ""} {
		if got := hostName(host); got != want {
			t.Errorf("%q is host %q", host, got)
		}
	}
}

func TestOriginsOfRequests(t *testing.T) {
	unix := &net.UnixAddr{Net: "unix"}
	for name, c := range map[string]struct {
		remote string
		at     net.Addr
		caller *identity.Caller
		want   string
	}{
		"a stranger":        {"10.0.0.9:77", nil, nil, "10.0.0.9"},
		"no port":           {"@", nil, nil, "@"},
		"a socket":          {"@", unix, nil, "socket of c1"},
		"tcp":               {"10.0.0.9:77", &net.TCPAddr{}, nil, "10.0.0.9"},
		"a user":            {"10.0.0.9:77", nil, &identity.Caller{}, "10.0.0.9"},
		"a member":          {"10.0.0.9:77", unix, &identity.Caller{From: "n1"}, "n1"},
		"passed on":         {"10.0.0.9:77", nil, &identity.Caller{From: "c2", Origin: "far"}, "far"},
		"passed on, no key": {"10.0.0.9:77", nil, &identity.Caller{Origin: "far"}, "far"},
		"long": {"10.0.0.9:77", nil, &identity.Caller{Origin: strings.Repeat("x", 201)}, strings.Repeat("x",
			200)},
	} {
		x := ask("GET", "/v1/x", c.caller)
		x.s.Name, x.Request.RemoteAddr = "c1", c.remote
		if c.at != nil {
			x.Request = x.Request.WithContext(context.WithValue(x.Request.Context(), http.LocalAddrContextKey, c.at))
		}
		if got := x.origin(); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestWhichRequestsAreInTheAuditLog: what acts, and what is denied; never twice, and not what another
// controller has decided.
func TestWhichRequestsAreInTheAuditLog(t *testing.T) {
	denied, wrong := problem.Denied("x"), problem.Invalid("x")
	stranger := &api.Problem{Status: http.StatusUnauthorized, Code: api.CodeUnauthorised}
	for name, c := range map[string]struct {
		method                 string
		quiet, hidden, relayed bool
		err                    error
		want                   int
		status                 int
		code                   string
	}{
		"an act":                {"POST", false, false, false, nil, 1, 200, ""},
		"a read":                {"GET", false, false, false, nil, 0, 0, ""},
		"a quiet act":           {"POST", true, false, false, nil, 0, 0, ""},
		"an act that is wrong":  {"POST", false, false, false, wrong, 1, 400, api.CodeInvalid},
		"a read that is wrong":  {"GET", false, false, false, wrong, 0, 0, ""},
		"a denied read":         {"GET", false, false, false, denied, 1, 403, api.CodeDenied},
		"a stranger's read":     {"GET", false, false, false, stranger, 1, 401, api.CodeUnauthorised},
		"a quiet one denied":    {"POST", true, false, false, denied, 1, 403, api.CodeDenied},
		"a hidden read":         {"GET", false, true, false, problem.NotFound("x"), 1, 404, api.CodeNotFound},
		"relayed":               {"POST", false, false, true, nil, 0, 0, ""},
		"relayed and denied":    {"POST", false, false, true, denied, 0, 0, ""},
		"relayed and hidden":    {"GET", false, true, true, nil, 0, 0, ""},
		"a read without a job":  {"GET", false, false, false, problem.NotFound("x"), 0, 0, ""},
		"a quiet one not found": {"POST", true, false, false, problem.NotFound("x"), 0, 0, ""},
	} {
		x := ask(c.method, "/v1/x", servertest.Named("ann", 7))
		x.Route.Quiet, x.About.hidden, x.About.relayed, x.About.Account = c.quiet, c.hidden, c.relayed, "physics"
		x.About.AddJobs([]model.JobID{4, 5, 9})
		x.Record(c.err)
		x.Record(c.err)
		got, _ := x.s.Audit.Take()
		if len(got) != c.want {
			t.Errorf("%s: %d entries", name, len(got))
			continue
		}
		if c.want == 1 {
			if e := got[0]; e.Status != c.status || e.Code != c.code || e.User != "ann" || e.UID != 7 || e.Times != 1 ||
				e.At == 0 ||
				e.Method != c.method || e.Route != "/v1/x" || e.Account != "physics" || e.Jobs.String() != "4-5,9" ||
				e.Origin == "" {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
	for name, c := range map[string]struct {
		caller *identity.Caller
		uid    int64
		user   string
		token  string
	}{"no caller": {nil, -2, "", ""}, "a machine": {&identity.Caller{Machine: true, User: model.Identity{User: "x"}}, -1,
		"", ""},
		"a token": {&identity.Caller{Token: "t1", User: model.Identity{User: "ann", UID: 7}}, 7, "ann", "t1"}} {
		x := ask("POST", "/v1/x", c.caller)
		x.Request.SetPathValue("name", "n1")
		x.Record(nil)
		if got, _ := x.s.Audit.Take(); len(got) != 1 || got[0].User != c.user || got[0].Token != c.token ||
			got[0].Object != "n1" || (got[0].UID >= 0) != (c.uid >= 0) || c.uid >= 0 && got[0].UID != c.uid {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestRolesOfCallers goes through what gives a caller a role, and what takes it away.
func TestRolesOfCallers(t *testing.T) {
	s, cfg := &Service{}, servertest.Config()
	user, operator, admin := access.User, access.User|access.Operator, access.User|access.Operator|access.Admin
	for name, c := range map[string]struct {
		caller identity.Caller
		want   access.Role
	}{
		"a user":               {*servertest.Named("ann", 7), user},
		"an operator":          {*servertest.Named("ops", 7), operator},
		"an admin":             {*servertest.Named("adm", 7), admin},
		"root":                 {*servertest.Named("root", 0), admin},
		"root by a controller": {identity.Caller{Role: "controller", User: model.Identity{User: "root"}}, admin},
		"root by a login node": {identity.Caller{Role: "login", User: model.Identity{User: "root"}}, user},
		"root by a node":       {identity.Caller{Role: "node", User: model.Identity{User: "root"}}, user},
		"a token of root": {identity.Caller{Token: "t", Scope: "all", User: model.Identity{User: "root"}},
			user},
		"an admin by a login node": {identity.Caller{Role: "login", User: model.Identity{User: "adm", UID: 5}},
			admin},
		"an admin by a node":    {identity.Caller{Role: "node", User: model.Identity{User: "adm", UID: 5}}, user},
		"an operator by a node": {identity.Caller{Role: "node", User: model.Identity{User: "ops", UID: 5}}, user},
		"a token of an admin, for all": {identity.Caller{Token: "t", Scope: "all", User: model.Identity{User: "adm",
			UID: 5}}, admin},
		"a token of an admin, for less": {identity.Caller{Token: "t", Scope: "submit", User: model.Identity{User: "adm",
			UID: 5}}, user},
		"a token of an admin, by a node": {identity.Caller{Token: "t", Scope: "all", Role: "node",
			User: model.Identity{User: "adm", UID: 5}}, admin},
		"a node": {identity.Caller{Machine: true, Role: "node",
			User: model.Identity{User: "adm"}}, access.Node},
		"a login node":                     {identity.Caller{Machine: true, Role: "login"}, access.Login},
		"a controller":                     {identity.Caller{Machine: true, Role: "controller"}, access.Controller},
		"a machine of no role that counts": {identity.Caller{Machine: true, Role: "x"}, 0},
	} {
		if got := s.rolesOf(&c.caller, &cfg); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if m := (&identity.Caller{Machine: true, Role: "node"}); ThroughNode(m) || !elevated(m) {
		t.Error("a node that speaks for itself vouches for no user")
	}
}

// TestRolesToJobs: owner, coordinator of the account or of one above it, and root for the jobs that
// run as another account.
func TestRolesToJobs(t *testing.T) {
	j := &model.Job{Owner: model.Identity{UID: 7, User: "ann"}, Account: "physics"}
	asRoot := &model.Job{Owner: model.Identity{UID: 99, User: "batch"}, Account: "other"}
	for name, c := range map[string]struct {
		caller     *identity.Caller
		job        *model.Job
		roles      access.Role
		rootJobsAs string
		want       access.Role
	}{
		"its owner":            {servertest.Named("ann", 7), j, access.User, "", access.User | access.Owner},
		"another user":         {servertest.Named("bob", 8), j, access.User, "", access.User},
		"the same name":        {servertest.Named("ann", 8), j, access.User, "", access.User},
		"a coordinator above":  {servertest.Named("coo", 8), j, access.User, "", access.User | access.Coordinator},
		"of another account":   {servertest.Named("coo", 8), asRoot, access.User, "", access.User},
		"no user":              {servertest.Named("ann", 7), j, access.Node, "", access.Node},
		"root":                 {servertest.Named("root", 0), asRoot, access.User, "batch", access.User | access.Owner},
		"root, other jobs":     {servertest.Named("root", 0), j, access.User, "batch", access.User},
		"root, none run so":    {servertest.Named("root", 0), asRoot, access.User, "", access.User},
		"a user, jobs of root": {servertest.Named("bob", 8), asRoot, access.User, "batch", access.User},
		"a coordinator, by node": {&identity.Caller{Role: "node", User: model.Identity{User: "coo", UID: 8}}, j,
			access.User, "", access.User},
	} {
		x := ask("GET", "/v1/x", c.caller)
		x.Roles, x.s.RootJobsAs = c.roles, c.rootJobsAs
		for range 2 { // the second time from memory
			if got := x.RolesTo(c.job); got != c.want {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		}
	}
	part := &access.Part{Name: "p", Roles: access.Coordinator}
	x := ask("GET", "/v1/x", servertest.Named("coo", 8))
	x.Route.Rule, x.Roles = access.Rule{Roles: access.User, Parts: []*access.Part{part}}, access.User
	if !x.MayOnAccount(part, "physics") || x.MayOnAccount(part, "other") || x.May(part) {
		t.Error("a coordinator may use the part for another account, or not for its own")
	}
}

// TestARefusalThroughANodeIsExplained: to those alone that would have a role elsewhere.
func TestARefusalThroughANodeIsExplained(t *testing.T) {
	by := func(role, user string) *identity.Caller {
		return &identity.Caller{Role: role, From: "n1", User: model.Identity{User: user, UID: 9}}
	}
	for name, c := range map[string]struct {
		caller *identity.Caller
		status int
		hint   string
		told   bool
	}{"an operator": {by("node", "ops"), 403, "", true}, "an admin": {by("node", "adm"), 403, "", true},
		"a coordinator": {by("node", "coo"), 403, "", true}, "a user": {by("node", "ann"), 403, "", false},
		"another refusal": {by("node", "ops"), 404, "", false}, "one with a hint": {by("node", "ops"), 403, "h", false},
		"a login node": {by("login", "ops"), 403, "", false}, "no caller": {nil, 403, "", false}} {
		x := ask("GET", "/v1/x", c.caller)
		p := &api.Problem{Status: c.status, Hint: c.hint}
		got := x.explained(p)
		if told := strings.Contains(got.Hint, "node n1 runs jobs"); told != c.told || p.Hint != c.hint {
			t.Errorf("%s: %q, and the first one %q", name, got.Hint, p.Hint)
		}
	}
}

// TestWhichRequestsAreLimited goes through reads, requests that wait, and what neither counts.
func TestWhichRequestsAreLimited(t *testing.T) {
	cfg := servertest.Config()
	cfg.MaxReads, cfg.MaxRequests, cfg.MaxProcessor = 2, 3, 50
	view := fsm.New(cfg).View()
	s := &Service{}
	request := func(method, query string, caller *identity.Caller) (*Exchange, func(), error) {
		x := ask(method, "/v1/x"+query, caller)
		x.s, x.View = s, view
		end, err := x.begin()
		return x, end, err
	}
	reads := func(method, query string, caller *identity.Caller) int {
		s.requests = userRequests{}
		n := 0
		for ; n < 50; n++ {
			if _, end, err := request(method, query, caller); err != nil {
				servertest.WantCode(t, err, api.CodeLimit)
				break
			} else if query == "" {
				end()
			}
		}
		return n
	}
	controller := &identity.Caller{Role: "controller", User: model.Identity{User: "ann", UID: 7}}
	for name, c := range map[string]struct {
		method, query string
		caller        *identity.Caller
		want          int
	}{
		"reads":                    {"GET", "", servertest.Named("ann", 7), 2 * readBurst},
		"what acts":                {"POST", "", servertest.Named("ann", 7), 50},
		"an operator":              {"GET", "", servertest.Named("ops", 8), 50},
		"passed on":                {"GET", "", controller, 50},
		"a machine":                {"GET", "", &identity.Caller{Machine: true, Role: "node"}, 50},
		"no caller":                {"GET", "", nil, 50},
		"waiting":                  {"POST", "?wait=5s", servertest.Named("ann", 7), 3},
		"following":                {"POST", "?follow=1", servertest.Named("ann", 7), 3},
		"an operator that waits":   {"GET", "?wait=5s", servertest.Named("ops", 8), 50},
		"waiting, by a controller": {"GET", "?wait=5s", controller, 3},
	} {
		if got := reads(c.method, c.query, c.caller); got != c.want && got != c.want+1 { // a token may have come meanwhile
			t.Errorf("%s: %d are allowed, want %d", name, got, c.want)
		}
	}
	s.requests = userRequests{}
	_, end, _ := request("POST", "?wait=5s", servertest.Named("ann", 7))
	if n := s.requests.by[7]; n != 1 {
		t.Errorf("%d requests of a user wait", n)
	}
	if end(); len(s.requests.by) != 0 {
		t.Errorf("after its end these wait: %v", s.requests.by)
	}
	if s.requests.mayRead(9, 1, false) != true || s.requests.reads[9].Tokens() != readBurst {
		t.Error("to ask whether a user may read takes a read")
	}
}

// TestWhichRequestsWaitForProcessorTime: reads of a user that has used up its own.
func TestWhichRequestsWaitForProcessorTime(t *testing.T) {
	cfg := servertest.Config()
	cfg.MaxProcessor = 50
	view := fsm.New(cfg).View()
	for name, c := range map[string]struct {
		method string
		quiet  bool
		caller *identity.Caller
		spent  time.Duration
		want   bool
	}{
		"a read":                {"GET", false, servertest.Named("ann", 7), 7 * time.Second, true},
		"a read with time left": {"GET", false, servertest.Named("ann", 7), 4 * time.Second, false},
		"what acts":             {"POST", false, servertest.Named("ann", 7), 7 * time.Second, false},
		"what tries out":        {"POST", true, servertest.Named("ann", 7), 7 * time.Second, true},
		"an operator":           {"GET", false, servertest.Named("ops", 7), 7 * time.Second, false},
		"what a controller has passed": {"GET", false, &identity.Caller{Role: "controller",
			User: model.Identity{User: "ann", UID: 7}}, 7 * time.Second, false},
	} {
		x := ask(c.method, "/v1/x", c.caller)
		x.View, x.Route.Quiet = view, c.quiet
		x.s.processor.spend(7, c.spent, 50, time.Now())
		err := x.checkProcessor()
		if (err != nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && x.Writer.Header().Get("Retry-After") != "4" { // 2 s of half a core take a little less than 4 s
			t.Errorf("%s: retry after %q", name, x.Writer.Header().Get("Retry-After"))
		}
	}
	for name, c := range map[string]struct {
		caller *identity.Caller
		out    reflect.Type
		want   bool
	}{"a user": {servertest.Named("ann", 7), reflect.TypeFor[int](), true}, "no caller": {nil, reflect.TypeFor[int](),
		false},
		"a machine":          {&identity.Caller{Machine: true}, reflect.TypeFor[int](), false},
		"a stream of a node": {servertest.Named("ann", 7), nil, false}} {
		x := ask("GET", "/v1/x", c.caller)
		if x.Route.Out = c.out; x.counts() != c.want {
			t.Errorf("%s counts: %t", name, !c.want)
		}
		x.View = view
		if err := x.metered(func() error { return errBusy }); !errors.Is(err, errBusy) || x.meter.on != c.want {
			t.Errorf("%s: metered %t, %v", name, x.meter.on, err)
		}
		if _, known := x.s.processor.users[7]; known != c.want {
			t.Errorf("%s: charged %t", name, known)
		}
	}
	x := ask("GET", "/v1/x", servertest.Named("ann", 7))
	if x.maxProcessor() != cluster.DefaultMaxProcessor {
		t.Errorf("without a setting a user has %d %%", x.maxProcessor())
	}
}

// generations are requests of machines that follow another generation than the controller.
func TestWhichGenerationsAreAnswered(t *testing.T) {
	gen := func(n int64, last string) generation.Generation {
		return generation.Generation{Number: n, ID: "00000000000000" + last}
	}
	node := &identity.Caller{Machine: true, Role: "node", From: "n1"}
	controller := &identity.Caller{Machine: true, Role: "controller", From: "c2"}
	s := serviceOn(t, servertest.Leading(t, 1, &servertest.Links{}))
	s.Name = "c1"
	noted := int64(0)
	s.NoteGeneration = func(n int64) error { noted = n; return errors.New("the disk is full") }
	check := func(theirs generation.Generation, caller *identity.Caller, path string) error {
		x := ask("GET", "/v1/x", caller)
		x.s, x.Route.Path = s, path
		if theirs.Number != 0 {
			x.Request.Header.Set(api.HeaderGeneration, theirs.String())
		}
		return x.checkGeneration()
	}
	if err := check(generation.Generation{}, node, "/v1/x"); err != nil {
		t.Errorf("generation 0 with 0: %v", err)
	}
	servertest.WantCode(t, check(gen(1, "aa"), node, "/v1/x"), api.CodeGeneration)
	if _, err := s.Replica.Propose(t.Context(), fsm.RaiseGeneration{Generation: gen(2, "bb"),
		Means:      generation.MeansRecover,
		Controller: "c1"}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		theirs generation.Generation
		caller *identity.Caller
		path   string
		code   string
		noted  int64
		lists  bool
	}{
		"its own":                            {gen(2, "bb"), node, "/v1/x", "", 0, false},
		"none":                               {generation.Generation{}, node, "/v1/x", "", 0, false},
		"an earlier one":                     {gen(1, "aa"), node, "/v1/x", "", 0, false},
		"an earlier controller":              {gen(1, "aa"), controller, "/v1/x", "", 0, false},
		"an earlier controller, for records": {gen(1, "aa"), controller, peers.RecordsPath, api.CodeGeneration, 0, false},
		"an earlier node, there":             {gen(1, "aa"), node, peers.RecordsPath, "", 0, false},
		"no caller, there":                   {gen(1, "aa"), nil, peers.RecordsPath, "", 0, false},
		"a later one":                        {gen(3, "cc"), node, "/v1/x", api.CodeGeneration, 3, true},
		"another of the number":              {gen(2, "cc"), node, "/v1/x", api.CodeGeneration, 2, true},
		"a later controller":                 {gen(3, "cc"), controller, "/v1/x", api.CodeGeneration, 0, false},
		"a later controller, for the state":  {gen(3, "cc"), controller, peers.StatePath, "", 0, false},
		"a later user": {gen(3, "cc"), servertest.Named("ann", 7), "/v1/x", api.CodeGeneration, 0,
			false},
		"no caller, later": {gen(3, "cc"), nil, "/v1/x", api.CodeGeneration, 0, false},
	} {
		s.refusing, noted = refusingNodes{}, 0
		err := check(c.theirs, c.caller, c.path)
		code := ""
		if err != nil {
			code = problem.Of(err).Code
		}
		if code != c.code || noted != c.noted || (len(s.refusing.list()) == 1) != c.lists {
			t.Errorf("%s: %v, noted %d, refusing %+v", name, err, noted, s.refusing.list())
		}
	}
	x := ask("GET", "/v1/x", node)
	x.s = s
	x.Request.Header.Set(api.HeaderGeneration, "2")
	servertest.WantCode(t, x.checkGeneration(), api.CodeInvalid)
	if s.NoteGeneration = nil; s.noteGeneration(7) != nil {
		t.Error("without a place to keep it a generation is an error")
	}
}

// TestCredentialsOfStreams: a user of this machine has none that could end.
func TestCredentialsOfStreams(t *testing.T) {
	s := &Service{}
	for name, conn := range map[string]*tls.ConnectionState{"no TLS": nil, "no certificate": {}} {
		x := ask("GET", "/v1/x", servertest.Named("ann", 7))
		x.Request.TLS = conn
		if err := s.lapsed(x.Request); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if shown(x.Request) {
			t.Errorf("%s: it shows a token", name)
		}
	}
	x := ask("GET", "/v1/x", servertest.Named("ann", 7))
	x.Request.Header.Set("Authorization", "Basic x")
	if s.lapsed(x.Request) == nil || !shown(x.Request) {
		t.Error("a token that cannot be read is good")
	}
	parent, end := context.WithCancel(t.Context())
	y := ask("GET", "/v1/x", servertest.Named("ann", 7))
	ctx, cancel := y.WhileCredentialHolds(parent)
	defer cancel()
	if ctx.Err() != nil {
		t.Error("a stream of a user of this machine has ended")
	}
	if end(); ctx.Err() == nil {
		t.Error("a stream goes on after its request")
	}
}
