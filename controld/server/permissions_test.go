package server_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/rota-hpc/rota/controld"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/server"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/convergence"
)

// secret is in every text of the owner's jobs that others must not see.
const secret = "5ecret"

// Users of the tests, by role. A uid without an account has its number as name.
var people = map[access.Role]model.Identity{
	access.Owner:       {UID: 52001, GID: 52001, User: "52001"},
	access.Coordinator: {UID: 52002, GID: 52002, User: "52002", GIDs: []uint32{1}}, // of group daemon
	access.Operator:    {UID: 52003, GID: 52003, User: "52003"},
	access.Admin:       {UID: 52004, GID: 52004, User: "52004"},
	access.User:        {UID: 52005, GID: 52005, User: "52005"},
}

// daemons are the members of the cluster in the tests, by role.
var daemons = map[access.Role]pki.Member{
	access.Node:       {Role: pki.Node, Name: "n1"},
	access.Login:      {Role: pki.Login, Name: "login1"},
	access.Controller: {Role: pki.Controller, Name: "c2"},
}

// testCluster is a controller with a node that runs one job of the owner.
type testCluster struct {
	t      *testing.T
	addr   string // of HTTP
	socket string
	wanted atomic.Pointer[cluster.Config]
	reload chan os.Signal
	ids    map[string]model.JobID // jobs of the owner: running, held, ended, array
	// clients by the role of the member whose certificate they show; Anyone shows none
	clients map[access.Role]*http.Client
	over    string // how requests are sent: http or unix
}

// config is the configuration of the tests with some words private.
func config(private ...string) *cluster.Config {
	cfg := cluster.InitialConfig()
	cfg.Operators, cfg.Admins, cfg.Private = []string{"52003"}, []string{"52004"}, private
	cfg.MaxReads = 1_000_000
	cfg.Accounts = map[string]cluster.Account{
		"science": {Coordinators: []string{"%daemon"}},
		"physics": {Parent: "science", Users: map[string]cluster.Terms{"52001": {}}},
		"other":   {Users: map[string]cluster.Terms{"52005": {}}},
		"both":    {Users: map[string]cluster.Terms{"52001": {}, "52005": {}}},
	}
	q := cfg.Queues["default"]
	q.MaxTime = 2 * 86400
	cfg.Queues["default"] = q
	return &cfg
}

// startCluster runs the controller and the node, and submits the owner's jobs.
func startCluster(t *testing.T, change ...func(*controld.Config)) *testCluster {
	t.Helper()
	c := &testCluster{t: t, socket: filepath.Join(t.TempDir(), "s"), reload: make(chan os.Signal), over: "http",
		ids: map[string]model.JobID{}}
	if err := os.Chmod(filepath.Dir(c.socket), 0o755); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(c.socket); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		os.Chmod(dir, 0o755) // other users connect; one that cannot is an error later
	}
	cfg := controld.DefaultConfig()
	cfg.Name, cfg.DataDir, cfg.Socket = "c1", t.TempDir(), c.socket
	c.makeMembers(pki.Dir(cfg.DataDir))
	cfg.HTTP, cfg.Raft, cfg.Gossip = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.Cluster, cfg.ReloadOn = config(), c.reload
	cfg.Reload = func() (*cluster.Config, error) { return c.wanted.Load(), nil }
	for _, f := range change {
		f(&cfg)
	}
	ready, done := make(chan controld.Addresses, 1), make(chan error, 1)
	cfg.Ready = func(a controld.Addresses) { ready <- a }
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- controld.Run(ctx, cfg) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("controller: %v", err)
		}
	})
	select {
	case a := <-ready:
		c.addr = a.HTTP
	case err := <-done:
		done <- err
		t.Fatal(err)
	}
	c.private("")
	c.runNode(ctx)
	many := job("many") // so that the ids of the others are in no other text
	many.Hold, many.Array = true, &jobspec.Array{Indices: "0-70000"}
	c.submit(many)
	killed := fmt.Sprintf("/v1/jobs/%d", c.submit(job("killed"))) // it leaves the node before the next one starts
	c.await("a job is killed", func() bool {
		_, text := c.ask(access.Owner, "GET", killed, "")
		return strings.Contains(text, `"OOM"`)
	})
	c.ids["running"] = c.submit(job("running"))
	c.await("the job runs", func() bool { return c.job("running").Code == model.Running })
	c.ids["held"] = c.submit(job("held"))
	c.owner("POST", "/v1/jobs/%d/hold", `{"reason":"`+secret+`"}`, c.ids["held"])
	c.ids["ended"] = c.submit(job("ended"))
	c.owner("POST", "/v1/jobs/%d/cancel", `{"reason":"`+secret+`"}`, c.ids["ended"])
	sweep := job("sweep")
	sweep.Hold = true
	sweep.Array = &jobspec.Array{Matrix: []jobspec.Axis{{Name: "lr", Values: []string{secret, "1", "2"}}}}
	c.ids["array"] = c.submit(sweep)
	return c
}

