package consensus_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/consensus/consensustest"
)

// silence is long enough for several elections.
const silence = 2500 * time.Millisecond

// story is the history in which a disk is hurt: n3 is down, n1 and n2 acknowledge entries.
type story struct {
	*consensustest.Cluster
	t     *testing.T
	acked map[string]bool
}

// tell begins it, with n1 or n2 leading, and returns it with n2 down, hurt and its machine booted or
// not. All entries that count are on n1 alone then.
func tell(t *testing.T, tune func(*consensus.Config), hurt func(*consensustest.Cluster, string)) *story {
	t.Helper()
	s := &story{t: t, acked: map[string]bool{}}
	s.Cluster = consensustest.Start(t, 3, newRecord, tune)
	s.propose("before", 5)
	sameEverywhere(t, s.Cluster)
	s.Kill("n3")
	s.Kill("n2")
	s.KeepDisk("n2")
	s.Restart("n2")
	s.propose("acknowledged", 20)
	s.Kill("n2")
	hurt(s.Cluster, "n2")
	return s
}

// propose has the leader acknowledge entries.
func (s *story) propose(text string, count int) {
	s.t.Helper()
	for i := range count {
		data := fmt.Sprintf("%s %d", text, i)
		propose(s.t, s.Cluster, data)
		s.acked[data] = true
	}
}

// noLeader fails if a leader is confirmed within silence.
func (s *story) noLeader() {
	s.t.Helper()
	for end := time.Now().Add(silence); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for _, name := range s.Names() {
			n := s.Node(name)
			if n == nil || !n.IsLeader() {
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			err := n.Verify(ctx)
			cancel()
			if err == nil {
				s.t.Fatalf("%s was elected with entries missing", name)
			}
		}
	}
}

// whole fails if any running member misses an acknowledged entry, or has others than its peers.
func (s *story) whole() {
	s.t.Helper()
	sameEverywhere(s.t, s.Cluster)
	for _, name := range s.Names() {
		if s.Node(name) == nil {
			continue
		}
		if wrong := machine(s.Cluster, name).missing(s.acked); len(wrong) > 0 {
			s.t.Errorf("%s: %v", name, wrong)
		}
	}
}

func hurtEmpty(c *consensustest.Cluster, name string) { c.EmptyDisk(name) }
func hurtOld(c *consensustest.Cluster, name string)   { c.OldDisk(name) }
func hurtOldBooted(c *consensustest.Cluster, name string) {
	c.OldDisk(name)
	c.Boot(name)
}

// A member whose disk is empty does not elect another one that misses entries. Nor does it stand in
// for its lost log in any majority, until a leader has brought it up to date.
func TestAnEmptyDiskHasNoVote(t *testing.T) {
	s := tell(t, nil, hurtEmpty)
	s.Isolate("n1")
	s.Restart("n2")
	s.Restart("n3")
	s.noLeader()
	s.Heal()
	if leader := s.WaitLeader(); leader != "n1" {
		t.Errorf("%s leads, which misses entries", leader)
	}
	n1, n2 := s.Node("n1"), s.Node("n2").Self()
	old := n1.Members()[slices.IndexFunc(n1.Members(), func(m consensus.Member) bool { return m.Name == "n2" })]
	if log, lost := n1.LostItsLog(old); !lost || log != n2.Log {
		t.Errorf("the leader does not know that n2 lost its log: %q, %t", log, lost)
	}
	if err := n1.AddVoter(withTimeout(t), n2); !errors.Is(err, consensus.ErrNameTaken) {
		t.Errorf("a second n2 is added: %v", err)
	}
	s.Isolate("n3") // n1 and the new n2 are no majority while the old n2 has the vote
	s.noLeader()
	s.Heal()
	s.Readmit("n2")
	s.propose("after", 5)
	s.whole()
	if log, lost := s.Node(s.WaitLeader()).LostItsLog(s.Node("n2").Self()); lost {
		t.Errorf("n2 is taken for lost still: %s", log)
	}
	s.Kill(s.WaitLeader()) // the new n2 votes
	s.propose("with the new log", 5)
}

