package oci

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/jobspec"
)

// group returns the group of the worker.
func (in Input) group() (*jobspec.Group, error) {
	switch {
	case in.Spec == nil || in.Group < 0 || in.Group >= len(in.Spec.Groups):
		return nil, fmt.Errorf("the job has no group %d", in.Group)
	case in.GroupWorker < 0 || in.GroupWorker >= len(in.Nodes):
		return nil, fmt.Errorf("worker %d does not exist: the group has %d", in.GroupWorker, len(in.Nodes))
	case len(in.Spec.Groups[in.Group].Tasks) == 0:
		return nil, errors.New("the group has no task")
	}
	return &in.Spec.Groups[in.Group], nil
}

// Tasks lists the tasks of the worker. They must not be changed.
func Tasks(in Input) ([]jobspec.Task, error) {
	g, err := in.group()
	if err != nil {
		return nil, err
	}
	return g.Tasks, nil
}

// task returns the task of the container.
func (in Input) task() (*jobspec.Task, error) {
	g, err := in.group()
	if err != nil {
		return nil, err
	}
	if in.Task < 0 || in.Task >= len(g.Tasks) {
		return nil, fmt.Errorf("group %s has no task %d", g.Name, in.Task)
	}
	return &g.Tasks[in.Task], nil
}

// Alone reports whether the worker has one task, whose container then has the worker's limits
// itself.
func (in Input) Alone() bool {
	g, err := in.group()
	return err == nil && len(g.Tasks) == 1
}

// devicesOf returns the worker's GPUs that a task sees. Tasks that run side by side (main tasks and
// sidecars) have their own GPUs each, in the order in which the tasks are written. Any other task
// sees the first ones.
func (in Input) devicesOf(task *jobspec.Task) []int {
	g, err := in.group()
	if err != nil || len(g.Tasks) == 1 {
		return in.GPUs
	}
	first := 0
	for i := range g.Tasks {
		t := &g.Tasks[i]
		if t == task {
			break
		}
		if sideBySide(t) && sideBySide(task) {
			first += t.Resources.GPUs
		}
	}
	first = min(first, len(in.GPUs))
	return slices.Clip(in.GPUs[first:min(first+task.Resources.GPUs, len(in.GPUs))])
}

// sideBySide reports whether a task runs as long as the worker's main tasks do.
func sideBySide(t *jobspec.Task) bool { return t.Lifecycle == nil || t.Lifecycle.Sidecar }

// rendezvous returns where the workers of the group find each other: the first worker, which has
// rank 0, and the task's own port if it names one.
func (in Input) rendezvous() (addr string, port int) {
	addr, port = in.MasterAddr, in.MasterPort
	if h := in.ownHosts(); h != nil && len(h.Addrs) > 0 && len(h.Ports) > 0 {
		addr, port = h.Addrs[0], h.Ports[0]
	}
	if t, err := in.task(); err == nil && t.Launch != nil && t.Launch.Port != 0 {
		port = t.Launch.Port
	}
	return addr, port
}

// ownHosts returns where the workers of the worker's group are, nil if the job has one group.
func (in Input) ownHosts() *Hosts {
	g, err := in.group()
	if err != nil {
		return nil
	}
	for i := range in.Hosts {
		if in.Hosts[i].Group == g.Name {
			return &in.Hosts[i]
		}
	}
	return nil
}
