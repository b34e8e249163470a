package doctor

import (
	"context"
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/requirements"
)

func (in *inspection) kernel(context.Context) []finding {
	release, err := in.release()
	if err == nil {
		err = requirements.Kernel(release)
	}
	if err != nil && in.forNode() {
		return one(bad, "kernel", "boot Linux 5.10 or newer", "%v", err)
	}
	if err != nil {
		return one(note, "kernel", "", "%v: only nodes need 5.10", err)
	}
	return fine("kernel", "Linux %s", release)
}

// cgroups tries to create a cgroup in the place where containers get theirs. A user without root
// rights can only look at the mounts.
func (in *inspection) cgroups(context.Context) []finding {
	if !in.forNode() {
		return nil
	}
	const name = "cgroups"
	if in.uid != 0 {
		if !in.exists("/sys/fs/cgroup/cgroup.controllers") && !in.exists("/sys/fs/cgroup/memory") {
			return one(bad, name, "mount cgroups", "no cgroups are mounted at /sys/fs/cgroup")
		}
		return one(note, name, "run this command as root", "cgroups are mounted; only root can test whether one can be made")
	}
	host, _ := in.hostname() // the daemon's default name
	root := "/rota/" + host
	if n := in.settings.node; n != nil {
		root = value(n.CgroupRoot, "/rota/"+value(n.Name, host))
	}
	if err := in.cgroup(root); err != nil {
		return one(bad, name, "see the message; with systemd, give the unit Delegate=yes; in a container, mount "+
			"/sys/fs/cgroup writable", "%v", err)
	}
	version := "1"
	if in.exists("/sys/fs/cgroup/cgroup.controllers") {
		version = "2"
	}
	return fine(name, "version %s: the controllers needed for limits are available, and %s can be used", version, root)
}

// namespaces tries to start a process in the namespaces that containers use.
func (in *inspection) namespaces(context.Context) []finding {
	if !in.forNode() {
		return nil
	}
	const name = "namespaces"
	var found []finding
	if in.uid == 0 {
		if err := in.clone(unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC); err != nil {
			return one(bad, name, "give root CAP_SYS_ADMIN on this machine: if it is a container, run it with --privileged",
				"a process cannot be started in new pid, mount and ipc namespaces: %v", err)
		}
		found = fine(name, "pid, mount and ipc namespaces can be made")
	} else {
		for _, kind := range []string{"pid", "mnt", "ipc"} {
			if !in.exists("/proc/self/ns/" + kind) {
				found = append(found, one(bad, name, "use a kernel with namespaces", "the kernel has no %s namespaces", kind)...)
			}
		}
		if found == nil {
			found = one(note, name, "run this command as root", "the kernel supports them; only root can test whether they "+
				"can be made")
		}
	}
	err := in.clone(unix.CLONE_NEWUSER)
	n := in.settings.node
	switch {
	case err == nil:
		found = append(found, fine("user namespaces", "they can be made; jobs may make them only with "+
			"allow_user_namespaces")...)
	case n != nil && n.AllowUserNamespaces != nil && *n.AllowUserNamespaces:
		found = append(found, one(warn, "user namespaces", "raise user.max_user_namespaces, and set "+
			"kernel.unprivileged_userns_clone=1 or kernel.apparmor_restrict_unprivileged_userns=0 where the kernel has them",
			"allow_user_namespaces is set, but user namespaces cannot be made: %v", err)...)
	default:
		found = append(found, one(note, "user namespaces", "", "user namespaces cannot be made (%v); Rota itself does not "+
			"need them", err)...)
	}
	return found
}

// criuProgram tries CRIU if the node saves containers with it. Only root can try it.
func (in *inspection) criuProgram(ctx context.Context) []finding {
	n := in.settings.node
	if n == nil || n.Criu == nil || !*n.Criu {
		return nil
	}
	const name = "criu"
	if in.uid != 0 {
		return one(note, name, "run this command as root", "only root can test this")
	}
	path, version, err := in.system.criu(ctx, value(n.CriuProgram, ""))
	if err != nil {
		return one(warn, name, "install CRIU "+requirements.CriuLeast+" or later, or name it with criu_program",
			"criu is set, but: %v", err)
	}
	return fine(name, "%s is CRIU %s; the service's unit must permit what CRIU does: see docs/operating.md", path, version)
}

func (in *inspection) seccomp(context.Context) []finding {
	if !in.forNode() {
		return nil
	}
	if !strings.Contains(in.text("/proc/self/status"), "\nSeccomp:") {
		return one(bad, "seccomp", "use a kernel with CONFIG_SECCOMP", "the kernel has no filters of system calls")
	}
	actions := in.text("/proc/sys/kernel/seccomp/actions_avail")
	if actions != "" && !strings.Contains(" "+actions+" ", " errno ") {
		return one(bad, "seccomp", "use a kernel with CONFIG_SECCOMP_FILTER", "filters cannot refuse system calls: the "+
			"kernel has only the actions %q", actions)
	}
	return fine("seccomp", "system calls can be filtered")
}

// keyrings requests a session keyring, as every container launch does.
func (in *inspection) keyrings(context.Context) []finding {
	if !in.forNode() {
		return nil
	}
	switch err := in.keyring(); {
	case err == nil:
		return fine("keyrings", "a session keyring can be made")
	case errors.Is(err, unix.ENOSYS):
		return fine("keyrings", "the kernel does not support them, and Rota does not need them")
	case errors.Is(err, unix.EDQUOT):
		return one(warn, "keyrings", "raise kernel.keys.maxkeys (kernel.keys.root_maxkeys for root)",
			"a session keyring cannot be made: the quota of keys is used up")
	default:
		return one(bad, "keyrings", "this machine is a container: permit the system calls keyctl, add_key and request_key "+
			"in it, in systemd-nspawn by --system-call-filter=\"keyctl add_key request_key\", in Docker by another seccomp "+
			"profile",
			"a session keyring cannot be made (%v): each job would end with BOOT_FAIL", err)
	}
}

// security reports machine settings that limit what users and daemons can see.
func (in *inspection) security(context.Context) []finding {
	var found []finding
	if in.text("/sys/fs/selinux/enforce") == "1" {
		found = append(found, one(note, "selinux", "if a container cannot read a file, see ausearch -m avc",
			"SELinux is enforcing; Rota sets no labels")...)
	}
	for _, m := range in.mounts() {
		if m.target == "/proc" && strings.Contains(m.options, "hidepid=") && !strings.Contains(m.options, "hidepid=0") {
			found = append(found, one(note, "hidepid", "", "/proc hides processes of other users; daemons of root see "+
				"them all")...)
		}
	}
	return found
}

func (in *inspection) swap(context.Context) []finding {
	lines := strings.Split(in.text("/proc/swaps"), "\n")
	if len(lines) < 2 || !in.forNode() {
		return nil
	}
	return one(note, "swap", "swapoff -a, if jobs need steady speed", "%d swap areas are in use; jobs get no swap where "+
		"the kernel can limit it", len(lines)-1)
}

// slurm reports a running Slurm node daemon.
func (in *inspection) slurm(context.Context) []finding {
	if !in.forNode() || len(in.processes("slurmd")) == 0 {
		return nil
	}
	return one(note, "slurm", "let only one of them use this node: drain it in the other",
		"slurmd runs here: Slurm and Rota would both use the same cores and GPUs")
}
