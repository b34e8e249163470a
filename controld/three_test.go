package controld

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestAFollowerKeepsWhichMemberAsks: a node, or root of one, has a follower pass on what it may not
// do itself, so that the leader takes it for the controller's own.
func TestAFollowerKeepsWhichMemberAsks(t *testing.T) {
	_, followers := leaderOf(t, startThree(t, nil))
	n1 := machineOf(t, followers[0].addrs.HTTP, pki.Node, "n1")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: n1.Client(pki.Controller)}}
	for _, c := range []struct {
		root             bool
		path, body, says string
		want             int
	}{
		{false, "/v1/nodes/n2/register", `{"node":{"name":"n2","boot_id":"b","cores":1,"memory":1073741824}}`, "node", 403},
		{false, "/v1/nodes/n1/register", `{"node":{"name":"n1","boot_id":"b","cores":1,"memory":1073741824}}`, "", 200},
		{true, "/v1/nodes/n1/drain", `{"reason":"mine"}`, "operator", 403},
		{true, "/v1/controllers/c9/remove", ``, "admin", 403},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", "https://"+followers[0].addrs.HTTP+c.path,
			strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if c.root {
			identity.Vouch(req.Header, model.Identity{User: "root"})
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != c.want || !strings.Contains(string(text), c.says) {
			t.Errorf("%s as root %t: %s %s", c.path, c.root, resp.Status, text)
		}
	}
}

func TestFollowersForwardAndTheClusterSurvivesItsLeader(t *testing.T) {
	servers := startThree(t, nil)
	leader, followers := leaderOf(t, servers)
	addrs := leader.addrs.HTTP
	for _, f := range followers {
		addrs += "," + f.addrs.HTTP
	}
	c := followers[0].client(user(1000))
	id, err := c.Submit(t.Context(), "", job("through-a-follower"))
	if err != nil {
		t.Fatal(err)
	}
	if j, _, err := c.Job(t.Context(), id, api.Read{}); err != nil || j.User != "u1000" {
		t.Fatalf("the follower that took it does not show it: %+v, %v", j, err)
	}
	wantProblem(t, followers[1].client(user(1001)).Cancel(t.Context(), id, ""), api.CodeDenied)

	all := dial(t, addrs, user(1000))
	acknowledged := submitWhile(t, all, func() { leader.stop() })
	ids := map[model.JobID]bool{}
	for _, id := range acknowledged {
		if ids[id] {
			t.Fatalf("id %d was given twice", id)
		}
		ids[id] = true
	}
	for _, f := range followers {
		list := everyJob(t, f.client(user(1000)))
		for _, id := range acknowledged {
			if !list[id] {
				t.Errorf("%s lost job %d, which was acknowledged", f.cfg.Name, id)
			}
		}
	}
	back := start(t, leader.cfg)
	eventually(t, "the old leader to catch up", func() error {
		if list := everyJob(t, back.client(user(1000))); len(list) < len(ids)+1 {
			return fmt.Errorf("it has %d jobs of %d", len(list), len(ids)+1)
		}
		return nil
	})
}

// TestALeaderThatHangsIsNotWaitedFor stops the leader's process as a hang or a power cut does: its
// connections stay.
func TestALeaderThatHangsIsNotWaitedFor(t *testing.T) {
	leader, at := apart(t, "c1")
	var others []*running
	for _, name := range []string{"c2", "c3"} {
		cfg := controller(t, name)
		cfg.Join = []string{at.Gossip}
		others = append(others, start(t, cfg))
	}
	for _, s := range others {
		eventually(t, "three voters at "+s.cfg.Name, func() error {
			if got := voters(t, s); len(got) != 3 {
				return fmt.Errorf("%v", got)
			}
			return nil
		})
	}
	c := others[0].client(user(1000))
	if _, err := c.Submit(t.Context(), "before", job("before")); err != nil {
		t.Fatal(err)
	}
	if err := leader.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { leader.Signal(syscall.SIGCONT) })
	if _, err := c.Submit(t.Context(), "after", job("after")); err != nil {
		t.Errorf("submit while the leader hangs: %v", err)
	}
}

// submitWhile submits from several goroutines before, during and after f, and returns what was
// acknowledged. No submission may fail.
func submitWhile(t *testing.T, c *api.Client, f func()) []model.JobID {
	t.Helper()
	var mu sync.Mutex
	var acknowledged []model.JobID
	const before, after = 50, 50
	reached, disturbed := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			rest := after
			for i := 0; rest > 0; i++ {
				id, err := c.Submit(t.Context(), api.NewKey(), job(fmt.Sprintf("w%d-%d", w, i)))
				if err != nil {
					t.Errorf("submit: %v", err)
					return
				}
				mu.Lock()
				acknowledged = append(acknowledged, id)
				if len(acknowledged) == before {
					close(reached)
				}
				mu.Unlock()
				select {
				case <-disturbed:
					rest--
				default:
				}
			}
		})
	}
	select {
	case <-reached:
	case <-time.After(deadline):
		t.Error("nothing is acknowledged")
	}
	f()
	close(disturbed)
	wg.Wait()
	return acknowledged
}

func everyJob(t *testing.T, c *api.Client) map[model.JobID]bool {
	t.Helper()
	ids := map[model.JobID]bool{}
	page := ""
	for {
		var list *api.List[api.Job]
		eventually(t, "a list of jobs", func() (err error) {
			list, _, err = c.Jobs(t.Context(), api.JobFilter{All: true, Page: page}, api.Read{Consistent: true})
			return err
		})
		for _, j := range list.Items {
			ids[j.ID] = true
		}
		if page = list.Next; page == "" {
			return ids
		}
	}
}

