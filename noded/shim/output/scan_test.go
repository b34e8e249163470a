package output

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/noded/container"
)

func scannerOf(t *testing.T, settings container.Settings) (*Scanner, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := NewScanner(dir, settings)
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
		l := s.Task("").stream("stdout")
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
		l := s.Task("").stream("stdout")
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
		l := s.Task("").stream("stderr")
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
	const most = 1 << 20
	for size, want := range map[int]int{most: most + 4, most + 1: 4} {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := appendTo(path, []byte("new\n"), stepsFileMax); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || len(b) != want || !strings.HasSuffix(string(b), "new\n") {
			t.Errorf("after %d bytes it holds %d, %v", size, len(b), err)
		}
	}
}

func TestNothingToFindCostsNothing(t *testing.T) {
	s, _ := scannerOf(t, container.Settings{Policies: []container.Policy{{Name: "e", Pattern: "x", Stream: "stderr"}}})
	if l := s.Task("").stream("stdout"); l != nil {
		t.Error("a stream without a policy is scanned")
	}
	if !s.Task("").separatesStreams() {
		t.Error("the streams are not separated")
	}
	if _, err := NewScanner("", container.Settings{Policies: []container.Policy{{Name: "e",
		Pattern: "("}}}); !container.IsFinal(err) {
		t.Errorf("a broken pattern: %v", err)
	}
}

// TestFindingsAreRoots notices findings and steps that others may read: they hold the job's output.
func TestFindingsAreRoots(t *testing.T) {
	s, dir := scannerOf(t, container.Settings{Policies: []container.Policy{{Name: "p", Pattern: "Z"}},
		Steps: &container.StepPattern{Pattern: `s(?P<step>\d+)`}})
	l := s.Task("").stream("stdout")
	l.write([]byte("s1\r\n" + strings.Repeat("Z", findingMax+50) + "\n"))
	l.end()
	for _, path := range []string{container.FindingsPath(dir), container.StepsPath(dir)} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if got := linesOf(t, container.FindingsPath(dir)); len(got) != 1 || strings.Count(got[0], "Z") != findingMax {
		t.Errorf("%d bytes are reported", strings.Count(got[0], "Z"))
	}
}

// TestTheLastLineWithoutAnEnd notices output that a job's death cuts off and that is not looked at,
// and a carriage return that is taken for part of a line.
func TestTheLastLineWithoutAnEnd(t *testing.T) {
	s, dir := scannerOf(t, container.Settings{Policies: []container.Policy{{Name: "p", Pattern: "error$"},
		{Name: "q", Pattern: "^$"}}})
	l := s.Task("").stream("stdout")
	l.write([]byte("an error\r\nfatal "))
	l.end()
	if got := linesOf(t, container.FindingsPath(dir)); len(got) != 1 || !strings.Contains(got[0], `"line":"an error"`) {
		t.Errorf("found %q", got)
	}
	s, dir = scannerOf(t, container.Settings{Policies: []container.Policy{{Name: "p", Pattern: "^x$"}}})
	l = s.Task("").stream("stdout")
	l.write([]byte("\n\nx")) // empty lines end no part
	l.end()
	if got := linesOf(t, container.FindingsPath(dir)); len(got) != 1 || !strings.Contains(got[0], `"line":"x"`) {
		t.Errorf("found %q", got)
	}
	s, dir = scannerOf(t, container.Settings{Policies: []container.Policy{{Name: "p", Pattern: "fatal"}}})
	l = s.Task("").stream("stdout")
	l.write([]byte("fatal\xff"))
	l.end()
	l.end() // nothing is left
	if got := linesOf(t, container.FindingsPath(dir)); len(got) != 1 || !strings.Contains(got[0], `"line":"fatal?"`) {
		t.Errorf("found %q", got)
	}
}

