package controld

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// TestAPlanOfAnySizeIsCommitted gives an idle cluster more small jobs at once than have their
// starts in one entry of the log.
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
