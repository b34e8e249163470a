package consensus_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/consensus/consensustest"
)

var seedFlag = flag.Uint64("seed", 0, "repeat a random test with this seed")

// seed returns the seed of this run and prints it.
func seed(t *testing.T) uint64 {
	s := *seedFlag
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("seed=%d", s)
	return s
}

func withTimeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), consensustest.Patience)
	t.Cleanup(cancel)
	return ctx
}

// propose makes the leader accept data and returns the result.
func propose(t *testing.T, c *consensustest.Cluster, data string) string {
	t.Helper()
	result, _, err := c.Node(c.WaitLeader()).Propose(withTimeout(t), []byte(data))
	if err != nil {
		t.Fatalf("propose %s: %v", data, err)
	}
	return result.(string)
}

func machine(c *consensustest.Cluster, name string) *record { return c.Machine(name).(*record) }

// sameEverywhere waits until every running member has applied the same.
func sameEverywhere(t *testing.T, c *consensustest.Cluster) {
	t.Helper()
	c.Eventually("agreement", func() bool {
		want := machine(c, c.WaitLeader()).all()
		for _, name := range c.Names() {
			if c.Node(name) != nil && !slices.Equal(machine(c, name).all(), want) {
				return false
			}
		}
		return true
	})
}

func TestResultsReachTheirProposer(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprintf("%d members", n), func(t *testing.T) {
			c := consensustest.Start(t, n, newRecord, nil)
			leader := c.WaitLeader()
			var wg sync.WaitGroup
			for caller := range 16 {
				wg.Go(func() {
					for i := range 10 {
						data := fmt.Sprintf("%d/%d", caller, i)
						result, index, err := c.Node(leader).Propose(withTimeout(t), []byte(data))
						if err != nil || result != leader+":"+data || index == 0 {
							t.Errorf("propose %s: got %v at %d, %v", data, result, index, err)
						}
					}
				})
			}
			wg.Wait()
			sameEverywhere(t, c)
			if got := len(machine(c, leader).all()); got != 160 {
				t.Errorf("applied %d proposals, want 160", got)
			}
			if got := len(c.Node(leader).Members()); got != n {
				t.Errorf("%d members, want %d", got, n)
			}
		})
	}
}

func TestConcurrentProposalsShareEntries(t *testing.T) {
	c := consensustest.Start(t, 1, newRecord, nil)
	leader := c.WaitLeader()
	const callers, each = 64, 20
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				if _, _, err := c.Node(leader).Propose(withTimeout(t), []byte("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	entries, _ := machine(c, leader).numbers()
	if entries == 0 || entries > callers*each/4 {
		t.Errorf("%d proposals took %d entries, want at most a quarter", callers*each, entries)
	}
	t.Logf("%d proposals in %d entries", callers*each, entries)
}

func TestFollowerNamesTheLeader(t *testing.T) {
	c := consensustest.Start(t, 3, newRecord, nil)
	leader := c.WaitLeader()
	for _, name := range c.Names() {
		if name == leader {
			continue
		}
		if m, err := c.Node(name).WaitLeader(withTimeout(t)); err != nil || m.Name != leader {
			t.Fatalf("%s waits for the leader: %v, %v", name, m, err)
		}
		_, _, err := c.Node(name).Propose(withTimeout(t), []byte("x"))
		var not *consensus.NotLeaderError
		if !errors.As(err, &not) || not.Leader != c.Node(leader).Self() {
			t.Errorf("%s: propose: %v, want the address of %s", name, err, leader)
		}
		if err := c.Node(name).Verify(withTimeout(t)); !errors.As(err, &not) {
			t.Errorf("%s: verify: %v", name, err)
		}
		if c.Node(name).LastContact().IsZero() {
			t.Errorf("%s has never heard of a leader", name)
		}
	}
}

func TestLeadershipEndsWhenIsolated(t *testing.T) {
	c := consensustest.Start(t, 3, newRecord, nil)
	old := c.WaitLeader()
	led, ended := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- c.Node(old).Lead(ctx, func(ctx context.Context) error {
			close(led)
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return ctx.Err()
		})
	}()
	<-led
	c.Isolate(old)
	if err := <-ended; !errors.Is(err, consensus.ErrLeadershipLost) {
		t.Errorf("leadership ended because of %v", err)
	}
	c.Eventually("another leader", func() bool { name := c.WaitLeader(); return name != old })
	short, cancelShort := context.WithTimeout(ctx, time.Second)
	defer cancelShort()
	if _, _, err := c.Node(old).Propose(short, []byte("x")); err == nil {
		t.Error("an isolated member accepted a proposal")
	}
	if err := c.Node(old).Verify(short); err == nil {
		t.Error("an isolated member was confirmed as leader")
	}
	propose(t, c, "y")
	c.Heal()
	sameEverywhere(t, c)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("lead returned %v", err)
	}
}

