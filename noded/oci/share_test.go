package oci

import (
	"slices"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestPartOfAGPU notices a job that does not know how much of its GPU it has, and one that is kept
// from it: the device is the same as for a whole one.
func TestPartOfAGPU(t *testing.T) {
	for memory, want := range map[jobspec.Bytes]string{10 * jobspec.GiB: "10737418240",
		jobspec.PartOfMemory: "10737418240"} {
		in := example(nil)
		in.Alloc.GPUs = []int{1}
		in.Node.GPUs = []model.GPU{{}, {UUID: "GPU-b", Minor: 1, Memory: 80 * jobspec.GiB}}
		r := &in.Alloc.Spec.Groups[0].Tasks[0].Resources
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

// part is an input of a task with an eighth of the second of two GPUs, of which it may use 10 GiB.
func part() Input {
	in := example(nil)
	in.Alloc.GPUs = []int{1}
	in.Node.GPUs = []model.GPU{{UUID: "GPU-a", Minor: 0}, {UUID: "GPU-b", Minor: 1, Memory: 80 * jobspec.GiB}}
	r := &in.Alloc.Spec.Groups[0].Tasks[0].Resources
	r.GPUs, r.GPU = 1, &jobspec.GPU{Share: 125, MaxMemory: 10 * jobspec.GiB}
	return in
}

var mps = MPS{Pipes: "/run/rota-mps/gpu02/pipes", Shm: "/dev/shm/rota-mps-gpu02"}

// TestEnvironmentOfParts notices a change in what programs with a part of a GPU are told, with MPS and
// without.
func TestEnvironmentOfParts(t *testing.T) {
	for name, service := range map[string]MPS{"share": {}, "share-mps": mps} {
		in := part()
		in.Node.MPS = service
		plan, err := Plan(in)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, plan.Env)
	}
}

// TestMPSIsForPartsAlone notices a job with whole GPUs, or without any, that is led to MPS, one with a part
// that cannot reach it, and one whose own variables do not win.
func TestMPSIsForPartsAlone(t *testing.T) {
	reaches := func(in Input) (variable, pipes, shm bool) {
		spec, err := Spec(in)
		if err != nil {
			t.Fatal(err)
		}
		has := func(at, from string) bool {
			return slices.ContainsFunc(spec.Mounts, func(m specs.Mount) bool {
				return m.Destination == at && m.Source == from && slices.Equal(m.Options,
					[]string{"bind", "rw", "nosuid", "nodev", "noexec"})
			})
		}
		return environ(t, in)["CUDA_MPS_PIPE_DIRECTORY"] == mps.Pipes, has(mps.Pipes, mps.Pipes), has("/dev/shm", mps.Shm)
	}
	for name, c := range map[string]struct {
		edit func(*Input)
		want bool
	}{
		"a part":      {func(*Input) {}, true},
		"a whole GPU": {func(in *Input) { in.Alloc.Spec.Groups[0].Tasks[0].Resources.GPU = nil }, false},
		"no GPU":      {func(in *Input) { in.Alloc.GPUs = nil }, false},
		"no service":  {func(in *Input) { in.Node.MPS = MPS{} }, false},
	} {
		in := part()
		in.Node.MPS = mps
		c.edit(&in)
		if variable, pipes, shm := reaches(in); variable != c.want || pipes != c.want || shm != c.want {
			t.Errorf("%s: variable %t, sockets %t, shared memory %t; want %t", name, variable, pipes, shm, c.want)
		}
	}
	in := part()
	in.Node.MPS, in.Node.GPUs[1].Memory = mps, 0
	r := &in.Alloc.Spec.Groups[0].Tasks[0].Resources
	r.GPU = &jobspec.GPU{Share: 1, MaxMemory: jobspec.PartOfMemory}
	env := environ(t, in)
	if _, limited := env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"]; limited || env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] != "1" {
		t.Errorf("a thousandth of a GPU whose memory is not known has %v", env)
	}
	in.Alloc.Spec.Groups[0].Tasks[0].Env = map[string]string{"CUDA_MPS_PIPE_DIRECTORY": ""}
	if env := environ(t, in); env["CUDA_MPS_PIPE_DIRECTORY"] != "" {
		t.Errorf("a job that wants no MPS has %q", env["CUDA_MPS_PIPE_DIRECTORY"])
	}
}
