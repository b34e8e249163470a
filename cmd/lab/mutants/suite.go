package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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
	slack   time.Duration
	list    []*suite
	failing []string // tests that do not pass on the clean source here: they are not asked
	failure string   // what the last of them said
}

// block is where some statements of a file begin and end.
type block struct {
	file        string
	first, last position
}

// suite is the tests of one package.
type suite struct {
	*source
	tests []*test // the quickest first
}

// test is one test function.
type test struct {
	name    string
	took    time.Duration  // on the clean source
	reached map[block]bool // every block of the package's statements
}

// newSuites runs each test on the clean source: it must pass.
func newSuites(ctx context.Context, dir string, p *source, o options) (*suites, error) {
	s := &suites{dir: dir, pattern: o.pattern, slack: o.slack}
	patterns := o.tests
	if len(patterns) == 0 {
		patterns = []string{p.path}
	}
	for _, pattern := range patterns {
		found, err := findPackage(pattern)
		if err != nil {
			return nil, err
		}
		if !found.tested {
			return nil, fmt.Errorf("%s: %w", found.path, errNoTests)
		}
		binary, output, err := s.build(ctx, found, "clean", "-cover", "-coverpkg="+p.path)
		if err != nil {
			return nil, fmt.Errorf("%w:\n%s", err, output)
		}
		t := &suite{source: found}
		if t.tests, err = s.measure(ctx, p, found, binary); err != nil {
			return nil, err
		}
		s.list = append(s.list, t)
	}
	return s, nil
}

// measure runs the tests in a program one by one, and returns what each reaches of p, the quickest
// first.
func (s *suites) measure(ctx context.Context, p, found *source, binary string) ([]*test, error) {
	list := exec.CommandContext(ctx, binary, "-test.list="+cmp.Or(s.pattern, "."))
	list.Dir = found.dir
	names, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests of %s: %w", found.path, err)
	}
	var all []*test
	for name := range strings.Lines(string(names)) {
		if name = strings.TrimSpace(name); !testName.MatchString(name) {
			continue
		}
		profile := filepath.Join(s.dir, "profile")
		var begin time.Time
		var got outcome
		var output string
		for range 3 { // the machine may be busy
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			begin = time.Now()
			if got, output, err = s.runTests(ctx, found, program{path: binary}, exactly([]string{name}), time.Hour,
				"-test.coverprofile="+profile); err != nil {
				return nil, err
			}
			if got == survived {
				break
			}
		}
		if got != survived {
			s.failing = append(s.failing, name)
			s.failure = output
			continue
		}
		t := &test{name: name, took: time.Since(begin)}
		if t.reached, err = readProfile(p, profile); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	if len(all) == 0 && len(s.failing) > 0 {
		return nil, fmt.Errorf("no test of %s passes on the clean source:\n%s", found.path, s.failure)
	}
	slices.SortStableFunc(all, func(a, b *test) int { return cmp.Compare(a.took, b.took) })
	return all, nil
}

// testName matches the names of what -test.run runs.
var testName = regexp.MustCompile(`^(Test|Fuzz|Example)\w*$`)

// exactly is a pattern that matches tests with these names.
func exactly(names []string) string { return "^(" + strings.Join(names, "|") + ")$" }

// readProfile returns which statements were run.
func readProfile(p *source, profile string) (map[block]bool, error) {
	text, err := os.ReadFile(profile)
	if err != nil {
		return nil, err
	}
	reached := map[block]bool{}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		// PATH/FILE.go:LINE.COLUMN,LINE.COLUMN STATEMENTS COUNT
		name, rest, _ := strings.Cut(line, ":")
		b := block{file: filepath.Join(p.dir, filepath.Base(name))}
		var statements, count int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.first.line, &b.first.column, &b.last.line, &b.last.column,
			&statements, &count); err != nil {
			return nil, fmt.Errorf("line %q of the coverage: %w", line, err)
		}
		reached[b] = reached[b] || count > 0
	}
	return reached, nil
}

