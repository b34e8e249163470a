package e2e

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestAStrangerAtThePortOfAKilledLeader: the leader is killed, and a local user binds its ports and
// answers every request as a leader would. Its answers are an allocation that runs a command as
// root on the node, and a stop of the job that runs there. It tries without TLS, with a certificate
// of its own, and with that of a login node whose disk it has read. The node must run nothing of
// it, and the job must go on. Followers must pass nothing on to it, and a controller that is asked
// to vote must not count its vote.
func TestAStrangerAtThePortOfAKilledLeader(t *testing.T) {
	w := start(t, lab.Options{Controllers: 3, Nodes: 1})
	honest := w.scratch("honest")
	job := w.submit(fmt.Sprintf(`job "honest" {
  group "g" {
    task "t" {
      command = ["sh", "-c", "while true; do date +%%s > %s/beat; sleep 0.2; done"]
    }
  }
}`, honest))
	running := w.until(job, "it runs", func(j api.Job) bool { return j.Code == model.Running })
	evil := filepath.Join(w.scratch("evil"), "pwned")

	leader, err := w.Leader(w.ctx)
	w.must(err)
	stolen := pkitest.New(t).First() // has the form of a controller, of another cluster
	signer, err := w.Credential()
	w.must(err)
	loginDir := filepath.Join(t.TempDir(), "tls")
	w.must(signer.Issue(loginDir, pki.Login, "l1", nil))
	login, err := pki.Load(loginDir)
	w.must(err)
	leader.Kill()

	asked := map[string]*atomic.Int64{}
	answer := func(what string) http.HandlerFunc {
		asked[what] = new(atomic.Int64)
		return func(rw http.ResponseWriter, r *http.Request) {
			asked[what].Add(1)
			rw.Header().Set("Rota-Index", "999999999")
			_ = json.NewEncoder(rw).Encode(api.NodeAllocs{Index: 999999999, LeaseMS: 600_000, Allocs: []api.Alloc{{
				Job: 4711, Attempt: 1, Released: true, Owner: model.Identity{User: "root", Home: "/root"},
				Request: model.Request{Active: model.Vector{Cores: 1, Memory: 64 << 20}},
				Spec: &jobspec.Job{Name: "evil", Workdir: "/", Groups: []jobspec.Group{{Name: "g", Tasks: []jobspec.Task{{
					Name: "t", Command: []string{"touch", evil}}}}}},
			}}})
		}
	}
	serve := func(what string, conf *tls.Config) func() {
		l, err := net.Listen("tcp", strings.TrimPrefix(leader.HTTP, "https://"))
		w.must(err)
		s := &httptest.Server{Listener: l, Config: &http.Server{Handler: answer(what)}}
		if conf == nil {
			s.Start()
		} else {
			s.TLS = conf
			s.StartTLS()
		}
		return s.Close
	}
	began := time.Now()
	for _, c := range []struct {
		what string
		tls  *tls.Config
	}{{"without TLS", nil}, {"a certificate of its own", posing(stolen)}, {"a login node's certificate", posing(login)}} {
		stop := serve(c.what, c.tls)
		// Requests by every way that the cluster has: the node polls, followers forward, a command asks.
		for range 5 {
			out, _, code := w.rota("submit", "--hold", w.file(t, "held.hcl", heldJob))
			if code != 0 {
				t.Errorf("%s: a submission while a stranger poses as the leader: %s", c.what, out)
			}
			time.Sleep(200 * time.Millisecond) // the node's polls go on meanwhile
		}
		stop()
		if n := asked[c.what].Load(); n > 0 && c.tls != nil {
			t.Errorf("%s: %d requests were made to it", c.what, n)
		}
	}
	if _, err := os.Stat(evil); err == nil {
		t.Error("the node ran a stranger's command as root")
	}
	if now := w.status(job); now.Code != model.Running || now.Attempt != running.Attempt {
		t.Errorf("the honest job is %s, attempt %d", now.Code, now.Attempt)
	}
	beat, err := os.Stat(filepath.Join(honest, "beat"))
	if err != nil || beat.ModTime().Before(began) {
		t.Errorf("the honest job does not go on: %v", err)
	}
	nodes := w.ok("nodes", "--no-header", "--columns", "name,state,reason")
	if strings.Contains(nodes, "down") || strings.Contains(nodes, "went back") {
		t.Errorf("the node: %s", nodes)
	}
	w.ok("cancel", job)
	w.until(job, "it ends", func(j api.Job) bool { return j.Code.Final() })
}

// posing is a server that shows a member's certificate and asks its clients for none.
func posing(c *pki.Credential) *tls.Config {
	conf := c.Server()
	conf.ClientAuth, conf.VerifyConnection = tls.NoClientCert, nil
	return conf
}

const heldJob = `job "held" {
  group "g" {
    task "t" {
      command = ["true"]
    }
  }
}`