// A learner gets every entry and counts for nothing.
func TestALearnerCountsForNoMajority(t *testing.T) {
	c := consensustest.Start(t, 3, newRecord, nil)
	propose(t, c, "x")
	leader := c.WaitLeader()
	var others []string
	for _, name := range c.Names() {
		if name != leader {
			others = append(others, name)
		}
	}
	learner, voter := others[0], others[1]
	c.Kill(learner)
	c.EmptyDisk(learner)
	c.Restart(learner)
	n := c.Node(leader)
	if err := n.Remove(withTimeout(t), learner); err != nil {
		t.Fatal(err)
	}
	if err := n.AddLearner(withTimeout(t), c.Node(learner).Self()); err != nil {
		t.Fatal(err)
	}
	if m, l := n.Members(), n.Learners(); len(m) != 2 || len(l) != 1 || l[0] != c.Node(learner).Self() {
		t.Fatalf("voters %v, learners %v", m, l)
	}
	c.Eventually("state on the learner", func() bool { return c.Node(learner).Applied() == n.Applied() })
	c.Kill(voter)
	ctx, cancel := context.WithTimeout(context.Background(), silence)
	defer cancel()
	if _, _, err := n.Propose(ctx, []byte("y")); err == nil {
		t.Error("an entry was acknowledged by a leader and a learner")
	}
	if err := n.Verify(ctx); err == nil {
		t.Error("a leader was confirmed by a learner")
	}
}

// A member whose disk was rolled back notices by the record outside of it, without any peer.
func TestAnOldDiskIsRefusedByItsRecord(t *testing.T) {
	s := tell(t, nil, hurtOld)
	s.Isolate("n1")
	s.Restart("n3")
	for range 2 { // the second time without the record
		err := s.Reopen("n2")
		if !errors.Is(err, consensus.ErrRolledBack) || !strings.Contains(err.Error(), s.Dir("n2")) {
			t.Fatalf("the start on an old disk: %v", err)
		}
		s.Boot("n2")
	}
	s.noLeader()
	s.Heal()
	s.EmptyDisk("n2") // as the message says
	s.Restart("n2")
	s.Readmit("n2")
	s.whole()
}

// Without the record the others say how far they have seen it. It has given no vote by then.
func TestAnOldDiskIsRefusedByPeers(t *testing.T) {
	s := tell(t, func(cfg *consensus.Config) { cfg.Probation = time.Minute }, hurtOldBooted)
	s.Isolate("n1")
	s.Restart("n3")
	s.Restart("n2")
	s.noLeader()
	s.Heal()
	var wrong *consensus.LogError
	select {
	case err := <-s.Node("n2").Failed():
		if !errors.As(err, &wrong) || !errors.Is(err, consensus.ErrRolledBack) ||
			!strings.Contains(err.Error(), "n1 has seen it") {
			t.Errorf("it fails with %v", err)
		}
	case <-withTimeout(t).Done():
		t.Fatal("it goes on")
	}
	s.Stop("n2")
	s.Isolate("n1")
	if err := s.Reopen("n2"); !errors.Is(err, consensus.ErrRolledBack) {
		t.Errorf("it starts again: %v", err)
	}
	s.noLeader()
	s.Heal()
	s.EmptyDisk("n2")
	s.Restart("n2")
	s.Readmit("n2")
	s.whole()
}

// A member that was restarted with the one that it acknowledged entries to remembers it too.
func TestWhatWasSeenOutlivesARestart(t *testing.T) {
	s := tell(t, func(cfg *consensus.Config) { cfg.Probation = time.Minute }, hurtOldBooted)
	s.Stop("n1")
	s.Restart("n1")
	s.Restart("n2")
	select {
	case err := <-s.Node("n2").Failed():
		if !errors.Is(err, consensus.ErrRolledBack) {
			t.Errorf("it fails with %v", err)
		}
	case <-withTimeout(t).Done():
		t.Fatal("it goes on")
	}
}

