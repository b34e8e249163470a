package shim

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/noded/container"
)

func scannerOf(t *testing.T, settings container.Settings) (*outputScanner, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := newOutputScanner(dir, settings)
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

func linesOf(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// TestStepsAreThinned shows that one line per second is kept, the newest, and the one that an array
// waits for.
func TestStepsAreThinned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := scannerOf(t, container.Settings{Steps: &container.StepPattern{Pattern: `s(?P<step>\d+) (?P<loss>\S+)`,
			AtStep: 17, Metric: "loss"}})
		l := s.task("").stream("stdout")
		for i := range 40 { // ten a second
			l.write(fmt.Appendf(nil, "s%d 0.5\n", i))
			time.Sleep(100 * time.Millisecond) // the bubble's time
		}
		l.end()
		var steps []string
		for _, line := range linesOf(t, container.StepsPath(dir)) {
			_, rest, _ := strings.Cut(line, `"step":`)
			step, _, _ := strings.Cut(rest, ",")
			steps = append(steps, step)
		}
		if got := strings.Join(steps, " "); got != "0 10 17 27 37 39" {
			t.Errorf("kept steps %s", got)
		}
	})
}

func TestStepWithoutTheMetricIsNotTheOneWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := scannerOf(t, container.Settings{Steps: &container.StepPattern{Pattern: `s(?P<step>\d+)( ` +
			`(?P<loss>\S+))?`, AtStep: 2, Metric: "loss"}})
		l := s.task("").stream("stdout")
		l.write([]byte("s1\ns2\ns3 nan\ns4 0.25\ns5 0.1\n"))
		if got := linesOf(t, container.StepsPath(dir)); len(got) != 2 || !strings.Contains(got[1], `"step":4`) {
			t.Errorf("kept %q", got)
		}
		l.end()
	})
}

// TestLinesAreBounded shows that lines are bounded in length and number.
func TestLinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := scannerOf(t, container.Settings{Policies: []container.Policy{{Name: "late", Pattern: "needle"},
			{Name: "start", Pattern: "^xxx"}}})
		l := s.task("").stream("stderr")
		long := strings.Repeat("x", lineMax)
		for range 3 { // in parts, as pipes give it
			l.write([]byte(long))
		}
		l.write([]byte("needle\n"))
		l.write([]byte(strings.Repeat("line\n", linesPerSecond) + "needle of a second with too many lines\n"))
		if got := linesOf(t, container.FindingsPath(dir)); len(got) != 1 ||
			!strings.Contains(got[0], `"policy":"start"`) || len(got[0]) > findingMax+100 {
			t.Errorf("found %.200q", got)
		}
		time.Sleep(time.Second) // the bubble's time
		l.write([]byte("needle\nneedle again\n"))
		if got := linesOf(t, container.FindingsPath(dir)); len(got) != 2 ||
			!strings.Contains(got[1], `"line":"needle"`) {
			t.Errorf("found %.200q", got)
		}
	})
}

func TestStepsFileIsEmptied(t *testing.T) {
	path := t.TempDir() + "/steps"
	if err := os.WriteFile(path, make([]byte, stepsFileMax+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := appendTo(path, []byte("new\n"), stepsFileMax); err != nil {
		t.Fatal(err)
	}
	if got := linesOf(t, path); len(got) != 1 || got[0] != "new" {
		t.Errorf("holds %d lines", len(got))
	}
}

func TestNothingToFindCostsNothing(t *testing.T) {
	s, _ := scannerOf(t, container.Settings{Policies: []container.Policy{{Name: "e", Pattern: "x", Stream: "stderr"}}})
	if l := s.task("").stream("stdout"); l != nil {
		t.Error("a stream without a policy is scanned")
	}
	if !s.task("").separatesStreams() {
		t.Error("the streams are not separated")
	}
	if _, err := newOutputScanner("", container.Settings{Policies: []container.Policy{{Name: "e",
		Pattern: "("}}}); !container.IsFinal(err) {
		t.Errorf("a broken pattern: %v", err)
	}
}

// TestProgressIsOfItsTask notices steps that are read from the output of another task, and lines
// that are not found because they end as on Windows.
func TestProgressIsOfItsTask(t *testing.T) {
	s, dir := scannerOf(t, container.Settings{
		Steps:    &container.StepPattern{Pattern: `s(?P<step>\d+)`, Task: "main"},
		Policies: []container.Policy{{Name: "whole", Pattern: "^line$"}},
	})
	if s.task("other").steps != nil || s.task("main").steps == nil {
		t.Error("progress is read from the wrong task")
	}
	l := s.task("other").stream("stdout")
	l.write([]byte("s1\nline\r\n"))
	l.end()
	if got := linesOf(t, container.StepsPath(dir)); len(got) != 0 {
		t.Errorf("steps %q", got)
	}
	if got := linesOf(t, container.FindingsPath(dir)); len(got) != 1 || !strings.Contains(got[0], `"line":"line"`) {
		t.Errorf("found %q", got)
	}
}