func TestLeadReturnsItsError(t *testing.T) {
	c := consensustest.Start(t, 1, newRecord, nil)
	mine := errors.New("mine")
	err := c.Node("n1").Lead(withTimeout(t), func(context.Context) error { return mine })
	if !errors.Is(err, mine) {
		t.Errorf("lead returned %v", err)
	}
}

func TestSnapshotAndRestart(t *testing.T) {
	c := consensustest.Start(t, 1, newRecord, func(cfg *consensus.Config) { cfg.SnapshotEvery = 20 })
	for i := range 50 {
		propose(t, c, fmt.Sprint(i))
	}
	c.Eventually("snapshot", func() bool {
		found, _ := filepath.Glob(filepath.Join(c.Dir("n1"), "snapshots", "*", "state.bin"))
		return len(found) > 0 && !strings.HasSuffix(filepath.Dir(found[0]), ".tmp")
	})
	before := c.Node("n1").Applied()
	c.Stop("n1")
	c.Restart("n1")
	c.WaitLeader()
	if got := len(machine(c, "n1").all()); got != 50 {
		t.Errorf("%d proposals after the restart, want 50", got)
	}
	if _, restored := machine(c, "n1").numbers(); restored != 1 {
		t.Errorf("restored %d snapshots, want 1", restored)
	}
	if got := c.Node("n1").Applied(); got != before {
		t.Errorf("applied %d after the restart, want %d", got, before)
	}
	if err := c.Node("n1").Bootstrap(c.Members()); !errors.Is(err, consensus.ErrBootstrapped) || !c.Node("n1").HasState() {
		t.Errorf("bootstrap again: %v", err)
	}
}

