package lab

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Room is a set of machines that boot systemd, each a systemd-nspawn container of a Debian root.
// They are on one network that is not connected to anything else. Packages are installed and tried
// there, as on real machines.
type Room struct {
	Dir      string // everything lies below it
	Machines []*Machine
	nets     *network
	cgroup   string
}

// Machine is one machine of a room.
type Machine struct {
	Name string
	IP   string
	Root string // its file system, as the host sees it
	host *host
	dir  string
	cmd  *exec.Cmd
	init int // its process 1, as the host numbers it
}

// rootPackages are what a machine has beside the smallest Debian.
const rootPackages = "systemd,systemd-sysv,dbus,iproute2,libseccomp2,procps,sudo"

// DebianRoot makes a Debian system in dir by debootstrap, from the mirror that this machine's own
// packages come from, unless it is there already.
func DebianRoot(ctx context.Context, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "bin", "systemctl")); err == nil {
		return nil
	}
	mirror, suite, err := mirrorOfHost()
	if err != nil {
		return err
	}
	part := dir + ".part"
	if err := errors.Join(os.RemoveAll(part), os.MkdirAll(filepath.Dir(dir), 0o755)); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "debootstrap", "--variant=minbase", "--include="+rootPackages, suite, part,
		mirror).CombinedOutput()
	if err != nil {
		return fmt.Errorf("debootstrap %s: %w: %s", suite, err, lastLines(out, 5))
	}
	return os.Rename(part, dir)
}

// mirrorOfHost returns where apt of this machine gets Debian from, and which release.
func mirrorOfHost() (mirror, suite string, err error) {
	out, err := exec.Command("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)",
		"Created-By: Packages", "Component: main").Output()
	if err != nil {
		return "", "", fmt.Errorf("ask apt for its mirror: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if at, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && !strings.Contains(name, "-") {
			return at, name, nil
		}
	}
	return "", "", errors.New("apt on this machine has no mirror of Debian")
}

// OpenRoom boots a machine for each name, from copies of the system in base. Close must be called
// also after an error.
func OpenRoom(ctx context.Context, base, dir string, names ...string) (*Room, error) {
	r := &Room{Dir: dir, cgroup: fmt.Sprintf("/rota-lab-%d-%d", os.Getpid(), time.Now().UnixNano()%1e6)}
	var err error
	if r.nets, err = newNetwork(ctx, len(names)); err != nil {
		return r, err
	}
	for i, name := range names {
		m := &Machine{Name: name, host: r.nets.hosts[i], IP: r.nets.hosts[i].ip, dir: filepath.Join(dir, name)}
		m.Root = filepath.Join(m.dir, "root")
		r.Machines = append(r.Machines, m)
	}
	for _, m := range r.Machines {
		if err := errors.Join(m.mount(base), r.introduce(m)); err != nil {
			return r, fmt.Errorf("machine %s: %w", m.Name, err)
		}
		if err := r.boot(m); err != nil {
			return r, fmt.Errorf("machine %s: %w", m.Name, err)
		}
	}
	for _, m := range r.Machines {
		if err := m.untilBooted(ctx); err != nil {
			return r, fmt.Errorf("machine %s: %w", m.Name, err)
		}
	}
	return r, nil
}

// mount gives the machine a file system over the one in base.
func (m *Machine) mount(base string) error {
	upper, work := filepath.Join(m.dir, "upper"), filepath.Join(m.dir, "work")
	if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755), os.MkdirAll(m.Root, 0o755)); err != nil {
		return err
	}
	return unix.Mount("overlay", m.Root, "overlay", 0, "lowerdir="+base+",upperdir="+upper+",workdir="+work)
}

// noRecommends is a setting of apt: a machine alone cannot fetch what packages recommend.
const noRecommends = "APT::Install-Recommends \"false\";\n"

// introduce gives a machine the names of all.
func (r *Room) introduce(m *Machine) error {
	text := "127.0.0.1 localhost\n"
	for _, other := range r.Machines {
		text += other.IP + " " + other.Name + "\n"
	}
	return errors.Join(os.WriteFile(filepath.Join(m.Root, "etc/hosts"), []byte(text), 0o644),
		os.WriteFile(filepath.Join(m.Root, "etc/hostname"), []byte(m.Name+"\n"), 0o644),
		os.WriteFile(filepath.Join(m.Root, "etc/apt/apt.conf.d/90alone"), []byte(noRecommends), 0o644),
		os.RemoveAll(filepath.Join(m.Root, "etc/machine-id")))
}

