package synth

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
)

// FuzzTexts reads any text as a mix of checkpoints and as the description of a workload.
func FuzzTexts(f *testing.F) {
	for _, text := range []string{"none:30%,signal:50%,30m:20%", "fitgpp:jobs=10,load=2", "poisson:jobs=5,gap=1m",
		"mixed:jobs=9,gpus=1/0/0/0/1,saves=50%,mean=1h,sigma=2.5", "kubeflow:experiment=2",
		"search:configs=5,behind=2,keep=3,noise=0.1,gpus=8"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if parts, err := ParseSaves(text); err == nil {
			total := int64(0)
			for _, p := range parts {
				total += p.Share
			}
			if total != 1000 {
				t.Fatalf("shares of %q: %v", text, parts)
			}
		}
		generateSmall(t, text)
	})
}

// generateSmall draws a workload if text describes one of a few jobs.
func generateSmall(t *testing.T, text string) {
	g, err := ParseGenerator(text)
	if err == nil && g.search != nil && g.search.Configs+g.search.Behind > 50 {
		return
	}
	if err != nil || g.jobs > 50 && !strings.HasPrefix(text, "kubeflow") {
		return
	}
	tr, err := g.Trace(1, model.Vector{Cores: 1000, Memory: 1 << 40, GPUs: 64 * gpu})
	if err != nil {
		return
	}
	for i := range tr.Jobs {
		if err := tr.Jobs[i].Check(); err != nil {
			t.Fatalf("%q, job %d: %v", text, i, err)
		}
	}
}
