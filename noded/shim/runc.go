package shim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	_ "github.com/opencontainers/cgroups/devices" // without it device rules are refused
	devices "github.com/opencontainers/cgroups/devices/config"
	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/configs"
	"github.com/opencontainers/runc/libcontainer/specconv"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api/clock"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/oci/launch"
	"github.com/rota-hpc/rota/noded/shim/criu"
	"github.com/rota-hpc/rota/noded/shim/keyring"
	"github.com/rota-hpc/rota/noded/shim/oom"
	"github.com/rota-hpc/rota/noded/shim/output"
	"github.com/rota-hpc/rota/noded/shim/session"
)

// lastSignal is the highest number of a signal.
const lastSignal = 64

// The descriptors at which rota-init finds its sockets: to this shim, and for the files of ranks.
const (
	channelFD = 3
	filesFD   = 4
)

// runcContainer is a container as libcontainer knows it.
type runcContainer struct {
	dir     string
	inner   *libcontainer.Container
	process *libcontainer.Process
	pid     int
	cgroup  string            // below every hierarchy
	cgroups map[string]string // directories by controller; "" with cgroup version 2
	kills   oom.Kills
	channel net.Conn // to rota-init: signals go out, the result comes back, and closing it ends the container
	results chan launch.Result
	io      *session.Session // of the ranks; nil: their output goes to files

	detaching bool          // rota-init was told to close the channel, or never had it
	detached  chan struct{} // closed when it has done so
	unborn    bool          // it goes on from an image, and is not restored yet
	restoring bool          // CRIU is at it, or has been
	pending   []unix.Signal // from before it was restored

	// The result of rota-init, see [launch.Result]. They are read when results was read to its end.
	executed     bool // a rank was executed, or is about to be
	endedUnasked bool // the ranks had ended before a stop reached them

	endOnce sync.Once
	ended   chan struct{} // closed when the first process has ended
	waited  *os.ProcessState
	waitErr error
}

// newContainer creates the container of the bundle in dir; its command waits for start. The
// container joins the IPC namespace at the path ipc, unless that is empty. Its ranks read and write in
// the session, unless that is nil.
func newContainer(dir, name string, out *output.Logs, ipc string, session *session.Session) (*runcContainer, error) {
	b, spec, err := prepareContainer(dir, name, ipc)
	if err != nil {
		return nil, err
	}
	b.io = session
	if err := b.launch(spec.Process, out); err != nil {
		b.discard()
		return nil, explainCgroupError(err)
	}
	return b, nil
}

// newRestored prepares a container that is to go on from an image. It has no process before that.
func newRestored(dir, name string) (*runcContainer, error) {
	b, _, err := prepareContainer(dir, name, "")
	if err != nil {
		return nil, err
	}
	b.unborn, b.detaching = true, true
	close(b.detached)
	close(b.results)
	return b, nil
}

func prepareContainer(dir, name, ipc string) (*runcContainer, *specs.Spec, error) {
	spec, err := readSpec(dir)
	if err != nil {
		return nil, nil, err
	}
	for i := range spec.Linux.Namespaces {
		if n := &spec.Linux.Namespaces[i]; n.Type == specs.IPCNamespace {
			n.Path = ipc
		}
	}
	config, err := specconv.CreateLibcontainerConfig(&specconv.CreateOpts{CgroupName: name, Spec: spec,
		NoNewKeyring: !keyring.Allowed()})
	if err != nil {
		return nil, nil, fmt.Errorf("container spec: %w", err)
	}
	adaptToMachine(config)
	config.Labels = append(config.Labels, "org.criu.config="+criu.ConfigPath(container.StateDir(dir)))
	state := container.StateDir(dir)
	if err := os.RemoveAll(state); err != nil { // left by a shim that was killed while it created the same container
		return nil, nil, fmt.Errorf("clear container state: %w", err)
	}
	b := &runcContainer{dir: dir, results: make(chan launch.Result, 1), ended: make(chan struct{}),
		detached: make(chan struct{})}
	if b.inner, err = libcontainer.Create(state, name, config); err != nil {
		return nil, nil, explainCgroupError(err)
	}
	score := ownScore()
	if config.OomScoreAdj != nil {
		score = *config.OomScoreAdj
	}
	b.kills.Open(score)
	return b, spec, nil
}

