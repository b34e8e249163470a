package progress

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/cmd/rota/show"
)

// left returns what is to be seen after some output, line by line.
func left(output string) string {
	var lines []string
	for line := range strings.SplitSeq(output, "\n") {
		var cells []rune
		at := 0
		for _, r := range line {
			if r == '\r' {
				at = 0
				continue
			}
			if at == len(cells) {
				cells = append(cells, r)
			}
			cells[at] = r
			at++
		}
		lines = append(lines, strings.TrimRight(string(cells), " "))
	}
	return strings.Join(lines, "\n")
}

// TestLines: what is shown, and from when on. The line is removed at the end, and a message stays above it.
func TestLines(t *testing.T) {
	s := rotatest.NewTerminal(t, 80)
	var done, total int64
	l := &Line{task: Task{What: "simulating", Unit: "jobs", Done: func() (int64, int64) { return done, total }},
		to: s.File, stop: make(chan struct{}), began: time.Unix(1000, 0)}
	at := func(seconds float64, d, of int64) string {
		done, total = d, of
		l.update(l.began.Add(time.Duration(seconds * float64(time.Second))))
		return l.shown
	}
	for _, c := range []struct {
		at       float64
		done, of int64
		want     string
	}{
		{0.2, 0, 1000, ""}, {1.0, 100, 1000, ""}, {1.9, 190, 1000, ""},
		{2.0, 200, 1000, "simulating: 200 of 1000 jobs (20%), about 8s left"},
		{6.0, 600, 1000, "simulating: 600 of 1000 jobs (60%), about 4s left"},
		{10, 1000, 1000, "simulating: 1000 of 1000 jobs (100%), about 0s left"},
		{11, 1100, 1000, "simulating: 1000 of 1000 jobs (100%), about 0s left"},
		{12, 1100, 0, "simulating: 1100 jobs, 12s so far"}, {75, 0, 0, "simulating, 1m15s so far"},
	} {
		if got := at(c.at, c.done, c.of); got != c.want {
			t.Errorf("after %g s: %q, want %q", c.at, got, c.want)
		}
	}
	if _, err := io.WriteString(l, "rota: a message\n"); err != nil {
		t.Error(err)
	}
	at(80, 500, 1000)
	asked := false
	l.Without(func() { asked = l.shown == "" })
	l.task.Unit = ""
	if got := at(81, 512<<20, 4<<30); got != "simulating: 512M of 4G (12%), about 10m0s left" && !strings.HasPrefix(got,
		"simulating: 512M of 4G (12%), about ") {
		t.Errorf("bytes: %q", got)
	}
	l.Stop()
	if got := left(s.Shown()); got != "rota: a message\n" || !asked {
		t.Errorf("it leaves %q on the terminal; without the line: %v", got, asked)
	}
}

// TestNarrowTerminals: a line that does not fit is cut, since one that wraps cannot be removed.
func TestNarrowTerminals(t *testing.T) {
	s := rotatest.NewTerminal(t, 30)
	l := &Line{task: Task{What: "receiving the backup", Done: func() (int64, int64) { return 1 << 30, 3 << 30 }},
		to: s.File, stop: make(chan struct{}), began: time.Unix(1000, 0)}
	l.update(l.began.Add(time.Second))
	l.update(l.began.Add(time.Minute))
	if got := l.shown; got != "receiving the backup: 1G of …" || show.Width(got) != 29 {
		t.Errorf("%q", got)
	}
	l.Stop()
	if got := left(s.Shown()); got != "" {
		t.Errorf("it leaves %q", got)
	}
}

// TestShow: a terminal shows nothing for two seconds, and then at most five lines a second. A task that ends sooner,
// and a pipe, never show anything.
func TestShow(t *testing.T) {
	if l := Show(&bytes.Buffer{}, Task{}); l != nil {
		t.Error("a buffer shows a line")
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if l := Show(w, Task{}); l != nil {
		t.Error("a pipe shows a line")
	}
	var none *Line
	asked := false
	none.Without(func() { asked = true })
	none.Stop()
	if !asked {
		t.Error("without a line the question is not asked")
	}
	s := rotatest.NewTerminal(t, 80)
	var n atomic.Int64
	began := time.Now()
	looked := make(chan time.Duration, 100)
	l := Show(s.File, Task{What: "x", Unit: "steps", Done: func() (int64, int64) {
		looked <- time.Since(began)
		return n.Add(1), 1000
	}})
	for n.Load() < 14 {
		<-looked
	}
	l.Stop()
	took := time.Since(began)
	text := s.Shown()
	lines := len(regexp.MustCompile(`x: \d+ of 1000 steps`).FindAllString(text, -1))
	if lines == 0 || float64(lines) > 5*(took-patience).Seconds()+1 {
		t.Errorf("%d lines in %v: %q", lines, took, text)
	}
	first := regexp.MustCompile(`x: (\d+) of`).FindStringSubmatch(text)
	if first == nil || len(first[1]) == 1 && first[1] < "9" {
		t.Errorf("the first line is that of look %q", first)
	}
	if left(text) != "" {
		t.Errorf("it leaves %q", left(text))
	}
}

// TestReader counts what is read.
func TestReader(t *testing.T) {
	var n atomic.Int64
	if b, err := io.ReadAll(Reader(strings.NewReader("0123456789"), &n)); err != nil || len(b) != 10 || n.Load() != 10 {
		t.Errorf("%d bytes, %v, counted %d", len(b), err, n.Load())
	}
}