// makeMembers makes the cluster, with a certificate for each member of the tests.
func (c *testCluster) makeMembers(dir string) {
	c.t.Helper()
	if _, err := pki.Init(dir, "c1"); err != nil {
		c.t.Fatal(err)
	}
	first, err := pki.Load(dir)
	if err != nil {
		c.t.Fatal(err)
	}
	stranger := first.Client(pki.Controller)
	stranger.GetClientCertificate, stranger.Certificates = nil, nil
	c.clients = map[access.Role]*http.Client{access.Anyone: client(stranger)}
	for role, m := range daemons {
		own := filepath.Join(c.t.TempDir(), "tls")
		if err := first.Issue(own, m.Role, m.Name, nil); err != nil {
			c.t.Fatal(err)
		}
		credential, err := pki.Load(own)
		if err != nil {
			c.t.Fatal(err)
		}
		c.clients[role] = client(credential.Client(pki.Controller))
	}
}

func client(conf *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: conf}}
}

// endedInHistoryOnly has ended jobs leave the state at once.
func endedInHistoryOnly(cfg *controld.Config) { cfg.KeepRecords, cfg.KeepFor = 0, time.Millisecond }

// job is a job of one core with secrets wherever a user can write them.
func job(name string) *jobspec.Job {
	return &jobspec.Job{
		Name: name, Account: "physics", Workdir: "/tmp/" + secret, SubmitDir: "/tmp/" + secret, SubmitHost: secret,
		Description: new(secret), Comment: new(secret), Meta: map[string]string{"k": secret}, Tags: []string{secret},
		Export: []string{"TOKEN"}, ExportEnv: map[string]string{"TOKEN": secret},
		Groups: []jobspec.Group{{Name: "main", Meta: map[string]string{"k": secret}, Tasks: []jobspec.Task{{
			Name: "main", Command: []string{"true", secret}, Env: map[string]string{"KEY": secret},
			Secrets:   []jobspec.Secret{{Name: "k", Source: "/tmp/" + secret, Env: "K"}},
			Log:       &jobspec.Log{Stdout: "/tmp/" + secret},
			Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB},
		}}}},
	}
}

// submit submits a job of the owner.
func (c *testCluster) submit(j *jobspec.Job) model.JobID {
	c.t.Helper()
	body, err := json.Marshal(j)
	if err != nil {
		c.t.Fatal(err)
	}
	var got api.SubmitResponse
	if text := c.owner("POST", "/v1/jobs", string(body)); json.Unmarshal([]byte(text), &got) != nil || len(got.IDs) != 1 {
		c.t.Fatalf("submit %s: %s", j.Name, text)
	}
	return got.IDs[0]
}

// owner makes a request of the owner, which must succeed, and returns the answer.
func (c *testCluster) owner(method, path, body string, args ...any) string {
	c.t.Helper()
	status, text := c.ask(access.Owner, method, fmt.Sprintf(path, args...), body)
	if status != http.StatusOK {
		c.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	return text
}

// job returns one of the owner's jobs as the owner sees it.
func (c *testCluster) job(name string) (j api.Job) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(c.owner("GET", "/v1/jobs/%d", "", c.ids[name])), &j); err != nil {
		c.t.Fatal(err)
	}
	return j
}

func (c *testCluster) await(what string, is func() bool) {
	c.t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("waited too long: %s", what)
		}
	}
}

// private makes one word private, and the rest not.
func (c *testCluster) private(word string) {
	c.t.Helper()
	want := config()
	if word != "" {
		want.Private = []string{word}
	}
	if c.wanted.Swap(want) != nil {
		c.reload <- syscall.SIGHUP
	}
	c.await("private: "+word, func() bool {
		var got cluster.Config
		status, text := c.ask(access.Operator, "GET", "/v1/config", "")
		return status == http.StatusOK && json.Unmarshal([]byte(text), &got) == nil && len(got.Operators) > 0 &&
			slices.Equal(got.Private, want.Private)
	})
}

// runNode runs node n1 of one core, whose workers never end by themselves.
func (c *testCluster) runNode(ctx context.Context) {
	node := model.Node{Name: "n1", Addr: "127.0.0.1:1", BootID: "b", Cores: 1, Memory: 64 * jobspec.GiB,
		SharedPath: []string{"/tmp"}, PortMin: 20000, PortMax: 20999}
	send := func(method, path string, in, out any) bool {
		body, err := json.Marshal(in)
		if err != nil {
			panic(err)
		}
		resp, err := c.do(ctx, "http", access.Node, method, path, string(body))
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return json.NewDecoder(resp.Body).Decode(out) == nil && resp.StatusCode == http.StatusOK
	}
	c.await("the node registers", func() bool {
		return send("POST", "/v1/nodes/n1/register", api.RegisterRequest{Node: node}, new(api.RegisterResponse))
	})
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	c.t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		var after uint64
		for ctx.Err() == nil {
			var got api.NodeAllocs
			if !send("GET", fmt.Sprintf("/v1/nodes/n1/allocs?boot_id=b&wait=1s&after=%d", after), nil, &got) {
				continue
			}
			after = got.Index
			var reports []model.WorkerReport
			for _, a := range got.Allocs {
				state := model.WorkerCreated
				if a.Released {
					state = model.WorkerRunning
				}
				r := model.WorkerReport{Job: a.Job, Attempt: a.Attempt, Worker: a.Worker, State: state}
				if a.Released {
					r.Class = convergence.Watching
				}
				if a.Released && a.Spec != nil && a.Spec.Name == "killed" {
					r.State, r.OOM, r.Why, r.Class = model.WorkerExited, true, "the kernel killed "+secret, ""
				}
				reports = append(reports, r)
			}
			send("POST", "/v1/nodes/n1/report", api.ReportRequest{BootID: "b", Workers: reports}, new(api.ReportResponse))
		}
	}()
}

