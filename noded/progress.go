package noded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
)

// progressMost is how much of a progress file is read at a time. A job that writes more loses the older lines, which nobody would see.
const progressMost = 1 << 20

// progressLine is one line of a progress file.
type progressLine struct {
	Step    *int64
	Saved   int64
	Metrics map[string]float64
}

// notNumbers are what Python writes for a loss that has diverged. JSON has no such values.
var notNumbers = regexp.MustCompile(`-?\b(NaN|Infinity)\b`)

// parseProgress reads one line, nil if it is none. A metric that is not a number is left out: the step counts all the same.
func parseProgress(text []byte) *progressLine {
	var l struct {
		Step    *int64              `json:"step"`
		Saved   int64               `json:"saved_step"`
		Metrics map[string]*float64 `json:"metrics"`
	}
	if json.Unmarshal(text, &l) != nil && json.Unmarshal(notNumbers.ReplaceAll(text, []byte("null")), &l) != nil || l.Step == nil {
		return nil
	}
	line := &progressLine{Step: l.Step, Saved: l.Saved}
	for name, value := range l.Metrics {
		if value == nil {
			continue
		}
		if line.Metrics == nil {
			line.Metrics = map[string]float64{}
		}
		line.Metrics[name] = *value
	}
	return line
}

// progressTail is how far a progress file has been read.
type progressTail struct {
	offset  int64
	inode   uint64
	written time.Time    // when the file last grew
	reached *api.Reached // the first line from the step on that matters
}

// sample reads the progress of everything that runs and hands the newest of each on.
func (a *Agent) sample(ctx context.Context) error {
	tick := time.NewTicker(sampleInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if samples := a.readProgress(); len(samples) > 0 {
			a.out.putSamples(samples)
		}
	}
}

func (a *Agent) readProgress() []api.Sample {
	a.mu.Lock()
	var running []container.ID
	for id, w := range a.workers {
		if w.Actual == container.Running {
			running = append(running, id)
		}
	}
	a.mu.Unlock()
	var samples []api.Sample
	for _, id := range running {
		samples = append(samples, a.progressOf(id)...)
		a.findingsOf(id)
	}
	return samples
}

// source is where the progress of a worker is read.
type source struct {
	path   string                  // of a file of the daemon's, or one that the job is given
	file   *container.ProgressFile // a file of the user's; then path is empty
	user   container.User
	stop   *jobspec.ArrayStop // the step at which the value of a metric matters
	policy bool               // something may be found in the output
}

// Progress implements Bundles. What the shim finds in the output comes before a file of the job's own, and that before the one it is given.
func (d *disk) Progress(id container.ID) *source {
	dir := filepath.Join(d.containers, id.String())
	s, err := container.ReadSettings(dir)
	if err != nil {
		return nil // it is gone, or not there yet
	}
	from := &source{path: container.ProgressPath(dir), user: s.User, policy: len(s.Policies) > 0}
	switch {
	case s.Steps != nil:
		from.path = container.StepsPath(dir)
	case s.Progress != nil:
		from.file = s.Progress
	case len(s.Tasks) > 0:
		from.path = container.ProgressPath(container.TaskDir(dir, s.Reporter))
	}
	return from
}

