package noded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/noded/container"
)

// progressMost is how much of a progress file is read at a time. A job that writes more loses the older lines, which nobody would see.
const progressMost = 1 << 20

// progressLine is one line of a progress file.
type progressLine struct {
	Step    *int64             `json:"step"`
	Saved   int64              `json:"saved_step"`
	Metrics map[string]float64 `json:"metrics"`
}

// progressTail is how far a progress file has been read.
type progressTail struct {
	offset int64
	inode  uint64
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
	}
	return samples
}

// progressOf is the newest progress of one container, if there is news.
func (a *Agent) progressOf(id container.ID) []api.Sample {
	a.mu.Lock()
	w := a.workers[id]
	if w == nil {
		a.mu.Unlock()
		return nil
	}
	tail := w.tail
	a.mu.Unlock()
	line, next, err := tail.read(a.Bundles.Progress(id))
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			a.Log.Debug("cannot read progress", "job", id.Job, "alloc", id.String(), "err", err)
		}
		return nil
	}
	a.mu.Lock()
	w.tail = next
	a.mu.Unlock()
	if line == nil {
		return nil
	}
	return []api.Sample{{Job: cluster.JobID(id.Job), Attempt: id.Attempt, Worker: id.Worker, Step: *line.Step, Saved: line.Saved, Metrics: line.Metrics}}
}

// read returns the newest whole line since the last time, nil if there is none. The file is the user's: it may be anything.
func (t progressTail) read(path string) (*progressLine, progressTail, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
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
		t = progressTail{inode: st.Ino}
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
	t.offset = begin + int64(whole)
	return line, t, nil
}

// newestLine returns the last whole line that can be read, and the length of all whole lines.
func newestLine(data []byte) (*progressLine, int) {
	whole := bytes.LastIndexByte(data, '\n') + 1
	rest := data[:whole]
	for len(rest) > 0 {
		begin := bytes.LastIndexByte(rest[:len(rest)-1], '\n') + 1
		var line progressLine
		if json.Unmarshal(rest[begin:], &line) == nil && line.Step != nil {
			return &line, whole
		}
		rest = rest[:begin]
	}
	return nil, whole
}
