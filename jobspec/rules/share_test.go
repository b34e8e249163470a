package rules_test

import (
	"testing"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/rules"
)

// TestSharesOfClients applies the rules to what no job file can say.
func TestSharesOfClients(t *testing.T) {
	for _, c := range []struct {
		gpus int
		gpu  jobspec.GPU
		want string // path of the only problem
	}{
		{1, jobspec.GPU{Share: 500, MaxMemory: jobspec.PartOfMemory}, ""},
		{1, jobspec.GPU{Share: 999, MaxMemory: jobspec.MiB, Model: "A100"}, ""},
		{1, jobspec.GPU{Share: 500, MaxMemory: jobspec.PartOfMemory, Model: "A100"}, "max_memory"},
		{1, jobspec.GPU{Share: 500, MaxMemory: -2}, "max_memory"},
		{1, jobspec.GPU{Share: 1000, MaxMemory: jobspec.GiB}, "share"},
		{1, jobspec.GPU{Share: -1, MaxMemory: jobspec.GiB}, "share"},
		{1, jobspec.GPU{MaxMemory: jobspec.PartOfMemory}, "max_memory"},
		{2, jobspec.GPU{Share: 500, MaxMemory: jobspec.GiB}, "share"},
	} {
		job := &jobspec.Job{Name: "a", Groups: []jobspec.Group{{Name: "g", Tasks: []jobspec.Task{{Name: "t",
			Command: []string{"true"}, Resources: jobspec.Resources{GPUs: c.gpus, GPU: &c.gpu}}}}}}
		job.Default()
		problems := rules.Validate(job)
		if c.want == "" && len(problems) > 0 ||
			c.want != "" && (len(problems) != 1 || problems[0].Path != "groups[0].tasks[0].resources.gpu."+c.want) {
			t.Errorf("%d of %+v: %+v, want %q", c.gpus, c.gpu, problems, c.want)
		}
	}
	simulated := &jobspec.Job{Name: "a", Groups: []jobspec.Group{{Name: "g", Tasks: []jobspec.Task{{Name: "t",
		Resources: jobspec.Resources{Cores: 1, GPUs: 1, GPU: &jobspec.GPU{Share: 500}}}}}}}
	if p := rules.ValidateScheduling(simulated); len(p) > 0 {
		t.Errorf("a simulated job declares no memory: %+v", p)
	}
}