// boot starts the machine in cgroups of its own, so that its systemd sees nothing of others.
func (r *Room) boot(m *Machine) error {
	own := filepath.Join(r.cgroup, m.Name)
	var script strings.Builder
	for _, top := range hierarchies() {
		dir := top + own
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		inheritCpuset(top, own)
		fmt.Fprintf(&script, "echo $$ > %s/cgroup.procs\n", dir)
	}
	script.WriteString(`exec systemd-nspawn "$@"`)
	log, err := os.Create(filepath.Join(m.dir, "console"))
	if err != nil {
		return err
	}
	defer log.Close()
	m.cmd = exec.Command("sh", "-ec", script.String(), "nspawn", "--quiet", "--boot", "--directory="+m.Root,
		"--register=no", "--keep-unit", "--link-journal=no", "--console=pipe", "--machine="+m.Name,
		"--hostname="+m.Name, "--network-namespace-path=/run/netns/"+m.host.namespace)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return m.cmd.Start()
}

// hierarchies are the cgroup mounts of this machine: one with cgroup version 2, several with 1.
func hierarchies() []string {
	const mount = "/sys/fs/cgroup"
	if _, err := os.Stat(mount + "/cgroup.controllers"); err == nil {
		return []string{mount}
	}
	tops, _ := filepath.Glob(mount + "/*/cgroup.procs")
	for i, file := range tops {
		tops[i] = filepath.Dir(file)
	}
	return tops
}

// inheritCpuset lets processes into a new cgroup of the hierarchy of processors, which begins
// without any in version 1.
func inheritCpuset(top, below string) {
	path := top
	for part := range strings.SplitSeq(strings.Trim(below, "/"), "/") {
		path = filepath.Join(path, part)
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			if b, err := os.ReadFile(filepath.Join(filepath.Dir(path), file)); err == nil {
				_ = os.WriteFile(filepath.Join(path, file), b, 0o644) // the start of the machine says if it matters
			}
		}
	}
}

// bootPatience is how long a machine may take to boot.
const bootPatience = 3 * time.Minute

// untilBooted waits until systemd of the machine has started everything.
func (m *Machine) untilBooted(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootPatience)
	defer cancel()
	var state string
	for ctx.Err() == nil {
		if m.init == 0 {
			m.init = firstProcess(m.cmd.Process.Pid)
		}
		if m.init > 0 {
			out, _ := m.Run(ctx, "systemctl is-system-running --wait")
			if state = strings.TrimSpace(out); state == "running" || state == "degraded" {
				return m.unlockCgroups(ctx)
			}
		}
		pause(ctx, 100*time.Millisecond)
	}
	text, _ := os.ReadFile(filepath.Join(m.dir, "console"))
	return fmt.Errorf("it has not booted (state %q): %s", state, lastLines(text, 5))
}

// firstProcess returns the process below pid that is number 1 of its own PID namespace, or 0.
func firstProcess(pid int) int {
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for field := range strings.FieldsSeq(string(children)) {
		child, _ := strconv.Atoi(field)
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", child))
		for line := range strings.Lines(string(status)) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "NSpid:" && f[2] == "1" {
				return child
			}
		}
		if found := firstProcess(child); found > 0 {
			return found
		}
	}
	return 0
}

// unlockCgroups makes the hierarchies of version 1 writable, which systemd-nspawn mounts read-only.
func (m *Machine) unlockCgroups(ctx context.Context) error {
	if len(hierarchies()) == 1 {
		return nil
	}
	_, err := m.Run(ctx, `for dir in /sys/fs/cgroup/*; do
	if [ -e "$dir/cgroup.procs" ] && [ ! -h "$dir" ]; then mount -o remount,rw,bind "$dir"; fi
done`)
	return err
}

// Run runs a script of sh on the machine as root and returns what it printed. An error has the
// script's last lines.
func (m *Machine) Run(ctx context.Context, script string) (string, error) {
	cmd := exec.CommandContext(ctx, "nsenter", "--target", strconv.Itoa(m.init), "--all",
		"/usr/bin/env", "-i", "--chdir=/root", "HOME=/root", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "NO_COLOR=1",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "sh", "-eu", "-c", script)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("on %s: %s: %w: %s", m.Name, firstLine(script), err, lastLines(out, 20))
	}
	return string(out), nil
}

// Close ends all machines and removes what the room made outside its directory. Their file systems
// stay below it.
func (r *Room) Close() error {
	var errs []error
	for _, m := range r.Machines {
		if m.init > 0 {
			_ = unix.Kill(m.init, unix.SIGKILL) // and so everything on it
		}
		if m.cmd != nil && m.cmd.Process != nil {
			if m.init == 0 {
				_ = m.cmd.Process.Kill()
			}
			_ = m.cmd.Wait() // it was killed
		}
	}
	errs = append(errs, removeCgroups(r.cgroup))
	for _, m := range r.Machines {
		if err := unix.Unmount(m.Root, 0); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", m.Root, err))
		}
	}
	if r.nets != nil {
		errs = append(errs, r.nets.close())
	}
	return errors.Join(errs...)
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// lastLines returns the last n lines of text.
func lastLines(text []byte, n int) string {
	var lines []string
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
