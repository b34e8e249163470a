// Package progress reads the progress that jobs report, which is lines of JSON with a step and
// metrics in a file that grows ([Source], [Tail]). From them it measures the step rate
// ([RateMeter]).
package progress

import (
	"bytes"
	"cmp"
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

const (
	// readLimit is how many bytes of a progress file are read at a time. If a job writes more, older
	// lines are skipped: only the newest are shown.
	readLimit = 1 << 20
	// lineLimit is how many bytes a line may have, and metricLimit how many metrics.
	lineLimit, metricLimit = 64 << 10, 64
	// nameLimit is how many bytes the name of a metric may have.
	nameLimit = 128
	// badLimit is how many lines that say nothing are read at a time in search of one that does.
	badLimit = 1000
)

// Line is one line of a progress file.
type Line struct {
	Step    *int64
	Saved   int64
	Metrics map[string]float64
}

// notNumbers are what Python writes for a loss that has diverged. JSON has no such values.
var notNumbers = regexp.MustCompile(`-?\b(NaN|Infinity)\b`)

// The problems of lines, see [Tail.Problem].
const (
	problemLong    = "a line has more than 64 KiB"
	problemJSON    = "a line is not JSON with a number as \"step\""
	problemStep    = "a line has a negative \"step\""
	problemMetrics = "a line has more than 64 metrics, or one with a name of more than 128 bytes"
	problemNumber  = "a metric is not a number"
)

// parseLine reads one line, nil if it has no step. A metric that is not a number is left out, and
// the step still counts. problem is what was ignored, "" if nothing was.
func parseLine(text []byte) (line *Line, problem string) {
	text = bytes.TrimSpace(text)
	switch {
	case len(text) == 0:
		return nil, ""
	case len(text) > lineLimit:
		return nil, problemLong
	case text[0] != '{':
		return nil, problemJSON
	}
	var l struct {
		Step     *int64                     `json:"step"`
		Finished bool                       `json:"finished"`
		Saved    int64                      `json:"saved_step"`
		Metrics  map[string]json.RawMessage `json:"metrics"`
	}
	if json.Unmarshal(text, &l) != nil {
		l.Metrics = nil
		if json.Unmarshal(notNumbers.ReplaceAll(text, []byte("null")), &l) != nil {
			return nil, problemJSON
		}
	}
	switch {
	case l.Step == nil && l.Finished:
		return nil, "" // it is read by the shim
	case l.Step == nil:
		return nil, problemJSON
	case *l.Step < 0:
		return nil, problemStep
	}
	line = &Line{Step: l.Step, Saved: max(0, l.Saved)}
	for name, text := range l.Metrics {
		var value *float64
		switch {
		case json.Unmarshal(text, &value) != nil || value == nil:
			problem = cmp.Or(problem, problemNumber)
		case len(l.Metrics) > metricLimit || len(name) > nameLimit:
			problem = problemMetrics
		case line.Metrics == nil:
			line.Metrics = map[string]float64{name: *value}
		default:
			line.Metrics[name] = *value
		}
	}
	return line, problem
}

// Tail is how far a progress file has been read.
type Tail struct {
	offset  int64
	inode   uint64
	Written time.Time    // when the file last grew
	Reached *api.Reached // the first line at or after Source.Stop.AtStep, if read
	Problem string       // of lines that were read and are ignored, as a whole or in part: the first one
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
		t = Tail{inode: st.Ino, Reached: t.Reached, Problem: t.Problem}
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
	line, whole, problem := newestLine(data[:n])
	t.Problem = cmp.Or(t.Problem, problem)
	if from.Stop != nil && t.Reached == nil {
		t.Reached = firstReached(data[:whole], from.Stop)
	}
	t.offset, t.Written = begin+int64(whole), time.Unix(st.Mtim.Unix())
	return line, t, nil
}

// firstReached returns the first line at or after the step of an array's stop rule that has the
// rule's metric.
func firstReached(data []byte, stop *jobspec.ArrayStop) *api.Reached {
	bad := 0
	for one := range bytes.Lines(data) {
		line, _ := parseLine(one)
		if line == nil {
			if bad++; bad == badLimit {
				break
			}
			continue
		}
		if *line.Step < stop.AtStep {
			continue
		}
		if value, ok := line.Metrics[stop.Metric]; ok {
			return &api.Reached{Step: *line.Step, Value: value}
		}
	}
	return nil
}

// newestLine returns the last whole line that can be parsed, and the length of all whole lines.
// problem is what was ignored on the way, "" if nothing was.
func newestLine(data []byte) (line *Line, whole int, problem string) {
	whole = bytes.LastIndexByte(data, '\n') + 1
	rest := data[:whole]
	for range badLimit {
		if len(rest) == 0 {
			break
		}
		begin := bytes.LastIndexByte(rest[:len(rest)-1], '\n') + 1
		line, ignored := parseLine(rest[begin:])
		problem = cmp.Or(problem, ignored)
		if line != nil {
			return line, whole, problem
		}
		rest = rest[:begin]
	}
	if whole == 0 && len(data) == readLimit {
		problem = problemLong
	}
	return nil, whole, problem
}