func (s *source) open() (*os.File, error) {
	if s.file == nil {
		return os.OpenFile(s.path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	}
	return openBeneath(s.file.Dir, s.file.Path, &s.user)
}

// progressOf reads what a container has reported since the last time; none is no error.
func (a *Agent) progressOf(id container.ID) []api.Sample {
	a.mu.Lock()
	w := a.workers[id]
	if w == nil {
		a.mu.Unlock()
		return nil
	}
	tail, from := w.tail, w.source
	desired := w.Desired
	a.mu.Unlock()
	if from == nil {
		from = a.Bundles.Progress(id)
		if from != nil && desired != nil && desired.Spec != nil && desired.Spec.Array != nil {
			from.stop = desired.Spec.Array.Stop
		}
	}
	line, next, err := a.readTail(w, tail, from)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		a.Log.Debug("progress file cannot be read", "job", id.Job, "alloc", id.String(), "err", err)
	}
	a.mu.Lock()
	w.tail = next
	if desired != nil { // before it is known what is wanted, something may be missing from it
		w.source = from
	}
	if line != nil {
		a.paced(id, w, desired, *line.Step)
	}
	a.mu.Unlock()
	if line == nil {
		return nil
	}
	return []api.Sample{{
		Job: cluster.JobID(id.Job), Attempt: id.Attempt, Worker: id.Worker, Step: *line.Step, Saved: line.Saved, Metrics: line.Metrics,
		Reached: next.reached,
	}}
}

// progressTime is how long a progress file may take to be read. The user's may be on a server that does not answer.
const progressTime = 2 * time.Second

var errHangs = errors.New("it takes long to be read")

// progressRead is a read of a progress file, and what it has come to once it is done.
type progressRead struct {
	done chan struct{}
	late bool // it has been waited for
	line *progressLine
	next progressTail
	err  error
}

// readTail reads on from a tail. What takes too long is left to itself, and taken up when it has come to something: neither another worker's
// progress nor the end of this one waits for it.
func (a *Agent) readTail(w *worker, tail progressTail, from *source) (*progressLine, progressTail, error) {
	if from == nil {
		return nil, tail, nil
	}
	a.mu.Lock()
	r := w.reading
	if r == nil {
		r = &progressRead{done: make(chan struct{})}
		w.reading = r
		go func() {
			defer close(r.done)
			r.line, r.next, r.err = tail.read(from)
		}()
	}
	patience := progressTime
	if r.late {
		patience = 0
	}
	a.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
		a.mu.Lock()
		defer a.mu.Unlock()
		r.late = true
		return nil, tail, errHangs
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.reading == r {
		w.reading = nil
	}
	return r.line, r.next, r.err
}

// read returns the newest whole line since the last time, nil if there is none. The file is the user's: it may be anything.
func (t progressTail) read(from *source) (*progressLine, progressTail, error) {
	f, err := from.open()
	if err != nil {
		return nil, t, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, t, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, t, errors.New("it is not a regular file")
	}
	if st.Ino != t.inode || st.Size < t.offset {
		t = progressTail{inode: st.Ino, reached: t.reached}
	}
	if st.Size == t.offset {
		return nil, t, nil
	}
	begin := max(t.offset, st.Size-progressMost)
	data := make([]byte, st.Size-begin)
	n, err := f.ReadAt(data, begin)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, t, err
	}
	line, whole := newestLine(data[:n])
	if from.stop != nil && t.reached == nil {
		t.reached = firstReached(data[:whole], from.stop)
	}
	t.offset, t.written = begin+int64(whole), time.Unix(st.Mtim.Unix())
	return line, t, nil
}

// firstReached returns the first line at or after the step that matters to an array, as far as it has the metric.
func firstReached(data []byte, stop *jobspec.ArrayStop) *api.Reached {
	for one := range bytes.Lines(data) {
		line := parseProgress(one)
		if line == nil || *line.Step < stop.AtStep {
			continue
		}
		if value, ok := line.Metrics[stop.Metric]; ok {
			return &api.Reached{Step: *line.Step, Value: value}
		}
	}
	return nil
}

// newestLine returns the last whole line that can be read, and the length of all whole lines.
func newestLine(data []byte) (*progressLine, int) {
	whole := bytes.LastIndexByte(data, '\n') + 1
	rest := data[:whole]
	for len(rest) > 0 {
		begin := bytes.LastIndexByte(rest[:len(rest)-1], '\n') + 1
		if line := parseProgress(rest[begin:]); line != nil {
			return line, whole
		}
		rest = rest[:begin]
	}
	return nil, whole
}
