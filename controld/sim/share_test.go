package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/controld/sim/trace/synth"
)

// partOf returns a job that requests a part of a GPU, in thousandths.
func partOf(id string, submit, work, share int64) trace.Job {
	j := job(id, submit, work, 0)
	j.Request.GPUs = share
	return j
}

// Jobs share a GPU while it has room, and hold no more of it than they request.
func TestPartsOfGPUs(t *testing.T) {
	tr := workload(partOf("a", 0, 10, 600), partOf("b", 0, 10, 400), partOf("c", 0, 10, 300), job("whole", 1, 10, 1),
		partOf("d", 1, 10, 700))
	for _, policy := range []string{"standard", "backfill", "backfill:fit=frag", "backfill:fit=first", "rota",
		"fairshare", "las"} {
		r := mustRun(t, tr, setup(t, "2x8c/64g/1gpu", policy))
		if r.GPUS != 60*(10*0.6+10*0.4+10*0.3+10+10*0.7) {
			t.Errorf("%s: %g s of a GPU were held", policy, r.GPUS)
		}
		// a, b, c and d run at once, and the whole GPU is there when the first of them have ended.
		if w := r.Classes["all"].WaitS; w.Max != 9*60 || w.P75 != 0 {
			t.Errorf("%s: waits %+v", policy, w)
		}
		if len(r.Notes) > 0 {
			t.Errorf("%s: %v", policy, r.Notes)
		}
	}
}

// A job names the allowed GPU models, and gets no other model even if its part would fit there.
func TestPartsOfModels(t *testing.T) {
	a, b := partOf("a", 0, 10, 500), partOf("b", 0, 10, 600)
	a.Models, b.Models = []string{"H100"}, []string{"H100"}
	r := mustRun(t, workload(a, b), setup(t, "1x8c/64g/1xA100,1x8c/64g/1xH100", "rota"))
	if got := r.Classes["all"].WaitS.Max; got != 600 {
		t.Errorf("the second waits %g s, although only one GPU will do", got)
	}
}

// If all jobs request half a GPU, a cluster is like one of twice as many GPUs whose jobs request
// one each.
func TestHalvesAreGPUs(t *testing.T) {
	for _, policy := range []string{"fifo", "backfill", "backfill:fit=frag", "easy", "sjf", "standard"} {
		for seed := range uint64(4) {
			var halves, wholes []trace.Job
			for i, j := range drawn(t, seed+1, 400).Jobs {
				j = job(fmt.Sprint(i), j.Submit/minute/10, max(1, j.Work/minute), 1)
				wholes = append(wholes, j)
				j.Request.GPUs = 500
				halves = append(halves, j)
			}
			a := mustRun(t, workload(wholes...), setup(t, "3x64c/512g/2gpu", policy))
			b := mustRun(t, workload(halves...), setup(t, "3x64c/512g/1gpu", policy))
			if a.Classes["all"].WaitS != b.Classes["all"].WaitS || a.MakespanS != b.MakespanS || a.GPUS != 2*b.GPUS {
				t.Fatalf("%s, seed %d: whole GPUs %+v, halves %+v", policy, seed, a.Classes["all"].WaitS, b.Classes["all"].WaitS)
			}
			if a.Classes["all"].WaitS.Max == 0 {
				t.Fatalf("%s, seed %d: no job waits", policy, seed)
			}
		}
	}
}

// The rest of shared GPUs is free, and of use only to jobs that request no more than it.
func TestPartsInResult(t *testing.T) {
	tr := workload(partOf("a", 0, 10, 800), partOf("b", 0, 10, 700), partOf("c", 5, 10, 100))
	r := mustRun(t, tr, setup(t, "1x8c/64g/2gpu", "backfill"))
	if r.UnallocatedGPUs != 0.4 {
		t.Errorf("%g GPUs are free, want 0.4", r.UnallocatedGPUs)
	}
	// c is on the GPU of a, which has 100 left; the GPU of b has 300. A job of 100 could use both,
	// those of 700 and 800 neither.
	if got := fmt.Sprintf("%.3f", r.GPUFragmentation); got != "0.667" {
		t.Errorf("fragmentation %s, want 0.667", got)
	}
}

// An inflated cluster gets fuller where placements break fewer GPUs. Every invariant holds all the
// time.
func TestInflatedParts(t *testing.T) {
	var jobs []trace.Job
	for i := range 200 {
		share := []int64{810, 470, 320, 650, 230, 160, 1000, 1000, 1000, 2000}[i%10]
		j := partOf(fmt.Sprint(i), 0, 10, share)
		j.Request.Cores = int64(2 + i%9)
		jobs = append(jobs, j)
	}
	free := map[string]float64{}
	for seed := range uint64(5) {
		for _, policy := range []string{"backfill", "backfill:fit=frag"} {
			s := setup(t, "10x64c/512g/8gpu,8x96c/512g/8gpu,6x16c/256g/2gpu", policy)
			tr, err := synth.Inflate(workload(jobs...), trace.Capacity(s.Nodes).GPUs, 1300, seed+1)
			if err != nil {
				t.Fatal(err)
			}
			free[policy] += mustRun(t, tr, s).UnallocatedGPUs
		}
	}
	if best, frag := free["backfill"], free["backfill:fit=frag"]; frag >= best || best == 0 {
		t.Errorf("%g GPUs are free with least fragmentation, %g with best fit", frag, best)
	}
}

func TestPartsThatNoNodeHolds(t *testing.T) {
	two := partOf("two", 0, 10, 1500)
	if err := two.Check(); err == nil || !strings.Contains(err.Error(), "only a single GPU can be shared") {
		t.Errorf("1.5 GPUs were taken: %v", err)
	}
	g := gang("g", 0, 10, 5, 0)
	g.Request.GPUs = 400
	r := mustRun(t, workload(g, partOf("a", 0, 10, 400)), setup(t, "1x8c/64g/2gpu", "backfill"))
	if len(r.Excluded) != 1 || !strings.Contains(r.Excluded[0], "hold 4 of them") {
		t.Errorf("excluded: %v", r.Excluded)
	}
}

// Every policy serves all jobs of a crowded cluster where most share GPUs, and breaks no invariant.
func TestEveryPolicyWithParts(t *testing.T) {
	for _, policy := range PolicyNames() {
		t.Run(policy, func(t *testing.T) {
			tr := drawn(t, 7, 400)
			for i := range tr.Jobs {
				if j := &tr.Jobs[i]; i%3 > 0 {
					j.Request.GPUs = int64(1 + i*37%999)
				}
			}
			r := mustRun(t, tr, crowded(t, policy))
			if r.Unended > 0 || r.Refused > 0 {
				t.Errorf("%d jobs have not ended, %d actions were refused: %v", r.Unended, r.Refused, r.Notes)
			}
		})
	}
}
