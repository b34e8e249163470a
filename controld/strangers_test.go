package controld

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/trust"
)

// TestStrangersWriteNothing is the attack of a stranger that asks to join with wrong secrets, at the
// leader and at a follower. The log has no entry of it, the answer names nothing of the cluster, and
// after some tries there is no other answer than that. A machine with a right token joins meanwhile.
func TestStrangersWriteNothing(t *testing.T) {
	leader, followers := leaderOf(t, startThree(t, nil))
	admin := leader.client(model.Identity{User: "root"})
	made, err := admin.CreateJoinToken(t.Context(), string(pki.Login))
	if err != nil {
		t.Fatal(err)
	}
	token, err := pki.ParseToken(made.Token)
	if err != nil {
		t.Fatal(err)
	}
	index := func() uint64 {
		_, a, err := admin.Cluster(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return a.Index
	}
	before := index()
	for _, at := range []*running{leader, followers[0]} {
		limited := 0
		for i := range 60 {
			wrong := signerOf(t, leader.addrs.HTTP).NewToken()
			name := []string{"new", leader.cfg.Name, followers[1].cfg.Name}[i%3]
			_, err := api.Join(t.Context(), at.addrs.HTTP, wrong, pki.Controller, name, t.TempDir())
			var p *api.Problem
			if !errors.As(err, &p) {
				t.Fatalf("a wrong secret: %v", err)
			}
			if p.Code == api.CodeLimit {
				limited++
			} else if p.Code != api.CodeDenied {
				t.Errorf("a wrong secret: %+v", p)
			}
			for _, s := range append(followers, leader) {
				for _, told := range []string{s.addrs.HTTP, s.addrs.Raft, s.addrs.Gossip, s.cfg.Name + " "} {
					if strings.Contains(err.Error(), told) && told != at.addrs.HTTP {
						t.Errorf("the answer to a wrong secret names %q: %v", told, err)
					}
				}
			}
		}
		if limited < 40 {
			t.Errorf("%d of 60 wrong secrets were refused unread", limited)
		}
	}
	if after := index(); after != before {
		t.Errorf("120 wrong secrets moved the log by %d entries", after-before)
	}
	if _, err := api.Join(t.Context(), followers[0].addrs.HTTP, token, pki.Login, "login7", t.TempDir()); err != nil {
		t.Errorf("a right token meanwhile: %v", err)
	}
}

// TestStreamsEndWithTheirCredential: an open stream of a program, and a log that is followed, end
// within seconds after their API token was revoked. Those of another token go on.
func TestStreamsEndWithTheirCredential(t *testing.T) {
	s := startOne(t)
	owner := s.client(user(51000))
	if _, err := owner.Submit(t.Context(), "", job("talks")); err != nil {
		t.Fatal(err)
	}
	n := streamNode(t, s)
	defer close(n.hold)
	waitState(t, owner, 1, model.Running)
	open := func(scope trust.TokenScope) (id string, log io.ReadCloser, program <-chan error) {
		t.Helper()
		made, err := owner.CreateToken(t.Context(), api.TokenRequest{Scope: scope})
		if err != nil {
			t.Fatal(err)
		}
		token, err := api.ParseBearerToken(made.Token)
		if err != nil {
			t.Fatal(err)
		}
		bearing, err := api.DialWith("https://"+s.addrs.HTTP, api.Options{}.WithToken(token))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(bearing.Close)
		if log, err = bearing.Logs(t.Context(), 1, api.LogOptions{Follow: true}); err != nil {
			t.Fatal(err)
		}
		conn, err := bearing.Exec(t.Context(), "1", api.ExecRequest{Argv: []string{"sh"}})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			for {
				if _, err := conn.Read(); err != nil {
					ended <- err
					return
				}
			}
		}()
		return token.ID, log, ended
	}
	id, log, program := open(trust.ScopeAll)
	_, otherLog, otherProgram := open(trust.ScopeAll)
	defer otherLog.Close()
	begin := time.Now()
	if _, err := owner.RevokeToken(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	logEnded := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, log)
		logEnded <- err
	}()
	for what, ended := range map[string]<-chan error{"the program": program, "the log": logEnded} {
		select {
		case <-ended:
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("%s went on for %v", what, took)
			}
		case <-time.After(deadline):
			t.Fatalf("%s goes on with a revoked token", what)
		}
	}
	select {
	case err := <-otherProgram:
		t.Errorf("a stream of another token ended: %v", err)
	default:
	}
}