func TestLaggingFollowerInstallsSnapshot(t *testing.T) {
	c := consensustest.Start(t, 3, newRecord, func(cfg *consensus.Config) { cfg.SnapshotEvery = 64 })
	leader := c.WaitLeader()
	late := c.Names()[0]
	if late == leader {
		late = c.Names()[1]
	}
	c.Kill(late)
	for i := range 400 {
		propose(t, c, fmt.Sprint(i))
	}
	if err := c.Node(c.WaitLeader()).Snapshot(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	c.Restart(late)
	sameEverywhere(t, c)
	if _, restored := machine(c, late).numbers(); restored == 0 {
		t.Error("the late member replayed the log, want a snapshot")
	}
}

func TestAddAndRemoveMember(t *testing.T) {
	c := consensustest.Start(t, 3, newRecord, nil)
	leader := c.WaitLeader()
	gone := c.Names()[0]
	if gone == leader {
		gone = c.Names()[1]
	}
	if err := c.Node(leader).Remove(withTimeout(t), gone); err != nil {
		t.Fatal(err)
	}
	if got := len(c.Node(leader).Members()); got != 2 {
		t.Fatalf("%d members after the removal", got)
	}
	propose(t, c, "while two")
	if err := c.Node(leader).AddVoter(withTimeout(t), c.Node(gone).Self()); err != nil {
		t.Fatal(err)
	}
	sameEverywhere(t, c)
	if got := len(c.Node(leader).Members()); got != 3 {
		t.Errorf("%d members after the return", got)
	}
}

func TestStoppingLeaderHandsOn(t *testing.T) {
	c := consensustest.Start(t, 3, newRecord, nil)
	old := c.WaitLeader()
	propose(t, c, "x")
	start := time.Now()
	c.Stop(old)
	c.WaitLeader()
	t.Logf("new leader after %v", time.Since(start))
	propose(t, c, "y")
	sameEverywhere(t, c)
}

func TestNothingIsLeftRunning(t *testing.T) {
	before := runtime.NumGoroutine()
	c := consensustest.Start(t, 3, newRecord, nil)
	propose(t, c, "x")
	for _, name := range c.Names() {
		node := c.Node(name)
		c.Stop(name)
		if _, _, err := node.Propose(withTimeout(t), []byte("y")); !errors.Is(err, consensus.ErrStopped) {
			t.Errorf("propose after the end: %v", err)
		}
		if err := node.Shutdown(); err != nil {
			t.Errorf("second shutdown: %v", err)
		}
	}
	c.Eventually("end of every goroutine", func() bool { return runtime.NumGoroutine() <= before })
}

// TestNothingAcknowledgedIsLost kills, cuts and restarts minorities at random while clients
// propose, and compares what was acknowledged with what every member has applied.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprintf("%d members", n), func(t *testing.T) {
			s := seed(t)
			c := consensustest.Start(t, n, newRecord, func(cfg *consensus.Config) {
				cfg.SnapshotEvery = 100
				cfg.Heartbeat, cfg.Election, cfg.LeaderLease = 150*time.Millisecond, 150*time.Millisecond, 100*time.Millisecond
			})
			stop := make(chan struct{})
			acked := &ledger{acked: map[string]bool{}}
			var clients sync.WaitGroup
			for id := range 8 {
				clients.Go(func() { client(c, id, acked, stop) })
			}
			chaos(t, c, rand.New(rand.NewPCG(s, uint64(n))), acked)
			close(stop)
			clients.Wait()
			sameEverywhere(t, c)
			for _, name := range c.Names() {
				if wrong := machine(c, name).missing(acked.acked); len(wrong) > 0 {
					t.Errorf("seed=%d: on %s: %v", s, name, wrong)
				}
			}
			t.Logf("%d proposals acknowledged", len(acked.acked))
		})
	}
}

// ledger is what clients were told.
type ledger struct {
	mu    sync.Mutex
	acked map[string]bool
}

func (l *ledger) add(data string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[data] = true
}

func (l *ledger) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// client proposes to the leader, each text once.
func client(c *consensustest.Cluster, id int, acked *ledger, stop <-chan struct{}) {
	for i := 0; ; i++ {
		for _, name := range c.Names() {
			select {
			case <-stop:
				return
			default:
			}
			node := c.Node(name)
			if node == nil || !node.IsLeader() {
				runtime.Gosched()
				continue
			}
			data := fmt.Sprintf("%d/%d/%s", id, i, name)
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			if _, _, err := node.Propose(ctx, []byte(data)); err == nil {
				acked.add(data)
			}
			cancel()
		}
	}
}

// chaos disturbs a minority at a time, and lets the clients get somewhere between two disturbances.
func chaos(t *testing.T, c *consensustest.Cluster, r *rand.Rand, acked *ledger) {
	names := c.Names()
	for range 8 {
		minority := names
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		if len(names) > 1 {
			minority = names[:(len(names)-1)/2]
		}
		for _, name := range minority {
			if len(names) == 1 || r.IntN(2) == 0 {
				c.Kill(name)
			} else {
				c.Isolate(name)
			}
		}
		if len(names) > 1 {
			progress(c, acked)
		}
		c.Heal()
		for _, name := range minority {
			c.Restart(name)
		}
		progress(c, acked)
	}
}

// progress waits until clients have been acknowledged some more.
func progress(c *consensustest.Cluster, acked *ledger) {
	before := acked.size()
	c.Eventually("progress", func() bool { return acked.size() >= before+20 })
}