// Probation ends when the others have been met, or after its time.
func TestProbationEnds(t *testing.T) {
	for _, alone := range []bool{false, true} {
		t.Run(fmt.Sprintf("one is down %t", alone), func(t *testing.T) {
			c := consensustest.Start(t, 3, newRecord, func(cfg *consensus.Config) {
				cfg.Probation = time.Minute
				if alone {
					cfg.Probation = silence
				}
			})
			propose(t, c, "x")
			sameEverywhere(t, c)
			for _, name := range c.Names() {
				c.Kill(name)
				c.Boot(name)
			}
			began := time.Now()
			for _, name := range c.Names() {
				if !alone || name != "n3" {
					c.Restart(name)
				}
			}
			c.WaitLeader()
			if took := time.Since(began); alone != (took >= silence) {
				t.Errorf("a leader after %v", took)
			}
		})
	}
}

// forked returns a cluster of which n1 and n3 were rolled back behind what n2 has applied, lead each
// other, and have acknowledged another entry. N2 is cut off.
func forked(t *testing.T) *consensustest.Cluster {
	c := consensustest.Start(t, 3, newRecord, func(cfg *consensus.Config) { cfg.Probation = 100 * time.Millisecond })
	propose(t, c, "before")
	sameEverywhere(t, c)
	for _, name := range []string{"n1", "n3"} {
		c.Kill(name)
		c.KeepDisk(name)
	}
	c.Restart("n1")
	c.Restart("n3")
	for i := range 10 {
		propose(t, c, fmt.Sprint("acknowledged ", i))
	}
	sameEverywhere(t, c)
	c.Isolate("n2")
	for _, name := range []string{"n1", "n3"} {
		c.Kill(name)
		c.OldDisk(name)
		c.Boot(name)
	}
	c.Restart("n1")
	c.Restart("n3")
	propose(t, c, "another history")
	return c
}

// Two members are rolled back and elect one of them. The third one, which has what they had
// acknowledged, must not take their log for its own.
func TestALogBeyondTheLeadersStops(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted %t", restarted), func(t *testing.T) {
			c := forked(t)
			n2 := c.Node("n2")
			had := machine(c, "n2").all()
			c.Eventually("a later term than that of n2", func() bool {
				leader := c.WaitLeader()
				later := c.Node(leader).Term() > n2.Term()
				if !later {
					c.Kill(leader)
					c.Restart(leader)
				}
				return later
			})
			propose(t, c, "another history goes on")
			if restarted {
				c.Stop("n2")
				c.Restart("n2")
				n2 = c.Node("n2")
			}
			c.Heal()
			select {
			case err := <-n2.Failed():
				if !errors.Is(err, consensus.ErrDiverged) || !strings.Contains(err.Error(), "are committed") {
					t.Errorf("it fails with %v", err)
				}
			case <-withTimeout(t).Done():
				t.Fatal("it goes on")
			}
			c.Stop("n2")
			if got := machine(c, "n2").all(); !restarted && !slices.Equal(got, had) {
				t.Errorf("it has %v now, and had %v", got, had)
			}
			if err := c.Reopen("n2"); !errors.Is(err, consensus.ErrDiverged) {
				t.Errorf("it starts again: %v", err)
			}
		})
	}
}

// As before, but the others may use a term again in which n2 has entries. Some member stops, and
// those that go on agree.
func TestATermThatIsUsedTwiceIsNoticed(t *testing.T) {
	for _, forgotten := range []bool{false, true} {
		t.Run(fmt.Sprintf("forgotten %t", forgotten), func(t *testing.T) { usedTwice(t, forgotten) })
	}
}

