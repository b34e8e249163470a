package oci

import (
	"fmt"
	"math"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/oci/launch"
)

const (
	rdmaAll   = "all"
	unlimited = -1
)

// The limits of a task on a node with bounds, unless it asks for more. On a node without, the shim
// decides.
const (
	usualMemlock = 8 * jobspec.MiB
	usualNofile  = 65_536
)

// rlimits returns the resource limits of a task's processes. A limit above the node's bounds is
// refused, because a program without the locked memory that it relies on fails in ways that are
// hard to explain.
func (in taskInput) rlimits() ([]specs.POSIXRlimit, error) {
	u := jobspec.Ulimits{}
	if in.task.Ulimits != nil {
		u = *in.task.Ulimits
	}
	if u.Memlock == 0 && in.task.Resources.RDMA == rdmaAll { // registered buffers are locked memory
		u.Memlock = unlimited
		if in.Node.MaxMemlock > 0 {
			u.Memlock = in.Node.MaxMemlock
		}
	}
	if most := in.Node.MaxMemlock; most > 0 && u.Memlock == 0 { // a bound holds for a task that does not ask, too
		u.Memlock = min(most, usualMemlock)
	}
	if most := in.Node.MaxNofile; most > 0 && u.Nofile == 0 {
		u.Nofile = min(most, usualNofile)
	}
	if most := in.Node.MaxMemlock; most > 0 && (u.Memlock == unlimited || u.Memlock > most) {
		return nil, fmt.Errorf("ulimit.memlock exceeds the %v that node %s allows", most, in.Node.Name)
	}
	if most := in.Node.MaxNofile; most > 0 && u.Nofile > most {
		return nil, fmt.Errorf("ulimit.nofile = %d exceeds the %d that node %s allows", u.Nofile, most, in.Node.Name)
	}
	var list []specs.POSIXRlimit
	for _, l := range []struct {
		name  string
		value int64
	}{
		{"RLIMIT_CORE", int64(u.Core)}, {"RLIMIT_MEMLOCK", int64(u.Memlock)}, {"RLIMIT_NOFILE", u.Nofile},
		{"RLIMIT_STACK", int64(u.Stack)},
	} {
		if l.value != 0 {
			list = append(list, rlimit(l.name, l.value))
		}
	}
	return list, nil
}

func rlimit(name string, value int64) specs.POSIXRlimit {
	n := uint64(value)
	if value == unlimited {
		n = math.MaxUint64 // RLIM_INFINITY
	}
	return specs.POSIXRlimit{Type: name, Soft: n, Hard: n}
}

// shm returns /dev/shm of a task's container: its own, or one for all tasks of the worker, which
// share an IPC namespace. Programs that use MPS share one with the service, in which they pass
// memory to it.
func (in taskInput) shm() specs.Mount {
	dir := in.Node.ShmDir
	switch {
	case in.usesMPS():
		dir = in.Node.MPS.Shm
	case in.alone():
		return tmpfsAt("/dev/shm", in.task.Resources.Shm, "noexec")
	}
	return mountAt("/dev/shm", "bind", dir, "bind", "rw", "nosuid", "nodev", "noexec")
}

// tmp returns /tmp of a task's container. It is the task's own; but a task that starts steps shares
// it with them, as processes of one machine do.
func (in taskInput) tmp() specs.Mount {
	if in.step == nil && (in.task.Launch == nil || in.task.Launch.Type != jobspec.LaunchSteps) {
		return tmpfsAt("/tmp", in.task.Resources.Tmp)
	}
	return mountAt("/tmp", "bind", in.Node.TmpDir, "bind", "rw", "nosuid", "nodev")
}

// ShmSize returns the size of /dev/shm for the tasks of a worker, in bytes. It is the sum over the
// tasks that run side by side, or the size of any other task if that is larger.
func ShmSize(tasks []jobspec.Task) jobspec.Bytes {
	var together, most jobspec.Bytes
	for i := range tasks {
		if t := &tasks[i]; sideBySide(t) {
			together += t.Resources.Shm
		} else {
			most = max(most, t.Resources.Shm)
		}
	}
	return max(together, most)
}

// secretsMount returns the private directory in memory for secrets, so that none is ever on a disk.
func secretsMount() specs.Mount {
	return mountAt(launch.SecretsDir, "tmpfs", "tmpfs", "nosuid", "nodev", "noexec", "mode=0711", "size=8m")
}
