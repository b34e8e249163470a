// Package output takes what the tasks of a worker write. It keeps the output in files of a bounded
// size, in the order in which the two streams were written, at a bounded rate, and scans it for log
// policies and for progress.
package output

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/lossy"
	"github.com/rota-hpc/rota/noded/container"
)

// Logs takes a container's output from pipes and writes it to files.
type Logs struct {
	Stdout, Stderr *os.File // the container's ends, closed once the container has them
	readEnds       []*os.File
	copying        sync.WaitGroup
	limit          *Throttle     // of the worker
	lifted         chan struct{} // closed when the limit holds no more
	notes          *rotatingFile // for what this process has to say: that of standard error

	counting sync.Mutex
	lost     lossy.Loss
}

func newLogs(limit *Throttle) *Logs { return &Logs{limit: limit, lifted: make(chan struct{})} }

// Lost returns how many bytes of the output could not be written by now, and why. A nil value has
// lost none.
func (l *Logs) Lost() lossy.Loss {
	if l == nil {
		return lossy.Loss{}
	}
	l.counting.Lock()
	defer l.counting.Unlock()
	return l.lost
}

// count adds a loss.
func (l *Logs) count(lost lossy.Loss) {
	l.counting.Lock()
	defer l.counting.Unlock()
	l.lost.Add(lost)
}

// Open opens the files and starts to copy, no faster than limit says. The output is scanned on
// the way.
func Open(dir string, cfg container.LogFiles, u container.User, scan *TaskScanner, limit *Throttle) (*Logs, error) {
	l := newLogs(limit)
	as := fileAccess(rootAccess{})
	if cfg.Stdout != "" || cfg.Stderr != "" {
		as = asUser(u, cfg.Umask)
	}
	var order *logOrder
	if !cfg.Join {
		order = openLogOrder(dir) // before the files, so that a reader of them finds it
	}
	out, err := openLog(dir, cfg, cfg.Stdout, "stdout", as)
	if err != nil {
		return nil, err
	}
	out.order = order
	if l.Stdout, err = l.pipe(out, scan.stream("stdout")); err != nil {
		return nil, err
	}
	if cfg.Join && !scan.separatesStreams() {
		l.Stderr = l.Stdout
		l.noteIn(out)
		return l, nil
	}
	if !cfg.Join {
		if out, err = openLog(dir, cfg, cfg.Stderr, "stderr", as); err != nil {
			return nil, err
		}
		out.order = order
	}
	l.Stderr, err = l.pipe(out, scan.stream("stderr"))
	l.noteIn(out)
	return l, err
}

// noteIn keeps a file open for notes until endNotes.
func (l *Logs) noteIn(f *rotatingFile) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users++
	l.notes = f
}

// Note writes a line of its own into the output.
func (l *Logs) Note(text string) {
	if f := l.notes; f != nil {
		l.count(f.writeLine("[rota: " + text + "]\n"))
	}
}

// EndNotes says that no more notes follow. It waits for a file that hangs.
func (l *Logs) EndNotes() {
	if f := l.notes; f != nil {
		f.close()
	}
}

// openLog opens the file of a stream. Without a path of the user's it is a file of the daemon's.
// That one never gets larger than the defaults, so that no job can fill the machine's disk.
func openLog(dir string, cfg container.LogFiles, path, name string, as fileAccess) (*rotatingFile, error) {
	f := &rotatingFile{stream: name, path: path, max: cfg.MaxSize, keep: cfg.Keep, as: as}
	if f.max <= 0 {
		f.max = int64(jobspec.DefaultLogSize)
	}
	if path == "" {
		f.path, f.as = filepath.Join(dir, name), rootAccess{}
		f.max, f.keep = min(f.max, int64(jobspec.DefaultLogSize)), min(f.keep, jobspec.DefaultLogKeep)
	}
	if err := f.open(cfg.Truncate); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return f, nil
}

// pipe makes the pipe of one stream. Two pipes may go to one file.
func (l *Logs) pipe(f *rotatingFile, lines *lineScanner) (*os.File, error) {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	f.users++
	l.readEnds = append(l.readEnds, ours)
	l.copying.Go(func() { l.copyOutput(f, ours, lines) })
	return theirs, nil
}

// CloseContainerEnds closes the container's ends of the pipes, so that its end is noticed.
func (l *Logs) CloseContainerEnds() {
	l.Stdout.Close()
	l.Stderr.Close()
}

// copyOutput reads at the rate of the limit, whatever becomes of the output: a full disk must not
// block the job.
func (l *Logs) copyOutput(f *rotatingFile, from io.Reader, lines *lineScanner) {
	defer f.close()
	defer lines.end()
	if _, users := f.as.(userAccess); users {
		runtime.LockOSThread() // for good: the thread ends with this goroutine
		obeyQuota()
	}
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			l.count(f.write(buffer[:n]))
			lines.write(buffer[:n])
			l.limit.pace(n, l.lifted)
		}
		if err != nil {
			return
		}
	}
}

// AwaitRest waits for the rest of the output: what is in the pipes, which is little, so that the
// limit of its rate is lifted. The wait is bounded, because another process may hold the pipe, or
// the file's server may not answer. The end of the worker must be reported all the same.
func (l *Logs) AwaitRest(limit time.Duration) {
	close(l.lifted)
	for _, f := range l.readEnds {
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

// rotatingFile is a file that is renamed when it has grown to max bytes; keep older files stay.
type rotatingFile struct {
	stream string
	path   string
	max    int64
	keep   int
	as     fileAccess

	order *logOrder // nil: both streams go here

	mu     sync.Mutex
	users  int // pipes that go here
	number int // of the file, from 0
	file   *os.File
	size   int64
	out    lossy.Writer // to file
}

func (r *rotatingFile) open(truncate bool) error {
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
	r.file, r.size, r.out.To = f, info.Size(), f
	return nil
}

// write returns what could not be written.
func (r *rotatingFile) write(b []byte) lossy.Loss {
	return r.writeWith(len(b), func() (int64, lossy.Loss, error) { return r.out.Write(b) })
}

// writeLine is write for a line that begins behind the end of another one.
func (r *rotatingFile) writeLine(text string) lossy.Loss {
	return r.writeWith(len(text)+1, func() (int64, lossy.Loss, error) { return r.out.WriteLine(text) })
}

// writeWith has a function write about n bytes, in order with the other stream.
func (r *rotatingFile) writeWith(n int, write func() (int64, lossy.Loss, error)) lossy.Loss {
	if o := r.order; o != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		defer o.wrote(r)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size > 0 && r.size+int64(n) > r.max {
		r.rotate()
	}
	if r.order != nil {
		r.order.begin(r)
	}
	grown, lost, _ := write() // lost says what an error means
	r.size += grown
	return lost
}

// rotate starts a new file. If that fails, the old one goes on.
func (r *rotatingFile) rotate() {
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
		r.number++
	} else if r.keep > 0 { // such as on a full disk
		_ = r.as.rename(name(1), r.path) // so that readers find it, and the next try renames it
	}
}

// close closes the file when the last of its pipes has ended.
func (r *rotatingFile) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users--; r.users == 0 {
		grown, _ := r.out.End() // without room the count alone tells of the loss
		r.size += grown
		r.file.Close()
	}
}
