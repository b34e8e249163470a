package figures

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched/fairshare"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/jobspec"
)

// TestWhatTheMetricsCount compares the figures of the state with the state.
func TestWhatTheMetricsCount(t *testing.T) {
	s := newSite(t)
	registry := prometheus.NewRegistry()
	New(registry, s.Leader)
	s.Do(fsm.RegisterNode{Node: model.Node{Name: "g", Addr: "127.0.0.1:1", BootID: "bg", Cores: 32,
		Memory: 64 * jobspec.GiB,
		GPUs: []model.GPU{{UUID: "a", Memory: jobspec.GiB, Healthy: true}, {UUID: "b", Memory: jobspec.GiB, Healthy: true},
			{UUID: "c", Memory: jobspec.GiB, Healthy: true}}}})
	id := s.Submit(func(j *jobspec.Job) { j.Groups[0].Tasks[0].Resources.GPUs = 2 })
	if errs := s.Do(fsm.CommitPlan{Actions: []fsm.Action{&fsm.StartJob{Job: id, Places: []model.Place{{Node: "g",
		GPUs: []int{0, 1}}}}}}).([]error); errs[0] != nil {
		t.Fatal(errs)
	}
	s.Do(fsm.SetNodeState{Node: "n2", State: model.NodeDown})
	s.Do(fsm.Steer{What: "growth", On: true, By: "ops"})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			if m.Gauge != nil {
				got[name] = m.Gauge.GetValue()
			}
		}
	}
	v := s.Leader.View()
	for name, want := range map[string]float64{"rota_index": float64(v.Index()), "rota_leader": 1, "rota_gpus true": 2,
		"rota_gpus false":   1,
		"rota_jobs PENDING": 2, "rota_jobs RUNNING": 2, "rota_jobs COMPLETING": 1, "rota_jobs CANCELLED": 1,
		"rota_jobs CONFIGURING": 1,
		"rota_jobs FAILED":      0, "rota_sched_paused growth": 1, "rota_sched_paused all": 0, "rota_sched_would_preempt": 0,
		"rota_spec_bytes": float64(v.SpecBytes()), "rota_spec_bytes_max": float64(cluster.DefaultMaxAllSpecBytes)} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is %v, want %v", name, value, want)
		}
	}
	if n := got["rota_nodes down"]; n != 1 {
		t.Errorf("%v nodes are down: %v", n, got)
	}
	s.Leader.StopLeading()
	families, _ = registry.Gather()
	for _, f := range families {
		if f.GetName() == "rota_leader" && f.Metric[0].Gauge.GetValue() != 0 {
			t.Error("a controller that does not lead says that it does")
		}
	}
}

// TestMetricsLeaveAccountsOut for those that may not know them.
func TestMetricsLeaveAccountsOut(t *testing.T) {
	s := newSite(t)
	registry := prometheus.NewRegistry()
	s.Handlers = New(registry, s.Leader)
	s.Begin(s.Submit(func(j *jobspec.Job) { j.Account = "physics" }), "n2")
	show := func(roles access.Role) string {
		x := s.Request("/metrics", "", "", "")
		x.Roles = roles
		w := httptest.NewRecorder()
		x.Writer = w
		if _, err := s.getMetrics(x); err != nil || !x.Sent || w.Code != http.StatusOK {
			t.Errorf("%d, sent %t, %v", w.Code, x.Sent, err)
		}
		return w.Body.String()
	}
	all := show(access.User | access.Operator)
	if want := `rota_account_share{account="physics",part="fair"}`; !strings.Contains(all, want) {
		t.Errorf("no %s in\n%s", want, all)
	}
	s.Private(cluster.PrivateAccounts)
	if text := show(access.User); strings.Contains(text, "physics") || !strings.Contains(text, "rota_index") {
		t.Errorf("a user is shown\n%s", text)
	}
	if text := show(access.User | access.Operator); !strings.Contains(text, "physics") {
		t.Error("an operator is shown no accounts")
	}
}

// TestShareFiguresAreBounded: the accounts that hold or deserve most have figures of their own, and
// accounts within others do not count twice.
func TestShareFiguresAreBounded(t *testing.T) {
	list := []fairshare.Share{
		{Account: "a", Alloc: 10, Deserved: 0, Fair: 5}, {Account: "b", Deserved: 400, Fair: 300},
		{Account: "c", Parent: "b", Deserved: 7}, {Account: "d", Alloc: 500, Fair: 400}, {Account: "e", Alloc: 20, Fair: 6},
	}
	text := ""
	for _, s := range bounded(list, 3) {
		text += fmt.Sprintf("%s %d %d %d; ", s.Account, s.Alloc, s.Deserved, s.Fair)
	}
	if want := "(others) 30 0 11; b 0 400 300; d 500 0 400; "; text != want {
		t.Errorf("got %s, want %s", text, want)
	}
}

// TestSharesAreFoundOnce, and then not again for a while.
func TestSharesAreFoundOnce(t *testing.T) {
	s := newSite(t)
	v := s.Leader.View()
	now := s.Leader.Now(v)
	var figures shareFigures
	shares := figures.of(v, now)
	if len(shares) == 0 || slices.ContainsFunc(shares, func(s fairshare.Share) bool { return s.User != "" }) {
		t.Errorf("the figures are of %+v", shares)
	}
	figures.next = time.Now().Add(time.Hour)
	s.Submit(func(j *jobspec.Job) { j.Account = "new" })
	if got := figures.of(s.Leader.View(), now); len(got) != len(shares) {
		t.Errorf("the figures are computed again: %+v", got)
	}
}
