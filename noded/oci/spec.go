package oci

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hostlist"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/oci/launch"
)

// Processes a container may have: enough for data loaders and compilers, too few to exhaust the
// machine's.
const (
	pidsBase    = 4096
	pidsPerCore = 512
)

// HostsPath is where programs look for the addresses of names.
const HostsPath = "/etc/hosts"

const cpuPeriod = 100_000 // microseconds; the kernel's default

// oomScore makes the kernel prefer a job to the daemons when the whole machine runs out of memory.
const oomScore = 100

// Spec returns the OCI runtime spec of one worker's container. It fails on what the validation of
// job files cannot know: GPUs that the node does not have, mounts outside of its shared paths.
func Spec(in Input) (*specs.Spec, error) {
	t, err := in.findTask()
	if err != nil {
		return nil, err
	}
	return t.spec()
}

func (in taskInput) spec() (*specs.Spec, error) {
	mounts, err := in.mounts()
	if err != nil {
		return nil, err
	}
	devices, rules, err := in.devices()
	if err != nil {
		return nil, err
	}
	limits, err := in.rlimits()
	if err != nil {
		return nil, err
	}
	score, umask := oomScore, in.umask()
	return &specs.Spec{
		Version: specs.Version,
		Root:    &specs.Root{Path: in.Node.Root.Path, Readonly: true},
		Mounts:  mounts,
		Process: &specs.Process{
			Args: []string{launch.InitFile},
			Cwd:  "/",
			Env:  []string{"PATH=" + launch.DefaultPath},
			User: specs.User{UID: in.Alloc.Owner.UID, GID: in.Alloc.Owner.GID, AdditionalGids: in.Alloc.Owner.GIDs,
				Umask: &umask},
			Capabilities:    &specs.LinuxCapabilities{},
			NoNewPrivileges: true,
			OOMScoreAdj:     &score,
			Rlimits:         limits,
		},
		Linux: &specs.Linux{
			CgroupsPath: in.Node.CgroupPath,
			Namespaces: []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.MountNamespace},
				{Type: specs.IPCNamespace}},
			Devices:   devices,
			Resources: in.taskResources(rules),
			Seccomp:   in.Node.Seccomp,
			MaskedPaths: []string{
				"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",
				"/proc/timer_list",
				"/sys/firmware",
			},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}, nil
}

// umask returns the mask of the container's processes. A step has the mask of the command that asked for it.
func (in taskInput) umask() uint32 {
	if in.step != nil && in.step.Umask != 0 {
		return in.step.Umask.Mask()
	}
	return in.Alloc.Spec.Umask.Mask()
}

// mounts lists what the container sees, outer paths before inner ones.
func (in taskInput) mounts() ([]specs.Mount, error) {
	list := []specs.Mount{
		mountAt("/proc", "proc", "proc", "nosuid", "noexec", "nodev"),
		mountAt("/dev", "tmpfs", "tmpfs", "nosuid", "noexec", "strictatime", "mode=755", "size=65536k"),
		mountAt("/dev/pts", "devpts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"),
		mountAt("/dev/mqueue", "mqueue", "mqueue", "nosuid", "noexec", "nodev"),
		in.shm(),
		mountAt("/sys", "bind", "/sys", "bind", "ro", "nosuid", "nodev", "noexec"),
	}
	for _, b := range in.Node.Root.Binds {
		if !strings.HasPrefix(b.Target, "/run/") {
			list = append(list, readOnly(b))
		}
	}
	if in.Node.HostsFile != "" {
		list = append(list, readOnly(container.Bind{Source: in.Node.HostsFile, Target: HostsPath}))
	}
	list = append(list,
		in.tmp(),
		mountAt("/run", "tmpfs", "tmpfs", "nosuid", "nodev", "noexec", "mode=755", "size=1024k"),
		mountAt(launch.Dir, "bind", in.Node.RunDir, "bind", "ro", "nosuid", "nodev"),
		mountAt(launch.ProgressFile, "bind", in.Node.Progress, "bind", "rw", "nosuid", "nodev", "noexec"),
		readOnly(container.Bind{Source: in.Node.InitPath, Target: launch.InitFile}),
	)
	if in.Node.RotaPath != "" {
		list = append(list, readOnly(container.Bind{Source: in.Node.RotaPath, Target: launch.RotaFile}))
	}
	if in.Node.Modules != "" {
		list = append(list, readOnly(container.Bind{Source: in.Node.Modules, Target: launch.ModulesDir}))
	}
	if len(in.task.Secrets) > 0 {
		list = append(list, secretsMount())
	}
	if in.usesMPS() {
		list = append(list, mountAt(in.Node.MPS.Pipes, "bind", in.Node.MPS.Pipes, "bind", "rw", "nosuid", "nodev", "noexec"))
	}
	if in.Node.Checkpoint != "" {
		list = append(list, mountAt(launch.CheckpointDir, "bind", in.Node.Checkpoint, "bind", "rw", "nosuid", "nodev"))
	}
	if in.Node.SimGPUs != "" && len(in.taskGPUs) > 0 {
		list = append(list, mountAt(launch.GPUsDir, "bind", in.Node.SimGPUs, "bind", "rw", "nosuid", "nodev", "noexec"))
	}
	for _, b := range in.Node.Root.Binds {
		if strings.HasPrefix(b.Target, "/run/") {
			list = append(list, readOnly(b))
		}
	}
	shared := slices.SortedFunc(slices.Values(in.Node.SharedPaths), byDepth)
	for _, p := range shared {
		list = append(list, mountAt(p, "bind", p, "rbind", "rw", "nosuid", "nodev"))
	}
	for _, m := range in.task.Mounts {
		own, err := in.mount(m)
		if err != nil {
			return nil, err
		}
		list = append(list, own)
	}
	return list, nil
}

