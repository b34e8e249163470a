package cluster_test

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model/cluster"
)

// TestMayRun: a cluster is given one of six policies, and keeps any that it has.
func TestMayRun(t *testing.T) {
	for _, name := range append([]string{""}, cluster.Policies...) {
		if err := cluster.MayRun(name, "rota"); err != nil {
			t.Errorf("policy %q: %v", name, err)
		}
	}
	if err := cluster.MayRun("las", "las"); err != nil {
		t.Errorf("a cluster that has policy las: %v", err)
	}
	for _, have := range []string{"", "rota", "easy"} {
		err := cluster.MayRun("las", have)
		if err == nil || !strings.Contains(err.Error(), "rota sim --policy las") ||
			!strings.Contains(err.Error(), "rota, fairshare, standard, fitgpp, backfill, fifo") {
			t.Errorf("a cluster with policy %q is given las: %v", have, err)
		}
	}
}
