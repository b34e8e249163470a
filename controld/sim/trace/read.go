package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/sim/trace/field"
)

// Options say how to read a trace.
type Options struct {
	Name     string    // of the file, for messages and results
	Format   Format    // empty: recognised by the first lines
	Profiles *Profiles // of the applications of a sia workload; other formats need none
	NodeGPUs int       // GPUs of a whole node, for formats that only count GPUs; 0: 8
}

func (o *Options) nodeGPUs() int {
	if o.NodeGPUs > 0 {
		return min(o.NodeGPUs, MaxGPUs)
	}
	return 8
}

// errTooMany ends the reading of a trace.
var errTooMany = fmt.Errorf("more than %d jobs", MaxJobs)

// Read reads a trace, gzip or plain. Lines that cannot be used are left out and listed in the
// result. The error is about the whole input: it cannot be read, its format is unknown
// ([ErrFormat]) or a column is missing. Or it needs profiles ([ErrNoProfiles]), or no line of it is
// a job ([ErrNoJobs]).
func Read(r io.Reader, o Options) (*Trace, error) {
	b, err := open(r)
	if err != nil {
		return nil, err
	}
	format := o.Format
	if format == "" {
		if format, err = detect(b); err != nil {
			return nil, err
		}
	}
	decode, ok := decoders[format]
	if !ok {
		return nil, fmt.Errorf("format %q: %w", field.Shorten(string(format)), ErrFormat)
	}
	s := &sink{trace: &Trace{Name: o.Name, Format: format}, options: o, lineOf: map[string]int{}}
	if err := decode(s, &lines{r: b}); err != nil {
		return nil, fmt.Errorf("format %s: %w", format, err)
	}
	return s.sortedTrace()
}

// decoders turn lines into jobs.
var decoders = map[Format]func(*sink, *lines) error{
	FitGpp: readFitGpp, Philly: readPhilly, SWF: readSWF, OpenB: readOpenB, Sia: readSia, Tiresias: readTiresias,
	History: readHistory,
}

// sink collects the jobs of one input.
type sink struct {
	trace   *Trace
	full    [][]Job // runs of jobs, since copying large jobs to grow one list costs more than all else
	last    []Job
	count   int
	spare   Job // see sink.draft
	options Options
	lineOf  map[string]int // of each id
	dated   bool           // submit times count from an epoch such as 1970 until all are read
	origin  int64          // submit time of the first job of the file, if dated
}

// add adds a job with its line number. The error says why the job is left out.
func (s *sink) add(j *Job, line int) error {
	j.Line = line
	j.Fill()
	if err := s.check(j); err != nil {
		return err
	}
	if first, twice := s.lineOf[j.ID]; twice {
		return fmt.Errorf("job %s was on line %d already", j.ID, first)
	}
	if s.count >= MaxJobs {
		return errTooMany
	}
	s.lineOf[j.ID] = line
	if len(s.last) == cap(s.last) {
		s.full, s.last = append(s.full, s.last), make([]Job, 0, min(max(64, s.count), 4096))
	}
	s.last = append(s.last, *j)
	s.count++
	return nil
}

// draft is NewJob in a place of its own. The next call overwrites the job.
func (s *sink) draft(id string) *Job {
	s.spare = *NewJob(id)
	return &s.spare
}

// check is [Job.Check] for a job whose submit time may be a date. A date is compared with the first
// job of the file, so that one wild date costs its own line only.
func (s *sink) check(j *Job) error {
	dated := s.dated || s.count == 0 && j.Submit > MaxTime
	if !dated {
		return j.Check()
	}
	relative := *j
	relative.Submit = 0
	if err := relative.Check(); err != nil {
		return err
	}
	if s.count == 0 {
		s.dated, s.origin = true, j.Submit
	}
	if d := j.Submit - s.origin; d > MaxTime/2 || d < -MaxTime/2 {
		return errors.New("submitted more than five years before or after the first job of the file")
	}
	return nil
}

func (s *sink) sortedTrace() (*Trace, error) {
	t := s.trace
	t.Jobs = make([]Job, 0, s.count)
	for _, run := range append(s.full, s.last) {
		t.appendRun(run)
	}
	if len(t.Jobs) == 0 {
		if t.Bad > 0 {
			return nil, fmt.Errorf("%s could not be used; the first was %s: %w", Counted(t.Bad, "line", "lines"), t.Skipped[0],
				ErrNoJobs)
		}
		return nil, ErrNoJobs
	}
	t.sortByArrival()
	if s.dated {
		t.startAtFirst()
	}
	return t, nil
}

// appendRun adds a run of jobs. It is a call of its own for the garbage collector, which can stop a
// goroutine only where a function begins. In one long copy the collector asks again and again, and
// pages are written several times as slowly (0.2 s for 65,536 jobs).
//
//go:noinline
func (t *Trace) appendRun(run []Job) { t.Jobs = append(t.Jobs, run...) }

// detect recognises the format of a trace by its first lines. It returns [ErrFormat] for an unknown
// format and [ErrNoJobs] for an empty input.
func detect(b *bufio.Reader) (Format, error) {
	start, err := b.Peek(peekBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the first lines: %w", err)
	}
	for line := range strings.Lines(string(start)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case line[0] == '{' || line[0] == '[':
			return History, nil
		case line[0] == ';':
			return SWF, nil
		default:
			return formatOf(line)
		}
	}
	if errors.Is(err, io.EOF) { // the whole input is blank
		return "", ErrNoJobs
	}
	return "", ErrFormat
}

// formatOf recognises the format by the first line that is not blank. The error shows that line.
func formatOf(line string) (Format, error) {
	columns := columnNames(line)
	for _, f := range []struct {
		format Format
		marks  []string // columns that no other format has
	}{
		{FitGpp, []string{"submit_min", "exec_min"}}, {Philly, []string{"timestamp", "num_gpus"}},
		{OpenB, []string{"gpu_milli", "deletion_time"}}, {Sia, []string{"application", "batch_size"}},
		{Tiresias, []string{"model_name", "num_gpu"}},
	} {
		if !slices.ContainsFunc(f.marks, func(m string) bool { return !slices.Contains(columns, m) }) {
			return f.format, nil
		}
	}
	if len(strings.Fields(line)) == swfFields && !strings.Contains(line, ",") {
		return SWF, nil
	}
	return "", fmt.Errorf("the first line is %q: %w", field.Shorten(line), ErrFormat)
}

// Counted returns a number with its noun.
func Counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