func TestAControllerFetchesTheHistoryItMissed(t *testing.T) {
	servers := startThree(t, func(c *Config) { c.KeepRecords, c.KeepFor = 0, time.Hour })
	_, followers := leaderOf(t, servers)
	late := followers[0]
	late.stop()
	leader, _ := leaderOf(t, remove(servers, late))
	c := leader.client(user(1000))
	newNode(t, leader.addrs.HTTP, "n1", 0).run(t.Context())
	const n = 30
	for i := range n {
		if _, err := c.Submit(t.Context(), api.NewKey(), job(fmt.Sprint("j", i))); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all jobs to leave the state", func() error {
		list, _, err := c.Jobs(t.Context(), api.JobFilter{All: true}, api.Read{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d are left", len(list.Items))
		}
		return err
	})
	back := start(t, late.cfg).client(user(1000))
	eventually(t, "the whole history on the one that was down", func() error {
		hist, _, err := back.History(t.Context(), api.HistoryFilter{}, api.Read{})
		if err == nil && len(hist.Items) != n {
			err = fmt.Errorf("it has %d of %d", len(hist.Items), n)
		}
		return err
	})
}

// TestAControllerThatFetchesTheHistoryHidesNothing asks a new controller for the history from its
// first moment on.
func TestAControllerThatFetchesTheHistoryHidesNothing(t *testing.T) {
	cfg := controller(t, "c1")
	cfg.KeepRecords, cfg.KeepFor = 0, time.Millisecond
	s := start(t, cfg)
	s.ready()
	c := s.client(user(1000))
	const n = 3000
	jobs := make([]*jobspec.Job, n)
	for i := range jobs {
		jobs[i] = job(fmt.Sprint("j", i))
	}
	if _, err := c.SubmitAll(t.Context(), "k", jobs); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CancelMany(t.Context(), api.CancelRequest{User: "u1000"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all jobs to leave the state", func() error {
		list, _, err := c.Jobs(t.Context(), api.JobFilter{All: true}, api.Read{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d are left", len(list.Items))
		}
		return err
	})
	late := controller(t, "c2")
	late.Join = []string{s.addrs.Gossip}
	fresh := start(t, late).client(user(1000))
	for complete := 0; complete < 20; {
		hist, _, err := fresh.History(t.Context(), api.HistoryFilter{Limit: 10_000}, api.Read{})
		var none *api.Problem
		switch {
		case errors.As(err, &none) && none.Code == api.CodeNoLeader:
		case err != nil:
			t.Fatal(err)
		case len(hist.Items) != n:
			t.Fatalf("it says that %d of %d is all there is", len(hist.Items), n)
		default:
			complete++
		}
	}
}

func remove(servers []*running, s *running) []*running {
	var rest []*running
	for _, o := range servers {
		if o != s {
			rest = append(rest, o)
		}
	}
	return rest
}

func TestWithoutQuorumReadsAreMarkedStale(t *testing.T) {
	servers := startThree(t, nil)
	leader, followers := leaderOf(t, servers)
	// what has been passed on once is not passed on again
	eventually(t, "a follower that answers by itself", func() error {
		p, _ := send(t, followers[1], http.MethodGet, "/v1/jobs", "", http.Header{"Rota-Forwarded": {"test"}})
		if p.Code != "" {
			return p
		}
		return nil
	})
	followers[0].stop()
	leader.stop()
	c := followers[1].client(user(1000))
	eventually(t, "a stale answer", func() error {
		_, a, err := c.Jobs(t.Context(), api.JobFilter{}, api.Read{})
		if err == nil && a.Stale == 0 {
			err = errors.New("it is not marked")
		}
		return err
	})
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := c.Submit(ctx, "k", job("nobody"))
	wantProblem(t, err, api.CodeNoLeader)
}

// TestAllControllersChangeTheirAddresses restarts every controller of a cluster at once with other
// addresses, as docs/operating.md says: the log names the old ones, at which no controller is any
// more.
func TestAllControllersChangeTheirAddresses(t *testing.T) {
	servers := startThree(t, nil)
	id, err := servers[0].client(user(1000)).Submit(t.Context(), "before", job("before"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		s.stop()
	}
	var moved []*running
	for _, s := range servers {
		cfg := s.cfg
		cfg.HTTP, cfg.Raft, cfg.Gossip, cfg.Loopback = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
		cfg.Join = nil
		if len(moved) > 0 {
			cfg.Join = []string{moved[0].addrs.Gossip}
		}
		moved = append(moved, start(t, cfg))
		if old := s.addrs; moved[len(moved)-1].addrs.Raft == old.Raft {
			t.Fatalf("%s has its old address", s.cfg.Name)
		}
	}
	c := moved[1].client(user(1000))
	eventually(t, "a leader that takes jobs", func() error {
		_, err := c.Submit(t.Context(), "after", job("after"))
		return err
	})
	if j, _, err := c.Job(t.Context(), id, api.Read{Consistent: true}); err != nil || j.Name != "before" {
		t.Errorf("the job of before: %+v, %v", j, err)
	}
	eventually(t, "the log to have the new addresses", func() error {
		cl, _, err := c.Cluster(t.Context())
		if err != nil {
			return err
		}
		for _, m := range cl.Controllers {
			for _, s := range moved {
				if s.cfg.Name == m.Name && (m.Raft != s.addrs.Raft || !m.Voter) {
					return fmt.Errorf("%s is at %s, voter %t", m.Name, m.Raft, m.Voter)
				}
			}
		}
		return nil
	})
	leader, _ := leaderOf(t, moved)
	leader.stop()
	left := remove(moved, leader)
	if _, err := left[0].client(user(1000)).Submit(t.Context(), "fail-over", job("fail-over")); err != nil {
		t.Errorf("fail-over at the new addresses: %v", err)
	}
}
