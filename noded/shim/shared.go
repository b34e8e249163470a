package shim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/manager"
	"github.com/opencontainers/runc/libcontainer/specconv"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/rota-hpc/rota/noded/container"
)

// sharedResources is what the tasks of a worker share: the cgroup with its limits, and /dev/shm.
type sharedResources struct {
	dir    string
	cgroup cgroups.Manager
	cores  string // that the tasks may use, as the kernel writes them; "": all
	place  bool   // steps run beside the tasks
	path   string // of the cgroup, below every hierarchy
}

func newSharedResources(dir string, s container.Settings) (*sharedResources, error) {
	limits := &specs.LinuxResources{}
	raw, err := os.ReadFile(container.LimitsPath(dir))
	if err == nil {
		err = json.Unmarshal(raw, limits)
	}
	if err != nil {
		return nil, fmt.Errorf("limits of the worker: %w", err)
	}
	spec := &specs.Spec{Version: specs.Version, Linux: &specs.Linux{CgroupsPath: s.Cgroup, Resources: limits}}
	config, err := specconv.CreateCgroupConfig(&specconv.CreateOpts{CgroupName: s.ID.String(), Spec: spec}, nil)
	if err != nil {
		return nil, fmt.Errorf("limits of the worker: %w", err)
	}
	config.SkipDevices = true // each task has rules of its own
	p := &sharedResources{dir: dir, cores: config.Resources.CpusetCpus, place: s.Place, path: s.Cgroup}
	if p.cgroup, err = manager.New(config); err != nil {
		return nil, explainCgroupError(err)
	}
	const noProcess = -1 // processes are in the tasks' own cgroups
	if err := errors.Join(p.cgroup.Apply(noProcess), p.cgroup.Set(config.Resources)); err != nil {
		return nil, errors.Join(explainCgroupError(err), p.remove())
	}
	err = container.MountShm(dir, s.Shm)
	if err == nil && s.Place {
		err = container.MountTmp(dir, s.Tmp)
	}
	if err != nil {
		return nil, errors.Join(err, p.remove())
	}
	return p, nil
}

// setCores binds all tasks to other cores, written as the kernel does. The cores of a cgroup are some
// of those that the one above it has.
func (r *sharedResources) setCores(cores string, tasks []*task) error {
	err := r.bind(r.cores + "," + cores)
	for _, t := range tasks {
		if err == nil && t.State == container.Running {
			err = t.container.setCores(cores)
		}
	}
	if err == nil && r.place {
		err = r.bindSteps(cores)
	}
	if err == nil {
		err = r.bind(cores)
	}
	if err == nil {
		r.cores = cores
	}
	return err
}

// bind gives the common cgroup cores.
func (r *sharedResources) bind(cores string) error {
	limits, err := r.cgroup.GetCgroups()
	if err != nil {
		return err
	}
	resources := *limits.Resources
	resources.CpusetCpus = strings.Trim(cores, ",")
	return r.cgroup.Set(&resources)
}

// bindSteps gives all steps the cores of their worker: those that they had are not among them any more.
func (r *sharedResources) bindSteps(cores string) error {
	var errs []error
	files, _ := filepath.Glob(filepath.Join(cmp.Or(r.cgroup.Path("cpuset"), r.cgroup.Path("")), "step.*", "cpuset.cpus"))
	for _, file := range files { // the pattern is well formed
		err := os.WriteFile(file, []byte(cores), 0)
		if !errors.Is(err, os.ErrNotExist) { // it has ended
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// freeze stops the tasks and the steps where they are, or lets them run.
func (r *sharedResources) freeze(state cgroups.FreezerState) error { return r.cgroup.Freeze(state) }

// remove ends the steps, with which nothing of the worker is left to run.
func (r *sharedResources) remove() error {
	var err error
	if r.place {
		err = container.EndBelow(r.path)
	}
	return errors.Join(err, r.leave(), r.cgroup.Destroy())
}

// leave is remove for a worker whose steps may go on: the daemon ends them when their time is over, or their
// leases do. It removes the cgroup with the worker.
func (r *sharedResources) leave() error {
	return errors.Join(container.UnmountShm(r.dir), container.UnmountTmp(r.dir))
}
