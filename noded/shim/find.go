package shim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
)

// Bounds of what is looked at in the output of a job, so that no job can keep its shim busy.
const (
	lineMost     = 4 << 10 // bytes of a line; of a longer one the beginning is looked at
	linesMost    = 5000    // lines a second of one stream
	findingLine  = 500     // bytes of a line that are reported
	stepsFileMax = 1 << 20 // bytes after which the file of steps begins anew
)

// finder looks in the output of a worker for what policies and the job's progress ask for.
type finder struct {
	policies []policyFinder
	steps    *stepFinder
	stepTask string
	path     string // of findings

	mu sync.Mutex // guards found of the policies, and the file
}

type policyFinder struct {
	container.Policy
	re    *regexp.Regexp
	found *bool
}

// newFinder prepares the patterns. A pattern that is none is an error: it was checked when the job was submitted.
func newFinder(dir string, s container.Settings) (*finder, error) {
	f := &finder{path: container.FindingsPath(dir)}
	for _, p := range s.Policies {
		re, err := regexp.Compile(p.Pattern)
		if err != nil {
			return nil, container.Final(fmt.Errorf("log_policy %s: %w", p.Name, err))
		}
		f.policies = append(f.policies, policyFinder{p, re, new(bool)})
	}
	if s.Steps != nil {
		pattern, err := jobspec.CompileProgress(s.Steps.Pattern)
		if err != nil {
			return nil, container.Final(fmt.Errorf("progress.pattern: %w", err))
		}
		f.steps, f.stepTask = &stepFinder{pattern: pattern, path: container.StepsPath(dir), at: s.Steps.AtStep, metric: s.Steps.Metric}, s.Steps.Task
	}
	return f, nil
}

// taskFinder is the finder of one task's output.
type taskFinder struct {
	of    *finder
	steps *stepFinder // nil when progress is in another task's output, or nowhere
}

func (f *finder) task(name string) *taskFinder {
	t := &taskFinder{of: f}
	if f.stepTask == name {
		t.steps = f.steps
	}
	return t
}

// tellsApart reports whether it matters which stream a line is from.
func (t *taskFinder) tellsApart() bool {
	return slices.ContainsFunc(t.of.policies, func(p policyFinder) bool { return p.Stream == "stdout" || p.Stream == "stderr" })
}

// stream is the finder of one stream, nil when there is nothing to find in it.
func (t *taskFinder) stream(name string) *lineFinder {
	l := &lineFinder{of: t.of, steps: t.steps}
	for _, p := range t.of.policies {
		if p.Stream == "" || p.Stream == "both" || p.Stream == name {
			l.policies = append(l.policies, p)
		}
	}
	if len(l.policies) == 0 && l.steps == nil {
		return nil
	}
	return l
}

// lineFinder looks at the lines of one stream. A nil one looks at nothing.
type lineFinder struct {
	of       *finder
	policies []policyFinder
	steps    *stepFinder
	line     []byte
	second   int64
	seen     int // lines of this second
}

// write takes the next part of the stream.
func (l *lineFinder) write(b []byte) {
	if l == nil {
		return
	}
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		part := b
		if end >= 0 {
			part = b[:end]
		}
		l.line = append(l.line, part[:min(len(part), lineMost-len(l.line))]...)
		if end < 0 {
			return
		}
		l.look()
		b = b[end+1:]
	}
}

// end takes what is left of the last line.
func (l *lineFinder) end() {
	if l == nil {
		return
	}
	if len(l.line) > 0 {
		l.look()
	}
	if l.steps != nil {
		l.steps.flush()
	}
}

func (l *lineFinder) look() {
	line := bytes.TrimSuffix(l.line, []byte("\r"))
	l.line = l.line[:0]
	now := time.Now()
	if second := now.Unix(); second != l.second {
		l.second, l.seen = second, 0
	}
	if l.seen++; l.seen > linesMost {
		return
	}
	for _, p := range l.policies {
		if p.re.Match(line) {
			l.of.report(p, line, now)
		}
	}
	if l.steps != nil {
		l.steps.look(line, now)
	}
}

// report writes down the first line that a policy was found in.
func (f *finder) report(p policyFinder, line []byte, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *p.found {
		return
	}
	text := strings.ToValidUTF8(string(line[:min(len(line), findingLine)]), "?")
	b, err := json.Marshal(container.Finding{Policy: p.Name, Line: text, Unix: now.UnixMilli()})
	if err == nil {
		*p.found = appendTo(f.path, append(b, '\n'), 0) == nil // on a full disk the next line may do
	}
}

// appendTo adds a line to a file, which begins anew when it has grown to most bytes; 0 is no bound.
func appendTo(path string, line []byte, most int64) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && most > 0 && info.Size() > most {
		if err := file.Truncate(0); err != nil {
			return err
		}
	}
	_, err = file.Write(line)
	return err
}

// stepFinder finds the job's progress. It keeps a line a second, the newest, and in any case the one with which a step of interest is reached.
type stepFinder struct {
	pattern *jobspec.ProgressPattern
	path    string
	at      int64  // the step of interest; 0: none
	metric  string // that has to come with it

	mu      sync.Mutex
	reached bool
	kept    time.Time // of the last line written
	waiting []byte    // a newer one
}

func (s *stepFinder) look(line []byte, now time.Time) {
	step, metrics, ok := s.pattern.Read(string(line))
	if !ok {
		return
	}
	b, err := json.Marshal(map[string]any{"step": step, "metrics": metrics, "time": now.UTC().Format(time.RFC3339)})
	if err != nil {
		return // numbers only: it cannot fail
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, has := metrics[s.metric]
	crossing := s.at > 0 && !s.reached && step >= s.at && has
	s.reached = s.reached || crossing
	s.waiting = append(b, '\n')
	if crossing || now.Sub(s.kept) >= time.Second {
		s.write(now)
	}
}

func (s *stepFinder) write(now time.Time) {
	if appendTo(s.path, s.waiting, stepsFileMax) == nil {
		s.kept, s.waiting = now, nil
	}
}

// flush writes what still waits.
func (s *stepFinder) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting != nil {
		s.write(time.Now())
	}
}