// ask makes a request in a role, by way of c.over, and returns status and body.
func (c *testCluster) ask(role access.Role, method, path, body string) (int, string) {
	c.t.Helper()
	resp, err := c.do(c.t.Context(), c.over, role, method, path, body)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, string(text)
}

// do makes a request in a role. Over HTTP a member speaks for itself, and a login node for its
// users; on the socket the kernel says which user connects.
func (c *testCluster) do(ctx context.Context, over string, role access.Role, method, path, body string) (
	*http.Response, error,
) {
	req, err := http.NewRequestWithContext(ctx, method, "https://"+c.addr+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	id, isUser := people[role]
	switch {
	case over == "unix":
		req.URL.Scheme = "http"
		return bySocket(id, c.socket).Do(req)
	case isUser:
		identity.Vouch(req.Header, id)
		return c.clients[access.Login].Do(req)
	case role&access.Members == 0: // what a stranger may write does not help
		identity.PassOn(req.Header, identity.Caller{Role: string(pki.Controller)})
		return c.clients[access.Anyone].Do(req)
	}
	return c.clients[role].Do(req)
}

// bySocket is a client that connects to a unix socket as a user.
func bySocket(id model.Identity, socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return dialAs(id, socket) }}}
}

// dialAs connects to a unix socket as a user. The thread that takes the user's identity ends.
func dialAs(id model.Identity, socket string) (net.Conn, error) {
	type dialled struct {
		conn net.Conn
		err  error
	}
	got := make(chan dialled)
	go func() {
		runtime.LockOSThread() // and never unlocked
		groups := append([]uint32{id.GID}, id.GIDs...)
		for _, call := range [][3]uintptr{
			{syscall.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0]))},
			{syscall.SYS_SETREGID, ^uintptr(0), uintptr(id.GID)},
			{syscall.SYS_SETREUID, ^uintptr(0), uintptr(id.UID)},
		} {
			if _, _, errno := syscall.RawSyscall(call[0], call[1], call[2], 0); errno != 0 {
				got <- dialled{nil, errno}
				return
			}
		}
		conn, err := net.Dial("unix", socket)
		got <- dialled{conn, err}
	}()
	d := <-got
	return d.conn, d.err
}

// denied reports whether an answer refuses a request, or denies that there is such a job.
func denied(status int, text string) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden ||
		status == http.StatusNotFound && strings.Contains(text, "unknown job")
}

// TestEveryCellOfThePermissions asks every route, with each of its parameters, in every role, and
// compares what is allowed with the table. It notices, among others, these bugs of one line: any
// user may requeue, cancel, hold, release or update jobs of others; the check of a log's owner is
// skipped with ?attempt=; a node registers or reports for another one.
func TestEveryCellOfThePermissions(t *testing.T) {
	c := startCluster(t)
	ways := []string{"http"}
	if os.Getuid() == 0 {
		ways = append(ways, "unix")
	}
	cells := server.Cells()
	for _, word := range append([]string{""}, cluster.PrivateWords...) {
		c.over = "http"
		c.private(word)
		for _, c.over = range ways {
			for _, cell := range cells {
				if cell.Private == word && (c.over == "http" || people[cell.Role].UID != 0) {
					c.walk(&cell)
				}
			}
		}
	}
	c.over = "http"
	c.private("")
	if j := c.job("running"); j.Code != model.Running || j.Attempt != 1 || len(j.Flags) > 0 || j.Name != "running" {
		t.Errorf("callers that were denied changed the job: %s attempt %d %v %s", j.Code, j.Attempt, j.Flags, j.Name)
	}
}

