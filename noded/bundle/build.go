package bundle

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/oci"
)

// rootsDir is a directory below the container's with the roots of tasks with images.
const rootsDir = "root"

// Build writes the bundle of a worker that is to run on the given cores (nil: any cores) of a node
// with these GPUs. It returns the bundle's directory. Errors that no other node would avoid are
// marked with [container.Final].
func (s *Store) Build(
	ctx context.Context, id container.ID, a *api.Alloc, cores []int, gpus []model.GPU,
) (string, error) {
	if a.Owner.UID == 0 && !s.rootJobs {
		return "", fmt.Errorf("node %s runs no job as root: submit it as another user, or start rota-noded with "+
			"--allow-root-jobs", s.node.Name)
	}
	dir := s.dir(id)
	in, err := s.specInput(id, a, cores, gpus)
	if err != nil {
		return "", err
	}
	if in, err = in.Expanded(); err != nil {
		return "", container.Final(err)
	}
	if err := s.deviceNodes(ctx, &in); err != nil {
		return "", err
	}
	if err := s.writeHosts(id, a); err != nil {
		return "", err
	}
	b, err := s.workerBundle(dir, id, in)
	if err != nil {
		return "", err
	}
	b.Settings.LeaseGrace = a.LeaseGrace
	if b.Settings.Restore, err = s.restore(id, a); err != nil {
		return "", err
	}
	return dir, container.WriteBundle(dir, b)
}

// restore returns the image of its processes that a worker goes on from, nil to start its command.
func (s *Store) restore(id container.ID, a *api.Alloc) (*container.Restore, error) {
	if !a.SavesProcesses() {
		return nil, nil
	}
	image := s.folders.Image(id)
	if image == "" {
		return nil, nil
	}
	if s.criu.Path == "" {
		return nil, fmt.Errorf("node %s has no CRIU to restore the job's processes", s.node.Name)
	}
	return &container.Restore{Dir: image, Criu: s.criu}, nil
}

// specInput returns the input of package oci for an allocation. An error says that the user database
// of this machine does not answer.
func (s *Store) specInput(id container.ID, a *api.Alloc, cores []int, gpus []model.GPU) (oci.Input, error) {
	owner, err := s.owners.narrow(a.Owner)
	in := oci.Input{Alloc: *a, Node: s.node}
	in.Alloc.Owner = owner
	if len(a.Hosts) == 0 {
		in.Alloc.GroupWorker = a.Worker // the only group of its attempt
	}
	in.Node.GPUs, in.Node.Cores = gpus, cores
	in.Node.CgroupPath = filepath.Join(s.cgroupRoot, id.String())
	in.Node.HostsFile = hostsFor("/", s.hostsFile(id))
	if a.NodeLocal() {
		in.Node.Checkpoint = s.folders.Files(id)
	}
	in.Node.Root.Binds = slices.Concat(in.Node.Root.Binds, container.HostServices())
	return in, err
}

// workerBundle returns the bundles of a worker's containers, one for each task.
func (s *Store) workerBundle(dir string, id container.ID, in oci.Input) (container.Bundle, error) {
	tasks, err := oci.Tasks(in)
	if err != nil {
		return container.Bundle{}, err
	}
	b := container.Bundle{Settings: container.Settings{
		ID: id, User: container.User{UID: in.Alloc.Owner.UID, GID: in.Alloc.Owner.GID, GIDs: in.Alloc.Owner.GIDs},
		Cgroup: in.Node.CgroupPath, OutputRate: int64(s.outputRate),
	}}
	if err := addOutputRules(&b.Settings, in, tasks); err != nil {
		return b, err
	}
	starter := oci.StepTask(tasks)
	if b.Settings.Place = starter >= 0; b.Settings.Place {
		b.Settings.Tmp = int64(tasks[starter].Resources.Tmp)
	}
	if t := tasks[0].Terminal; t != nil {
		b.Settings.IO = &container.IO{Drop: true, HangUpMS: int64(t.HangUp) * 1000}
	}
	several := b.Settings.Place || len(tasks) > 1
	if several {
		b.Settings.Success, b.Settings.Shm = in.Alloc.Spec.Groups[in.Alloc.Group].Success, int64(oci.ShmSize(tasks))
		b.Limits = oci.Limits(in)
	}
	for i := range tasks {
		at := in
		at.Task, at.Node.RunDir, at.Node.Progress = i, container.RunDir(dir), container.ProgressPath(dir)
		if several {
			at.Node.RunDir, at.Node.ShmDir = container.RunDir(container.TaskDir(dir, i)), container.ShmDir(dir)
			at.Node.TmpDir = container.TmpDir(dir)
			at.Node.Progress = container.ProgressPath(container.TaskDir(dir, i))
			at.Node.CgroupPath = filepath.Join(in.Node.CgroupPath, tasks[i].Name)
		}
		made, settings, err := s.taskBundle(dir, id, at, &tasks[i])
		if err != nil {
			if several {
				err = fmt.Errorf("task %s: %w", tasks[i].Name, err)
			}
			return b, err
		}
		b.Tasks = append(b.Tasks, made)
		b.Settings.Tasks = append(b.Settings.Tasks, settings)
	}
	return b, nil
}

