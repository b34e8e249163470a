package jobs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/servertest"
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