// walk compares one cell with what happens.
func (c *testCluster) walk(cell *server.Cell) {
	c.t.Helper()
	name := fmt.Sprintf("%s: %s in role %s, private %q", c.over, cell.Path, cell.Role, cell.Private)
	if cell.Part != nil {
		name += ": " + cell.Part.Name
		probe := probes[cell.Part.Name]
		if probe == nil {
			c.t.Fatalf("%s: write a probe for this part", name)
		}
		if got, text := probe(c, cell); got != cell.Allowed {
			c.t.Errorf("%s: allowed %t, want %t: %.300s", name, got, cell.Allowed, text)
		}
		return
	}
	if !cell.Allowed && cell.Rule.Roles&access.Local != 0 {
		return // each caller of this test is on the loopback; TestMetricsAreForMembers has the others
	}
	// Of the admins only root by a controller's socket is given a backup: TestABackupIsRestored has it.
	allowed := cell.Allowed && cell.Path != "/v1/backup"
	for _, query := range queries(cell) {
		path, body := c.request(cell)
		status, text := c.ask(cell.Role, cell.Method, path+query, body)
		if denied(status, text) == allowed {
			c.t.Errorf("%s with %q: %d %.300s, want allowed %t", name, query, status, text, allowed)
		}
		if told := tells(text); told != "" && cell.Role == access.User && cell.Rule.About == access.OneJob && !cell.Allowed {
			c.t.Errorf("%s with %q: the refusal tells %s: %.300s", name, query, told, text)
		}
		if status == http.StatusBadRequest && strings.Contains(text, "parameter") {
			c.t.Errorf("%s with %q: %.300s: give the parameter a value in samples", name, query, text)
		}
	}
}

// tells returns what a refusal tells of the owner's job, or of the API: its owner, account, node, state or
// route, "" if it tells nothing.
func tells(text string) string {
	for _, word := range []string{"52001", "physics", "n1", "running", "RUNNING", "/v1/", secret} {
		if strings.Contains(text, word) {
			return word
		}
	}
	return ""
}

// request is the path and the body of a request for a cell. One that is allowed acts on a job of its
// own.
func (c *testCluster) request(cell *server.Cell) (path, body string) {
	id := c.ids["running"]
	verb := filepath.Base(cell.Path)
	if cell.Method == "POST" {
		body = "{}"
		if cell.Allowed && cell.Rule.About == access.OneJob {
			j := job("fresh")
			j.Hold = verb == "release"
			id = c.submit(j)
		}
	}
	switch verb {
	case "update":
		body = `{"priority":60,"name":"renamed"}`
	case "confirm-dead":
		body = `{"nodes":["n1"],"dry_run":true}`
	case "drain":
		body = `{"reason":"fan"}`
	}
	name := "n1"
	if strings.Contains(cell.Path, "controllers") {
		name = "c9"
	}
	return strings.NewReplacer("{id}", fmt.Sprint(id), "{name}", name).Replace(cell.Path), body
}

// queries are those of a cell's requests: none, and one for each parameter of the route.
func queries(cell *server.Cell) []string {
	all := []string{""}
	for _, p := range cell.Params {
		value := samples[p]
		if p == "stream" && strings.HasSuffix(cell.Path, "/logs") {
			value = "stderr"
		}
		query := "?" + p + "=" + value
		if p == "delta" {
			query += "&user=52001"
		}
		all = append(all, query)
	}
	return all
}

// samples are values of parameters.
var samples = map[string]string{
	"id": "1", "state": "PD", "user": "52001", "account": "physics", "queue": "default", "name": "x", "class": "be",
	"all": "true", "spec": "true", "delta": "true", "stream": "true", "fields": "id", "limit": "1", "page": "0",
	"after": "0", "wait": "1ms", "consistent": "true", "worker": "0", "tail": "1", "attempt": "1", "task": "main",
	"follow": "true", "boot_id": "b", "from": "1", "to": "1", "since": "2026-01-01T00:00:00Z",
	"until": "2036-01-01T00:00:00Z", "job": "1", "denied": "true", "uid": "1",
}

// probes report whether a part of a route is allowed, and what was answered.
var probes = map[string]func(*testCluster, *server.Cell) (bool, string){
	"a dependency on a job of another user": (*testCluster).depends,
	"jobs of other users":                   (*testCluster).seesJob,
	"each job of the selection":             (*testCluster).cancelsSelection,
	"a hold that the owner cannot end":      (*testCluster).holdsForGood,
	"a job that an operator holds":          (*testCluster).releases,
	"a time limit above the queue's maximum, or a longer one while the job runs": (*testCluster).goesBeyond,
	"shares of other users":                      (*testCluster).seesAccount,
	"accounts that the user is not in":           (*testCluster).seesAccount,
	"events of nodes":                            contains("node-up"),
	"requests of other users":                    contains(`"user":"52001"`),
	"figures of accounts":                        (*testCluster).seesFigures,
	"API tokens of other users, but not of root": (*testCluster).actsOnToken,
	"command, script, environment, secrets, paths, parameters, output of a job": (*testCluster).seesDetails,
}

// contains is a probe that looks for a text in the answer.
func contains(what string) func(*testCluster, *server.Cell) (bool, string) {
	return func(c *testCluster, cell *server.Cell) (bool, string) {
		_, text := c.ask(cell.Role, cell.Method, cell.Path, "")
		return strings.Contains(text, what), text
	}
}

// seesFigures reports whether the metrics have those of accounts. Each caller of this test is on the
// loopback, so a role that may not see them shows where they are private.
func (c *testCluster) seesFigures(cell *server.Cell) (bool, string) {
	if !slices.Contains(cell.Part.Private, cell.Private) && !cell.Allowed {
		return false, ""
	}
	return contains("rota_account_share{account=")(c, cell)
}