func mountAt(target, kind, source string, options ...string) specs.Mount {
	return specs.Mount{Destination: target, Type: kind, Source: source, Options: options}
}

// byDepth puts a directory before its content.
func byDepth(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

func readOnly(b container.Bind) specs.Mount {
	return mountAt(b.Target, "bind", b.Source, "rbind", "ro", "nosuid", "nodev")
}

// tmpfsAt returns a private directory in memory; its content counts as the job's memory.
func tmpfsAt(target string, size jobspec.Bytes, options ...string) specs.Mount {
	options = append([]string{"nosuid", "nodev", "mode=1777", fmt.Sprintf("size=%d", max(size, jobspec.MiB))},
		options...)
	return mountAt(target, "tmpfs", "tmpfs", options...)
}

// mount returns a mount that the job asked for.
func (in taskInput) mount(m jobspec.Mount) (specs.Mount, error) {
	if m.Target != path.Clean(m.Target) || !path.IsAbs(m.Target) || m.Target == "/" ||
		below(m.Target, jobspec.ReservedTargets()) {
		return specs.Mount{}, fmt.Errorf("mount target %q is not allowed: use an absolute path outside of %s", m.Target,
			strings.Join(jobspec.ReservedTargets(), ", "))
	}
	if above := in.enclosingMount(m.Target); above != "" {
		return specs.Mount{}, fmt.Errorf("mount target %q is not allowed: it lies in %s, which other jobs "+
			"share; use a path outside of it", m.Target, above)
	}
	if m.Type == "tmpfs" {
		return tmpfsMount(m)
	}
	if m.Source != path.Clean(m.Source) || !below(m.Source, in.Node.SharedPaths) {
		return specs.Mount{}, fmt.Errorf("mount source %q is not below a shared path of node %s (%s)", m.Source,
			in.Node.Name, strings.Join(in.Node.SharedPaths, ", "))
	}
	options := []string{"rbind", "nosuid", "nodev", "rw"}
	if m.ReadOnly {
		options[3] = "ro"
	}
	for _, o := range m.Options {
		if !slices.Contains([]string{"ro", "noexec", "nosuid", "nodev"}, o) {
			return specs.Mount{}, fmt.Errorf("mount %s: option %q is not supported", m.Target, o)
		}
		options = append(options, o)
	}
	return mountAt(m.Target, "bind", m.Source, options...), nil
}

// enclosingMount returns the host directory in whose mount a target lies, or "". Root creates
// missing targets, and would do so in directories that the job's user cannot write to.
func (in taskInput) enclosingMount(target string) string {
	outer := slices.Clone(in.Node.SharedPaths)
	for _, m := range in.task.Mounts {
		if m.Type != "tmpfs" {
			outer = append(outer, m.Target)
		}
	}
	for _, dir := range outer {
		if target != dir && below(target, []string{dir}) {
			return dir
		}
	}
	return ""
}

func tmpfsMount(m jobspec.Mount) (specs.Mount, error) {
	options := []string{"nosuid", "nodev", "mode=1777"}
	for _, o := range m.Options {
		if !strings.HasPrefix(o, "size=") && o != "noexec" {
			return specs.Mount{}, fmt.Errorf("mount %s: option %q is not supported with tmpfs", m.Target, o)
		}
		options = append(options, o)
	}
	return mountAt(m.Target, "tmpfs", "tmpfs", options...), nil
}

// below reports whether p is one of dirs or lies in one.
func below(p string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool {
		return p == d ||
			strings.HasPrefix(p, strings.TrimSuffix(d, "/")+"/")
	})
}

