package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/directory"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/servertest"
	"github.com/rota-hpc/rota/controld/telemetry"
	"github.com/rota-hpc/rota/jobspec"
)

func TestWhichKeysAreGood(t *testing.T) {
	long := strings.Repeat("k", 65)
	for _, c := range []struct {
		keys []string
		good bool
	}{{nil, true}, {[]string{""}, false}, {[]string{"k"}, true}, {[]string{long[:64]}, true}, {[]string{long}, false},
		{[]string{"!"}, true}, {[]string{" "}, false}, {[]string{"a b"}, false}, {[]string{"~"}, true},
		{[]string{"\x7f"}, false}, {[]string{"ab\x7f"}, false}, {[]string{"a", "a"}, false}} {
		key := ""
		if len(c.keys) > 0 {
			key = c.keys[0]
		}
		if err := checkKey(key, c.keys); (err == nil) != c.good {
			t.Errorf("%q: %v", c.keys, err)
		}
	}
}

// TestWhatASubmissionAnswers: ids, the same ids for the same key, and what the audit log has of it.
func TestWhatASubmissionAnswers(t *testing.T) {
	s := newSite(t)
	s.Users = &identity.Users{}
	cfg := *s.Replica.View().Config()
	cfg.Accounts = map[string]cluster.Account{"physics": {Users: map[string]cluster.Terms{"ann": {}, "daemon": {}}}}
	s.Do(fsm.SetConfig{Config: cfg})
	spec := &jobspec.Job{Name: "sub", Account: "physics", Hold: true, Groups: []jobspec.Group{{Name: "m", Count: 1,
		Tasks: []jobspec.Task{{Name: "m", Command: []string{"true"}, Resources: jobspec.Resources{Cores: 1,
			Memory: jobspec.GiB}}}}}}
	body, err := json.Marshal(map[string]any{"jobs": []*jobspec.Job{spec, spec}})
	if err != nil {
		t.Fatal(err)
	}
	send := func(key, body string) (*api.SubmitResponse, *exchange.Exchange, error) {
		x := s.Routed("POST", "/v1/jobs", servertest.Named("ann", 7), "", "", body)
		if key != "" {
			x.Request.Header.Set(api.HeaderIdempotencyKey, key)
		}
		resp, err := s.submit(x)
		return resp, x, err
	}
	first, x, err := send("k", string(body))
	if err != nil || len(first.IDs) != 2 || first.RunAs != "" || x.About.Account != "physics" ||
		x.About.Jobs.String() != fmt.Sprintf("%d-%d", first.IDs[0], first.IDs[1]) {
		t.Fatalf("%+v, %v, about %+v", first, err, x.About)
	}
	again, _, err := send("k", string(body))
	if err != nil || !slices.Equal(again.IDs, first.IDs) {
		t.Errorf("the same key: %+v, %v", again, err)
	}
	if other, _, err := send("", string(body)); err != nil || slices.Equal(other.IDs, first.IDs) {
		t.Errorf("without a key: %+v, %v", other, err)
	}
	if _, _, err := send("k", strings.Replace(string(body), "sub", "sob",
		1)); servertest.CodeOf(err) != api.CodeKeyReused {
		t.Errorf("another body under the key: %v", err)
	}
	for _, bad := range []string{`{"jobs":[]}`, `{"job":1}`, `{`} {
		if _, _, err := send("", bad); err == nil {
			t.Errorf("%s is submitted", bad)
		}
	}
	s.RootJobsAs = "daemon"
	y := s.Routed("POST", "/v1/jobs", servertest.Named("root", 0), "", "", strings.Replace(string(body), `"hold":true`,
		`"hold":true,"export_env":{"HOME":"/root","USER":"root","LOGNAME":"root","LANG":"C"}`, 2))
	resp, err := s.submit(y)
	if err != nil {
		t.Fatal(err)
	}
	j := s.Replica.View().Job(resp.IDs[0])
	if env := j.FullSpec().ExportEnv; resp.RunAs != "daemon" || j.Owner.User != "daemon" || len(env) != 1 ||
		env["LANG"] != "C" {
		t.Errorf("jobs of root: %+v, of %s, with %v", resp, j.Owner.User, env)
	}
}