func (c *testCluster) depends(cell *server.Cell) (bool, string) {
	j := job("depends")
	j.Dependencies = []jobspec.Dependency{{Type: "after", Jobs: []string{fmt.Sprint(c.ids["held"])}}}
	j.Account = ""
	var body any = j
	if cell.Path == "/v1/plan" {
		body = api.PlanRequest{Job: j}
	}
	text, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	status, answer := c.ask(cell.Role, cell.Method, cell.Path, string(text))
	if status != http.StatusOK && status != http.StatusForbidden && status != http.StatusUnauthorized {
		c.t.Errorf("%s: %d %s", cell.Path, status, answer)
	}
	return status == http.StatusOK, answer
}

// seesJob reports whether an answer has a job of the owner.
func (c *testCluster) seesJob(cell *server.Cell) (bool, string) {
	path, body, sought := cell.Path, "", fmt.Sprintf(`"id":%d,`, c.ids["running"])
	switch path {
	case "/v1/jobs":
		path += "?all=true"
	case "/v1/history":
		path, sought = path+"?account=physics", fmt.Sprintf(`"id":%d,`, c.ids["ended"])
	case "/v1/events":
		sought = fmt.Sprintf(`"job":%d,`, c.ids["running"])
	case "/v1/priorities":
		sought = fmt.Sprintf(`"id":%d,`, c.ids["held"])
	case "/v1/nodes":
		sought = fmt.Sprintf(`"jobs":[%d]`, c.ids["running"])
	case "/v1/jobs/cancel":
		body = fmt.Sprintf(`{"ids":[%d]}`, c.ids["ended"])
		status, text := c.ask(cell.Role, cell.Method, path, body)
		return !denied(status, text) && !strings.Contains(text, "unknown job"), text
	}
	_, text := c.ask(cell.Role, cell.Method, path, body)
	return strings.Contains(text, sought), text
}

// cancelsSelection selects a job of the owner in every way, and reports whether it is cancelled. A
// selection that is denied must leave it alone.
func (c *testCluster) cancelsSelection(cell *server.Cell) (bool, string) {
	allowed, answer := 0, ""
	id := c.submit(job("selected"))
	bodies := []string{
		`{"ids":[ID]}`, `{"refs":["ID"]}`, `{"ids":[ID],"user":"52001"}`, `{"user":"52001","name":"selected"}`,
		`{"account":"physics","name":"selected"}`, `{"name":"selected"}`, `{"states":["PD"],"name":"selected"}`,
	}
	for _, body := range bodies {
		body = strings.ReplaceAll(body, "ID", fmt.Sprint(id))
		status, text := c.ask(cell.Role, cell.Method, cell.Path, body)
		if cell.Allowed && status != http.StatusOK {
			c.t.Errorf("cancel %s in role %s: %d %s", body, cell.Role, status, text)
		}
		answer += text
		if strings.Contains(c.owner("GET", "/v1/jobs/%d", "", id), `"code":"CA"`) {
			allowed++
			id = c.submit(job("selected"))
		}
	}
	c.owner("POST", "/v1/jobs/%d/cancel", "{}", id)
	if allowed != 0 && allowed != len(bodies) {
		c.t.Errorf("in role %s %d of %d selections cancel the job: %s", cell.Role, allowed, len(bodies), answer)
	}
	return allowed > 0, answer
}

// holdsForGood holds a job and reports whether its owner cannot release it.
func (c *testCluster) holdsForGood(cell *server.Cell) (bool, string) {
	id := c.submit(job("fresh"))
	status, text := c.ask(cell.Role, cell.Method, fmt.Sprintf("/v1/jobs/%d/hold", id), "{}")
	if status != http.StatusOK {
		return false, text
	}
	status, text = c.ask(access.Owner, "POST", fmt.Sprintf("/v1/jobs/%d/release", id), "{}")
	return status == http.StatusForbidden, text
}

// releases reports whether a role ends a hold of an operator.
func (c *testCluster) releases(cell *server.Cell) (bool, string) {
	id := c.submit(job("fresh"))
	if status, text := c.ask(access.Operator, "POST", fmt.Sprintf("/v1/jobs/%d/hold", id), "{}"); status != 200 {
		c.t.Errorf("hold: %d %s", status, text)
	}
	status, text := c.ask(cell.Role, cell.Method, fmt.Sprintf("/v1/jobs/%d/release", id), "{}")
	return status == http.StatusOK, text
}

// goesBeyond reports whether a role gives a job more time than its queue has, and more to one that
// runs.
func (c *testCluster) goesBeyond(cell *server.Cell) (bool, string) {
	id := c.submit(job("fresh"))
	status, text := c.ask(cell.Role, cell.Method, fmt.Sprintf("/v1/jobs/%d/update", id), `{"time_limit":999999}`)
	runs := fmt.Sprintf("/v1/jobs/%d/update", c.ids["running"])
	more, says := c.ask(cell.Role, cell.Method, runs, `{"add_time":1}`)
	if (more == http.StatusOK) != (status == http.StatusOK) {
		c.t.Errorf("%s gives a job that runs more time: %d %s", cell.Role, more, says)
	}
	if less, says := c.ask(access.Owner, "POST", runs, `{"add_time":-1}`); less != http.StatusOK {
		c.t.Errorf("its owner shortens the time of a job that runs: %d %s", less, says)
	}
	return status == http.StatusOK, text
}

