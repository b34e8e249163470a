package bundle

import (
	"context"
	"fmt"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/oci"
)

// BuildStep writes the bundle of a part of a step. The worker beside it has these cores (nil: any)
// of a node with these GPUs, and pid is the first process of its container. It returns the bundle's
// directory.
func (s *Store) BuildStep(
	ctx context.Context, id container.ID, a *api.Alloc, cores []int, gpus []model.GPU, pid int, step oci.Step,
) (string, error) {
	in, err := s.specInput(id.OfWorker(), a, cores, gpus)
	if err != nil {
		return "", err
	}
	if in, err = in.Expanded(); err != nil {
		return "", container.Final(err)
	}
	if err := s.deviceNodes(ctx, &in); err != nil {
		return "", err
	}
	tasks, err := oci.Tasks(in)
	if err != nil {
		return "", err
	}
	at := oci.StepTask(tasks)
	if at < 0 {
		return "", container.Final(fmt.Errorf("job %d runs no steps: its launch type is not steps", id.Job))
	}
	dir, worker, task := s.dir(id), s.dir(id.OfWorker()), &tasks[at]
	in.Node.RunDir, in.Node.Progress = container.RunDir(dir), container.ProgressPath(dir)
	in.Node.ShmDir, in.Node.TmpDir = container.ShmDir(worker), container.TmpDir(worker)
	in.Node.CgroupPath = container.StepCgroup(in.Node.CgroupPath, step.Number)
	if err := s.imageRoot(&in, id, dir, task); err != nil {
		return "", err
	}
	spec, err := oci.StepSpec(in, step)
	if err != nil {
		return "", err
	}
	plan, err := oci.StepPlan(in, step)
	if err != nil {
		return "", container.Final(err)
	}
	in.Task = at
	settings, err := taskSettings(in, task)
	if err != nil {
		return "", container.Final(err)
	}
	settings.Guards, settings.Log = mountGuards(in, task, spec.Mounts), container.LogFiles{Join: true}
	b := container.Bundle{
		Settings: container.Settings{
			ID: id, User: container.User{UID: in.Alloc.Owner.UID, GID: in.Alloc.Owner.GID, GIDs: in.Alloc.Owner.GIDs},
			Cgroup: in.Node.CgroupPath, LeaseGrace: a.LeaseGrace, OutputRate: int64(s.outputRate),
			IPC: fmt.Sprintf("/proc/%d/ns/ipc", pid), Tasks: []container.Task{settings},
			IO: &container.IO{},
		},
		Tasks: []container.TaskBundle{{Config: spec, Plan: plan, Script: task.Script}},
	}
	if in.Node.RotaPath != "" {
		b.Tasks[0].Commands = oci.Commands()
	}
	return dir, container.WriteBundle(dir, b)
}
