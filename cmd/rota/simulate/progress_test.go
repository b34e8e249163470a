package simulate

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/sim"
)

// TestTally: runs that have not begun count as large as those that have, and a run that ends early is done.
func TestTally(t *testing.T) {
	s := &simulation{tally: &tally{runs: 4}}
	expect := func(done, total int64) {
		t.Helper()
		if d, of := s.tally.read(); d != done || of != total {
			t.Errorf("%d of %d, want %d of %d", d, of, done, total)
		}
	}
	expect(0, 0)
	var setups [3]sim.Setup
	a := s.count(&setups[0], 100)
	expect(0, 400)
	setups[0].Progress(sim.RunProgress{Finished: 40, Jobs: 100})
	s.count(&setups[1], 300)
	expect(40, 800)
	setups[1].Progress(sim.RunProgress{Finished: 7})
	a.over()
	expect(107, 800)
	s.count(&setups[2], 0) // of unknown length
	expect(107, 0)
	lines := sim.Setup{Progress: func(sim.RunProgress) {}}
	s.count(&lines, 5)
	lines.Progress(sim.RunProgress{Finished: 5})
	if done, _ := s.tally.read(); done != 107 {
		t.Errorf("--progress counts too: %d", done)
	}
}

// TestReadingIsShown: a trace that is slow to come has a line on the terminal, which is gone at the end. The results
// are the same as without a terminal.
func TestReadingIsShown(t *testing.T) {
	t.Parallel()
	term := rotatest.NewTerminal(t, 80)
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	fed := make(chan error, 1)
	go func() {
		_, err := io.WriteString(feed, tinyTrace)
		term.Await("so far") // reading traces: 155B, 2s so far
		feed.Close()
		fed <- err
	}()
	var out strings.Builder
	env := command.System()
	env.Stdin, env.Stdout, env.Stderr = in, &out, term.File
	code := command.Run(t.Context(), []string{"rota", "sim", "--trace", "-", "--nodes", "1x8c/64g/8gpu", "-o", "csv"}, env,
		Commands())
	text := term.Shown()
	if err := <-fed; err != nil || code != 0 || !strings.Contains(out.String(), "rota,-,1,all,2,") {
		t.Errorf("exit %d, %v, %q", code, err, out.String())
	}
	if !strings.HasPrefix(text, "\rreading traces: ") || !strings.Contains(text, " so far") {
		t.Errorf("the terminal shows %q", text)
	}
	if _, after, _ := strings.Cut(text, "so far"); !strings.Contains(after, "\r"+strings.Repeat(" ", 20)) ||
		!strings.Contains(after, "\rrota: -: line 4") {
		t.Errorf("the line is not removed before messages: %q", text)
	}
}