func readSpec(dir string) (*specs.Spec, error) {
	raw, err := os.ReadFile(container.ConfigPath(dir))
	if err != nil {
		return nil, fmt.Errorf("read container spec: %w", err)
	}
	spec := &specs.Spec{}
	if err := json.Unmarshal(raw, spec); err != nil {
		return nil, fmt.Errorf("container spec is damaged: %w", err)
	}
	if spec.Process == nil || spec.Root == nil || spec.Linux == nil || len(spec.Process.Args) == 0 {
		return nil, errors.New("container spec lacks process, root or linux")
	}
	return spec, nil
}

// adaptToMachine lowers requests that this machine cannot meet, and removes a device that specconv
// always allows.
func adaptToMachine(config *configs.Config) {
	if score := ownScore(); config.OomScoreAdj != nil && *config.OomScoreAdj < score {
		config.OomScoreAdj = &score // lowering needs CAP_SYS_RESOURCE
	}
	resources := config.Cgroups.Resources
	const tunMajor, tunMinor = 10, 200
	resources.Devices = slices.DeleteFunc(resources.Devices, func(rule *devices.Rule) bool {
		return rule.Major == tunMajor && rule.Minor == tunMinor // jobs are not granted network devices
	})
}

// ownScore returns the oom_score_adj of this process.
func ownScore() int {
	own, _ := os.ReadFile("/proc/self/oom_score_adj") // 0 on a machine without it
	score, _ := strconv.Atoi(strings.TrimSpace(string(own)))
	return score
}

// explainCgroupError adds advice to the error that operators meet most.
func explainCgroupError(err error) error {
	var path *os.PathError
	if errors.As(err, &path) && strings.HasPrefix(path.Path, "/sys/fs/cgroup") {
		return fmt.Errorf("cannot use cgroups: the node daemon must run as root and /sys/fs/cgroup must be "+
			"writable: %w", err)
	}
	return err
}

// launch starts libcontainer's init, which waits before it executes the command.
func (c *runcContainer) launch(p *specs.Process, out *output.Logs) error {
	ours, theirs, err := container.SocketPair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	c.channel = ours
	if c.process, err = newProcess(p); err != nil {
		return err
	}
	c.process.ExtraFiles = []*os.File{theirs}
	c.process.Env = append(slices.Clone(p.Env), fmt.Sprintf("%s=%d", launch.ChannelEnv, channelFD))
	c.process.Stdout, c.process.Stderr = out.Stdout, out.Stderr
	if c.io != nil {
		files, rotaInits, err := session.SocketForFiles()
		if err != nil {
			return err
		}
		defer rotaInits.Close()
		c.process.ExtraFiles = append(c.process.ExtraFiles, rotaInits)
		c.process.Env = append(c.process.Env, fmt.Sprintf("%s=%d", launch.FilesEnv, filesFD))
		defer func() { go session.ReceiveRanks(files, c.io) }() // at its end if the container was not started
	}
	if err := c.inner.Start(c.process); err != nil {
		return err
	}
	out.CloseContainerEnds()
	if err := c.noteProcess(); err != nil {
		return err
	}
	go c.listen()
	go c.wait()
	return nil
}

// noteProcess notes the first process and the cgroups of a container that has one.
func (c *runcContainer) noteProcess() error {
	var err error
	if c.pid, err = c.process.Pid(); err != nil {
		return err
	}
	state, err := c.inner.State()
	if err != nil {
		return err
	}
	c.cgroup, c.cgroups = c.inner.Config().Cgroups.Path, state.CgroupPaths
	c.kills.Watch(c.cgroup, c.cgroups)
	return nil
}

