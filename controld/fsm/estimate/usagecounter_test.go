package estimate

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
)

// TestLastedIsTheSumOfAll: what running attempts of a leaf have used is what each has, one by one.
func TestLastedIsTheSumOfAll(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		now := model.Instant(1 + r.Int64N(400*HourMS))
		d := NewDecay(now, []int64{0, HourMS / 3, 5 * HourMS, 100 * HourMS}[r.IntN(4)])
		st, want := &UsageCounter{}, [3]float64{}
		var runs []*LiveAttempt
		for range 1 + r.IntN(20) {
			run := &LiveAttempt{HeldSince: model.Instant(r.Int64N(int64(now))), Held: model.Amounts{Cores: r.Int64N(100),
				Memory: r.Int64N(1 << 20), GPUs: 1000 * r.Int64N(9)}}
			runs = append(runs, run)
			st.AddRun(run, 1)
			lasted := float64(d.TimeSince(run.HeldSince)) / 1000
			want[0] += float64(run.Held.Cores) * lasted
			want[1] += float64(run.Held.Memory) * lasted
			want[2] += float64(run.Held.GPUs) * lasted
		}
		cores, memory, gpus := d.RunningUsage(st)
		for i, got := range []int64{cores, memory, gpus} {
			if math.Abs(float64(got)-want[i]) > 1e-6*want[i]+float64(20*9000)+float64(20<<20)*float64(i%2) {
				t.Fatalf("seed %d, at %d: resource %d: %d, one by one %g", seed, now, i, got, want[i])
			}
		}
		for _, run := range runs {
			st.AddRun(run, -1)
		}
		if st.Jobs != 0 || len(st.Since) != 0 || !st.Held.Equal(&model.Amounts{}) {
			t.Fatalf("seed %d: no job is left and it is %+v", seed, st)
		}
	}
}
