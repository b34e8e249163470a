package oci

import (
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestPartOfAGPU notices a job that does not know how much of its GPU it has, and one that is kept
// from it: the device is the same as for a whole one.
func TestPartOfAGPU(t *testing.T) {
	for memory, want := range map[jobspec.Bytes]string{10 * jobspec.GiB: "10737418240",
		jobspec.PartOfMemory: "10737418240"} {
		in := example(nil)
		in.GPUs = []int{1}
		in.Node.GPUs = []model.GPU{{}, {UUID: "GPU-b", Minor: 1, Memory: 80 * jobspec.GiB}}
		r := &in.Spec.Groups[0].Tasks[0].Resources
		r.GPUs, r.GPU = 1, &jobspec.GPU{Share: 125, MaxMemory: memory}
		env := environ(t, in)
		for name, value := range map[string]string{"ROTA_GPU_SHARE": "0.125", "ROTA_GPU_MEMORY": want, "ROTA_GPUS": "1",
			"ROTA_GPU_UUIDS": "GPU-b", "CUDA_VISIBLE_DEVICES": "0"} {
			if env[name] != value {
				t.Errorf("%s is %q, want %q", name, env[name], value)
			}
		}
		spec, err := Spec(in)
		if err != nil || spec.Linux.Devices[0].Path != "/dev/nvidia1" {
			t.Errorf("%+v, %v", spec.Linux.Devices, err)
		}
		r.GPU = nil
		if env := environ(t, in); env["ROTA_GPU_SHARE"] != "" || env["ROTA_GPU_MEMORY"] != "" {
			t.Errorf("a whole GPU has %q, %q", env["ROTA_GPU_SHARE"], env["ROTA_GPU_MEMORY"])
		}
	}
}