// controllerWith is a controller beside the one of a site, on the same state, whose machine has its own groups.
func (s *site) controllerWith(t *testing.T, groups string) *site {
	t.Helper()
	root := t.TempDir()
	text := "passwd: files\ngroup: files\n"
	if err := errors.Join(os.Mkdir(root+"/etc", 0o755), os.WriteFile(root+"/etc/group", []byte(groups), 0o644),
		os.WriteFile(root+"/etc/nsswitch.conf", []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	h := &Handlers{Name: s.Handlers.Name, Replica: s.Leader, History: s.History, Samples: &telemetry.Samples{},
		Users: s.Site.Users, Groups: &identity.Groups{Directory: directory.New(root)}}
	return &site{s.Site, h}
}

// TestTheAccountDoesNotDependOnTheController: three controllers name a group differently or not at all, and
// users come by a controller's socket, by a node, and by a token. The first name of the group decides.
func TestTheAccountDoesNotDependOnTheController(t *testing.T) {
	const gid = 5000
	eva := model.Identity{UID: 5001, GID: gid, User: "eva"}
	socket := func(name string) *identity.Caller {
		return &identity.Caller{User: eva, Group: identity.Group{GID: gid, Name: name}}
	}
	node := func(name string) *identity.Caller {
		c := socket(name)
		c.Role, c.From = "node", "n1"
		return c
	}
	token := func(name string, now uint32) *identity.Caller {
		c := socket(name) // the group of the day when it was made
		c.Token, c.Scope, c.User.GID = "x", "submit", now
		return c
	}
	type step struct {
		by     int // the controller that answers
		caller *identity.Caller
		want   string
	}
	for name, steps := range map[string][]step{
		"sockets":                  {{0, socket(""), "vision"}, {1, socket(""), "vision"}, {2, socket(""), "vision"}},
		"sockets, the other first": {{1, socket(""), "seeing"}, {0, socket(""), "seeing"}, {2, socket(""), "seeing"}},
		"a name after the number":  {{2, socket(""), "gid-5000"}, {0, socket(""), "vision"}, {2, socket(""), "vision"}},
		"nodes": {{1, node("vision"), "vision"}, {2, node("vision"), "vision"},
			{1, node("other"), "vision"}},
		"nodes that know no name": {{0, node("vision"), "vision"}, {1, node(""), "vision"}, {2, node(""), "vision"}},
		"tokens": {{2, token("vision", gid), "vision"}, {1, token("vision", gid), "vision"},
			{0, token("", gid), "vision"}},
		"a user that changed its group": {{0, token("vision", gid), "vision"}, {1, token("vision", 6000), "vision"},
			{2, token("vision", gid), "vision"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			controllers := []*site{s.controllerWith(t, "vision:x:5000:\n"),
				s.controllerWith(t, "seeing:x:5000:\nfilm:x:6000:\n"), s.controllerWith(t, "")}
			for i, step := range steps {
				spec := &jobspec.Job{Name: "x", Hold: true, Groups: []jobspec.Group{{Name: "m", Count: 1, Tasks: []jobspec.Task{{
					Name: "m", Command: []string{"true"}, Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB}}}}}}
				body, err := json.Marshal(spec)
				if err != nil {
					t.Fatal(err)
				}
				c := controllers[step.by]
				resp, err := c.submit(c.Routed("POST", "/v1/jobs", step.caller, "", "", string(body)))
				if err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
				if got := s.Handlers.Replica.View().Job(resp.IDs[0]).Account; got != step.want {
					t.Errorf("step %d, by controller %d: account %s, want %s", i, step.by, got, step.want)
				}
			}
		})
	}
}
