package trace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace/field"
	"github.com/rota-hpc/rota/jobspec"
)

// maxHistory bounds one value of the input in bytes. A whole list of jobs is one value.
const maxHistory = 1 << 30

// record is the part of a job in our own accounting that a replay uses.
type record struct {
	ID        int64           `json:"id"`
	Name      string          `json:"name"`
	User      string          `json:"user"`
	Account   string          `json:"account"`
	Class     jobspec.Class   `json:"class"`
	Priority  *int            `json:"priority"`
	Submitted *string         `json:"submitted"`
	Started   *string         `json:"started"`
	Code      string          `json:"code"`
	ExitCode  int             `json:"exit_code"`
	Ended     *string         `json:"ended"`
	Elapsed   int64           `json:"elapsed"` // s
	TimeLimit int64           `json:"time_limit"`
	Workers   int             `json:"workers"`
	Cores     int64           `json:"cores"`  // of all workers
	Memory    int64           `json:"memory"` // bytes, of all workers
	GPUs      json.RawMessage `json:"gpus"`   // of all workers: a number, or a list of them
	Attempts  []recordAttempt `json:"attempts"`

	Array struct {
		Size int `json:"size"`
	} `json:"array"`
	Groups []recordGroup `json:"groups"`
}

type recordGroup struct {
	ID int64 `json:"id"` // of the group job
}

// isParent reports whether the record stands for others that are in the accounting themselves: the
// tasks of an array, or the jobs of its groups.
func (r *record) isParent() bool {
	return r.Array.Size > 0 || slices.ContainsFunc(r.Groups, func(g recordGroup) bool { return g.ID > 0 })
}

type recordAttempt struct {
	Start *string `json:"start"`
	End   *string `json:"end"`
}

// readHistory reads JSON values one after the other: jobs, or lists with the jobs in "items".
func readHistory(s *sink, l *lines) error {
	s.dated = true
	all, err := io.ReadAll(io.LimitReader(l.r, maxHistory+1))
	if err != nil {
		return fmt.Errorf("read the jobs: %w", err)
	}
	if len(all) > maxHistory {
		return fmt.Errorf("the input has more than %d bytes: split the file", maxHistory)
	}
	t := &text{all: all}
	for t.skipSpace(); t.at < len(all); t.skipSpace() {
		if err := s.historyValue(t); err != nil {
			return err
		}
	}
	return nil
}

// text is JSON with a position from which line numbers are counted.
type text struct {
	all     []byte
	at      int
	line    int // lines before counted
	counted int
}

func (t *text) skipSpace() {
	for t.at < len(t.all) && bytes.IndexByte([]byte(" \t\r\n"), t.all[t.at]) >= 0 {
		t.at++
	}
}

// lineAt returns the line of a position. Positions must not go back.
func (t *text) lineAt(at int) int {
	t.line += bytes.Count(t.all[t.counted:max(at, t.counted)], []byte("\n"))
	t.counted = max(at, t.counted)
	return t.line + 1
}

// historyValue reads the value at t. A value that is not JSON costs its line, so that the rest of
// JSON Lines can be read. A value of several lines that breaks off refuses the whole input, as
// broken gzip data do.
func (s *sink) historyValue(t *text) error {
	start := t.at
	d := json.NewDecoder(bytes.NewReader(t.all[start:]))
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		line := t.lineAt(start)
		t.at = start + lineLength(t.all[start:])
		if errors.Is(err, io.ErrUnexpectedEOF) && len(bytes.TrimSpace(t.all[t.at:])) > 0 {
			return fmt.Errorf("the input ends within the job that begins on line %d: is the file complete?", line)
		}
		s.trace.skip(line, string(bytes.TrimRight(t.all[start:t.at], "\r")), "not JSON: "+err.Error())
		return nil
	}
	if raw[0] != '{' && raw[0] != '[' { // such as the first number of a table's line
		line := t.lineAt(start)
		t.at = start + lineLength(t.all[start:])
		s.trace.skip(line, string(bytes.TrimRight(t.all[start:t.at], "\r")), "the input is neither a job nor a list of jobs")
		return nil
	}
	t.at = start + int(d.InputOffset())
	return s.jobsIn(t, start, raw)
}

func lineLength(b []byte) int {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return i
	}
	return len(b)
}

// jobsIn reads a value as a job, or as a list of jobs. start is the position of the value in t.
func (s *sink) jobsIn(t *text, start int, raw json.RawMessage) error {
	items, ok := itemsAt(raw)
	if !ok {
		return s.historyJob(t.lineAt(start), raw)
	}
	d := json.NewDecoder(bytes.NewReader(raw[items:]))
	if _, err := d.Token(); err != nil { // the bracket
		return fmt.Errorf("line %d: %w", t.lineAt(start), err)
	}
	for d.More() {
		var item json.RawMessage
		if err := d.Decode(&item); err != nil {
			return fmt.Errorf("line %d: %w", t.lineAt(start), err)
		}
		at := start + items + int(d.InputOffset()) - len(item)
		if err := s.historyJob(t.lineAt(at), item); err != nil {
			return err
		}
	}
	return nil
}

