package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
)

// TestSrunOutside: outside of a job srun runs a step in an allocation of its own. The allocation
// ends as the step does, also when srun was interrupted or killed.
func TestSrunOutside(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 2})
	names := w.scratch("names")
	w.must(os.Symlink(filepath.Join(bin, "rota"), filepath.Join(names, "srun")))
	path := "PATH=" + names + ":$PATH; cd " + w.scratch("outside") + "; "
	// srun has written its output: so it knows that the step has begun
	const usual, sleeps = "srun -Q --mem=128M -t5 ", "sh -c 'echo up; exec sleep 1000' >up & p=$!; until [ -s up ]; do " +
		"sleep 0.05; done; rm up; "
	const extern = "extern|COMPLETED|0:0\n"
	node, user := regexp.MustCompile(` n\d:`), regexp.MustCompile(`by \d+`)
	for i, c := range []struct {
		line, out, said string // the lines of the output are sorted
		code            int
		rows            string // of sacct
	}{
		{"echo in | " + usual + "-N2 -l sh -c 'cat; exit $SLURM_PROCID'", "0: in\n1: in",
			"srun: error: N: task 1: Exited with exit code 1\n", 1, "sh|FAILED|1:0\n" + extern + "sh|FAILED|1:0\n"},
		{"printf '0 echo zero\\n1 echo one\\n' >conf; " + usual + "-n2 --multi-prog -o %j.%t -J both conf; cat *.0 *.1",
			"one\nzero", "", 0, "both|COMPLETED|0:0\n" + extern + "both|COMPLETED|0:0\n"},
		{usual + "-n2 -K sh -c '[ $SLURM_PROCID = 0 ] && exit 5; sleep 1000'", "",
			"srun: error: N: task 0: Exited with exit code 5\n", 5, "sh|FAILED|5:0\n" + extern + "sh|FAILED|5:0\n"},
		{usual + "sh -c 'kill -9 $$'", "", "srun: error: N: task 0: Killed\n", 128 + 9,
			"sh|FAILED|0:9\n" + extern + "sh|CANCELLED|0:9\n"},
		{usual + "sh -c 'head -c 600M /dev/zero | tail | wc -c' 2>err; c=$?; " +
			"sed 's/(process [0-9]*)/(P)/; s/^Killed$//; /^$/d' err >&2; exit $c", "0",
			"[rota: the kernel killed tail (P) for memory; the limit of its worker is 128MiB]\n" +
				"srun: error: N: task 0: Out Of Memory\n", 253, "sh|OUT_OF_MEMORY|0:125\n" + extern + "sh|OUT_OF_MEMORY|0:125\n"},
		{usual + sleeps + "kill $p; wait $p", "", "srun: error: N: task 0: Terminated\n", 128 + 15,
			"sh|CANCELLED by N|0:0\n" + extern + "sh|CANCELLED|0:15\n"},
		{usual + sleeps + "kill -9 $p; wait $p 2>/dev/null", "", "", 128 + 9,
			"sh|FAILED|0:9\n" + extern + "sh|CANCELLED|0:9\n"},
	} {
		out, said, code := w.shell(path + c.line)
		// srun and its step both write to the standard error: in either order
		told := sortedLines(node.ReplaceAllString(said, " N:")) != sortedLines(c.said)
		if code != c.code || sortedLines(out) != c.out || told {
			t.Errorf("%s: exit %d\n%s%s", c.line, code, out, said)
		}
		id := strconv.Itoa(i + 1)
		j := w.ends(id)
		rows, said, code := w.slurm("sacct", "-n", "-P", "-o", "JobName,State,ExitCode", "-j", id)
		if user.ReplaceAllString(rows, "by N") != c.rows || code != 0 {
			t.Errorf("%s: it ended as %s, and sacct says\n%s%s", c.line, j.State, rows, said)
		}
	}
	if _, said, code := w.slurm("srun", "-Q", "--mem=128M", "/nowhere/at/all"); code != 127 ||
		!strings.Contains(said, "/nowhere/at/all: no such file or directory\n") {
		t.Errorf("a program that is not there: exit %d\n%s", code, said)
	}
}
