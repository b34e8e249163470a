package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
)

// logs takes a container's output from pipes and writes it to files.
type logs struct {
	stdout, stderr *os.File // the container's ends, closed here once it has them
	ours           []*os.File
	lost           atomic.Int64
	copying        sync.WaitGroup
}

// openLogs opens the files and begins to copy. What is looked for in the output is found on the way.
func openLogs(dir string, cfg container.LogFiles, u container.User, find *taskFinder) (*logs, error) {
	l := &logs{}
	as := files(root{})
	if cfg.Stdout != "" || cfg.Stderr != "" {
		as = asUser(u)
	}
	out, err := openLog(dir, cfg, cfg.Stdout, "stdout", as)
	if err != nil {
		return nil, err
	}
	if l.stdout, err = l.pipe(out, find.stream("stdout")); err != nil {
		return nil, err
	}
	if cfg.Join && !find.tellsApart() {
		l.stderr = l.stdout
		return l, nil
	}
	if !cfg.Join {
		if out, err = openLog(dir, cfg, cfg.Stderr, "stderr", as); err != nil {
			return nil, err
		}
	}
	l.stderr, err = l.pipe(out, find.stream("stderr"))
	return l, err
}

// openLog opens the file of a stream. Without a path of the user's it is a file of the daemon's, which gets no larger than it does by default,
// whatever the job asks for: no user may fill the machine's disk.
func openLog(dir string, cfg container.LogFiles, path, name string, as files) (*rotated, error) {
	f := &rotated{path: path, max: cfg.MaxSize, keep: cfg.Keep, as: as}
	if f.max <= 0 {
		f.max = int64(jobspec.DefaultLogSize)
	}
	if path == "" {
		f.path, f.as = filepath.Join(dir, name), root{}
		f.max, f.keep = min(f.max, int64(jobspec.DefaultLogSize)), min(f.keep, jobspec.DefaultLogKeep)
	}
	if err := f.open(cfg.Truncate); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return f, nil
}

// pipe makes the pipe of one stream. Two may go to one file.
func (l *logs) pipe(f *rotated, lines *lineFinder) (*os.File, error) {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	f.users++
	l.ours = append(l.ours, ours)
	l.copying.Add(1)
	go func() {
		defer l.copying.Done()
		l.copy(f, ours, lines)
	}()
	return theirs, nil
}

// started closes the container's ends, so that its end is seen.
func (l *logs) started() {
	l.stdout.Close()
	l.stderr.Close()
}

// copy never stops reading: a full disk must not block the job.
func (l *logs) copy(f *rotated, from *os.File, lines *lineFinder) {
	defer f.close()
	defer lines.end()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			l.lost.Add(int64(f.write(buffer[:n])))
			lines.write(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}

// drain waits for the rest of the output. A process elsewhere may have been handed the pipe, and the file may be on a server that does not answer,
// so the wait is bounded: that the worker has ended must be known all the same.
func (l *logs) drain(limit time.Duration) {
	for _, f := range l.ours {
		_ = f.SetReadDeadline(time.Now().Add(limit)) // pipes can have deadlines
	}
	done := make(chan struct{})
	go func() {
		l.copying.Wait()
		close(done)
	}()
	timer := time.NewTimer(2 * limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// rotated is a file that is renamed away when it has grown to max bytes; keep older ones stay.
type rotated struct {
	path string
	max  int64
	keep int
	as   files

	mu    sync.Mutex
	users int // pipes that go here
	file  *os.File
	size  int64
	lost  int64 // bytes dropped since the last write that worked
}

func (r *rotated) open(truncate bool) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if truncate {
		flags |= os.O_TRUNC
	}
	f, err := r.as.open(r.path, flags)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.file, r.size = f, info.Size()
	return nil
}

// write returns how many bytes found no room.
func (r *rotated) write(b []byte) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size > 0 && r.size+int64(len(b)) > r.max {
		r.rotate()
	}
	if r.lost > 0 {
		n, err := fmt.Fprintf(r.file, "\n[rota: %d bytes of output lost: no room left for the log]\n", r.lost)
		r.size += int64(n)
		if err != nil {
			r.lost += int64(len(b))
			return len(b)
		}
		r.lost = 0
	}
	n, err := r.file.Write(b)
	r.size += int64(n)
	if err == nil {
		return 0
	}
	r.lost += int64(len(b) - n)
	return len(b) - n
}

// rotate begins a new file. Where that fails the old one goes on.
func (r *rotated) rotate() {
	name := func(i int) string { return fmt.Sprintf("%s.%d", r.path, i) }
	if r.keep > 0 {
		for i := r.keep - 1; i > 0; i-- {
			_ = r.as.rename(name(i), name(i+1)) // it may not exist yet
		}
		if r.as.rename(r.path, name(1)) != nil {
			return
		}
	}
	old := r.file
	if r.open(r.keep == 0) == nil {
		old.Close()
	}
}

// close closes the file when the last of its pipes has ended.
func (r *rotated) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users--; r.users == 0 {
		r.file.Close()
	}
}

// files opens and renames with somebody's rights.
type files interface {
	open(path string, flags int) (*os.File, error)
	rename(from, to string) error
}

// root uses the shim's own rights.
type root struct{}

func (root) open(path string, flags int) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, flags, 0o640)
}

func (root) rename(from, to string) error { return os.Rename(from, to) }

// user does everything on a thread that has the user's rights in the file system, so that nothing is written where the user could
// not write.
type user struct {
	do  chan func()
	err error // the rights could not be taken on
}

func asUser(u container.User) user {
	jobs := make(chan func())
	ready := make(chan error)
	go actAs(u, jobs, ready)
	err := <-ready
	return user{jobs, err}
}

func (u user) open(path string, flags int) (f *os.File, err error) {
	if u.err != nil {
		return nil, u.err
	}
	u.wait(func() {
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			f, err = os.OpenFile(path, flags|unix.O_NONBLOCK|unix.O_NOCTTY, 0o644)
		}
	})
	if err != nil {
		return nil, err
	}
	if err := container.Ordinary(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

func (u user) rename(from, to string) (err error) {
	u.wait(func() { err = os.Rename(from, to) })
	return err
}

func (u user) wait(f func()) {
	done := make(chan struct{})
	u.do <- func() { f(); close(done) }
	<-done
}
