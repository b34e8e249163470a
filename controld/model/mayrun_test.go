package model_test

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
)

// TestMayRun: a cluster is given one of six policies, and keeps any that it has.
func TestMayRun(t *testing.T) {
	for _, name := range append([]string{""}, model.ClusterPolicies...) {
		if err := model.MayRun(name, "rota"); err != nil {
			t.Errorf("policy %q: %v", name, err)
		}
	}
	if err := model.MayRun("las", "las"); err != nil {
		t.Errorf("a cluster that has policy las: %v", err)
	}
	for _, have := range []string{"", "rota", "easy"} {
		err := model.MayRun("las", have)
		if err == nil || !strings.Contains(err.Error(), "rota sim --policy las") ||
			!strings.Contains(err.Error(), "rota, fairshare, standard, fitgpp, backfill, fifo") {
			t.Errorf("a cluster with policy %q is given las: %v", have, err)
		}
	}
}