// streamNode is a node whose programs and followed logs go on until they are cut.
func streamNode(t *testing.T, s *running) *fakeNode {
	t.Helper()
	listener := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/exec/") {
			_, _ = io.Copy(io.Discard, r.Body)
			ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
			defer cancel()
			conn, err := api.AcceptStream(ctx, w, r)
			if err != nil {
				t.Error(err)
				return
			}
			for err == nil {
				_, err = conn.Read()
			}
			return
		}
		fmt.Fprintln(w, "a line")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	listener.TLS = machineOf(t, s.addrs.HTTP, pki.Node, "n1").Server(pki.Controller)
	listener.StartTLS()
	t.Cleanup(listener.Close)
	n := newNode(t, s.addrs.HTTP, "n1", 0)
	n.node.Addr = strings.TrimPrefix(listener.URL, "https://")
	n.hold = make(chan struct{})
	n.run(t.Context())
	return n
}

// TestProcessorTimeOfOneUser is the attack of a user that has a controller compute without end, by
// plans and by lists. It is refused until its part has come again, its jobs can be cancelled all the
// same, and other users and operators are served.
func TestProcessorTimeOfOneUser(t *testing.T) {
	cfg := controller(t, "c1")
	replicated := cluster.DefaultConfig()
	replicated.MaxProcessor, replicated.MaxReads, replicated.Operators = 1, 100_000, []string{"u1009"} // 100 ms at once
	cfg.Cluster = &replicated
	s := start(t, cfg)
	s.ready()
	greedy, other, operator := s.client(user(1000)), s.client(user(1001)), s.client(user(1009))
	id, err := greedy.Submit(t.Context(), "", job("first"))
	if err != nil {
		t.Fatal(err)
	}
	for what, ask := range map[string]func(c *api.Client) error{
		"plans": func(c *api.Client) error { _, err := c.Plan(t.Context(), job("what-if")); return err },
		"lists": func(c *api.Client) error { _, _, err := c.Jobs(t.Context(), api.JobFilter{}, api.Read{}); return err },
	} {
		var refused atomic.Pointer[api.Problem]
		var all sync.WaitGroup
		begin := time.Now()
		for range 4 {
			all.Go(func() {
				for refused.Load() == nil && time.Since(begin) < 20*time.Second {
					var p *api.Problem
					if err := ask(greedy); errors.As(err, &p) {
						refused.Store(p)
					} else if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		p := refused.Load()
		if p == nil || p.Code != api.CodeLimit || !strings.Contains(p.Hint, "max_processor") {
			t.Fatalf("%s without end are refused with %+v", what, p)
		}
		if err := ask(other); err != nil {
			t.Errorf("%s of another user: %v", what, err)
		}
		if err := ask(operator); err != nil {
			t.Errorf("%s of an operator: %v", what, err)
		}
	}
	if _, err := greedy.Submit(t.Context(), "", job("another")); err != nil {
		t.Errorf("what changes something is refused: %v", err)
	}
	if err := controlled(greedy.Control(t.Context(), fmt.Sprint(id), model.VerbCancel, "")); err != nil {
		t.Errorf("cancel: %v", err)
	}
}

// TestMetricsOfPrivateAccounts: where accounts or usage are private, the metrics of this machine name
// no account, except for operators.
func TestMetricsOfPrivateAccounts(t *testing.T) {
	for _, private := range [][]string{nil, {cluster.PrivateAccounts}, {cluster.PrivateUsage}} {
		cfg := controller(t, "c1")
		replicated := cluster.DefaultConfig()
		replicated.Private = private
		cfg.Cluster = &replicated
		s := start(t, cfg)
		s.ready()
		if _, err := s.client(user(1000)).Submit(t.Context(), "", job("a")); err != nil {
			t.Fatal(err)
		}
		read := func(at string) string {
			c := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			defer c.CloseIdleConnections()
			resp, err := c.Get(at + "/metrics")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s %s, %v", at, resp.Status, text, err)
			}
			return string(text)
		}
		const figure = "rota_account_share{"
		text := read("https://" + s.addrs.HTTP) // a caller on this machine that is not known
		if shows := strings.Contains(text, figure); shows != (len(private) == 0) {
			t.Errorf("with %v private the metrics name accounts: %t", private, shows)
		}
		if !strings.Contains(read("http://"+s.addrs.Loopback), figure) { // the kernel knows that it is root
			t.Errorf("with %v private the metrics name no accounts for root", private)
		}
		if !slices.ContainsFunc(strings.Split(text, "\n"), func(l string) bool {
			return strings.HasPrefix(l, "rota_jobs{")
		}) {
			t.Errorf("with %v private there are no metrics of jobs", private)
		}
		s.stop()
	}
}