// TestWhichTaskAndStreamIsScanned notices progress that is read from another task's output, and
// policies that look at the wrong stream.
func TestWhichTaskAndStreamIsScanned(t *testing.T) {
	s, _ := scannerOf(t, container.Settings{Steps: &container.StepPattern{Pattern: `s(?P<step>\d+)`, Task: "main"},
		Policies: []container.Policy{{Name: "out", Pattern: "x", Stream: "stdout"}, {Name: "both", Pattern: "x",
			Stream: "both"}}})
	for _, c := range []struct {
		task, stream string
		policies     int
		steps        bool
	}{{"main", "stdout", 2, true}, {"main", "stderr", 1, true}, {"side", "stdout", 2, false}, {"side", "stderr", 1,
		false}} {
		l := s.Task(c.task).stream(c.stream)
		if len(l.policies) != c.policies || (l.steps != nil) != c.steps {
			t.Errorf("%+v: %d policies, steps %t", c, len(l.policies), l.steps != nil)
		}
	}
	if s.Task("main").separatesStreams() != true {
		t.Error("streams are joined")
	}
	s, _ = scannerOf(t, container.Settings{Policies: []container.Policy{{Name: "b", Pattern: "x"}}})
	if s.Task("").separatesStreams() {
		t.Error("streams are separated")
	}
	if _, err := NewScanner("",
		container.Settings{Steps: &container.StepPattern{Pattern: "("}}); !container.IsFinal(err) {
		t.Errorf("a broken pattern: %v", err)
	}
	var none *lineScanner
	none.write([]byte("x\n"))
	none.end()
}

// TestAFindingOnAFullDiskIsTriedAgain notices a finding that is taken for written and is lost.
func TestAFindingOnAFullDiskIsTriedAgain(t *testing.T) {
	s, dir := scannerOf(t, container.Settings{Policies: []container.Policy{{Name: "p", Pattern: "x"}},
		Steps: &container.StepPattern{Pattern: `s(?P<step>\d+)`}})
	path := s.path
	s.path, s.steps.path = dir+"/none/findings", dir+"/none/steps"
	l := s.Task("").stream("stdout")
	l.write([]byte("x1\ns1\n"))
	s.path, s.steps.path = path, container.StepsPath(dir)
	l.write([]byte("x2\n"))
	l.end()
	if got := linesOf(t, path); len(got) != 1 || !strings.Contains(got[0], `"line":"x2"`) {
		t.Errorf("found %q", got)
	}
	if got := linesOf(t, container.StepsPath(dir)); len(got) != 1 || !strings.Contains(got[0], `"step":1`) {
		t.Errorf("steps %q", got)
	}
	at := dir + "/exact"
	if err := os.WriteFile(at, make([]byte, 10), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, most := range []int64{10, 0} { // as long as it may be, and without a bound
		if err := appendTo(at, []byte("y"), most); err != nil {
			t.Fatal(err)
		}
	}
	if b, _ := os.ReadFile(at); len(b) != 12 {
		t.Errorf("%d bytes", len(b))
	}
}

// TestHowManyLinesAreScanned: so many of a second, and not one more; the bound holds for each second anew.
func TestHowManyLinesAreScanned(t *testing.T) {
	for before, found := range map[int]bool{linesPerSecond - 1: true, linesPerSecond: false} {
		synctest.Test(t, func(t *testing.T) {
			s, dir := scannerOf(t, container.Settings{Policies: []container.Policy{{Name: "p", Pattern: "needle"}}})
			l := s.Task("").stream("stdout")
			time.Sleep(time.Second) // the bubble's time
			l.write([]byte(strings.Repeat("x\n", before) + "needle\n"))
			if got := linesOf(t, container.FindingsPath(dir)); (len(got) == 1) != found {
				t.Errorf("line %d of a second is scanned: %t", before+1, !found)
			}
		})
	}
	// without a step that is waited for, no line but the newest of a second is kept
	synctest.Test(t, func(t *testing.T) {
		s, dir := scannerOf(t, container.Settings{Steps: &container.StepPattern{Pattern: `s(?P<step>\d+)( (?P<loss>\S+))?`,
			Metric: "loss"}})
		l := s.Task("").stream("stdout")
		l.write([]byte("s1\ns2 0.5\ns3 0.5\n"))
		if got := linesOf(t, container.StepsPath(dir)); len(got) != 1 {
			t.Errorf("kept %q", got)
		}
		time.Sleep(time.Second) // the bubble's time
		l.write([]byte("s4\n"))
		if got := linesOf(t, container.StepsPath(dir)); len(got) != 2 || !strings.Contains(got[1], `"step":4`) {
			t.Errorf("kept %q", got)
		}
	})
}
