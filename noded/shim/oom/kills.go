// Package oom tells which processes of a container the kernel has killed for memory.
//
// A cgroup counts the processes that the kernel has killed in it because memory was short. Whatever
// the program then exits with, its task has run out of memory. The kernel's log names the process,
// the cgroup that was full, and the score of the process. Those that a person has started beside
// the ranks have a score of their own ([launch.BesideScore]), because they do not decide how a job
// ends. The log may be unreadable, overwritten, or of an old kernel. A kill that it does not tell
// counts as the task's own, and only the limit is named.
package oom

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/oci/launch"
)

// Kills is what is known of the processes of one container that the kernel has killed for memory.
type Kills struct {
	log   io.ReadCloser // the kernel's, from when the container was made; nil: it cannot be read
	score int           // oom_score_adj of the ranks

	mu      sync.Mutex
	path    string            // of the cgroup, below every hierarchy
	cgroups map[string]string // its directories by controller; "" with cgroup version 2
	said    int64             // kills that Sayings has told of
	read    []kill            // what the log has told of this container, oldest first
	scores  map[int]int       // of killed processes by pid, from lines that name no cgroup
	waited  int64             // kills that the log was waited for
	buffer  [8 << 10]byte     // of one record of the log, which is shorter
}

// kill is one process that the kernel has killed.
type kill struct {
	name string
	pid  int
	full string // the cgroup that was full; "": the machine
}

// kernelLog is where the kernel's log is read.
const kernelLog = "/dev/kmsg"

// Open opens the kernel's log. score is the oom_score_adj of the ranks.
func (k *Kills) Open(score int) { k.log, k.score = openKernelLog(), score }

// openKernelLog opens the kernel's log behind its last record, nil if that is not allowed.
func openKernelLog() io.ReadCloser {
	fd, err := unix.Open(kernelLog, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	if _, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil {
		_ = unix.Close(fd) // nothing was written
		return nil
	}
	return rawFile(fd)
}

// rawFile is a descriptor that is read without the runtime's poller: /dev/kmsg is always ready for it.
type rawFile int

// Read implements io.Reader. Without a record to read its error is EAGAIN.
func (f rawFile) Read(b []byte) (int, error) {
	n, err := unix.Read(int(f), b)
	return max(0, n), err
}

// Close implements io.Closer.
func (f rawFile) Close() error { return unix.Close(int(f)) }

// Watch has the kills of a cgroup counted.
func (k *Kills) Watch(path string, cgroups map[string]string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.path, k.cgroups = path, cgroups
}

// Close forgets the kernel's log.
func (k *Kills) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.log != nil {
		_ = k.log.Close() // nothing was written
		k.log = nil
	}
}

// counted returns how many processes the kernel has killed for memory in the container's cgroup.
func (k *Kills) counted() int64 { return killsIn(k.cgroups["memory"], k.cgroups[""]) }

// killsIn returns how many processes of a cgroup the kernel has killed for memory. The arguments are its
// directories in the memory hierarchy of version 1 and in version 2; only one of them exists.
func killsIn(v1, v2 string) int64 {
	for _, file := range []string{filepath.Join(v1, "memory.oom_control"), filepath.Join(v2, "memory.events")} {
		raw, _ := os.ReadFile(file) // one of the two does not exist
		for line := range strings.Lines(string(raw)) {
			if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
				kills, _ := strconv.ParseInt(strings.TrimSpace(n), 10, 64)
				return kills
			}
		}
	}
	return 0
}

// Any reports whether the kernel has killed a process that decides how the container ends.
func (k *Kills) Any() bool {
	own, _, _ := k.look()
	return own > 0
}

// logPatience bounds the wait for the kernel's log, which names a process a moment after it was killed.
const logPatience = 200 * time.Millisecond

// look returns how many processes of the task's own were killed, one of them if it is known, and those
// beside the ranks.
func (k *Kills) look() (own int64, first *kill, beside []kill) {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.counted()
	if all == 0 {
		return 0, nil, nil
	}
	k.readLog(all)
	own = all
	for i := range k.read {
		kill := k.read[i]
		switch {
		case k.scores[kill.pid] == launch.BesideScore(k.score):
			beside = append(beside, kill)
			own--
		case first == nil:
			first = &kill
		}
	}
	return max(0, own), first, beside
}

// readLog reads what the kernel's log has to tell of so many kills, and waits for that a while.
func (k *Kills) readLog(kills int64) {
	if k.log == nil {
		return
	}
	deadline := time.Now().Add(logPatience)
	k.readRecords()
	for kills > k.waited && !k.complete(kills) && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
		k.readRecords()
	}
	k.waited = kills // once for each: the kernel does not tell of every kill
}

// complete reports whether so many kills, and the scores of the processes, are known.
func (k *Kills) complete(kills int64) bool {
	return int64(len(k.read)) >= kills && !slices.ContainsFunc(k.read, func(m kill) bool {
		_, known := k.scores[m.pid]
		return !known
	})
}

