package leader

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// TestWhatBecomesOfJobsIsCounted: a job runs for 100 s with two GPUs, leaves for a trial-and-error
// job in 10 s, waits, and begins again.
func TestWhatBecomesOfJobsIsCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, at, o := fsm.New(cluster.DefaultConfig()), model.Instant(1000), newObserved(registry)
	counted := m.Index()
	apply := func(wait model.Instant, c fsm.Command) any {
		t.Helper()
		at += wait * 1000
		got, err := m.Apply(m.Index()+1, fsm.Entry{Stamp: model.Stamp{At: at, Wall: model.UnixMS(at)}, Command: c})
		if err != nil {
			t.Fatal(err)
		}
		o.count(m.View(), counted)
		counted = m.Index()
		return got
	}
	submit := func(class jobspec.Class) model.JobID {
		spec := &jobspec.Job{Name: "j", Class: class, Groups: []jobspec.Group{{Count: 1, Tasks: []jobspec.Task{{
			Command: []string{"true"}, Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB, GPUs: 2}}}}}}
		owner := model.Identity{UID: 1, GID: 1, User: "ada"}
		return apply(0, fsm.SubmitJobs{Owner: owner, Jobs: []*jobspec.Job{spec}}).([]model.JobID)[0]
	}
	node := model.Node{Name: "n1", Addr: "n1:1", BootID: "b", Cores: 8, Memory: 8 * jobspec.GiB, PortMin: 1, PortMax: 9,
		GPUs: []model.GPU{{UUID: "g0", Healthy: true}, {UUID: "g1", Healthy: true}}}
	apply(0, fsm.RegisterNode{Node: node})
	plan := func(wait model.Instant, a fsm.Action) {
		t.Helper()
		for _, err := range apply(wait, fsm.CommitPlan{Actions: []fsm.Action{a}}).([]error) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	start := func(wait model.Instant, id model.JobID) {
		plan(wait, &fsm.StartJob{Job: id, Places: []model.Place{{Node: "n1", GPUs: []int{0, 1}}}})
	}
	report := func(wait model.Instant, id model.JobID, attempt, code int, state model.WorkerState) {
		apply(wait, fsm.NodeReport{Node: "n1", BootID: "b", Workers: []model.WorkerReport{
			{Job: id, Attempt: attempt, State: state, ExitCode: code}}})
	}

	be := submit(jobspec.BE)
	start(5, be)
	report(2, be, 1, 0, model.WorkerRunning)
	te := submit(jobspec.TE)
	plan(100, &fsm.StopJob{Job: be, Attempt: 1, Cause: model.CauseTE, For: te})
	report(10, be, 1, 143, model.WorkerExited)
	start(0, te)
	report(0, te, 1, 0, model.WorkerRunning)
	report(20, te, 1, 0, model.WorkerExited)
	start(3, be)
	report(4, be, 2, 0, model.WorkerRunning)

	got := gathered(t, registry)
	for name, want := range map[string]float64{
		"rota_preemptions_total te":          1,
		"rota_lost_gpu_seconds_total te":     200 + 20 + 8, // of work, of grace, of the restart
		"rota_wait_seconds be first":         5,
		"rota_wait_seconds be again":         23,
		"rota_wait_seconds te first":         110,
		"rota_wait_seconds te again":         0,
		"rota_preemptions_total reclaim":     0,
		"rota_lost_gpu_seconds_total drain":  0,
		"number of rota_wait_seconds be":     2,
		"number of rota_wait_seconds te":     1,
		"number of rota_preemptions_total *": 1,
	} {
		if v, known := got[name]; v != want || !known {
			t.Errorf("%s is %g, want %g", name, v, want)
		}
	}
}

// gathered returns the sums of the metrics of a registry by name and labels, and how many times they
// have counted.
func gathered(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
			got["number of "+f.GetName()+" "+m.GetLabel()[0].GetValue()] += float64(m.GetHistogram().GetSampleCount())
			got["number of "+f.GetName()+" *"] += m.GetCounter().GetValue()
		}
	}
	return got
}
