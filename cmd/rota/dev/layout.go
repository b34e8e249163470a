package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/controld/api/pki"
)

// portsEach is how many ports a controller has: plain HTTP for users, Raft, gossip and HTTPS, in
// this order.
const portsEach = 4

// maxSocketPath is the longest path of a unix socket, in bytes.
const maxSocketPath = 104

// devLayout is the directory of a cluster, with the addresses of its daemons.
type devLayout struct {
	dir    string
	made   bool   // rota dev created it, in this run or an earlier one, and removes it
	id     string // identifies the directory in the names of cgroups
	bin    string // directory of the daemons' programs
	addr   string
	lock   *os.File
	record devRecord

	commandProcess *os.Process // of COMMAND, once it runs
}

// devRecord is stored in the directory, so that a later run uses the same ports and knows what an
// earlier run left.
type devRecord struct {
	Made        bool  `json:"made"`
	Keep        bool  `json:"keep"`
	Controllers int   `json:"controllers"`
	Nodes       int   `json:"nodes"`
	Ports       []int `json:"ports"` // four for each controller, then one for each node
}

func (l *devLayout) path(name string) string { return filepath.Join(l.dir, name) }

// openDev locks the directory, removes what a killed run left, and writes the record.
func openDev(o devOptions) (devLayout, error) {
	l := devLayout{dir: o.dir}
	exe, err := os.Executable()
	if err != nil {
		return l, fmt.Errorf("find this program: %w", err)
	}
	l.bin = filepath.Dir(exe)
	if err := l.findPrograms(); err != nil {
		return l, err
	}
	l.id = fmt.Sprintf("dev-%08x", hashOf(o.dir))
	if err := l.lockDir(); err != nil {
		return l, err
	}
	if err := l.prepare(o); err != nil {
		l.undoLock()
		return l, err
	}
	return l, nil
}

// hashOf returns a hash of parts, written one after the other.
func hashOf(parts ...any) uint32 {
	sum := fnv.New32a()
	fmt.Fprint(sum, parts...)
	return sum.Sum32()
}

func (l *devLayout) findPrograms() error {
	for _, name := range []string{"rota-controld", "rota-noded", "rota-shim", "rota-init"} {
		if _, err := exec.LookPath(filepath.Join(l.bin, name)); err != nil {
			return fmt.Errorf("%s is not beside the rota program in %s: build it with \"make build\"", name, l.bin)
		}
	}
	return nil
}

// devLockWait is how long another process may hold the lock. A killed process releases it only when
// the kernel has freed its memory, and an ending one first removes the directory.
const devLockWait = 2 * time.Second

// lockDir creates the directory if needed, and locks it.
func (l *devLayout) lockDir() error {
	for deadline := time.Now().Add(devLockWait); ; time.Sleep(devPoll) {
		err := l.tryLock()
		if err == nil || !errors.Is(err, errDevRuns) && !errors.Is(err, errDevGone) || time.Now().After(deadline) {
			return err
		}
	}
}

// Errors that may disappear within devLockWait.
var (
	errDevRuns = errors.New("a dev cluster is already running")                   // another process holds the lock
	errDevGone = errors.New("another dev cluster has just removed the directory") // it was removed before it was locked
)