// taskBundle returns the bundle of one task's container, and the settings of its shim.
func (s *Store) taskBundle(
	dir string, id container.ID, in oci.Input, task *jobspec.Task,
) (container.TaskBundle, container.Task, error) {
	var b container.TaskBundle
	if err := s.imageRoot(&in, id, dir, task); err != nil {
		return b, container.Task{}, err
	}
	spec, err := oci.Spec(in)
	if err != nil {
		return b, container.Task{}, err
	}
	plan, err := oci.Plan(in)
	if err != nil {
		return b, container.Task{}, container.Final(err)
	}
	settings, err := taskSettings(in, task)
	if err != nil {
		return b, settings, container.Final(err)
	}
	settings.Guards = mountGuards(in, task, spec.Mounts)
	b = container.TaskBundle{Config: spec, Plan: plan, Script: task.Script}
	if in.Node.RotaPath != "" {
		b.Commands = oci.Commands()
	}
	return b, settings, nil
}

// imageRoot gives a task with an image a root of its own.
func (s *Store) imageRoot(in *oci.Input, id container.ID, dir string, task *jobspec.Task) error {
	if task.Image == "" {
		return nil
	}
	targets := slices.Clone(s.node.SharedPaths)
	for _, m := range task.Mounts {
		targets = append(targets, m.Target)
	}
	root, err := container.PrepareImageRoot(filepath.Join(dir, rootsDir, task.Name), task.Image, targets)
	in.Node.Root, in.Node.HostsFile = root, hostsFor(task.Image, s.hostsFile(id))
	if err == nil && in.Alloc.Spec.Checkpoint != nil && in.Alloc.Spec.Checkpoint.Criu {
		err = container.CheckImageOfRoot(task.Image, root, targets)
	}
	return err
}

// mountGuards lists the directories of the host that a task asked for: its image's and its mounts'
// sources. Those that a later mount covers are left out.
func mountGuards(in oci.Input, task *jobspec.Task, mounts []specs.Mount) []container.Guard {
	var list []container.Guard
	below := map[string][]string{}
	if task.Image != "" {
		list = append(list, container.Guard{Source: task.Image})
		for _, b := range in.Node.Root.Binds {
			below[b.Target] = nil
		}
	}
	for _, m := range task.Mounts {
		if m.Type != "tmpfs" {
			below[m.Target] = in.Node.SharedPaths
		}
	}
	for i, m := range mounts {
		dirs, asked := below[m.Destination]
		covered := slices.ContainsFunc(mounts[i+1:], func(later specs.Mount) bool {
			return m.Destination == later.Destination || strings.HasPrefix(m.Destination, later.Destination+"/")
		})
		if asked && !covered {
			list = append(list, container.Guard{Source: m.Source, Target: m.Destination, Below: dirs})
		}
	}
	return list
}

