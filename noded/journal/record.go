// Package journal is what a node daemon writes down before it acts. After a crash anywhere, the
// next daemon knows what the last one was about to do, and repeats nothing that may be done only
// once.
//
// The journal is one file of lines, each with a checksum and a record in JSON. Records are added
// and never changed. When the file has grown, it is rewritten with what is still needed.
package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"

	"github.com/rota-hpc/rota/controld/model"
)

// Op is what a record says.
type Op string

// The events of one container, in the order in which they happen.
const (
	Intend   Op = "intend"   // it is about to be created, on these cores
	Started  Op = "started"  // its command is about to be started: it must never be created again
	Bound    Op = "bound"    // it is about to go on on these cores; none: it has paused, and has none
	Measured Op = "measured" // what was measured of it, before that is reported
	Early    Op = "early"    // it was told that its time limit comes
	Stopped  Op = "stopped"  // it was told to stop for this cause, with this signal
	Final    Op = "final"    // its result, before that is reported
	Forget   Op = "forget"   // it never ran, and all of it is removed

	StepBegun  Op = "step"        // a step that it has started is about to begin
	StepEnded  Op = "step-end"    // how that step has ended, before that is reported
	StepsKnown Op = "steps-known" // the controllers know the steps that have ended, up to a row
)

// Record is one line of the journal.
type Record struct {
	Op     Op                  `json:"op"`
	ID     string              `json:"id"` // job.attempt.worker
	Cores  []int               `json:"cores,omitempty"`
	Cause  model.Cause         `json:"cause,omitempty"`
	Signal string              `json:"signal,omitempty"`
	Final  *model.WorkerReport `json:"final,omitempty"`

	Measures *Measures `json:"measures,omitempty"` // all of them so far

	Step *Step `json:"step,omitempty"` // with StepBegun and StepEnded
	Row  int   `json:"row,omitempty"`  // with StepsKnown
	Next int   `json:"next,omitempty"` // the same: the number that the next step gets at least

	Unread []Unread `json:"unread,omitempty"` // the same
}

// Step is a step that the program of a worker has started.
type Step struct {
	N      int               `json:"n"`
	State  json.RawMessage   `json:"state,omitempty"` // of one that has begun: what a restarted daemon must know
	Report *model.StepReport `json:"report,omitempty"`
	Unread string            `json:"unread,omitempty"` // see [Unread.Key]
}

// Unread is a step that has ended while nothing read its output. The command that has asked for it may not
// know that it began, and ask again.
type Unread struct {
	N   int    `json:"n"`
	Key string `json:"key"` // of the request
}

// unreadMost is how many steps of a worker are remembered so.
const unreadMost = 1024

// Measures is what was measured of a worker that has a GPU. It is reported as it stands here, so that
// no other values follow after a restart.
type Measures struct {
	Profile *model.Profile `json:"profile,omitempty"`
	// Rhythm says that rates are those of the GPU's rhythm, not of steps that the worker reports. One
	// cannot be compared with the other.
	Rhythm bool              `json:"rhythm,omitempty"`
	Packed *model.PackedRate `json:"packed,omitempty"` // the last one
}

// Entry is all that the journal says of one container.
type Entry struct {
	ID      string
	Cores   []int
	Started bool
	Early   bool        // it was told that its time limit comes
	Stopped model.Cause // the last cause for which it was told to stop
	Signal  string      // that was sent with it
	Final   *model.WorkerReport

	Measures *Measures // nil: nothing was measured; replaced and never changed

	// those that run, and those that the controllers do not know yet, by number; replaced and never changed
	Steps    []Step
	NextStep int      // number of the next one
	Rows     int      // how many steps have ended
	Known    int      // how many of them the controllers know
	Unread   []Unread // the newest, in the order in which they have ended; replaced and never changed
}

// maxLine bounds one record in bytes. The longest part is the message of a launch failure, of a few
// KiB at most.
const maxLine = 1 << 20

var table = crc32.MakeTable(crc32.Castagnoli)

// appendLine adds a record to buf: eight hexadecimal digits of checksum, a space, JSON, a newline.
func appendLine(buf []byte, r Record) ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return buf, fmt.Errorf("encode %s of %s: %w", r.Op, r.ID, err)
	}
	if len(body) > maxLine-16 {
		return buf, fmt.Errorf("record %s of %s has %d bytes, more than %d", r.Op, r.ID, len(body), maxLine)
	}
	buf = fmt.Appendf(buf, "%08x ", crc32.Checksum(body, table))
	buf = append(buf, body...)
	return append(buf, '\n'), nil
}

// encode returns the lines of records.
func encode(records []Record) (buf []byte, err error) {
	for _, r := range records {
		if buf, err = appendLine(buf, r); err != nil {
			return nil, err
		}
	}
	return buf, nil
}

// errTorn is the error of a line that may be half written.
var errTorn = errors.New("checksum does not match")

// parseLine reads one line without its newline.
func parseLine(line []byte) (Record, error) {
	var r Record
	if len(line) < 10 || line[8] != ' ' {
		return r, errTorn
	}
	body := line[9:]
	if sum, err := strconv.ParseUint(string(line[:8]), 16, 32); err != nil ||
		crc32.Checksum(body, table) != uint32(sum) {
		return r, errTorn
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, fmt.Errorf("decode: %w", err)
	}
	return r, r.check()
}

func (r *Record) check() error {
	if r.ID == "" {
		return fmt.Errorf("record %q has no container id", r.Op)
	}
	switch r.Op {
	case Intend, Started, Bound, Early, Stopped, Forget:
		return nil
	case Measured:
		if r.Measures == nil {
			return fmt.Errorf("measured record of %s has no measurements", r.ID)
		}
		return nil
	case Final:
		if r.Final == nil {
			return fmt.Errorf("final record of %s has no result", r.ID)
		}
		return nil
	case StepBegun, StepEnded:
		if r.Step == nil || r.Op == StepEnded && r.Step.Report == nil {
			return fmt.Errorf("%s record of %s has no step", r.Op, r.ID)
		}
		return nil
	case StepsKnown:
		return nil
	}
	return fmt.Errorf("record %q was written by a later version: install that version again, or remove the "+
		"journal if no job runs on this node", r.Op)
}

// CorruptError means that the journal is damaged at a place that a crash while writing cannot
// explain.
type CorruptError struct {
	Path   string
	Line   int
	Offset int64
	Err    error
}

// Error implements error.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("journal %s is damaged at line %d (byte %d): %v; check the disk for errors; if no job "+
		"runs on this node, move the file away",
		e.Path, e.Line, e.Offset, e.Err)
}

// Unwrap returns what is wrong with the line.
func (e *CorruptError) Unwrap() error { return e.Err }

// decode reads a whole journal. good is the length of what is valid; the rest, at most one record,
// was torn by a crash.
func decode(path string, data []byte) (records []Record, good int64, err error) {
	rest, line := data, 0
	for len(rest) > 0 {
		line++
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			return records, good, nil
		}
		r, err := parseLine(rest[:end])
		if err != nil {
			if errors.Is(err, errTorn) && len(bytes.Trim(rest[end+1:], "\x00\n")) == 0 {
				return records, good, nil
			}
			return records, good, &CorruptError{Path: path, Line: line, Offset: good, Err: err}
		}
		records = append(records, r)
		rest = rest[end+1:]
		good += int64(end + 1)
	}
	return records, good, nil
}