// tryLock is lockDir without waiting.
func (l *devLayout) tryLock() error {
	if err := os.Mkdir(l.dir, 0o755); err == nil {
		l.made = true
		err := os.Chmod(l.dir, 0o755) // independent of the umask: users pass through to the socket
		if errors.Is(err, fs.ErrNotExist) {
			return errDevGone
		}
		if err != nil {
			return fmt.Errorf("set the mode of the dev directory: %w", err)
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the dev directory: %w", err)
	}
	f, err := os.OpenFile(l.path("lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return errDevGone
	}
	if err != nil {
		return fmt.Errorf("lock the dev directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		pid, _ := os.ReadFile(l.path("lock"))
		f.Close()
		return fmt.Errorf("%w in %s (process %s): stop it, or choose another --dir", errDevRuns, l.dir,
			strings.TrimSpace(string(pid)))
	}
	if !isAt(f, l.path("lock")) {
		f.Close()
		return errDevGone
	}
	if err := f.Truncate(0); err == nil {
		fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	l.lock = f
	return nil
}

// isAt reports whether path still is the open file f.
func isAt(f *os.File, path string) bool {
	ours, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(ours, there)
}

// prepare removes what an earlier run left, and chooses ports.
func (l *devLayout) prepare(o devOptions) error {
	old, err := l.readRecord()
	if err != nil {
		return err
	}
	if err := l.removeStrays(max(o.nodes, old.Nodes)); err != nil {
		return fmt.Errorf("remove what an earlier run left: %w", err)
	}
	made := l.made || old.Made
	if old.Controllers > 0 && !old.Keep {
		l.removeContents()
		old = devRecord{}
	}
	if old.Controllers > 0 && old.Controllers != o.controllers {
		return exit.Usagef("%s keeps a cluster of %d controllers: start it with --controllers %d, or remove the directory",
			l.dir, old.Controllers, old.Controllers)
	}
	l.record = devRecord{Made: made, Keep: o.keep, Controllers: o.controllers, Nodes: o.nodes}
	if l.record.Ports, err = l.choosePorts(old, portsEach*o.controllers+o.nodes); err != nil {
		return err
	}
	l.addr = l.address(o.controllers)
	if err := l.makeDirs(o); err != nil {
		return err
	}
	if err := l.linkSlurm(o.slurm); err != nil {
		return err
	}
	if err := l.makeMembers(o); err != nil {
		return err
	}
	if err := l.writeRecord(); err != nil {
		return err
	}
	l.made = made // not before: what an earlier run has kept stays if this one does not start
	return nil
}

// readRecord returns the record of the last run, an empty one if there is none.
func (l *devLayout) readRecord() (r devRecord, err error) {
	b, err := os.ReadFile(l.path("dev.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("read the dev directory's record: %w", err)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("cannot read %s: %w; remove the directory if you do not need it", l.path("dev.json"), err)
	}
	return r, nil
}

func (l *devLayout) writeRecord() error {
	b, err := json.Marshal(l.record)
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.path("dev.json"), append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the dev directory's record: %w", err)
	}
	return nil
}

// Ports of a dev cluster are below the kernel's range for outgoing connections. Daemons listen on
// ports from devPortsLow. Each node has a block of ports for its jobs' MASTER_PORT, from
// devJobPortsLow, because the nodes share one machine.
const (
	devPortsLow    = 10000
	devJobPortsLow = 20000
	devJobBlock    = 100
	devJobBlocks   = 120
)

// choosePorts returns the ports of an earlier run, which the raft log contains, or free ones.
func (l *devLayout) choosePorts(old devRecord, n int) ([]int, error) {
	ports := slices.Clone(old.Ports[:min(portsEach*old.Controllers, len(old.Ports))])
	for _, p := range ports {
		if !portFree(p) {
			return nil, fmt.Errorf("port %d of the cluster kept in %s is used by another program", p, l.dir)
		}
	}
	next := devPortsLow + int(hashOf(l.dir, os.Getpid())%(devJobPortsLow-devPortsLow))
	for tries := 0; len(ports) < n; tries++ {
		if tries > 5000 {
			return nil, fmt.Errorf("no %d free ports between %d and %d", n, devPortsLow, devJobPortsLow)
		}
		if next++; next >= devJobPortsLow {
			next = devPortsLow
		}
		if portFree(next) {
			ports = append(ports, next)
		}
	}
	return ports, nil
}

// jobPorts returns a node's range for MASTER_PORT. Blocks of one cluster never overlap; those of
// two clusters on a machine rarely do, because the directory's hash chooses the first block.
func (l *devLayout) jobPorts(node int) string {
	low := devJobPortsLow + devJobBlock*((int(hashOf(l.dir)%devJobBlocks)+node)%devJobBlocks)
	return fmt.Sprintf("%d-%d", low, low+devJobBlock-1)
}

// portFree reports whether a port of the loopback address is free for TCP and UDP.
func portFree(port int) bool {
	at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	tcp, err := net.Listen("tcp", at)
	if err != nil {
		return false
	}
	tcp.Close()
	udp, err := net.ListenPacket("udp", at)
	if err != nil {
		return false
	}
	udp.Close()
	return true
}

func (l *devLayout) local(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(l.record.Ports[port]))
}

func controllerName(i int) string { return "c" + strconv.Itoa(i+1) }

func nodeName(i int) string { return "n" + strconv.Itoa(i+1) }

// address returns the value of ROTA_ADDR: the sockets of the controllers, or their ports if the
// path is too long.
func (l *devLayout) address(controllers int) string {
	addrs := make([]string, controllers)
	for i := range addrs {
		socket := l.path(controllerName(i) + ".sock")
		if len(socket) > maxSocketPath {
			addrs[i] = "http://" + l.local(portsEach*i)
		} else {
			addrs[i] = "unix:" + socket
		}
	}
	return strings.Join(addrs, ",")
}

func (l *devLayout) makeDirs(o devOptions) error {
	dirs := map[string]os.FileMode{"log": 0o755, "shared": 0o1777}
	for i := range o.controllers {
		dirs[controllerName(i)] = 0o700
	}
	for i := range o.nodes {
		dirs[nodeName(i)] = 0o700
	}
	for name, mode := range dirs {
		if err := os.MkdirAll(l.path(name), 0o755); err != nil {
			return fmt.Errorf("make the dev directory: %w", err)
		}
		if mode&0o1000 != 0 {
			mode = mode&0o777 | os.ModeSticky
		}
		if err := os.Chmod(l.path(name), mode); err != nil {
			return fmt.Errorf("make the dev directory: %w", err)
		}
	}
	return nil
}

// slurmDir is the folder with links under Slurm's names.
const slurmDir = "slurm"

// linkSlurm makes links to this program under Slurm's names, and removes those of an earlier run.
func (l *devLayout) linkSlurm(names []string) error {
	if err := os.RemoveAll(l.path(slurmDir)); err != nil || len(names) == 0 {
		return err
	}
	exe, err := os.Executable()
	if err == nil {
		err = os.Mkdir(l.path(slurmDir), 0o755)
	}
	for _, name := range names {
		if err == nil {
			err = os.Symlink(exe, filepath.Join(l.path(slurmDir), name))
		}
	}
	if err != nil {
		return fmt.Errorf("link Slurm's commands: %w", err)
	}
	return nil
}

// makeMembers gives every daemon its certificate. All of them run on this machine, so no token is
// needed: the first controller's authority signs.
func (l *devLayout) makeMembers(o devOptions) error {
	var seeds []string
	for i := range o.controllers {
		seeds = append(seeds, l.local(portsEach*i+2))
	}
	first := pki.Dir(l.path(controllerName(0)))
	if _, err := pki.Load(first); errors.Is(err, pki.ErrNoCredential) {
		if _, err := pki.Init(first, controllerName(0)); err != nil {
			return fmt.Errorf("make the cluster: %w", err)
		}
	}
	signer, err := pki.Load(first)
	if err != nil {
		return fmt.Errorf("make the cluster: %w", err)
	}
	for i := 1; i < o.controllers; i++ {
		if err := signer.Issue(pki.Dir(l.path(controllerName(i))), pki.Controller, controllerName(i), seeds); err != nil {
			return fmt.Errorf("certificate of %s: %w", controllerName(i), err)
		}
	}
	for i := range o.nodes {
		if err := signer.Issue(pki.Dir(l.path(nodeName(i))), pki.Node, nodeName(i), seeds); err != nil {
			return fmt.Errorf("certificate of %s: %w", nodeName(i), err)
		}
	}
	return nil
}

// daemonSpec says how to start a daemon.
type daemonSpec struct {
	name    string
	program string
	args    []string
}

// specs returns the daemons, controllers first. They run in the directory, so that the paths of
// their sockets are short.
func (l *devLayout) specs(o devOptions) []daemonSpec {
	var specs []daemonSpec
	for i := range o.controllers {
		name := controllerName(i)
		args := []string{"--name", name, "--data-dir", l.path(name),
			"--loopback-http", l.local(portsEach * i), "--raft", l.local(portsEach*i + 1),
			"--gossip", l.local(portsEach*i + 2), "--http", l.local(portsEach*i + 3), "--socket", name + ".sock",
			"--root-jobs-as", o.jobsAs}
		if o.config != "" {
			args = append(args, "--config", o.config)
		}
		specs = append(specs, daemonSpec{name: name, program: "rota-controld", args: args})
	}
	for i := range o.nodes {
		specs = append(specs, l.nodeSpec(o, i))
	}
	return specs
}

func (l *devLayout) nodeSpec(o devOptions, i int) daemonSpec {
	name := nodeName(i)
	args := []string{"--name", name, "--data-dir", l.path(name), "--gossip", l.local(portsEach*o.controllers + i),
		"--socket", name + ".sock", "--cgroup-root", l.cgroupRoot(i), "--ports", l.jobPorts(i), "--shared-path", o.from}
	if !strings.HasPrefix(l.dir+"/", o.from+"/") {
		args = append(args, "--shared-path", l.path("shared"))
	}
	if o.simGPUs > 0 {
		args = append(args, "--sim-gpus", strconv.Itoa(o.simGPUs))
	}
	if cores := nodeCores(o, runtime.NumCPU()); cores > 0 {
		args = append(args, "--cores", strconv.Itoa(cores))
	}
	if o.memory != "" {
		args = append(args, "--memory", o.memory)
	} else if mib := nodeMemory(o.nodes); mib > 0 {
		args = append(args, "--memory", strconv.Itoa(mib)+"MiB")
	}
	return daemonSpec{name: name, program: "rota-noded", args: args}
}

func (l *devLayout) cgroupRoot(node int) string { return "/rota/" + l.id + "-" + nodeName(node) }

// nodeCores returns the cores of each node; 0 lets a single node use the whole machine.
func nodeCores(o devOptions, machine int) int {
	if o.cores > 0 || o.nodes == 1 {
		return o.cores
	}
	return max(1, machine/o.nodes)
}

// nodeMemory returns the memory of each node in MiB, from 90 % of the machine's; 0 lets a single
// node use the whole machine.
func nodeMemory(nodes int) int {
	var info syscall.Sysinfo_t
	if nodes == 1 || syscall.Sysinfo(&info) != nil {
		return 0
	}
	return int(info.Totalram * uint64(info.Unit) * 9 / 10 >> 20 / uint64(nodes))
}

// undoLock undoes lockDir if the cluster does not start.
func (l *devLayout) undoLock() {
	if l.made {
		_ = l.removeDir() // the first error is reported
	}
	l.lock.Close()
}

// removeContents removes what rota dev wrote into the directory. Results of jobs in shared stay.
func (l *devLayout) removeContents() {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if l.isGenerated(e.Name()) {
			_ = os.RemoveAll(l.path(e.Name())) // the next run removes what stays
		}
	}
	_ = os.Remove(l.path("shared")) // fails unless empty
}

func (l *devLayout) isGenerated(name string) bool {
	switch name {
	case "addr", "dev.json", "log", slurmDir:
		return true
	}
	base := strings.TrimSuffix(name, ".sock")
	_, err := strconv.Atoi(strings.TrimLeft(base, "cn"))
	return err == nil && (base[0] == 'c' || base[0] == 'n')
}