// itemsAt returns where the array of jobs begins in a value: the value itself, or its member
// "items".
func itemsAt(raw json.RawMessage) (int, bool) {
	if raw[0] == '[' {
		return 0, true
	}
	if raw[0] != '{' {
		return 0, false
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	_, _ = d.Token() // the brace: raw is valid
	for d.More() {
		key, _ := d.Token()
		after := int(d.InputOffset())
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return 0, false
		}
		if key == "items" && value[0] == '[' {
			return after + bytes.IndexByte(raw[after:], '['), true
		}
	}
	return 0, false
}

// historyJob adds one job, or leaves it out and keeps its line.
func (s *sink) historyJob(line int, raw json.RawMessage) error {
	var r record
	err := json.Unmarshal(raw, &r)
	if err == nil && r.isParent() {
		return nil
	}
	if err == nil {
		var j *Job
		if j, err = r.job(); err == nil {
			err = s.add(j, line)
		}
	}
	if errors.Is(err, errTooMany) {
		return err
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		err = fmt.Errorf("%s: unexpected %s", cmp.Or(wrong.Field, "the job"), wrong.Value)
	}
	if err != nil {
		s.trace.skip(line, string(bytes.Join(bytes.Fields(raw[:min(len(raw), 4*maxShown)]), []byte(" "))), err.Error())
	}
	return nil
}

// job converts the record into a job. Its length is the sum of its attempts, because a preempted
// job keeps its work, also in a replay.
func (r *record) job() (*Job, error) {
	if r.ID < 1 {
		return nil, errors.New("it has no id")
	}
	j := NewJob(fmt.Sprint(r.ID))
	j.Name, j.User, j.Account, j.Class = r.Name, r.User, r.Account, r.Class
	if r.Class == "" {
		j.Class = jobspec.BE
	}
	if r.Priority != nil {
		j.Priority = *r.Priority
	}
	if r.Submitted == nil {
		return nil, errors.New("it has no submit time")
	}
	at, err := field.Time(*r.Submitted)
	if err != nil {
		return nil, fmt.Errorf("submitted: %w", err)
	}
	j.Submit = at
	if r.TimeLimit < 0 || r.TimeLimit > int64(jobspec.MaxDuration) {
		return nil, fmt.Errorf("time_limit: %d s is negative or more than ten years", r.TimeLimit)
	}
	j.Limit = r.TimeLimit * second
	if j.Work, err = r.runTime(); err != nil {
		return nil, err
	}
	return j, r.setRequest(j)
}

// setRequest divides the capacity of all workers among them.
func (r *record) setRequest(j *Job) error {
	gpus, err := count(r.GPUs)
	if err != nil {
		return err
	}
	switch {
	case r.Workers < 1 || r.Workers > MaxWorkers:
		return fmt.Errorf("workers: %d is not between 1 and %d", r.Workers, MaxWorkers)
	case r.Cores < 0 || r.Memory < 0 || gpus < 0:
		return errors.New("cores, memory or gpus are negative")
	case r.Cores > MaxCores*MaxWorkers || gpus > MaxGPUs*MaxWorkers:
		return errors.New("cores or gpus are impossibly large")
	}
	n := int64(r.Workers)
	j.Workers = r.Workers
	j.Request = model.Vector{Cores: (r.Cores + n - 1) / n, Memory: jobspec.Bytes(r.Memory / n),
		GPUs: (gpus + n - 1) / n * gpu}
	return nil
}

// count reads a number, or the length of a list.
func count(raw json.RawMessage) (int64, error) {
	var n int64
	var list []json.RawMessage
	switch {
	case len(raw) == 0 || string(raw) == "null" || json.Unmarshal(raw, &n) == nil:
		return n, nil
	case json.Unmarshal(raw, &list) == nil:
		return int64(len(list)), nil
	}
	return 0, fmt.Errorf("gpus: %s is neither a whole number nor a list", field.Shorten(string(raw)))
}

// runTime adds up the attempts, in ms. Without attempts it is the length of the last one.
func (r *record) runTime() (int64, error) {
	if r.Ended == nil {
		return 0, errors.New("it has not ended")
	}
	total := int64(0)
	for i, a := range r.Attempts {
		ms, err := between(a.Start, a.End)
		if err != nil {
			return 0, fmt.Errorf("attempt %d: %w", i+1, err)
		}
		if total += ms; total > MaxTime {
			return 0, errors.New("its attempts ran for more than ten years")
		}
	}
	if total > 0 {
		return total, nil
	}
	switch {
	case r.Elapsed < 0 || r.Elapsed > int64(jobspec.MaxDuration):
		return 0, fmt.Errorf("elapsed: %d s is negative or more than ten years", r.Elapsed)
	case r.Elapsed > 0:
		return r.Elapsed * second, nil
	}
	ms, err := between(r.Started, r.Ended)
	switch {
	case err != nil || ms > 0:
		return ms, err
	case r.Code == completed || r.Code == failed && r.ExitCode != 0:
		return 1, nil // the job ended before it was seen running, or within the resolution of the stamps: the least time
	case r.Started == nil:
		return 0, errors.New("it never ran")
	}
	return 0, nil
}

// Codes of jobs that ended by themselves.
const (
	completed = "CD"
	failed    = "F"
)

// between returns the time from one stamp to another in ms, 0 if either is missing.
func between(from, to *string) (int64, error) {
	if from == nil || to == nil {
		return 0, nil
	}
	a, err := field.Time(*from)
	if err != nil {
		return 0, err
	}
	b, err := field.Time(*to)
	if err != nil {
		return 0, err
	}
	if b < a {
		return 0, errors.New("it ended before it began")
	}
	return b - a, nil
}