func newProcess(p *specs.Process) (*libcontainer.Process, error) {
	lp := &libcontainer.Process{
		Args: p.Args, Cwd: p.Cwd, UID: int(p.User.UID), GID: int(p.User.GID), NoNewPrivileges: &p.NoNewPrivileges,
		Init: true,
	}
	for _, gid := range p.User.AdditionalGids {
		lp.AdditionalGroups = append(lp.AdditionalGroups, int(gid))
	}
	if c := p.Capabilities; c != nil {
		lp.Capabilities = &configs.Capabilities{
			Bounding: c.Bounding, Effective: c.Effective, Permitted: c.Permitted, Inheritable: c.Inheritable,
			Ambient: c.Ambient,
		}
	}
	var err error
	lp.Rlimits, err = rlimits(p.Rlimits)
	return lp, err
}

// listen waits for the result that rota-init sends when the worker is done, unless it detaches before.
func (c *runcContainer) listen() {
	defer close(c.results)
	lines := bufio.NewReader(c.channel)
	for {
		line, err := lines.ReadBytes('\n')
		var r launch.Result
		switch {
		case err != nil || json.Unmarshal(line, &r) != nil:
			return
		case r.Rank != nil && c.io != nil:
			c.io.TaskEnded(uint32(*r.Rank), stream.StepTaskExit{Code: r.Code, Signal: r.Signal, OOM: c.kills.Any()})
		case r.Begun:
			c.executed = true
		case r.Detached:
			close(c.detached)
			return
		default:
			c.endedUnasked = !r.Asked
			c.results <- r
			return
		}
	}
}

func (c *runcContainer) wait() {
	c.waited, c.waitErr = c.process.Wait()
	c.endOnce.Do(func() { close(c.ended) })
}

func (c *runcContainer) start() error {
	if err := c.inner.Exec(); err != nil {
		return fmt.Errorf("start the command: %w", err)
	}
	return nil
}

// signal passes a signal on through rota-init, which keeps it until the command runs, to some of its
// processes ("": as rota-init does).
func (c *runcContainer) signal(s unix.Signal, to string) error {
	if s == unix.SIGKILL {
		return c.kill()
	}
	return c.sendOrder(s, launch.Order{Signal: int(s), To: to})
}

// stop is signal for one that asks the container to end, so that its end says whether it was asked before.
func (c *runcContainer) stop(s unix.Signal, to string) error {
	if s == unix.SIGKILL {
		return c.kill()
	}
	return c.sendOrder(s, launch.Order{Signal: int(s), To: to, Stop: true})
}

// signalRank passes a signal on to one rank, or to all. A kill of one rank leaves the others.
func (c *runcContainer) signalRank(task uint32, s unix.Signal) {
	o := launch.Order{Signal: int(s)}
	if task != stream.AllTasks {
		rank := int(task)
		o.Rank = &rank
	}
	_ = c.sendOrder(s, o) // it may have ended
}

func (c *runcContainer) sendOrder(s unix.Signal, o launch.Order) error {
	if c.unborn {
		c.pending = append(c.pending, s)
		return nil
	}
	if c.detaching {
		go c.signalDetached(c.inner, s)
		return nil
	}
	line, _ := json.Marshal(o)                                   // numbers and a word
	_ = c.channel.SetWriteDeadline(time.Now().Add(sendPatience)) // a socket can have one
	_, err := c.channel.Write(append(line, '\n'))
	if errors.Is(err, unix.EPIPE) {
		return nil // it has just ended
	}
	return err
}

// signalDetached signals rota-init by the kernel, once it expects that.
func (c *runcContainer) signalDetached(inner *libcontainer.Container, s unix.Signal) {
	select {
	case <-c.detached:
		_ = inner.Signal(s) // it may have ended
	case <-c.ended:
	}
}