// seesAccount reports whether an answer has the account physics. The user in role User is not in it.
func (c *testCluster) seesAccount(cell *server.Cell) (bool, string) {
	_, text := c.ask(cell.Role, cell.Method, cell.Path, "")
	return strings.Contains(text, `"physics"`), text
}

// seesDetails reports whether a route shows details of the owner's jobs, whatever its parameters.
func (c *testCluster) seesDetails(cell *server.Cell) (bool, string) {
	if cell.Path == "/v1/events" {
		found, answer := contains(string(model.EventClass))(c, cell)
		if killed := strings.Contains(answer, secret); killed != found {
			c.t.Errorf("%s by %s: which process was killed is seen: %t", cell.Path, cell.Role, killed)
		}
		return found, answer
	}
	found, answer := false, ""
	for _, one := range []string{"running", "held", "ended", "array"} {
		path := strings.Replace(cell.Path, "{id}", fmt.Sprint(c.ids[one]), 1)
		for _, query := range append(queries(cell), "?account=physics", "?spec=true&all=true&stream=true",
			"?spec=true&delta=true&user=52001&after=1",
			"?spec=true&fields=workdir,spec,array,reason,attempts,metrics&all=true") {
			_, text := c.ask(cell.Role, cell.Method, path+query, "")
			answer += text
			found = found || strings.Contains(text, secret)
		}
	}
	return found, answer
}

// TestANodeSpeaksForItselfOnly: a node registers as another node, asks for what runs there, or
// reports for it.
func TestANodeSpeaksForItselfOnly(t *testing.T) {
	c := startCluster(t)
	for _, one := range []struct{ method, path, body string }{
		{"POST", "/v1/nodes/n2/register", `{"node":{"name":"n2","boot_id":"b","cores":1,"memory":1073741824}}`},
		{"GET", "/v1/nodes/n2/allocs?boot_id=b", ""},
		{"POST", "/v1/nodes/n2/report", `{"boot_id":"b"}`},
		{"GET", "/v1/nodes/n2/checkpoints/1.1.0?boot_id=b&for=n1", ""},
		{"POST", "/v1/nodes/n2/checkpoints", `{"boot_id":"b","ids":["1.1.0"]}`},
	} {
		if status, text := c.ask(access.Node, one.method, one.path, one.body); status != http.StatusForbidden {
			t.Errorf("%s: %d %s", one.path, status, text)
		}
	}
	status, text := c.ask(access.User, "GET", "/v1/nodes", "")
	if status != http.StatusOK || strings.Contains(text, `"n2"`) {
		t.Errorf("%d %s", status, text)
	}
}

// TestAUserDoesNotBecomeAMember: a user of the machine writes the headers with which a controller
// passes on the requests of a node, or those of root.
func TestAUserDoesNotBecomeAMember(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root connects as another user")
	}
	c := startCluster(t)
	client := bySocket(people[access.User], c.socket)
	for what, caller := range map[string]identity.Caller{
		"node": {Machine: true, Role: "node", From: "n1"}, "controller": {Machine: true, Role: "controller", From: "c2"},
		"root": {User: model.Identity{User: "root"}}, "owner": {User: people[access.Owner]},
	} {
		for _, path := range []string{"/v1/nodes/n1/allocs?boot_id=b", "/v1/internal/state",
			fmt.Sprintf("/v1/jobs/%d/logs", c.ids["running"])} {
			req, err := http.NewRequestWithContext(t.Context(), "GET", "http://rota"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			identity.PassOn(req.Header, caller)
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusForbidden {
				t.Errorf("as %s: %s: %s", what, path, resp.Status)
			}
		}
	}
}

// TestRootOfANodeIsNoAdmin: root of a node, or of a login node, drains a node or cancels jobs of
// others. Root of a controller's machine may.
func TestRootOfANodeIsNoAdmin(t *testing.T) {
	c := startCluster(t)
	root := model.Identity{User: "root"}
	for from, want := range map[access.Role]int{access.Node: http.StatusForbidden, access.Login: http.StatusForbidden,
		access.Controller: http.StatusOK} {
		id := c.submit(job("fresh"))
		for _, path := range []string{"/v1/nodes/n1/resume", fmt.Sprintf("/v1/jobs/%d/cancel", id)} {
			req, err := http.NewRequestWithContext(t.Context(), "POST", "https://"+c.addr+path, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			identity.Vouch(req.Header, root)
			resp, err := c.clients[from].Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("root of a %s: %s: %s, want %d", from, path, resp.Status, want)
			}
		}
	}
}

