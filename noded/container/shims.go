package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Config says where Shims keeps containers and what it runs for them.
type Config struct {
	Dir      string // has a directory for each container
	ShimPath string // of rota-shim
	Warm     int    // number of shims started in advance, to save their start-up time
	// CgroupRoot is the path below which shims get a cgroup of their own; "": they stay in the
	// daemon's.
	CgroupRoot string
	Log        *slog.Logger
	// KillPatience is how long a shim may take to carry out a kill; the default is 10 s. Then its
	// container is killed without it, and it has as long again to record the end.
	KillPatience time.Duration
}

// ErrUnknown is returned for a container that does not exist.
var ErrUnknown = errors.New("no such container")

// ErrLive is returned if a container that has not ended is to be removed.
var ErrLive = errors.New("the container has not ended")

// Shims is the real [Runtime]: a rota-shim process for every worker. It may be used from several
// goroutines.
type Shims struct {
	cfg     Config
	changes chan ID
	pool    *pool

	mu     sync.Mutex
	links  map[ID]*shimLink
	strays []string // cgroups of containers that the daemon has no directory of, which it could not end
}

var _ Runtime = (*Shims)(nil)

// NewShims connects to the containers below cfg.Dir, which an earlier daemon may have created.
func NewShims(cfg Config) (*Shims, error) {
	if err := os.MkdirAll(cfg.Dir, 0o711); err != nil {
		return nil, fmt.Errorf("directory for containers: %w", err)
	}
	entries, err := os.ReadDir(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("find containers: %w", err)
	}
	cfg.KillPatience = cmp.Or(cfg.KillPatience, defaultKillPatience)
	s := &Shims{cfg: cfg, changes: make(chan ID, 4096), links: map[ID]*shimLink{}}
	group, err := newShimGroup(cgroupMount, cfg.CgroupRoot, cfg.Log)
	if err != nil {
		return nil, err
	}
	s.pool = newPool(cfg, group)
	for _, e := range entries {
		if id, ok := ParseID(e.Name()); ok {
			s.reconnect(id)
		}
	}
	s.awaitShims()
	s.findStrays()
	return s, nil
}

// Path returns the directory of a container.
func (s *Shims) Path(id ID) string { return filepath.Join(s.cfg.Dir, id.String()) }

// Changes implements [Runtime].
func (s *Shims) Changes() <-chan ID { return s.changes }

// Close detaches from every container without disturbing it, and ends the shims that wait for one.
func (s *Shims) Close() error {
	s.pool.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.links {
		l.detach()
	}
	return nil
}

// reconnect connects to the container in a directory, if there is one, ended or live.
func (s *Shims) reconnect(id ID) {
	dir := s.Path(id)
	process, err := readProcess(dir)
	if err != nil {
		return // never created, or removed
	}
	l := newShimLink(id, dir, process, s.changed)
	l.cgroup = s.cgroupOf(id)
	if !wasCreated(dir) {
		if process.Alive() {
			_ = unix.Kill(process.Pid, unix.SIGKILL)
		}
		_ = sweepLeftovers(dir) // what it has begun; what does not end is a stray
		_ = RemoveProcess(dir)
		return
	}
	if process.Alive() {
		_ = s.pool.group.add(process.Pid) // it may have been started by a daemon that did not do so
	}
	l.current.State, l.silent = Silent, time.Now()
	s.links[id] = l
	go l.reach()
}

// awaitShims waits for the answers of the shims that were found, but no longer than startPatience.
func (s *Shims) awaitShims() {
	timer := time.NewTimer(startPatience)
	defer timer.Stop()
	for _, l := range s.links {
		select {
		case <-l.settled:
		case <-timer.C:
			return
		}
	}
}