// taskSettings returns the settings of a task's shim.
func taskSettings(in oci.Input, task *jobspec.Task) (container.Task, error) {
	s := container.Task{
		Name: task.Name, Leader: task.Leader != nil && *task.Leader,
		KillSignal:  container.SignalNumber(task.KillSignal),
		KillTimeout: int64(cmp.Or(task.KillTimeout, jobspec.DefaultKillTimeout)) * 1000,
		Log:         container.LogFiles{Join: true},
	}
	if l := task.Lifecycle; l != nil {
		s.Hook, s.Sidecar = l.Hook, l.Sidecar
		if l.Hook == "poststop" && l.Sidecar {
			return s, fmt.Errorf("lifecycle: a poststop task cannot be a sidecar, because it runs after all " +
				"other tasks")
		}
	}
	for _, secret := range task.Secrets {
		target, err := oci.SecretFile(secret)
		if err != nil {
			return s, err
		}
		s.Secrets = append(s.Secrets, container.Secret{Name: secret.Name, Source: secret.Source, Target: target})
	}
	var err error
	s.Log, err = logFiles(in, task.Log)
	return s, err
}

// logFiles returns where a task's output goes.
func logFiles(in oci.Input, l *jobspec.Log) (container.LogFiles, error) {
	if l == nil {
		return container.LogFiles{Join: true}, nil
	}
	umask := in.Alloc.Spec.Umask.Mask()
	out := container.LogFiles{Join: l.Join == nil || *l.Join, Truncate: l.Mode == "truncate", MaxSize: int64(l.MaxSize),
		Umask: &umask}
	if l.Keep != nil {
		out.Keep = *l.Keep
	}
	for _, s := range []struct{ pattern, path *string }{{&l.Stdout, &out.Stdout}, {&l.Stderr, &out.Stderr}} {
		if *s.pattern == "" {
			continue
		}
		path, err := oci.LogPath(in, *s.pattern)
		if err != nil {
			return out, err
		}
		*s.path = path
	}
	return out, nil
}

// addOutputRules adds to the settings which patterns are looked for in the output, and where
// progress is read.
func addOutputRules(s *container.Settings, in oci.Input, tasks []jobspec.Task) error {
	for _, p := range in.Alloc.Spec.LogPolicies {
		s.Policies = append(s.Policies, container.Policy{Name: p.Name, Pattern: p.Pattern, Stream: p.Stream})
	}
	s.Reporter = progressTask(tasks)
	task := &tasks[s.Reporter]
	p := task.Progress
	if p == nil {
		return nil
	}
	if p.Pattern != "" {
		s.Steps = &container.StepPattern{Pattern: p.Pattern, Task: task.Name}
		if a := in.Alloc.Spec.Array; a != nil && a.Stop != nil {
			s.Steps.AtStep, s.Steps.Metric = a.Stop.AtStep, a.Stop.Metric
		}
	}
	if p.File == "" {
		return nil
	}
	var err error
	s.Progress, err = progressFile(in, p.File)
	return err
}

// progressTask returns the index of the task that the worker's progress is read from: the first one
// with a progress block, or else the leader.
func progressTask(tasks []jobspec.Task) int {
	for _, match := range []func(jobspec.Task) bool{
		func(t jobspec.Task) bool { return t.Progress != nil },
		func(t jobspec.Task) bool { return t.Lifecycle == nil && t.Leader != nil && *t.Leader },
		func(t jobspec.Task) bool { return t.Lifecycle == nil },
	} {
		if i := slices.IndexFunc(tasks, match); i >= 0 {
			return i
		}
	}
	return 0
}

// progressFile finds the host directory that holds a job's progress file. Only directories that are
// shared with the node's jobs can be read.
func progressFile(in oci.Input, file string) (*container.ProgressFile, error) {
	path := file
	if !filepath.IsAbs(path) {
		path = filepath.Join(in.Alloc.Spec.Workdir, path)
	}
	path = filepath.Clean(path)
	for _, dir := range in.Node.SharedPaths {
		if below, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/")+"/"); ok {
			return &container.ProgressFile{Dir: dir, Path: below}, nil
		}
	}
	return nil, container.Final(fmt.Errorf("progress.file %q is at %s, which is not below a directory that node "+
		"%s shares with its jobs (%s)", file, path, in.Node.Name, strings.Join(in.Node.SharedPaths, ", ")))
}