// kill ends the first process. The kernel then ends all others.
func (c *runcContainer) kill() error {
	switch {
	case c.unborn && c.restoring:
		go c.killRestoring(c.inner)
		return nil
	case c.unborn:
		c.giveUp()
		return nil
	}
	err := c.inner.Signal(unix.SIGKILL)
	if errors.Is(err, libcontainer.ErrNotRunning) || errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// freeze stops all processes of the container where they are, and returns when they stand still.
func (c *runcContainer) freeze() error { return c.inner.Pause() }

// thaw lets them run.
func (c *runcContainer) thaw() error { return c.inner.Resume() }

// processes returns the ids of all processes of the container, as the machine counts them.
func (c *runcContainer) processes() ([]int, error) { return c.inner.Processes() }

// setCores binds the container to other cores, written as the kernel does.
func (c *runcContainer) setCores(cores string) error {
	config := c.inner.Config()
	limits, resources := *config.Cgroups, *config.Cgroups.Resources
	resources.CpusetCpus = cores
	limits.Resources = &resources
	config.Cgroups = &limits
	return c.inner.Set(config)
}

// exit returns the exit record of an ended container. It must be called before the cgroup is
// removed.
func (c *runcContainer) exit() container.Exit {
	e := container.Exit{Ended: clock.Wall().UnixMilli(), PeakMem: peakMemory(c.cgroups["memory"], c.cgroups[""])}
	if c.waited != nil {
		status, _ := c.waited.Sys().(syscall.WaitStatus)
		e.Code, e.Signal = max(status.ExitStatus(), 0), 0
		if status.Signaled() {
			e.Code, e.Signal = 0, int(status.Signal())
		}
		e.UserMS, e.SystemMS = c.waited.UserTime().Milliseconds(), c.waited.SystemTime().Milliseconds()
		if e.PeakMem == 0 {
			e.PeakMem = session.LargestProcess(c.waited)
		}
	}
	if r, ok := <-c.results; ok {
		e.Code, e.Signal, c.executed = r.Code, r.Signal, true
	} else if n := e.Code - 128; c.detaching && n > 0 && n <= lastSignal {
		e.Signal = n // as rota-init says it without a channel
	}
	countTime(&e, c.cgroup)
	if c.waited == nil {
		e.Signal = int(unix.SIGKILL) // it never had a process
	}
	if e.Signal != 0 {
		e.Code = 0
	}
	e.Killed = c.kills.Text()
	e.OOM = e.Killed != ""
	return e
}

// countTime takes the processor time of a cgroup, which includes processes that nothing waited for.
// It keeps the known time if that is more: a restored container has a new cgroup.
func countTime(e *container.Exit, cgroup string) {
	used, err := container.UsedBy(cgroup)
	if cpu := used.CPU.Milliseconds(); err == nil && cpu > e.UserMS+e.SystemMS {
		e.SystemMS = min(max(e.SystemMS, used.System.Milliseconds()), cpu)
		e.UserMS = cpu - e.SystemMS
	}
}

// peakMemory returns the most memory, in bytes, that a cgroup has used, 0 if that is not known. The
// arguments are its directories in the memory hierarchy of version 1 and in version 2; only one of
// them exists.
func peakMemory(v1, v2 string) int64 {
	for _, file := range []string{filepath.Join(v1, "memory.max_usage_in_bytes"), filepath.Join(v2, "memory.peak")} {
		if raw, err := os.ReadFile(file); err == nil {
			n, _ := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
			return n
		}
	}
	return 0
}

// destroy removes the cgroup and libcontainer's state.
func (c *runcContainer) destroy() error {
	c.kills.Close()
	if c.channel != nil {
		c.channel.Close()
	}
	if err := c.inner.Destroy(); err != nil {
		return fmt.Errorf("tear down the container: %w", err)
	}
	return os.RemoveAll(container.StateDir(c.dir))
}

// discard ends a container that could not be created completely.
func (c *runcContainer) discard() {
	if c.pid != 0 {
		_ = c.kill() // the daemon sweeps the cgroup for what is left
		<-c.ended
	}
	c.kills.Close()
	_ = c.inner.Destroy()
	_ = os.RemoveAll(container.StateDir(c.dir))
}