// misses reports whether a test does not come to a mutant. Code in no block, such as a declaration
// or the condition of a case, may matter everywhere.
func (t *test) misses(m *mutant) bool {
	within, reached := false, false
	for b, run := range t.reached {
		if b.file == m.file && !m.at.before(b.first) && m.at.before(b.last) {
			within, reached = true, reached || run
		}
	}
	return within && !reached
}

// try finds out whether any of the tests notices a mutant, which b may have.
func (s *suites) try(ctx context.Context, b *batch, m *mutant) (outcome, error) {
	if m.changesNothing() {
		return same, nil
	}
	if b.broken[m] {
		return broken, nil
	}
	all := uncovered
	for i, t := range s.list {
		var program program
		if n := b.numbers[m]; n > 0 {
			program.path, program.env = b.programs[i], []string{fmt.Sprintf("%s=%d", batchVariable, n)}
		} else {
			text, err := m.text()
			if err != nil {
				return "", err
			}
			overlay, err := s.overlay(map[string][]byte{m.file: text})
			if err != nil {
				return "", err
			}
			program.path, _, err = s.build(ctx, t.source, "tests", "-overlay="+overlay)
			if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
				return broken, nil
			} else if err != nil {
				return "", err
			}
		}
		tests := slices.DeleteFunc(slices.Clone(t.tests), func(one *test) bool { return !t.starts && one.misses(m) })
		if all == uncovered && slices.ContainsFunc(t.tests, func(one *test) bool { return !one.misses(m) }) {
			all = survived
		}
		got, err := s.ask(ctx, t.source, program, tests)
		if err != nil || got == killed || got == broken {
			return got, err
		}
		if got == timedOut {
			all = timedOut
		}
	}
	return all, nil
}

// chunk is how long the tests take that are run together: the quick ones often know already.
const chunk = 3 * time.Second

// ask runs tests on a mutant until one fails, or none is left.
func (s *suites) ask(ctx context.Context, p *source, binary program, tests []*test) (outcome, error) {
	for len(tests) > 0 {
		var names []string
		var took time.Duration
		for len(tests) > 0 && (len(names) == 0 || took+tests[0].took <= chunk) {
			names, took, tests = append(names, tests[0].name), took+tests[0].took, tests[1:]
		}
		limit := 3*took + s.slack
		got, output, err := s.runTests(ctx, p, binary, exactly(names), limit, "-test.failfast")
		if got == killed {
			if name := failedTest.FindStringSubmatch(output); name != nil {
				names = name[1:]
			}
			// a busy machine can make a test fail too: a mutant fails it twice
			got, _, err = s.runTests(ctx, p, binary, exactly(names), limit, "-test.failfast")
		}
		if err != nil || got != survived {
			return got, err
		}
	}
	return survived, nil
}

// failedTest finds the name of the test function that failed.
var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// overlay writes what makes go build other texts instead of files.
func (s *suites) overlay(texts map[string][]byte) (string, error) {
	replace := map[string]string{}
	for file, text := range texts {
		replace[file] = filepath.Join(s.dir, fmt.Sprintf("text%d.go", len(replace)))
		if err := os.WriteFile(replace[file], text, 0o600); err != nil {
			return "", err
		}
	}
	list := filepath.Join(s.dir, "overlay.json")
	b, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	return list, os.WriteFile(list, b, 0o600)
}

// build makes a test program and returns its path.
func (s *suites) build(ctx context.Context, p *source, name string, flags ...string) (binary, output string,
	err error) {
	binary = filepath.Join(s.dir, name)
	args := append([]string{"test", "-c", "-o", binary}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, p.path)...)
	cmd.Dir = p.dir
	b, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("build the tests of %s: %w", p.path, err)
	}
	return binary, string(b), err
}

// program is a test program, and what it is to find in its environment.
type program struct {
	path string
	env  []string
}

// runTests runs a test program where `go test` would.
func (s *suites) runTests(ctx context.Context, p *source, binary program, pattern string, limit time.Duration,
	flags ...string,
) (outcome, string, error) {
	cmd := exec.Command(binary.path, append(flags, "-test.run="+pattern, "-test.timeout="+limit.String())...)
	cmd.Dir, cmd.Env = p.dir, append(os.Environ(), binary.env...)
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
	case strings.Contains(output.String(), endsMark):
		return broken, output.String(), nil
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
