package forecast_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/forecast"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// always gives a play all the time that it takes.
func always() func() bool { return func() bool { return false } }

// play carries out the lines of a scenario.
func play(t *testing.T, w *schedtest.World, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if line == "unlimited" { // the queue sets no time limit
			c := *w.State.View().Config()
			q := c.Queues[model.DefaultQueue]
			q.DefaultTime = 0
			c.Queues = maps.Clone(c.Queues)
			c.Queues[model.DefaultQueue] = q
			if _, err := w.Apply(fsm.SetConfig{Config: c}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := w.Run(line); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, w.Out.String())
		}
	}
}

// estimateOf writes an estimate as times from now on.
func estimateOf(w *schedtest.World, name string) string {
	v := w.State.View()
	e := forecast.Of(v, w.Now, []model.JobID{w.Ids[name]}, always)[w.Ids[name]]
	from := func(at model.Instant) string {
		if at == 0 {
			return "?"
		}
		return (time.Duration(at-w.Now) * time.Millisecond).Round(time.Second).String()
	}
	return fmt.Sprintf("%s to %s, %s", from(e.Earliest), from(e.Latest), e.Basis)
}

// runs has a user's job of a name run a number of times for so long.
func runs(n int, name, user, long string) (lines []string) {
	for range n {
		lines = append(lines, fmt.Sprintf("submit %s user=%s gpus=1 limit=10h", name, user), "cycle", "run "+name,
			"advance "+long, "exit "+name, "cycle")
	}
	return lines
}

// TestStories tells of waiting jobs. Each line has the state of a cluster, and the interval in
// which a job starts, with its basis.
func TestStories(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		want  map[string]string
	}{
		{"two limits, no history", []string{"node n1 gpus=2", "submit a b gpus=1 limit=60m", "submit c gpus=1 limit=90m",
			"cycle", "run a b", "advance 10m", "submit d gpus=2 limit=5m", "cycle"}, map[string]string{
			"c": "0s to 50m0s, from limits of 2 running jobs; earliest if they end at once",
			"d": "0s to 2h20m0s, from limits of 2 running and 1 waiting jobs; earliest if they end at once",
		}},
		{"room", []string{"node n1 gpus=2", "submit a gpus=1"}, map[string]string{"a": "0s to 0s, it fits now"}},
		{"no limit", []string{"unlimited", "node n1 gpus=1", "submit a gpus=1", "cycle", "run a", "submit b gpus=1 limit=5m"},
			map[string]string{"b": "0s to ?, unknown: job 1 has no time limit; earliest if they end at once"}},
		{"held", []string{"node n1 gpus=1", "submit a gpus=1 hold=user limit=5m"},
			map[string]string{"a": "? to ?, unknown: it is held"}},
		{"a dependency", []string{"node n1 gpus=4", "submit a gpus=1 limit=30m", "cycle", "run a", "advance 10m",
			"submit b gpus=1 limit=5m needs=afterok:a", "submit c gpus=1 limit=5m needs=afternotok:a"}, map[string]string{
			"b": "0s to 20m0s, from limits of 1 running job; earliest if they end at once",
			"c": "? to ?, unknown: job 1 would have to fail",
		}},
		{"after a held job", []string{"node n1 gpus=4", "submit a gpus=1 hold=user", "submit b gpus=1 needs=afterany:a"},
			map[string]string{"b": "? to ?, unknown: job 1 is held"}},
		{"an array", []string{"node n1 gpus=1", "submit a gpus=1 limit=10m array=0-3", "cycle", "run a_0"},
			map[string]string{"a": "0s to 10m0s, from limits of 1 running job; earliest if they end at once"}},
		{"too large", []string{"node n1 gpus=1", "submit a gpus=2"}, map[string]string{
			"a": "? to ?, unknown: no end of a job makes room for it; rota why says what it needs"}},
		{"a history", append(append([]string{"node n1 gpus=1"}, runs(6, "x", "ann", "40m")...),
			"submit x user=ann gpus=1 limit=10h", "cycle", "run x", "advance 10m", "submit y gpus=1 limit=1h"),
			map[string]string{
				"y": "22m0s to 9h50m0s, from limits of 1 running job; earliest from 6 earlier runs of job name x by ann"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := schedtest.NewWorld()
			play(t, w, append([]string{"policy name=fifo"}, c.lines...)...)
			index := w.State.View().Index()
			for name, want := range c.want {
				if got := estimateOf(w, name); got != want {
					t.Errorf("%s starts in %s\nwant %s", name, got, want)
				}
			}
			if w.State.View().Index() != index {
				t.Error("the forecast has changed the state")
			}
		})
	}
}

// TestItEndsEarly notices a forecast that does not stop when it is told to, and one that keeps
// silent about it.
func TestItEndsEarly(t *testing.T) {
	w := schedtest.NewWorld()
	play(t, w, "policy name=fifo", "node n1 gpus=1", "submit a b c gpus=1 limit=10m", "cycle", "run a")
	asked := 0
	e := forecast.Of(w.State.View(), w.Now, []model.JobID{w.Ids["c"]}, func() func() bool {
		return func() bool { asked++; return true }
	})[w.Ids["c"]]
	if e.Latest != 0 || e.Earliest != 0 || !strings.Contains(e.Basis, "too many jobs go first") || asked > 2 {
		t.Errorf("%+v after %d questions", e, asked)
	}
}

// TestNamesAreLeftOut notices a basis that names jobs which the reader may not see.
func TestNamesAreLeftOut(t *testing.T) {
	w := schedtest.NewWorld()
	play(t, w, "policy name=fifo", "node n1 gpus=1")
	play(t, w, runs(6, "x", "ann", "40m")...)
	play(t, w, "submit x user=ann gpus=1 limit=10h", "cycle", "run x", "submit y gpus=1 limit=1h")
	e := forecast.Of(w.State.View(), w.Now, []model.JobID{w.Ids["y"]}, always)[w.Ids["y"]]
	if len(e.Named) != 1 || e.Named[0] != w.Ids["x"] || strings.Contains(e.Public, "ann") ||
		!strings.Contains(e.Basis, "ann") {
		t.Errorf("%+v", e)
	}
}
