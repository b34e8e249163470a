package oci

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec"
)

// TestEnvironmentIsDocumented compares docs/environment.md with the variables that are set.
func TestEnvironmentIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/environment.md")
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(page), "## Variables of the submitting shell")
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("`([A-Z][A-Z_0-9]+[a-z]*)`").FindAllStringSubmatch(text, -1) {
		documented[m[1]] = true
	}
	set := map[string]bool{}
	all := gang()
	all.Alloc.Array, all.Alloc.Spec.Array = element().Alloc.Array, element().Alloc.Spec.Array
	part := example(nil)
	r := &part.Alloc.Spec.Groups[0].Tasks[0].Resources
	part.Alloc.GPUs, r.GPUs, r.GPU = []int{0}, 1, &jobspec.GPU{Share: 500, MaxMemory: jobspec.PartOfMemory}
	for _, in := range []Input{
		part,
		all, example(&jobspec.Launch{Type: "torchrun", Nproc: 4, Rdzv: "c10d", MaxRestarts: 2}),
		example(&jobspec.Launch{Type: "torchrun", Nproc: 4}),
	} {
		in.Alloc.Spec.ExportEnv, in.Alloc.Spec.Groups[in.Alloc.Group].Tasks[0].Env = nil, nil
		for name := range environ(t, in) {
			set[placeholder(name)] = true
		}
	}
	for _, name := range []string{"SLURM_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK", "SLURM_MEM_PER_CPU",
		"SLURM_JOB_DEPENDENCY", "SLURM_DISTRIBUTION"} { // jobspec/script sets them for flags
		set[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !documented[name] {
			t.Errorf("docs/environment.md does not have %s", name)
		}
		delete(documented, name)
	}
	for _, name := range slices.Sorted(maps.Keys(documented)) {
		t.Errorf("docs/environment.md has %s, which no job gets", name)
	}
}

// placeholder returns the name under which a family of variables is documented.
func placeholder(name string) string {
	for prefix, whole := range map[string]string{"ROTA_PARAM_": "ROTA_PARAM_NAME", "ROTA_META_": "ROTA_META_NAME",
		"ROTA_HOSTS_": "ROTA_HOSTS_GROUP"} {
		if strings.HasPrefix(name, prefix) {
			return whole
		}
	}
	if i := strings.Index(name, "_HET_GROUP_"); i >= 0 {
		return name[:i] + "_HET_GROUP_N"
	}
	return name
}
