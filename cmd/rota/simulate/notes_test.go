package simulate

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/sim/trace"
)

// TestSimNamesEveryLine: beyond the first ten the numbers of the lines say which were left out.
func TestSimNamesEveryLine(t *testing.T) {
	good, bad := "%d,BE,u01,0,1,4,1,10,0\n", "%d,BE,u01,x,1,4,1,10,0\n"
	text := strings.SplitAfter(tinyTrace, "\n")[0]
	for i := range 30 {
		line := good
		if i < 16 || i == 20 {
			line = bad
		}
		text += strings.Replace(line, "%d", "job"+strings.Repeat("+", i), 1)
	}
	name := filepath.Join(t.TempDir(), "many.csv")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, complaint := simulate(t, "--trace", name, "--nodes", "2x8c/64g/8gpu", "--policy", "fifo")
	for _, want := range []string{"line 2: ", "line 11: ", "7 more lines were skipped: 12 to 17, 22\n"} {
		if code != 0 || !strings.Contains(complaint, want) {
			t.Errorf("exit %d, nothing says %q:\n%s", code, want, complaint)
		}
	}
	if got := numbersOf([]trace.Line{{N: 3}, {N: 4}, {N: 9}}, 1000); got != "3 to 4, 9 and 997 more" {
		t.Errorf("got %q", got)
	}
}

// TestSimNamesEveryJob that fits no node, also beside a table for programs.
func TestSimNamesEveryJob(t *testing.T) {
	const tail = "9 more jobs fit no node: 20, 23, 25, 31, 37, 39, 41, 44, 48\n"
	args := []string{"--trace", "gen:poisson:jobs=50", "--nodes", "4x8c/32g/4gpu", "--policy", "fifo"}
	if code, out, _ := simulate(t, args...); code != 0 || !strings.Contains(out, "excluded job 7: ") ||
		!strings.Contains(out, tail) {
		t.Errorf("exit %d, %s", code, out)
	}
	code, out, complaint := simulate(t, append(args, "-o", "csv")...)
	if code != 0 || strings.Contains(out, "excluded") || !strings.Contains(complaint, "excluded job 7: ") ||
		!strings.Contains(complaint, tail) {
		t.Errorf("exit %d, %s%s", code, out, complaint)
	}
}

// TestSimNamesWhatIsNotShared: --window and --pause may be about nothing that the results have.
func TestSimNamesWhatIsNotShared(t *testing.T) {
	const window = "fifo: --window has no effect: the trace does not say which networks the jobs train, and no job " +
		"was suspended"
	const pause = "no job was suspended, although --pause allows 12.5% of the best-effort jobs to pause"
	for _, test := range []struct {
		args string
		want []string
	}{
		{"gen:fitgpp:jobs=60 --nodes 4x32c/256g/8gpu --window 1m..9m --policy fifo", []string{window}},
		{"gen:fitgpp:jobs=60 --nodes 4x32c/256g/8gpu --pause 12.5% --policy fifo", []string{pause}},
		{"gen:gandiva:jobs=20 --window 1m..9m --policy fifo", nil},
		{"gen:fitgpp:jobs=300,load=1.5,te=50% --nodes 4x32c/256g/8gpu --pause 100% --window 1m..9m --policy rota", nil},
	} {
		code, _, complaint := simulate(t, append([]string{"--trace"}, strings.Fields(test.args)...)...)
		for _, note := range []string{window, pause} {
			if got := strings.Contains(complaint, note); code != 0 || got != slices.Contains(test.want, note) {
				t.Errorf("%s: exit %d, %q", test.args, code, complaint)
			}
		}
	}
}

// TestSimCSVWithoutAnEnd: what an inflated workload is about is how full the cluster is when none
// of its jobs has ended.
func TestSimCSVWithoutAnEnd(t *testing.T) {
	for more, rows := range map[string]int{"--seed=1": 2, "--seeds=1..3": 1 + 3 + 2} {
		code, out, _ := simulate(t, "--trace", "gen:fitgpp:jobs=100", "--nodes", "8x32c/256g/8gpu", "--policy", "fifo",
			"--inflate", "1.3", "-o", "csv", more)
		got, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		if code != 0 || err != nil || len(got) != rows || got[1][3] != "all" {
			t.Errorf("%s: exit %d, %v, %d rows instead of %d\n%s", more, code, err, len(got), rows, out)
		}
	}
}
