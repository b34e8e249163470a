package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/consensus/consensustest"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
)

// accepted has the jobs that were acknowledged, by id.
type accepted struct {
	mu    sync.Mutex
	names map[model.JobID]string
	twice []model.JobID // ids that were given again
}

func (a *accepted) size() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.names)
}

// submit submits jobs to the member that leads, each once, until it is stopped.
func (a *accepted) submit(c *consensustest.Cluster, client int, stop <-chan struct{}) {
	for i := 0; ; i++ {
		for _, member := range c.Names() {
			select {
			case <-stop:
				return
			default:
			}
			node := c.Node(member)
			if node == nil || !node.IsLeader() {
				time.Sleep(time.Millisecond) // no member leads
				continue
			}
			name := fmt.Sprintf("j%d-%d", client, i)
			e := fsm.Entry{Stamp: model.Stamp{At: model.Instant(i + 1), Wall: model.UnixMS(i + 1)},
				Command: fsm.SubmitJobs{Owner: user(uint32(1000 + client)), Jobs: specs(job(name))}}
			data, err := fsm.Encode(e)
			if err != nil {
				panic(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			result, _, err := node.Propose(ctx, data)
			cancel()
			if err == nil {
				a.note(name, result.(applied))
			}
		}
	}
}

func (a *accepted) note(name string, result applied) {
	ids, ok := result.value.([]model.JobID)
	if result.err != nil || !ok {
		panic(fmt.Sprintf("%s is answered with %T, %v", name, result.value, result.err))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		if _, again := a.names[id]; again {
			a.twice = append(a.twice, id)
		}
		a.names[id] = name
	}
}

// TestTheStateOutlivesItsDisks empties disks, rolls them back and replaces them by another member's, one at a
// time, under the state machine of a cluster. No acknowledged job is lost, no id is given twice, and in the end
// all members have the same state, whose invariants hold.
func TestTheStateOutlivesItsDisks(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed=%d", seed)
	r := rand.New(rand.NewPCG(seed, 5))
	c := consensustest.Start(t, 3, func(string) consensus.Machine { return newMachine() }, func(cfg *consensus.Config) {
		cfg.SnapshotEvery = 40
		cfg.Heartbeat, cfg.Election, cfg.LeaderLease = 150*time.Millisecond, 150*time.Millisecond, 100*time.Millisecond
	})
	stop, jobs := make(chan struct{}), &accepted{names: map[model.JobID]string{}}
	var clients sync.WaitGroup
	for id := range 3 {
		clients.Go(func() { jobs.submit(c, id, stop) })
	}
	more := func() {
		before := jobs.size()
		c.Eventually("progress", func() bool { return jobs.size() >= before+20 })
	}
	names := c.Names()
	for range 4 {
		more()
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		hurt, late, holder, kind := names[0], names[1], names[2], []string{"empty", "old", "clone"}[r.IntN(3)]
		t.Logf("%s gets a disk that is %s, %s is late", hurt, kind, late)
		c.Kill(hurt)
		c.KeepDisk(hurt)
		c.Restart(hurt)
		more()
		c.Kill(late)
		more()
		c.Kill(hurt)
		refused := error(nil)
		switch kind {
		case "old":
			c.OldDisk(hurt)
			refused = consensus.ErrRolledBack
		case "clone":
			c.CloneDisk(hurt, late)
			refused = consensus.ErrOtherMember
		}
		if refused != nil {
			if err := c.Reopen(hurt); !errors.Is(err, refused) {
				t.Fatalf("seed=%d: %s starts: %v", seed, hurt, err)
			}
		}
		c.EmptyDisk(hurt)
		if r.IntN(2) == 0 {
			c.Boot(hurt)
		}
		c.Isolate(holder)
		c.Restart(hurt)
		c.Restart(late)
		time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond) // for the wrong ones to elect
		c.Heal()
		c.Readmit(hurt)
	}
	close(stop)
	clients.Wait()
	machineOf := func(name string) *machine { return c.Machine(name).(*machine) }
	c.Eventually("agreement", func() bool {
		want := machineOf(c.WaitLeader()).view.Load().Index()
		for _, name := range names {
			if machineOf(name).view.Load().Index() != want {
				return false
			}
		}
		return true
	})
	var first bytes.Buffer
	for i, name := range names {
		v, err := machineOf(name).check()
		if err != nil {
			t.Errorf("seed=%d: on %s: %v", seed, name, err)
		}
		for id, want := range jobs.names {
			if j := v.Job(id); j == nil || j.Spec.Name != want {
				t.Errorf("seed=%d: on %s: job %d is not %s", seed, name, id, want)
			}
		}
		var state bytes.Buffer
		if err := v.WriteSnapshot(&state); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = state
		} else if !bytes.Equal(first.Bytes(), state.Bytes()) {
			t.Errorf("seed=%d: %s and %s have other states", seed, names[0], name)
		}
	}
	if len(jobs.twice) > 0 {
		t.Errorf("seed=%d: ids were given twice: %v", seed, jobs.twice)
	}
	t.Logf("%d jobs acknowledged", len(jobs.names))
}