// TestANodeVouchesForOrdinaryUsersOnly: root of one compute node names an operator, an admin or a
// coordinator as its user, and becomes the cluster's administrator, by itself or by a token that it
// makes. Through a login node and a controller these users have their roles.
func TestANodeVouchesForOrdinaryUsersOnly(t *testing.T) {
	c := startCluster(t)
	vouched := func(member, user access.Role, method, path, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, "https://"+c.addr+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		identity.Vouch(req.Header, people[user])
		resp, err := c.clients[member].Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	const advice = "use a login node, a controller or an API token"
	running := fmt.Sprintf("/v1/jobs/%d", c.ids["running"])
	for _, try := range []struct {
		user               access.Role
		method, path, body string
		want               int // of a login node
	}{
		{access.Operator, "POST", "/v1/nodes/n1/resume", "{}", 200},
		{access.Operator, "POST", running + "/update", `{"priority":50}`, 200},
		{access.Admin, "POST", "/v1/nodes/n1/resume", "{}", 200},
		{access.Admin, "POST", "/v1/controllers/c9/remove", "", 404},
		{access.Admin, "POST", "/v1/members/node/n9/revoke", "", 200},
		{access.Admin, "POST", "/v1/authority/finish", "", 409},
		{access.Admin, "POST", "/v1/gossip-key/rotate", "", 200},
		{access.Admin, "POST", "/v1/join-tokens", `{"role":"node"}`, 200},
		{access.Admin, "POST", "/v1/tokens", `{"user":"daemon"}`, 200},
		{access.Coordinator, "POST", running + "/update", `{"priority":50}`, 200},
		{access.Coordinator, "GET", running + "/logs", "", 502}, // the node of this test has no logs
	} {
		for _, member := range []access.Role{access.Login, access.Controller} {
			status, text := vouched(member, try.user, try.method, try.path, try.body)
			changing := strings.HasSuffix(try.path, "/rotate") && status == http.StatusConflict // since the try before
			if status != try.want && !changing {
				t.Errorf("%s through a %s: %s %s: %d %s, want %d", try.user, member, try.method, try.path, status, text, try.want)
			}
		}
		status, text := vouched(access.Node, try.user, try.method, try.path, try.body)
		if status != http.StatusForbidden || !strings.Contains(text, advice) {
			t.Errorf("%s through a node: %s %s: %d %s", try.user, try.method, try.path, status, text)
		}
	}
	if status, text := vouched(access.Node, access.User, "POST", "/v1/nodes/n1/resume", "{}"); status != 403 ||
		strings.Contains(text, advice) {
		t.Errorf("an ordinary user through a node: %d %s", status, text)
	}
	if _, text := vouched(access.Node, access.Operator, "GET", "/v1/jobs?all=true&spec=true", ""); strings.Contains(text,
		secret) || !strings.Contains(text, `"running"`) {
		t.Errorf("an operator's list through a node: %s", text)
	}
	for _, own := range []string{"/v1/jobs?spec=true", running} { // what is the user's own stays so
		status, text := vouched(access.Node, access.Owner, "GET", own, "")
		if status != http.StatusOK || !strings.Contains(text, secret) {
			t.Errorf("the owner through a node: %d %s", status, text)
		}
	}
	for _, user := range []access.Role{access.User, access.Operator, access.Admin, access.Coordinator} {
		if status, text := vouched(access.Node, user, "POST", "/v1/tokens", `{"scope":"all"}`); status != 403 ||
			!strings.Contains(text, "scope all") {
			t.Errorf("a token of a %s with scope all through a node: %d %s", user, status, text)
		}
		status, text := vouched(access.Login, user, "POST", "/v1/tokens", `{"scope":"all"}`)
		if status != http.StatusOK {
			t.Errorf("a token of a %s with scope all through a login node: %d %s", user, status, text)
		}
		status, text = vouched(access.Node, user, "POST", "/v1/tokens", `{"scope":"submit"}`)
		var token api.CreatedToken
		if err := json.Unmarshal([]byte(text), &token); err != nil || status != http.StatusOK {
			t.Errorf("a token of a %s through a node: %d %s", user, status, text)
			continue
		}
		for _, path := range []string{"/v1/controllers/c9/remove", "/v1/nodes/n1/resume", running + "/update"} {
			if status, text := c.bearing(token.Token, "POST", path, `{}`); status != http.StatusForbidden {
				t.Errorf("a token that a %s made through a node: %s: %d %s", user, path, status, text)
			}
		}
	}
	admin := c.token(access.Admin, `{"scope":"all"}`)
	if status, text := c.bearingAs(access.Node, admin.Token, "POST", "/v1/nodes/n1/resume", "{}"); status != 200 {
		t.Errorf("an admin's token over a node's connection: %d %s", status, text)
	}
}

// TestAPrivateJobAnswersAsIfThereWereNone: where jobs are private, a user tries every route on a
// job of another user, and on a job that never was, and compares the answers.
func TestAPrivateJobAnswersAsIfThereWereNone(t *testing.T) {
	c := startCluster(t, endedInHistoryOnly)
	c.private(cluster.PrivateJobs)
	seen := map[string]bool{}
	for _, cell := range server.Cells() {
		if cell.Rule.About != access.OneJob || seen[cell.Method+cell.Path] {
			continue
		}
		seen[cell.Method+cell.Path] = true
		answer := func(id string) string {
			path := strings.Replace(cell.Path, "{id}", id, 1)
			status, text := c.ask(access.User, cell.Method, path, `{}`)
			return strconv.Itoa(status) + strings.ReplaceAll(text, id, "ID")
		}
		if got, want := answer(fmt.Sprint(c.ids["running"])), answer("987654321"); got != want ||
			!strings.HasPrefix(got, "404") {
			t.Errorf("%s %s: %s, want %s", cell.Method, cell.Path, got, want)
		}
	}
	if len(seen) < 9 {
		t.Errorf("only %d routes", len(seen))
	}
	same := func(what string, answer func(id string) (int, string)) {
		t.Helper()
		plain := func(id string) string {
			status, text := answer(id)
			return strconv.Itoa(status) + regexp.MustCompile(id+`|"index":\d+`).ReplaceAllString(text, "N")
		}
		for _, name := range []string{"running", "ended", "array"} {
			if got, want := plain(fmt.Sprint(c.ids[name])), plain("987654321"); got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		}
	}
	for _, suffix := range []string{"", "_0", "_[0-1]", ".main", "-"} {
		same("a dependency on ID"+suffix, func(id string) (int, string) {
			j := job("curious")
			j.Account, j.Dependencies = "", []jobspec.Dependency{{Type: "after", Jobs: []string{id + suffix}}}
			body, err := json.Marshal(j)
			if err != nil {
				t.Fatal(err)
			}
			return c.ask(access.User, "POST", "/v1/jobs", string(body))
		})
		same("a list of ID"+suffix, func(id string) (int, string) {
			return c.ask(access.User, "GET", "/v1/jobs?id="+url.QueryEscape(id+suffix), "")
		})
		same("history of ID"+suffix, func(id string) (int, string) {
			return c.ask(access.User, "GET", "/v1/history?id="+url.QueryEscape(id+suffix), "")
		})
		same("cancel of ID"+suffix, func(id string) (int, string) {
			return c.ask(access.User, "POST", "/v1/jobs/cancel", `{"refs":["`+id+suffix+`"]}`)
		})
		same("why ID"+suffix, func(id string) (int, string) {
			return c.ask(access.User, "GET", "/v1/jobs/"+url.PathEscape(id+suffix)+"/why", "")
		})
	}
}

// TestOtherNamesOfAJobHaveItsOwner: a user names a job of another user as a task of an array, as
// several tasks, by the id of a task that has not been made, and when only the history has it.
func TestOtherNamesOfAJobHaveItsOwner(t *testing.T) {
	c := startCluster(t, endedInHistoryOnly)
	array := c.ids["array"]
	seen := map[string]bool{}
	for _, cell := range server.Cells() {
		if cell.Rule.About != access.OneJob || seen[cell.Path] || cell.Rule.Roles&access.User != 0 {
			continue
		}
		seen[cell.Path] = true
		for _, id := range []string{fmt.Sprint(array, "_0"), fmt.Sprint(array, "_[0-1]"), fmt.Sprint(array + 1),
			fmt.Sprint("0", array), fmt.Sprint(c.ids["ended"])} {
			path := strings.Replace(cell.Path, "{id}", id, 1)
			if status, text := c.ask(access.User, cell.Method, path, "{}"); status != http.StatusForbidden {
				t.Errorf("%s %s: %d %s", cell.Method, path, status, text)
			}
		}
	}
	if got := c.job("array"); got.Array.Indices != "0-2" || len(seen) < 7 {
		t.Errorf("%d routes, the array waits for %q", len(seen), got.Array.Indices)
	}
	for _, path := range []string{"/v1/jobs/%d?after=0", "/v1/jobs/%d/why"} {
		status, text := c.ask(access.User, "GET", fmt.Sprintf(path, c.ids["ended"]), "")
		if status != http.StatusOK || strings.Contains(text, secret) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

// TestSharesOfOthersArePrivate: with usage private, a user sees its own share of an account that it
// has with another user, and not that user's.
func TestSharesOfOthersArePrivate(t *testing.T) {
	c := startCluster(t)
	for word, sees := range map[string]bool{"": true, cluster.PrivateUsage: false} {
		c.private(word)
		_, text := c.ask(access.User, "GET", "/v1/shares", "")
		if !strings.Contains(text, `"account":"both"`) || !strings.Contains(text, `"user":"52005"`) ||
			strings.Contains(text, `"user":"52001"`) != sees {
			t.Errorf("private %q: %s", word, text)
		}
	}
}

// TestEachRoleIsWalked: the walk would prove nothing with a role left out.
func TestEachRoleIsWalked(t *testing.T) {
	roles := map[access.Role]int{}
	for _, cell := range server.Cells() {
		roles[cell.Role]++
	}
	for _, c := range server.Columns {
		if roles[c.Role] < 20 {
			t.Errorf("role %s has %d cells", c.Role, roles[c.Role])
		}
	}
	if len(roles) != len(server.Columns) || len(people)+len(daemons) != 8 {
		t.Error(slices.Collect(maps.Keys(roles)))
	}
}
