package output

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

// Bounds on how much output is scanned, so that no job can keep its shim busy.
const (
	lineMax        = 4 << 10 // bytes of a line that are scanned
	linesPerSecond = 5000    // of one stream
	findingMax     = 500     // bytes of a line that are reported
	stepsFileMax   = 1 << 20 // bytes after which the file of steps is emptied
)

// Scanner looks in the output of a worker for log policies and for the job's progress.
type Scanner struct {
	policies []policyMatcher
	steps    *stepScanner
	stepTask string
	path     string // of findings

	mu sync.Mutex // guards found of the policies, and the file
}

type policyMatcher struct {
	container.Policy
	re    *regexp.Regexp
	found *bool
}

// NewScanner compiles the patterns. An invalid one is an error: patterns are checked when a
// job is submitted.
func NewScanner(dir string, s container.Settings) (*Scanner, error) {
	f := &Scanner{path: container.FindingsPath(dir)}
	for _, p := range s.Policies {
		re, err := regexp.Compile(p.Pattern)
		if err != nil {
			return nil, container.Final(fmt.Errorf("log_policy %s: %w", p.Name, err))
		}
		f.policies = append(f.policies, policyMatcher{p, re, new(bool)})
	}
	if s.Steps != nil {
		pattern, err := jobspec.CompileProgress(s.Steps.Pattern)
		if err != nil {
			return nil, container.Final(fmt.Errorf("progress.pattern: %w", err))
		}
		f.steps, f.stepTask = &stepScanner{pattern: pattern, path: container.StepsPath(dir), atStep: s.Steps.AtStep,
			metric: s.Steps.Metric}, s.Steps.Task
	}
	return f, nil
}

// TaskScanner scans one task's output.
type TaskScanner struct {
	worker *Scanner
	steps  *stepScanner // nil unless progress is read from this task's output
}

// Task returns the scanner of the task with a name.
func (f *Scanner) Task(name string) *TaskScanner {
	t := &TaskScanner{worker: f}
	if f.stepTask == name {
		t.steps = f.steps
	}
	return t
}

// separatesStreams reports whether a policy applies to one stream only.
func (t *TaskScanner) separatesStreams() bool {
	return slices.ContainsFunc(t.worker.policies, func(p policyMatcher) bool {
		return p.Stream == "stdout" ||
			p.Stream == "stderr"
	})
}

// stream returns the scanner of one stream, nil if there is no pattern for it.
func (t *TaskScanner) stream(name string) *lineScanner {
	l := &lineScanner{worker: t.worker, steps: t.steps}
	for _, p := range t.worker.policies {
		if p.Stream == "" || p.Stream == "both" || p.Stream == name {
			l.policies = append(l.policies, p)
		}
	}
	if len(l.policies) == 0 && l.steps == nil {
		return nil
	}
	return l
}

// lineScanner scans the lines of one stream. A nil one scans nothing.
type lineScanner struct {
	worker    *Scanner
	policies  []policyMatcher
	steps     *stepScanner
	line      []byte
	second    int64
	linesSeen int // lines of this second
}

// write scans the next part of the stream.
func (l *lineScanner) write(b []byte) {
	if l == nil {
		return
	}
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		part := b
		if end >= 0 {
			part = b[:end]
		}
		l.line = append(l.line, part[:min(len(part), lineMax-len(l.line))]...)
		if end < 0 {
			return
		}
		l.scanLine()
		b = b[end+1:]
	}
}

// end scans what is left of the last line.
func (l *lineScanner) end() {
	if l == nil {
		return
	}
	if len(l.line) > 0 {
		l.scanLine()
	}
	if l.steps != nil {
		l.steps.flush()
	}
}

func (l *lineScanner) scanLine() {
	line := bytes.TrimSuffix(l.line, []byte("\r"))
	l.line = l.line[:0]
	now := time.Now()
	if second := now.Unix(); second != l.second {
		l.second, l.linesSeen = second, 0
	}
	if l.linesSeen++; l.linesSeen > linesPerSecond {
		return
	}
	for _, p := range l.policies {
		if p.re.Match(line) {
			l.worker.writeFinding(p, line, now)
		}
	}
	if l.steps != nil {
		l.steps.scan(line, now)
	}
}

// writeFinding writes down the first line that a policy was found in.
func (f *Scanner) writeFinding(p policyMatcher, line []byte, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *p.found {
		return
	}
	text := strings.ToValidUTF8(string(line[:min(len(line), findingMax)]), "?")
	b, err := json.Marshal(container.Finding{Policy: p.Name, Line: text, Unix: now.UnixMilli()})
	if err == nil {
		*p.found = appendTo(f.path, append(b, '\n'), 0) == nil // on a full disk the next line may be written
	}
}

// appendTo appends a line to a file. The file is emptied first if it has more than most bytes; 0 is
// no bound.
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

// stepScanner finds the job's progress. It keeps the newest line of every second, and in any case
// the first line that reaches atStep.
type stepScanner struct {
	pattern *jobspec.ProgressPattern
	path    string
	atStep  int64  // the step that an array waits for; 0: none
	metric  string // that the line must have

	mu        sync.Mutex
	reached   bool
	writtenAt time.Time // when the last line was written
	pending   []byte    // the newest line, not written yet
}

func (s *stepScanner) scan(line []byte, now time.Time) {
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
	crossing := s.atStep > 0 && !s.reached && step >= s.atStep && has
	s.reached = s.reached || crossing
	s.pending = append(b, '\n')
	if crossing || now.Sub(s.writtenAt) >= time.Second {
		s.write(now)
	}
}

func (s *stepScanner) write(now time.Time) {
	if appendTo(s.path, s.pending, stepsFileMax) == nil {
		s.writtenAt, s.pending = now, nil
	}
}

// flush writes the pending line.
func (s *stepScanner) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending != nil {
		s.write(time.Now())
	}
}