// devices returns the granted GPUs' nodes and the rules that let only these be used. Simulated GPUs
// have none.
func (in taskInput) devices() ([]specs.LinuxDevice, []specs.LinuxDeviceCgroup, error) {
	rules := []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}
	var nodes []Device
	for _, i := range in.taskGPUs {
		if i < 0 || i >= len(in.Node.GPUs) {
			return nil, nil, fmt.Errorf("GPU %d was assigned, but node %s has only %d", i, in.Node.Name, len(in.Node.GPUs))
		}
		if minor := in.Node.GPUs[i].Minor; minor >= 0 {
			nodes = append(nodes, Device{"/dev/nvidia" + strconv.Itoa(minor), cmp.Or(in.Node.NvidiaMajor, 195),
				int64(minor)})
		}
	}
	if len(nodes) > 0 {
		nodes = append(nodes, in.Node.Nvidia...)
	}
	if in.task.Resources.RDMA == rdmaAll {
		if len(in.Node.RDMA) == 0 {
			return nil, nil, fmt.Errorf("rdma = %q: node %s has no devices below /dev/infiniband; add a "+
				"constraint on a label of nodes that have them", rdmaAll, in.Node.Name)
		}
		nodes = append(nodes, in.Node.RDMA...)
	}
	var devices []specs.LinuxDevice
	mode := modeRW
	for _, d := range nodes {
		devices = append(devices, specs.LinuxDevice{Path: d.Path, Type: "c", Major: d.Major, Minor: d.Minor,
			FileMode: &mode})
		rules = append(rules, specs.LinuxDeviceCgroup{Allow: true, Type: "c", Major: &d.Major, Minor: &d.Minor,
			Access: "rw"})
	}
	return devices, rules, nil
}

// taskResources returns the limits of a task's container: the worker's limits if it is the only
// task, else only its share of the cores.
func (in taskInput) taskResources(rules []specs.LinuxDeviceCgroup) *specs.LinuxResources {
	if in.step != nil {
		return in.stepResources(rules)
	}
	if in.alone() {
		res := in.workerLimits(int64(max(in.task.Resources.Cores, 1)), int64(in.task.Resources.Memory))
		res.Devices = rules
		return res
	}
	shares := uint64(max(in.task.Resources.Cores, 1)) * 1024
	return &specs.LinuxResources{Devices: rules, CPU: &specs.LinuxCPU{Shares: &shares}}
}

// Limits returns the limits of a worker of several tasks, which are set on the parent of their
// cgroups.
func Limits(in Input) *specs.LinuxResources {
	return in.workerLimits(max(in.Alloc.Request.Active.Cores, 1), int64(in.Alloc.Request.Active.Memory))
}

func (in Input) workerLimits(cores, memory int64) *specs.LinuxResources {
	shares := uint64(cores) * 1024
	pids := cmp.Or(in.Node.MaxPids, pidsBase+pidsPerCore*cores)
	res := &specs.LinuxResources{
		CPU:    &specs.LinuxCPU{Shares: &shares},
		Memory: &specs.LinuxMemory{Limit: &memory},
		Pids:   &specs.LinuxPids{Limit: &pids},
	}
	if !in.Node.NoSwapLimit {
		res.Memory.Swap = &memory // memory and swap together: no swap
	}
	if len(in.Node.Cores) > 0 {
		res.CPU.Cpus = hostlist.Numbers(in.Node.Cores)
	} else {
		quota, period := cores*cpuPeriod, uint64(cpuPeriod)
		res.CPU.Quota, res.CPU.Period = &quota, &period
	}
	return res
}
