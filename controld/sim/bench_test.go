package sim

import (
	"testing"

	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/controld/sim/trace/synth"
)

// BenchmarkRun runs a workload of the FitGpp paper's size, at its load on its cluster. It runs
// under the policies with a goal for speed and under the slowest ones.
func BenchmarkRun(b *testing.B) {
	t := paperLoad(b, 1<<16)
	for _, name := range []string{"fifo", "rota", "fairshare", "fitgpp"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r, err := Run(t, benchSetup(b, name))
				if err != nil || r.Unended > 0 {
					b.Fatalf("%d have not ended: %v", r.Unended, err)
				}
				b.ReportMetric(float64(r.Decisions.Count), "decisions")
			}
		})
	}
}

// paperLoad draws the arrivals that keep the paper's cluster at its load under policy fifo.
func paperLoad(b *testing.B, jobs int) *trace.Trace {
	b.Helper()
	source, err := synth.PaperModel().Source(1, jobs)
	if err != nil {
		b.Fatal(err)
	}
	s := benchSetup(b, "fifo")
	s.Tick = 60_000
	t, err := CloseLoop(source, "paper", 2000, s)
	if err != nil {
		b.Fatal(err)
	}
	return t
}

func benchSetup(b *testing.B, policy string) Setup {
	b.Helper()
	nodes, err := trace.ParseNodes("84x32c/256g/8gpu")
	if err != nil {
		b.Fatal(err)
	}
	p, err := ParsePolicy(policy)
	if err != nil {
		b.Fatal(err)
	}
	return Setup{Nodes: nodes, Policy: p, Seed: 1}
}

// BenchmarkPaperLoad replays 65,536 jobs of the FitGpp workload.
func BenchmarkPaperLoad(b *testing.B) {
	tr := realTrace(b, "fitgpp/paper-load-set1.csv.gz")
	for _, name := range []string{"fifo", "backfill", "rota"} {
		b.Run(name, func(b *testing.B) {
			s := setup(b, "84x32c/256g/8gpu", name)
			s.Check, s.Tick = false, minute
			for b.Loop() {
				if _, err := Run(tr, s); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(tr.Jobs)*b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}
