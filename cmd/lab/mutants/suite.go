package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// memoryMost bounds in bytes what the tests of a mutant may allocate.
const memoryMost = 4 << 30

// suites are the tests that are asked, and which statements they reach.
type suites struct {
	dir     string // for what is built
	pattern string // of the tests to run; "" for all
	list    []*suite
	reached map[block]bool // every block of the package's statements
}

// block is where some statements of a file begin and end.
type block struct {
	file        string
	first, last position
}

// suite is the tests of one package.
type suite struct {
	*source
	limit time.Duration // for one run
}

// newSuites runs the tests on the clean source: they must pass.
func newSuites(ctx context.Context, dir string, p *source, o options) (*suites, error) {
	s := &suites{dir: dir, pattern: o.pattern, reached: map[block]bool{}}
	patterns := o.tests
	if len(patterns) == 0 {
		patterns = []string{p.path}
	}
	for _, pattern := range patterns {
		tests, err := findPackage(pattern)
		if err != nil {
			return nil, err
		}
		if !tests.tested {
			return nil, fmt.Errorf("%s: %w", tests.path, errNoTests)
		}
		profile := filepath.Join(dir, "profile")
		binary, output, err := s.build(ctx, tests, "-cover", "-coverpkg="+p.path)
		if err != nil {
			return nil, fmt.Errorf("%w:\n%s", err, output)
		}
		begin := time.Now()
		if got, output, err := s.runTests(ctx, tests, binary, time.Hour, "-test.coverprofile="+profile); err != nil {
			return nil, err
		} else if got != survived {
			return nil, fmt.Errorf("the tests of %s do not pass on the clean source:\n%s", tests.path, output)
		}
		s.list = append(s.list, &suite{tests, 3*time.Since(begin) + o.slack})
		if err := s.readProfile(p, profile); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// readProfile notes which statements were run.
func (s *suites) readProfile(p *source, profile string) error {
	text, err := os.ReadFile(profile)
	if err != nil {
		return err
	}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		// PATH/FILE.go:LINE.COLUMN,LINE.COLUMN STATEMENTS COUNT
		name, rest, _ := strings.Cut(line, ":")
		b := block{file: filepath.Join(p.dir, filepath.Base(name))}
		var statements, count int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.first.line, &b.first.column, &b.last.line, &b.last.column,
			&statements, &count); err != nil {
			return fmt.Errorf("line %q of the coverage: %w", line, err)
		}
		s.reached[b] = s.reached[b] || count > 0
	}
	return nil
}

// missed reports whether no test comes to a mutant. What is in no block, such as a declaration or
// the condition of a case, may matter everywhere.
func (s *suites) missed(m *mutant) bool {
	within, reached := false, false
	for b, run := range s.reached {
		if b.file == m.file && !m.at.before(b.first) && m.at.before(b.last) {
			within, reached = true, reached || run
		}
	}
	return within && !reached
}

// try finds out whether any of the tests notices a mutant.
func (s *suites) try(ctx context.Context, m *mutant) (outcome, error) {
	if m.changesNothing() {
		return same, nil
	}
	text, err := m.text()
	if err != nil {
		return "", err
	}
	overlay, err := s.overlay(m, text)
	if err != nil {
		return "", err
	}
	all := survived
	if s.missed(m) {
		all = uncovered
	}
	for _, t := range s.list {
		binary, _, err := s.build(ctx, t.source, "-overlay="+overlay)
		if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
			return broken, nil
		} else if err != nil {
			return "", err
		}
		if all == uncovered && !t.starts {
			continue
		}
		got, _, err := s.runTests(ctx, t.source, binary, t.limit, "-test.failfast")
		if err != nil || got == killed {
			return got, err
		}
		if got == timedOut {
			all = timedOut
		}
	}
	return all, nil
}

// overlay writes what makes go build the mutant instead of the file.
func (s *suites) overlay(m *mutant, text []byte) (string, error) {
	changed, list := filepath.Join(s.dir, "mutant.go"), filepath.Join(s.dir, "overlay.json")
	if err := os.WriteFile(changed, text, 0o600); err != nil {
		return "", err
	}
	b, err := json.Marshal(map[string]map[string]string{"Replace": {m.file: changed}})
	if err != nil {
		return "", err
	}
	return list, os.WriteFile(list, b, 0o600)
}

// build makes a test program and returns its path.
func (s *suites) build(ctx context.Context, p *source, flags ...string) (binary, output string, err error) {
	binary = filepath.Join(s.dir, "tests")
	args := append([]string{"test", "-c", "-o", binary}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, p.path)...)
	cmd.Dir = p.dir
	b, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("build the tests of %s: %w", p.path, err)
	}
	return binary, string(b), err
}

// runTests runs a test program where `go test` would.
func (s *suites) runTests(ctx context.Context, p *source, binary string, limit time.Duration, flags ...string) (outcome,
	string, error) {
	cmd := exec.Command(binary, append(flags, "-test.run="+s.pattern, "-test.timeout="+limit.String())...)
	cmd.Dir = p.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.WaitDelay = time.Second // what the tests started may hold the output open
	// what leaves the group becomes a child of this process when the tests end
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if err := cmd.Start(); err != nil {
		return "", "", err
	}
	killGroup := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	defer killOrphans()
	defer killGroup()
	bound := &unix.Rlimit{Cur: memoryMost, Max: memoryMost}
	_ = unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_DATA, bound, nil) // without a bound it runs too
	late := false
	watch, cancel := context.WithTimeout(ctx, limit+time.Second)
	defer cancel()
	stop := context.AfterFunc(watch, func() { late = true; killGroup() })
	err := cmd.Wait()
	if !stop() {
		<-watch.Done()
	}
	switch {
	case err == nil:
		return survived, output.String(), nil
	case late || strings.Contains(output.String(), "panic: test timed out after"):
		return timedOut, output.String(), nil
	}
	return killed, output.String(), nil
}

// killOrphans ends all children of this process, and theirs: tests that fail leave processes behind.
func killOrphans() {
	for {
		found := false
		files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed
		for _, file := range files {
			var pid, parent int
			var state string
			text, _ := os.ReadFile(file) // it may have ended meanwhile
			_, rest, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ")
			if _, err := fmt.Sscan(rest, &state, &parent); err != nil || parent != os.Getpid() {
				continue
			}
			if _, err := fmt.Sscan(string(text), &pid); err == nil {
				found = true
				_ = syscall.Kill(pid, syscall.SIGKILL)
				_, _ = syscall.Wait4(pid, nil, 0, nil)
			}
		}
		if !found {
			return
		}
	}
}
