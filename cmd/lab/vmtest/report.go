package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Beginnings of the lines that the machine writes. All but the last go on with the package and a space.
const (
	beginMark = "vmtest-begin "
	lineMark  = "vmtest-line "
	endMark   = "vmtest-end "
	doneMark  = "vmtest-done"
)

// packageEnd is what the machine says at the end of a package.
type packageEnd struct {
	MS    int64  `json:"ms"`
	Error string `json:"error,omitempty"`
}

// report reads what the machine writes and prints a line for each package, everything that a failed
// one said, and why tests were skipped.
type report struct {
	out     io.Writer
	verbose bool

	running map[string]*results // by package
	sum     results
	failed  []string // packages
	done    bool
}

// results are the tests of a package. Parts of tests are not counted.
type results struct {
	passed, failed int
	skipped        []string // with reasons
	said           []string
	running        []string
	last           string // line of a test: before it is skipped, why
}

// read returns at the end of the machine's output.
func (r *report) read(in io.Reader) error {
	r.running = map[string]*results{}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			r.line(strings.TrimRight(line, "\r\n"))
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) line(line string) {
	if line == doneMark {
		r.done = true
		return
	}
	mark, rest, _ := strings.Cut(line, " ")
	name, text, _ := strings.Cut(rest, " ")
	p := r.running[name]
	switch {
	case mark+" " == beginMark:
		r.running[name] = &results{}
	case mark+" " == lineMark && p != nil:
		p.line(text)
		if r.verbose {
			fmt.Fprintf(r.out, "%s: %s\n", name, strings.ReplaceAll(text, testMark, ""))
		}
	case mark+" " == endMark && p != nil:
		e := packageEnd{}
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			e.Error = fmt.Sprintf("cannot read how it ended: %v", err)
		}
		delete(r.running, name)
		r.end(name, p, e)
	default:
		fmt.Fprintln(r.out, line)
	}
}

// testMark is what the testing package writes before its own lines with -test.v=test2json.
const testMark = "\x16"

// line takes one line of a test program.
func (r *results) line(line string) {
	r.said = append(r.said, strings.ReplaceAll(line, testMark, ""))
	before, line, marked := strings.Cut(line, testMark)
	if !marked {
		r.last = strings.TrimSpace(before)
		return
	}
	if name, ok := strings.CutPrefix(line, "=== RUN   "); ok {
		r.running = append(r.running, name)
		return
	}
	kind, name, _ := strings.Cut(line, ": ")
	name, _, _ = strings.Cut(name, " (")
	part := strings.Contains(name, "/")
	switch {
	case kind == "--- SKIP":
		r.skipped = append(r.skipped, name+": "+r.last)
	case kind == "--- PASS" && !part:
		r.passed++
	case kind == "--- FAIL" && !part:
		r.failed++
	}
	r.running = slices.DeleteFunc(r.running, func(s string) bool { return s == name })
}

func (r *report) end(name string, p *results, e packageEnd) {
	verdict := "ok  "
	if e.Error != "" || p.failed > 0 {
		verdict = "FAIL"
		r.failed = append(r.failed, name)
		if !r.verbose {
			fmt.Fprintln(r.out, strings.Join(p.said, "\n"))
		}
		fmt.Fprintf(r.out, "%s: %s\n", name, e.Error)
	}
	fmt.Fprintf(r.out, "%s %-16s %6.1f s  %s\n", verdict, name, float64(e.MS)/1000, p)
	for _, text := range p.skipped {
		fmt.Fprintf(r.out, "     skipped %s\n", text)
	}
	r.sum.passed += p.passed
	r.sum.failed += p.failed
	r.sum.skipped = append(r.sum.skipped, p.skipped...)
}

// String is the count of tests.
func (r *results) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", r.passed, r.failed, len(r.skipped))
}

// where says what ran last, for a machine that did not finish.
func (r *report) where() string {
	const most = 20
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.running)) {
		p := r.running[name]
		fmt.Fprintf(&b, "; %s ran %s and said last:\n%s\n", name, strings.Join(p.running, ", "),
			strings.Join(p.said[max(0, len(p.said)-most):], "\n"))
	}
	return b.String()
}

func (r *report) verdict() error {
	if len(r.failed) > 0 {
		return fmt.Errorf("tests failed in %s", strings.Join(r.failed, ", "))
	}
	return nil
}
