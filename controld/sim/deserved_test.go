package sim

import (
	"math"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/sim/trace"
)

// TestDeserved checks what quotas mean for the configuration and for rho.
func TestDeserved(t *testing.T) {
	a, b := job("a", 0, 10, 16), job("b", 0, 10, 8)
	b.Account = "other"
	s := setup(t, "2x8c/8gpu", "fifo")
	a.Request.GPUs = 8000
	s.Deserved.GPUs = map[string]int64{"a": 12_000, "other": 8000}
	if _, err := Run(workload(a, b), s); err == nil ||
		!strings.Contains(err.Error(), "20 GPUs, but the nodes have 16") {
		t.Errorf("got %v", err)
	}
	s.Deserved = Shares{Equal: true}
	table, err := s.table([]string{"a", "other"})
	if err != nil || len(table) != 2 || *table["a"].Deserved.GPUs != 8000 {
		t.Errorf("got %+v, %v", table, err)
	}
	// Each account has a node for itself. Account a's three jobs of 10 min run one by one on its
	// quota, and two at a time on the whole cluster. They take 10, 10, 20 instead of 10, 20, 30.
	first, second, third := a, a, a
	first.ID, second.ID, third.ID = "a1", "a2", "a3"
	r := mustRun(t, workload(first, second, third), s)
	if rho := r.Accounts["a"].Rho; rho != 1 { // the only account has the whole cluster as its quota
		t.Errorf("rho %g of the only account", rho)
	}
	b.Submit = 100 * minute
	r = mustRun(t, workload(first, second, third, b), s)
	if rho, want := r.Accounts["a"].Rho, 40.0/60; math.Abs(rho-want) > 1e-12 || r.Fairness.WorstRho != 1 {
		t.Errorf("rho %g, want %g; the worst is %g", rho, want, r.Fairness.WorstRho)
	}
}

func TestPortion(t *testing.T) {
	nodes, err := trace.ParseNodes("1x8c,3x8c/64g/8gpu")
	if err != nil {
		t.Fatal(err)
	}
	part := portion(nodes, 12_000)
	if len(part) != 2 || len(part[1].GPUs) != 4 || part[1].Cores != 4 || part[1].Memory != 32<<30 ||
		len(nodes[2].GPUs) != 8 {
		t.Errorf("12 GPUs are %+v", part)
	}
	if part := portion(nodes, 900); len(part) != 0 {
		t.Errorf("less than a GPU is %+v", part)
	}
}
