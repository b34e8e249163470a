package specon

import (
	"math"
	"slices"
	"testing"
)

// all calls a function for every run of the paper, with short and long moves.
func all(t *testing.T, seeds uint64, check func(t *testing.T, w *Workload, transit int64, seed uint64)) {
	for i := range Workloads {
		for _, transit := range []int64{5_000, 30_000} {
			for seed := range seeds {
				check(t, &Workloads[i], transit, seed+1)
			}
		}
	}
}

func named(t *testing.T, name string) *Policy {
	t.Helper()
	p, err := PolicyNamed(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestWorkIsDone checks under all policies that each job does its work once, and that no job is
// faster than alone. A worker must do one second of work in a second.
func TestWorkIsDone(t *testing.T) {
	all(t, 3, func(t *testing.T, w *Workload, transit int64, seed uint64) {
		jobs := w.draw(seed)
		total := int64(0)
		for _, j := range jobs {
			total += j.work
		}
		for k := range Policies {
			e := simulate(jobs, &Policies[k], w.Workers, Usual(transit), seed)
			last := int64(0)
			for i := range e.runs {
				v := &e.runs[i]
				last = max(last, v.done)
				alone := v.done - v.arrives
				if over := v.received/1000 - v.work; alone < v.work || over < 0 || over > 1 {
					t.Errorf("%s under %s, seed %d: job %d of %d ms took %d ms and did %d ms", w.Name, e.policy.Name, seed, i,
						v.work, alone, v.received/1000)
				}
				if v.well < v.arrives+v.good() || v.well > v.done {
					t.Errorf("%s under %s, seed %d: job %d is good at %d", w.Name, e.policy.Name, seed, i, v.well)
				}
			}
			if last-jobs[0].arrives < total/int64(w.Workers) {
				t.Errorf("%s under %s, seed %d: all work is done too early", w.Name, e.policy.Name, seed)
			}
		}
	})
}

// TestWhatMovingBrings shows that moves shorten the paper's mixed runs and bring nothing to jobs
// that are alike.
func TestWhatMovingBrings(t *testing.T) {
	for i := range Workloads {
		w := &Workloads[i]
		for _, name := range []string{"specon", "count", "rota"} {
			mean, makespan := 0.0, 0.0
			const seeds = 10
			for seed := range uint64(seeds) {
				base, r := Run(w, &Policies[0], Usual(5_000), seed+1), Run(w, named(t, name), Usual(5_000), seed+1)
				mean += 100 * (r.MeanS/base.MeanS - 1) / seeds
				makespan += 100 * (r.MakespanS/base.MakespanS - 1) / seeds
			}
			switch {
			case w.Mixed && (mean > -1 || makespan > -5):
				t.Errorf("%s under %s: mean %+.1f %%, makespan %+.1f %%", w.Name, name, mean, makespan)
			case !w.Mixed && mean < -1:
				t.Errorf("%s under %s: the mean is %+.1f %%, although all jobs are alike", w.Name, name, mean)
			}
		}
	}
}

// TestExclusiveIsFirstComeFirstServed computes each end from the work alone.
func TestExclusiveIsFirstComeFirstServed(t *testing.T) {
	all(t, 3, func(t *testing.T, w *Workload, transit int64, seed uint64) {
		jobs := w.draw(seed)
		e := simulate(jobs, named(t, "exclusive"), w.Workers, Usual(transit), seed)
		free := make([]int64, w.Workers)
		for i, j := range jobs {
			k := slices.Index(free, slices.Min(free))
			free[k] = max(free[k], j.arrives) + j.work
			if e.runs[i].done != free[k] {
				t.Fatalf("%s, seed %d: job %d ends at %d, want %d", w.Name, seed, i, e.runs[i].done, free[k])
			}
		}
	})
}

// TestAsPublished compares the spread with what the paper prints of it, where both say the same.
func TestAsPublished(t *testing.T) {
	w, err := WorkloadNamed("fixed20")
	if err != nil {
		t.Fatal(err)
	}
	if r := Run(w, &Policies[0], Usual(5_000), 1); r.MakespanS != 1260 || math.Abs(r.MeanS/275.2-1) > 0.15 {
		t.Errorf("20 VAE under the spread: mean %.1f s, makespan %.1f s; the paper has 275.2 and 1260", r.MeanS, r.MakespanS)
	}
	if _, err := WorkloadNamed("mixed21"); err == nil {
		t.Error("a run that is not there")
	}
	if _, err := PolicyNamed("best"); err == nil {
		t.Error("a policy that is not there")
	}
}

// TestRepeats shows that a seed gives one result.
func TestRepeats(t *testing.T) {
	for k := range Policies {
		a, b := Run(&Workloads[3], &Policies[k], Usual(5_000), 7), Run(&Workloads[3], &Policies[k], Usual(5_000), 7)
		if a != b {
			t.Errorf("%s: %+v, then %+v", Policies[k].Name, a, b)
		}
	}
}