// usedTwice is its case in which n2 remembers what it has seen of the others, or does not.
func usedTwice(t *testing.T, forgotten bool) {
	c := forked(t)
	if forgotten {
		// Of three members that all remember nothing, only entries of one term that differ show the loss.
		if theirs, own := c.Node(c.WaitLeader()).Term(), c.Node("n2").Term(); theirs != own {
			t.Skipf("the others are in term %d, and n2 has entries of term %d", theirs, own)
		}
		c.Kill("n2")
		c.Boot("n2")
		if err := os.Remove(filepath.Join(c.Dir("n2"), "seen")); err != nil {
			t.Fatal(err)
		}
		c.Restart("n2")
	}
	c.Heal()
	stopped := ""
	c.Eventually("a member that stops", func() bool {
		for _, name := range c.Names() {
			n := c.Node(name)
			if n.IsLeader() {
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				_, _, _ = n.Propose(ctx, []byte("more")) // a difference shows with the next entry
				cancel()
			}
			select {
			case err := <-n.Failed():
				if !errors.Is(err, consensus.ErrDiverged) && !errors.Is(err, consensus.ErrRolledBack) {
					t.Errorf("%s fails with %v", name, err)
				}
				t.Log(err)
				stopped = name
				return true
			default:
			}
		}
		return false
	})
	c.Stop(stopped)
	if got := c.Reopen(stopped); got == nil {
		t.Errorf("%s starts again", stopped)
	}
}

// TestDisksAreLostAtRandom empties disks, rolls them back or replaces them by copies of another member's,
// one at a time, while members are cut off and clients propose. A hurt disk may stop the cluster for a
// while, and loses nothing.
func TestDisksAreLostAtRandom(t *testing.T) {
	s := seed(t)
	r := rand.New(rand.NewPCG(s, 38))
	c := consensustest.Start(t, 3, newRecord, func(cfg *consensus.Config) {
		cfg.SnapshotEvery = 50
		cfg.Heartbeat, cfg.Election, cfg.LeaderLease = 150*time.Millisecond, 150*time.Millisecond, 100*time.Millisecond
	})
	stop := make(chan struct{})
	acked := &ledger{acked: map[string]bool{}}
	var clients sync.WaitGroup
	for id := range 4 {
		clients.Go(func() { client(c, id, acked, stop) })
	}
	names := c.Names()
	for range 4 {
		progress(c, acked)
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		hurt, late, holder := names[0], names[1], names[2]
		kind, booted := []string{"empty", "old", "clone"}[r.IntN(3)], r.IntN(2) == 0
		old := kind == "old"
		t.Logf("hurt %s, late %s, disk %s, booted %t", hurt, late, kind, booted)
		if old {
			c.Kill(hurt)
			c.KeepDisk(hurt)
			c.Restart(hurt)
			progress(c, acked)
		}
		c.Kill(late)
		progress(c, acked)
		c.Kill(hurt)
		refused := false
		if old {
			c.OldDisk(hurt)
			refused = c.Reopen(hurt) != nil
			if !refused {
				t.Errorf("seed=%d: %s starts on an old disk", s, hurt)
				c.Kill(hurt)
			}
		}
		if kind == "clone" {
			c.CloneDisk(hurt, late)
		} else {
			c.EmptyDisk(hurt)
		}
		if booted {
			c.Boot(hurt)
		}
		if kind == "clone" {
			if err := c.Reopen(hurt); !errors.Is(err, consensus.ErrOtherMember) {
				t.Fatalf("seed=%d: %s starts with the log of %s: %v", s, hurt, late, err)
			}
			c.EmptyDisk(hurt)
		}
		c.Isolate(holder)
		c.Restart(hurt)
		c.Restart(late)
		time.Sleep(time.Duration(r.IntN(600)) * time.Millisecond) // for the wrong ones to elect
		c.Heal()
		c.Readmit(hurt)
	}
	close(stop)
	clients.Wait()
	sameEverywhere(t, c)
	for _, name := range c.Names() {
		if wrong := machine(c, name).missing(acked.acked); len(wrong) > 0 {
			t.Errorf("seed=%d: on %s: %v", s, name, wrong)
		}
	}
	t.Logf("%d proposals acknowledged", acked.size())
}
