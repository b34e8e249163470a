package controld

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// journal keeps what a daemon logs.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

// says waits until a line has all words in it.
func (j *journal) says(t *testing.T, words ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("a line with %q", words), func() error {
		j.mu.Lock()
		defer j.mu.Unlock()
	next:
		for line := range strings.Lines(j.text.String()) {
			for _, w := range words {
				if !strings.Contains(line, w) {
					continue next
				}
			}
			return nil
		}
		return errors.New("there is none")
	})
}

func voters(t *testing.T, s *running) []string {
	t.Helper()
	cl, _, err := s.client(user(1000)).Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range cl.Controllers {
		if c.Voter {
			names = append(names, c.Name)
		}
	}
	return names
}

// TestTwoClustersThatMeetStayTwo starts a cluster's only controller again with a --join that names
// another cluster's.
func TestTwoClustersThatMeetStayTwo(t *testing.T) {
	a := startOne(t)
	lost := controller(t, "b1")
	b := start(t, lost)
	b.ready()
	id, err := b.client(user(1000)).Submit(t.Context(), "", job("of-b"))
	if err != nil {
		t.Fatal(err)
	}
	b.stop()
	var log journal
	lost = b.cfg
	lost.Join, lost.Logger = []string{a.addrs.Gossip}, slog.New(slog.NewTextHandler(&log, nil))
	b = start(t, lost)
	log.says(t, "no machine of the cluster can be reached yet", a.addrs.Gossip)
	b.ready()
	if j, _, err := b.client(user(1000)).Job(t.Context(), id, api.Read{Consistent: true}); err != nil || j.Name != "of-b" {
		t.Errorf("b1 has lost what it had acknowledged: %v", err)
	}
	for s, want := range map[*running]string{a: "c1", b: "b1"} {
		if got := voters(t, s); len(got) != 1 || got[0] != want {
			t.Errorf("voters of %s: %v", want, got)
		}
	}
	// A client that is given both refuses the second.
	both := dial(t, a.addrs.HTTP+","+b.addrs.HTTP, user(1000))
	if _, _, err := both.Cluster(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.stop()
	if _, _, err := both.Cluster(t.Context()); err == nil {
		t.Error("a client has gone over to another cluster")
	}
}

func TestADeadControllerIsReplaced(t *testing.T) {
	servers := startThree(t, nil)
	_, followers := leaderOf(t, servers)
	dead, left := followers[0], followers[1]
	root := left.client(model.Identity{UID: 0, User: "root"})
	wantProblem(t, left.client(user(1000)).RemoveController(t.Context(), dead.cfg.Name), api.CodeDenied)
	wantProblem(t, root.RemoveController(t.Context(), dead.cfg.Name), api.CodeWrongState)
	wantProblem(t, root.RemoveController(t.Context(), "c9"), api.CodeNotFound)
	dead.stop()
	eventually(t, "the removal of "+dead.cfg.Name,
		func() error { return root.RemoveController(t.Context(), dead.cfg.Name) })
	fresh := controller(t, "c4")
	fresh.Join = []string{left.addrs.Gossip}
	servers = append(remove(servers, dead), start(t, fresh))
	eventually(t, "three voters", func() error {
		if got := voters(t, left); len(got) != 3 || slices.Contains(got, dead.cfg.Name) {
			return fmt.Errorf("they are %v", got)
		}
		return nil
	})
	leader, others := leaderOf(t, servers)
	leader.stop()
	if _, err := others[0].client(user(1000)).Submit(t.Context(), "k", job("with-two-of-three")); err != nil {
		t.Error(err)
	}
}