// wasCreated reports whether a shim has come as far as listening. Before that, Create has not
// returned.
func wasCreated(dir string) bool {
	for _, name := range []string{socketFile, exitFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

func (s *Shims) changed(id ID) {
	select {
	case s.changes <- id:
	default: // the reader is behind and will find it by List
	}
}

func (s *Shims) find(id ID) (*shimLink, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.links[id]
	if !ok {
		return nil, fmt.Errorf("container %s: %w", id, ErrUnknown)
	}
	return l, nil
}

// Create implements [Runtime].
func (s *Shims) Create(ctx context.Context, id ID, dir string, lease time.Time) error {
	if l, err := s.find(id); err == nil {
		return l.send(ctx, renewal(lease)) // an earlier call has created it
	}
	if err := s.endStrays(); err != nil {
		return fmt.Errorf("container %s: %w", id, err)
	}
	shim, err := s.pool.takeShim()
	if err != nil {
		return fmt.Errorf("container %s: start its shim: %w", id, err)
	}
	l := newShimLink(id, dir, shim.process, s.changed)
	l.child, l.cgroup = shim, s.cgroupOf(id)
	if err := l.create(ctx, shim, lease); err != nil {
		return fmt.Errorf("create container %s: %w", id, err)
	}
	s.mu.Lock()
	s.links[id] = l
	s.mu.Unlock()
	return nil
}

// Start implements [Runtime].
func (s *Shims) Start(ctx context.Context, id ID) error { return s.send(ctx, id, Order{Op: OpStart}) }

// Signal implements [Runtime].
func (s *Shims) Signal(ctx context.Context, id ID, o Signal) error {
	op := OpSignal
	if o.Plain {
		op = OpPlainSignal
	}
	return s.send(ctx, id, Order{Op: op, Signal: o.Number, To: o.To, Early: o.Early})
}

// Kill implements [Runtime].
func (s *Shims) Kill(ctx context.Context, id ID) error {
	l, err := s.find(id)
	if err != nil {
		return err
	}
	if err := l.kill(ctx, s.cfg.KillPatience); err != nil {
		return fmt.Errorf("container %s: %s: %w", id, OpKill, err)
	}
	return nil
}

// Renew implements [Runtime].
func (s *Shims) Renew(ctx context.Context, id ID, lease time.Time) error {
	return s.send(ctx, id, renewal(lease))
}

// Extend implements [Runtime].
func (s *Shims) Extend(ctx context.Context, id ID, lease time.Time) error {
	return s.send(ctx, id, Order{Op: OpExtend, Lease: bootDeadline(lease)})
}

// Switch implements [Runtime].
func (s *Shims) Switch(ctx context.Context, id ID, o SwitchOrder) error {
	return s.send(ctx, id, Order{Op: OpSwitch, Switch: &o})
}

// Save implements [Runtime].
func (s *Shims) Save(ctx context.Context, id ID, o SaveOrder) error {
	return s.send(ctx, id, Order{Op: OpSave, Save: &o})
}

func (s *Shims) send(ctx context.Context, id ID, o Order) error {
	l, err := s.find(id)
	if err != nil {
		return err
	}
	if err := l.send(ctx, o); err != nil {
		return fmt.Errorf("container %s: %s: %w", id, o.Op, err)
	}
	return nil
}

// Remove implements [Runtime]. If the container was never created, it removes the bundle.
func (s *Shims) Remove(_ context.Context, id ID) error {
	if l, err := s.find(id); err == nil && !l.hasEnded() {
		return fmt.Errorf("remove container %s: %w", id, ErrLive)
	}
	err := sweepLeftovers(s.Path(id))
	if err == nil {
		err = clearDir(s.Path(id), id.Step == 0)
	}
	if err != nil {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	s.mu.Lock()
	delete(s.links, id)
	s.mu.Unlock()
	return nil
}

// sweepLeftovers ends what is left in the cgroup of the container in dir. The shim could not remove
// the cgroup before.
func sweepLeftovers(dir string) error {
	settings, err := ReadSettings(dir)
	if err != nil {
		return nil // never created, or half removed: the settings are removed after this
	}
	return sweepCgroup(settings.Cgroup)
}

// clearDir removes everything in dir, but logs that are to be kept. The shim's identity goes first, because without it
// there is no container.
func clearDir(dir string, keepLogs bool) error {
	if err := RemoveProcess(dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	err = errors.Join(err, UnmountShm(dir), UnmountTmp(dir), unmountProgress(dir))
	for _, e := range entries {
		if e.Name() != logDir || !keepLogs {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	_ = os.Remove(dir) // succeeds if there are no logs
	return err
}

// List implements [Runtime].
func (s *Shims) List(context.Context) ([]Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Status, 0, len(s.links))
	for _, l := range s.links {
		list = append(list, l.status())
	}
	slices.SortFunc(list, func(a, b Status) int { return a.ID.Compare(b.ID) })
	return list, nil
}

// Compare orders ids by job, attempt, worker and step.
func (id ID) Compare(other ID) int {
	return cmp.Or(cmp.Compare(id.Job, other.Job), cmp.Compare(id.Attempt, other.Attempt),
		cmp.Compare(id.Worker, other.Worker), cmp.Compare(id.Step, other.Step))
}

// ParseID reads what ID.String wrote.
func ParseID(text string) (ID, bool) {
	var id ID
	name, step, isStep := strings.Cut(text, "-s")
	if n, err := strconv.Atoi(step); isStep && err == nil {
		id.Step = n + 1
	}
	n, err := fmt.Sscanf(name, "%d.%d.%d", &id.Job, &id.Attempt, &id.Worker)
	return id, err == nil && n == 3 && id.String() == text
}

// renewal returns the order to move the end of a lease.
func renewal(lease time.Time) Order { return Order{Op: OpRenew, Lease: bootDeadline(lease)} }

// bootDeadline converts a time to nanoseconds of CLOCK_BOOTTIME; the zero time is no deadline.
func bootDeadline(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return BootTime() + int64(time.Until(t))
}