// readRecords reads the records of the kernel's log that there are.
func (k *Kills) readRecords() {
	for {
		n, err := k.log.Read(k.buffer[:])
		switch {
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.EINTR):
			continue // records were overwritten before they were read
		case err != nil || n == 0:
			return
		}
		k.note(string(k.buffer[:n]))
	}
}

// note takes a record of the kernel's log: the priority and other numbers, a semicolon and the text.
func (k *Kills) note(record string) {
	_, text, _ := strings.Cut(record, ";")
	text, _, _ = strings.Cut(text, "\n")
	if kill, cgroup, ok := parseKill(text); ok && strings.HasSuffix(cgroup, k.path) && k.path != "" {
		k.read = append(k.read, kill)
	}
	if pid, score, ok := parseScore(text); ok {
		if k.scores == nil {
			k.scores = map[int]int{}
		}
		k.scores[pid] = score
	}
}

// parseKill reads the line of the kernel's log that says why it kills a process, and in which cgroup. The
// process has set its name, and may have set it to anything.
func parseKill(text string) (kill kill, cgroup string, ok bool) {
	rest, ok := strings.CutPrefix(text, "oom-kill:")
	if !ok {
		return kill, "", false
	}
	before, after, ok := strings.Cut(rest, ",task_memcg=")
	cgroup, task, named := strings.Cut(after, ",task=")
	if !ok || !named {
		return kill, "", false
	}
	if _, full, ok := strings.Cut(before, ",oom_memcg="); ok {
		kill.full = full
	}
	at := strings.LastIndex(task, ",pid=")
	if at < 0 {
		return kill, "", false
	}
	pid, _, _ := strings.Cut(task[at+len(",pid="):], ",")
	kill.name = task[:at]
	var err error
	kill.pid, err = strconv.Atoi(pid)
	return kill, cgroup, err == nil
}

// parseScore reads the line that says that a process was killed, and its oom_score_adj, which kernels
// tell from Linux 5.4 on.
func parseScore(text string) (pid, score int, ok bool) {
	_, rest, ok := strings.Cut(text, ": Killed process ")
	number, rest, _ := strings.Cut(rest, " ")
	at := strings.LastIndex(rest, " oom_score_adj:")
	if !ok || at < 0 {
		return 0, 0, false
	}
	pid, err := strconv.Atoi(number)
	score, wrong := strconv.Atoi(rest[at+len(" oom_score_adj:"):])
	return pid, score, err == nil && wrong == nil
}

// Text returns what there is to say of the kills of the task's own processes, "" if there are none: how
// many, which, and the limit.
func (k *Kills) Text() string {
	own, first, _ := k.look()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.describe(own, first)
}

// Sayings returns what is new since the last call: of the task's own processes, and of those beside them.
func (k *Kills) Sayings() (own, beside string) {
	n, first, others := k.look()
	k.mu.Lock()
	defer k.mu.Unlock()
	if all := n + int64(len(others)); all <= k.said {
		return "", ""
	} else {
		k.said = all
	}
	if len(others) > 0 {
		beside = k.describe(int64(len(others)), &others[len(others)-1])
	}
	return k.describe(n, first), beside
}

// describe says that processes were killed, "" for none.
func (k *Kills) describe(n int64, one *kill) string {
	if n == 0 {
		return ""
	}
	which := "a process"
	full, known := "", one != nil
	if known {
		which, full = fmt.Sprintf("%s (process %d)", container.Printable(one.name), one.pid), one.full
	}
	if n > 1 && known {
		which = fmt.Sprintf("%d processes, first %s,", n, which)
	} else if n > 1 {
		which = fmt.Sprintf("%d processes", n)
	}
	return fmt.Sprintf("the kernel killed %s for memory; %s", which, k.limit(full, known))
}

// limit says which limit was reached: that of the cgroup that was full, if that is known, else the next one
// that the container has.
func (k *Kills) limit(full string, known bool) string {
	if known && full == "" {
		return "the node had run out of memory"
	}
	dir, file := k.cgroups["memory"], "memory.limit_in_bytes"
	if dir == "" {
		dir, file = k.cgroups[""], "memory.max"
	}
	own := limitIn(filepath.Join(dir, file))
	above := limitIn(filepath.Join(filepath.Dir(dir), file))
	step := strings.HasPrefix(filepath.Base(k.path), "step.")
	switch isOwn := strings.HasSuffix(full, k.path); {
	case own > 0 && step && (isOwn || !known):
		return fmt.Sprintf("the step's limit is %v", own)
	case own > 0 && (isOwn || !known):
		return fmt.Sprintf("the limit is %v", own)
	case above > 0 && (!known || strings.HasSuffix(full, filepath.Dir(k.path))):
		return fmt.Sprintf("the limit of its worker is %v", above)
	case known:
		return "the memory limit for all jobs of the node was reached"
	}
	return "a memory limit was reached"
}

// limitIn reads a limit of memory, 0 if there is none.
func limitIn(path string) jobspec.Bytes {
	const unlimited = math.MaxInt64 / 2 // version 1 has a large number for no limit
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	if err != nil || n >= unlimited {
		return 0
	}
	return jobspec.Bytes(n)
}
