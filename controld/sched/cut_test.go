package sched_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
	"github.com/rota-hpc/rota/jobspec"
)

// cutWorld is a state with nodes of 64 cores and jobs of one core, some of them in arrays.
func cutWorld(t testing.TB, policy string, nodes, jobs int) *fsm.Machine {
	t.Helper()
	s := fsm.New(cluster.DefaultConfig())
	apply := func(c fsm.Command) {
		t.Helper()
		if _, err := s.Apply(s.Index()+1, fsm.Entry{Stamp: model.Stamp{At: 1000, Wall: 1}, Command: c}); err != nil {
			t.Fatal(err)
		}
	}
	cfg := *s.View().Config()
	cfg.Policy.Name = policy
	apply(fsm.SetConfig{Config: cfg})
	for i := range nodes {
		apply(fsm.RegisterNode{Node: schedtest.MakeNode(fmt.Sprintf("n%05d", i), 0, 64, 512, 1000)})
	}
	var batch []*jobspec.Job
	for i := range jobs {
		spec, err := schedtest.NewWorld().MakeJob("j", map[string]string{"cores": fmt.Sprint(1 + i%3), "memory": "1"})
		if err != nil {
			t.Fatal(err)
		}
		spec.Account = fmt.Sprint("a", i%4)
		if i%7 == 0 {
			spec.Array = &jobspec.Array{Indices: "0-4"}
		}
		if batch = append(batch, spec); len(batch) == 1000 || i == jobs-1 {
			apply(fsm.SubmitJobs{Owner: schedtest.Ada, Jobs: batch})
			batch = nil
		}
	}
	return s
}

// startsOf runs cycles at one instant until nothing changes, and returns what starts where, in
// order, and how many starts the largest cycle has.
func startsOf(t *testing.T, s *fsm.Machine, cache *sched.Cache) (starts []string, largest int) {
	t.Helper()
	for range 1000 {
		plan, _ := cache.Cycle(s.View(), 1000, s.View().Config().Policy)
		if len(plan.Actions) == 0 {
			return starts, largest
		}
		n := 0
		for _, a := range plan.Actions {
			if a, ok := a.(*fsm.StartJob); ok {
				starts = append(starts, fmt.Sprintf("%d/%d at %v", a.Job, a.TaskNumber, a.Places))
				n++
			}
		}
		largest = max(largest, n)
		result, err := s.Apply(s.Index()+1, fsm.Entry{Stamp: model.Stamp{At: 1000, Wall: 1}, Command: plan})
		if err != nil {
			t.Fatal(err)
		}
		for _, refused := range result.([]error) {
			if refused != nil {
				t.Fatal(refused)
			}
		}
	}
	t.Fatal("the cycles do not end")
	return nil, 0
}

// TestACycleIsCut: a cycle ends after its maximum number of starts. The following cycles start the
// same jobs at the same places as one cycle without that limit.
func TestACycleIsCut(t *testing.T) {
	for _, policy := range []string{"rota", "fairshare", "standard"} {
		t.Run(policy, func(t *testing.T) {
			whole, _ := startsOf(t, cutWorld(t, policy, 20, 300), sched.AtMost(1_000_000))
			s := cutWorld(t, policy, 20, 300)
			cut, largest := startsOf(t, s, sched.AtMost(37))
			if largest != 37 {
				t.Errorf("a cycle has %d starts, at most 37 are allowed", largest)
			}
			if len(whole) < 300 || len(cut) != len(whole) {
				t.Fatalf("%d starts in cut cycles, %d in one", len(cut), len(whole))
			}
			for i := range cut {
				if cut[i] != whole[i] {
					t.Fatalf("start %d is %s in cut cycles, %s in one", i, cut[i], whole[i])
				}
			}
		})
	}
}

// TestWhyOfACutCycle: a job that a cut cycle did not come to is said to be not looked at yet.
func TestWhyOfACutCycle(t *testing.T) {
	s := cutWorld(t, "rota", 20, 300)
	v, last := s.View(), s.View().LastJob()
	cut := sched.AtMost(37).Reason(v, 1000, v.Config().Policy, last)
	if cut.Code != model.ReasonCycleLimit {
		t.Errorf("the last job of a cut cycle waits for %q", cut.Sentence())
	}
	if first := sched.AtMost(37).Reason(v, 1000, v.Config().Policy, 2); first.Code != model.ReasonNotScheduled {
		t.Errorf("a job that the cut cycle starts waits for %q", first.Sentence())
	}
	if whole := sched.AtMost(1_000_000).Reason(v, 1000, v.Config().Policy, last); whole.Code == cut.Code {
		t.Errorf("without the limit it waits for %q too", whole.Sentence())
	}
}

// TestManyStartsAtOnce is the attack of a user that submits thousands of jobs to an idle
// cluster: no cycle has more starts than its limit allows.
func TestManyStartsAtOnce(t *testing.T) {
	s := cutWorld(t, "rota", 1600, 2000)
	var cache sched.Cache
	begin := time.Now()
	plan, wake := cache.Cycle(s.View(), 1000, s.View().Config().Policy)
	took := time.Since(begin)
	if len(plan.Actions) != 1000 || wake != 1001 {
		t.Errorf("a cycle has %d starts, and the next is due at %d", len(plan.Actions), wake)
	}
	t.Logf("1,000 starts in %v", took)
}
