// Package progress reads what jobs report about their progress: lines of JSON with a step and
// metrics, in a file that grows ([Source], [Tail]), and from them the step rate ([RateMeter]).
package progress

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"regexp"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
)

// readLimit is how many bytes of a progress file are read at a time. If a job writes more, older
// lines are skipped: only the newest are shown.
const readLimit = 1 << 20

// Line is one line of a progress file.
type Line struct {
	Step    *int64
	Saved   int64
	Metrics map[string]float64
}

// notNumbers are what Python writes for a loss that has diverged. JSON has no such values.
var notNumbers = regexp.MustCompile(`-?\b(NaN|Infinity)\b`)

// parseLine reads one line, nil if it has no step. A metric that is not a number is left out, and
// the step still counts.
func parseLine(text []byte) *Line {
	var l struct {
		Step    *int64              `json:"step"`
		Saved   int64               `json:"saved_step"`
		Metrics map[string]*float64 `json:"metrics"`
	}
	if json.Unmarshal(text, &l) != nil && json.Unmarshal(notNumbers.ReplaceAll(text, []byte("null")), &l) != nil ||
		l.Step == nil {
		return nil
	}
	line := &Line{Step: l.Step, Saved: l.Saved}
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

// Tail is how far a progress file has been read.
type Tail struct {
	offset  int64
	inode   uint64
	Written time.Time    // when the file last grew
	Reached *api.Reached // the first line at or after Source.Stop.AtStep, if read
}

// Source is where the progress of a worker is read.
type Source struct {
	Path     string                  // written by the daemon's shim, or the file that every job is given
	File     *container.ProgressFile // named by the user; then Path is empty
	User     container.User
	Stop     *jobspec.ArrayStop // the step at which an array needs the value of a metric
	Policies bool               // log policies may find something in the output
}

func (s *Source) open() (*os.File, error) {
	if s.File == nil {
		return os.OpenFile(s.Path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	}
	return container.OpenBeneath(s.File.Dir, s.File.Path, s.User)
}

// Read returns the newest whole line since the last call, nil if there is none. The file is the
// user's and may hold anything.
func (t Tail) Read(from *Source) (*Line, Tail, error) {
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
		t = Tail{inode: st.Ino, Reached: t.Reached}
	}
	if st.Size == t.offset {
		return nil, t, nil
	}
	begin := max(t.offset, st.Size-readLimit)
	data := make([]byte, st.Size-begin)
	n, err := f.ReadAt(data, begin)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, t, err
	}
	line, whole := newestLine(data[:n])
	if from.Stop != nil && t.Reached == nil {
		t.Reached = firstReached(data[:whole], from.Stop)
	}
	t.offset, t.Written = begin+int64(whole), time.Unix(st.Mtim.Unix())
	return line, t, nil
}

// firstReached returns the first line at or after the step of an array's stop rule that has the
// rule's metric.
func firstReached(data []byte, stop *jobspec.ArrayStop) *api.Reached {
	for one := range bytes.Lines(data) {
		line := parseLine(one)
		if line == nil || *line.Step < stop.AtStep {
			continue
		}
		if value, ok := line.Metrics[stop.Metric]; ok {
			return &api.Reached{Step: *line.Step, Value: value}
		}
	}
	return nil
}

// newestLine returns the last whole line that can be parsed, and the length of all whole lines.
func newestLine(data []byte) (*Line, int) {
	whole := bytes.LastIndexByte(data, '\n') + 1
	rest := data[:whole]
	for len(rest) > 0 {
		begin := bytes.LastIndexByte(rest[:len(rest)-1], '\n') + 1
		if line := parseLine(rest[begin:]); line != nil {
			return line, whole
		}
		rest = rest[:begin]
	}
	return nil, whole
}
