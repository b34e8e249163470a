package controld

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// TestAPlanOfAnySizeIsCommitted gives an idle cluster so many small jobs at once that their starts are more than the log takes in one piece.
func TestAPlanOfAnySizeIsCommitted(t *testing.T) {
	if os.Getenv("ROTA_TEST_LONG") == "" {
		t.Skip("takes long: set ROTA_TEST_LONG")
	}
	cfg, policy := controller(t, "c1"), cluster.DefaultConfig()
	policy.Policy.Name = "fifo" // takes the least time
	policy.NodeDownMS = policy.LeaseMS
	cfg.Cluster = &policy
	s := start(t, cfg)
	s.ready()
	const nodes, cores, arrays = 1000, 256, 3
	names := newNode(t, s.addrs.HTTP, "", 0)
	for i := range nodes {
		n := names.node
		n.Name, n.BootID = fmt.Sprintf("n%d-%s", i, strings.Repeat("x", 58)), fmt.Sprint("boot-", i)
		n.Cores, n.Memory = cores, cores*jobspec.GiB
		if _, err := names.c.Register(t.Context(), n.Name, api.RegisterRequest{Node: n}); err != nil {
			t.Fatal(err)
		}
	}
	c := s.client(user(1000))
	jobs := make([]*jobspec.Job, arrays)
	for i := range jobs {
		jobs[i] = job(fmt.Sprint("many", i))
		jobs[i].Array = &jobspec.Array{Indices: fmt.Sprintf("0-%d", jobspec.MaxElements-1)}
	}
	ids, err := c.SubmitAll(t.Context(), "", jobs)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "all cores to be taken", func() error {
		live := 0
		for _, id := range ids {
			j, _, err := c.Job(t.Context(), id, api.Read{})
			if err != nil {
				return err
			}
			live += j.Array.Live
		}
		if live != nodes*cores {
			return fmt.Errorf("%d of %d", live, nodes*cores)
		}
		return nil
	})
}

func TestAPlanIsDividedInOrder(t *testing.T) {
	start := func(places int) cluster.Action {
		return cluster.Action{Start: &cluster.StartJob{Places: make([]cluster.Place, places)}}
	}
	give := cluster.JobID(1)
	plan := cluster.CommitPlan{BasedOn: 7, Turns: true, Actions: []cluster.Action{
		start(1), start(1), {GiveUp: &give}, start(9), start(2), {Resize: &cluster.ResizeJob{Join: make([]cluster.Place, 2)}}, {GiveUp: &give},
	}}
	var lengths []int
	var all []cluster.Action
	for p := range parts(plan, 5) {
		lengths, all = append(lengths, len(p.Actions)), append(all, p.Actions...)
		if p.BasedOn != 7 || p.Turns != (len(all) == len(plan.Actions)) {
			t.Errorf("part %d: based on %d, turns %t", len(lengths), p.BasedOn, p.Turns)
		}
	}
	if !reflect.DeepEqual(all, plan.Actions) || !slices.Equal(lengths, []int{3, 1, 1, 2}) {
		t.Errorf("parts of %v actions", lengths)
	}
	for p := range parts(cluster.CommitPlan{Turns: true}, 5) {
		if !p.Turns || len(p.Actions) != 0 {
			t.Errorf("of a plan without actions: %+v", p)
		}
	}
}
