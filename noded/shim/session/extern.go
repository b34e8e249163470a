package session

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rota-hpc/rota/noded/container"
)

// Extern counts what the processes beside the ranks use, which Slurm calls the extern step. The
// kernel tells it of one that has ended, with its children that it has waited for. Processes that
// it has left behind belong to rota-init, and count as the worker's own.
type Extern struct {
	running sync.WaitGroup
	News    chan struct{} // gets a value when one has ended, unless one waits there already; nil: that is not asked for

	mu           sync.Mutex
	pids         map[int]bool // of those that run
	user, system time.Duration
	largest      int64 // bytes
}

// Begin notes a process that was started, and returns what is called when it has ended.
func (u *Extern) Begin(pid int) func(*os.ProcessState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pids == nil {
		u.pids = map[int]bool{}
	}
	u.pids[pid] = true
	u.running.Add(1)
	return func(state *os.ProcessState) {
		defer u.running.Done()
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.pids, pid)
		if state != nil {
			u.user, u.system = u.user+state.UserTime(), u.system+state.SystemTime()
			u.largest = max(u.largest, LargestProcess(state))
		}
		select {
		case u.News <- struct{}{}:
		default:
		}
	}
}

// Spent returns what was used by now.
func (u *Extern) Spent() container.Spent {
	u.mu.Lock()
	defer u.mu.Unlock()
	user, system := u.user, u.system
	for pid := range u.pids {
		own, kernels, err := processTime(pid)
		if err == nil { // else it ends just now
			user, system = user+own, system+kernels
		}
	}
	return container.Spent{UserMS: user.Milliseconds(), SystemMS: system.Milliseconds(), PeakMem: u.largest}
}

// externPatience bounds the wait for processes that end with their container: the kernel ends them
// before its first process is gone.
const externPatience = 5 * time.Second

// Await waits until those of a worker that has ended are counted.
func (u *Extern) Await() {
	counted := make(chan struct{})
	go func() {
		u.running.Wait()
		close(counted)
	}()
	select {
	case <-counted:
	case <-time.After(externPatience):
	}
}

// clockTick is the unit of times in /proc, on every architecture that Linux has today.
const clockTick = time.Second / 100

// processTime returns the processor time of a process that runs, with that of its children that it has
// waited for.
func processTime(pid int) (user, system time.Duration, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:])) // its name may have spaces
	const first, times = 11, 4                                                    // user, system, and the same of children
	if len(fields) < first+times {
		return 0, 0, fmt.Errorf("process %d: stat has %d fields", pid, len(fields))
	}
	var ticks [times]time.Duration
	for i, text := range fields[first : first+times] {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("process %d: stat: %w", pid, err)
		}
		ticks[i] = time.Duration(n) * clockTick
	}
	return ticks[0] + ticks[2], ticks[1] + ticks[3], nil
}

// LargestProcess returns the most memory, in bytes, that one process of an ended container had at a
// time. It stands in for the peak of the cgroup, which version 2 tells from Linux 5.19 on.
func LargestProcess(ended *os.ProcessState) int64 {
	usage, ok := ended.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return usage.Maxrss << 10
}
