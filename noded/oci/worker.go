package oci

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// taskInput is an input whose group and task exist.
type taskInput struct {
	Input
	shape    // set by withRanks
	group    *jobspec.Group
	task     *jobspec.Task
	taskGPUs []int // the worker's GPUs that the task sees
	step     *Step // that runs beside the task; nil: it is about the task itself
}

// findTask returns the input with its group and its task.
func (in Input) findTask() (taskInput, error) {
	g, err := in.findGroup()
	if err != nil {
		return taskInput{}, err
	}
	if in.Task < 0 || in.Task >= len(g.Tasks) {
		return taskInput{}, fmt.Errorf("group %s has no task %d", g.Name, in.Task)
	}
	return taskInput{Input: in, group: g, task: &g.Tasks[in.Task], taskGPUs: in.gpusOf(g)}, nil
}

// findGroup returns the group of the worker.
func (in Input) findGroup() (*jobspec.Group, error) {
	switch {
	case in.Alloc.Spec == nil || in.Alloc.Group < 0 || in.Alloc.Group >= len(in.Alloc.Spec.Groups):
		return nil, fmt.Errorf("the job has no group %d", in.Alloc.Group)
	case in.Alloc.GroupWorker < 0 || in.Alloc.GroupWorker >= len(in.Alloc.Nodes):
		return nil, fmt.Errorf("worker %d does not exist: the group has %d", in.Alloc.GroupWorker, len(in.Alloc.Nodes))
	case len(in.Alloc.Spec.Groups[in.Alloc.Group].Tasks) == 0:
		return nil, errors.New("the group has no task")
	}
	return &in.Alloc.Spec.Groups[in.Alloc.Group], nil
}

// Tasks lists the tasks of the worker. They must not be changed.
func Tasks(in Input) ([]jobspec.Task, error) {
	g, err := in.findGroup()
	if err != nil {
		return nil, err
	}
	return g.Tasks, nil
}

// alone reports whether the worker has one container, which then has the worker's limits itself.
func (in taskInput) alone() bool { return len(in.group.Tasks) == 1 && !in.group.RunsSteps() }

// gpusOf returns the worker's GPUs that the task sees. Tasks that run side by side (main tasks and
// sidecars) have their own GPUs each, in the order in which the tasks are written. Any other task
// sees the first ones.
func (in Input) gpusOf(g *jobspec.Group) []int {
	if len(g.Tasks) == 1 {
		return in.Alloc.GPUs
	}
	task := &g.Tasks[in.Task]
	first := 0
	for i := range g.Tasks[:in.Task] {
		if t := &g.Tasks[i]; sideBySide(t) && sideBySide(task) {
			first += t.Resources.GPUs
		}
	}
	first = min(first, len(in.Alloc.GPUs))
	return slices.Clip(in.Alloc.GPUs[first:min(first+task.Resources.GPUs, len(in.Alloc.GPUs))])
}

// sideBySide reports whether a task runs as long as the worker's main tasks do.
func sideBySide(t *jobspec.Task) bool { return t.Lifecycle == nil || t.Lifecycle.Sidecar }

// rendezvous returns the address at which the workers of the group find each other: the first
// worker, which has rank 0. The port is the task's own if it names one.
func (in taskInput) rendezvous() (addr string, port int) {
	own := slices.IndexFunc(in.Alloc.Hosts, func(h api.GroupHosts) bool { return h.Group == in.group.Name })
	return in.rendezvousOf(own, in.task)
}

// rendezvousOf returns the same for a task of one of the groups that start together.
func (in taskInput) rendezvousOf(group int, task *jobspec.Task) (addr string, port int) {
	addr, port = in.Alloc.MasterAddr, in.Alloc.MasterPort
	if group >= 0 && group < len(in.Alloc.Hosts) {
		if h := in.Alloc.Hosts[group]; len(h.Addrs) > 0 && len(h.Ports) > 0 {
			addr, port = h.Addrs[0], h.Ports[0]
		}
	}
	if l := task.Launch; l != nil && l.Port != 0 {
		port = l.Port
	}
	return addr, port
}

// arrayTask returns which task of an array the job is, nil if it is none.
func (in Input) arrayTask() *api.ArrayPlace {
	if p := in.Alloc.Array; p != nil && p.Index != nil {
		return p
	}
	return nil
}

// arrayJob returns the array job of an array task.
func (in Input) arrayJob() model.JobID { return cmp.Or(in.Alloc.Array.Job, in.Alloc.Record) }
