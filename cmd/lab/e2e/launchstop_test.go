package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
)

// TestAScriptThatIsStoppedWhileItIsLaunched notices a script that counts as completed although its program
// was never executed, because it was preempted or cancelled while its container was made.
func TestAScriptThatIsStoppedWhileItIsLaunched(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 1, GPUs: 4})
	dir := w.scratch("launchstop")
	script := func(name, flags, body string) string {
		return w.file(t, name, "#!/bin/bash\n#SBATCH --mem=64M -o /dev/null "+flags+"\n"+body)
	}
	parsable := func(args ...string) string {
		return strings.TrimSpace(w.ok(append([]string{"submit", "--parsable"}, args...)...))
	}
	trial := script("te.sh", "-G1 --qos=te -t 1", "exit 0\n")
	t.Run("preempted", func(t *testing.T) {
		for try := range 5 {
			ran := filepath.Join(dir, fmt.Sprint("ran.", try))
			id := parsable(script("be.sh", "-G4 -t 10", "echo ran > "+ran+"\nexec sleep 600\n"))
			te := parsable(trial)
			after := parsable("--dependency=afterok:"+id, script("after.sh", "", "true\n"))
			w.ends(te)
			j := w.until(id, "running again", func(j api.Job) bool { return j.Code.Final() || j.Code == "R" })
			for _, a := range j.Attempts {
				if a.Cause == "completed" {
					t.Errorf("try %d: attempt %d completed, exit %v, signal %v", try, a.N, a.ExitCode, a.Signal)
				}
			}
			if j.Code != "R" {
				t.Fatalf("try %d: it ended as %s", try, j.Code)
			}
			if d := w.status(after); d.Code != "PD" {
				t.Errorf("try %d: what waits for its success is in state %s", try, d.Code)
			}
			w.lines(ran, 1)
			w.ok("cancel", id, after)
			w.ends(id)
			if text, err := os.ReadFile(ran); err != nil || string(text) != "ran\n" {
				t.Errorf("try %d: the script wrote %q, %v", try, text, err)
			}
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		for _, after := range []time.Duration{0, 10, 20, 30, 40, 60, 90} {
			id := parsable(script("cancel.sh", "-G4 -t 10", "exec sleep 600\n"))
			time.Sleep(after * time.Millisecond) // the moment is the case, and no matter which one it is
			w.ok("cancel", id)
			j := w.ends(id)
			if started := len(j.Attempts) > 0; j.Code != "CA" || started && (j.ExitCode != 0 || j.Signal != 15) {
				t.Errorf("cancelled after %v ms it is %s %d:%d, attempts %+v", int(after), j.Code, j.ExitCode,
					j.Signal, j.Attempts)
			}
		}
	})
}

// TestExitCodeZeroOfAJobThatHasToLeave notices a job that has only saved its state and counts as
// completed. It also notices a finished job that is started again.
func TestExitCodeZeroOfAJobThatHasToLeave(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 1, GPUs: 4})
	trial := w.file(t, "te.sh", "#!/bin/bash\n#SBATCH --mem=64M -o /dev/null -G1 --qos=te -t 1\nexit 0\n")
	dir := w.scratch("zero")
	for name, c := range map[string]struct{ more, word, rule, code string }{
		"saves":       {"checkpoint {}", "true", "saved", "R"},
		"is finished": {"checkpoint {}", "rota finished", "finished", "CD"},
		"no word":     {"", "true", "exit-zero", "CD"},
		"by choice":   {"checkpoint {}\npreemption {\n exit_zero = \"complete\"\n }", "true", "exit-zero", "CD"},
	} {
		t.Run(name, func(t *testing.T) {
			id := w.submit(onGPUs("leaves", 4, c.more, "trap '"+c.word+"; exit 0' TERM\n"+
				"echo >> "+dir+"/"+name[:2]+"\nsleep 600 & wait"))
			w.until(id, "running", func(j api.Job) bool { return j.Code == "R" })
			w.lines(filepath.Join(dir, name[:2]), 1) // its trap is set
			te := strings.TrimSpace(w.ok("submit", "--parsable", trial))
			w.until(id, "asked to leave", func(j api.Job) bool { return len(j.Attempts) > 0 && j.Attempts[0].End != nil })
			j := w.until(id, "settled", func(j api.Job) bool { return j.Code.Final() || j.Code == "R" })
			if string(j.Code) != c.code || string(j.Attempts[0].Rule) != c.rule {
				t.Errorf("it is %s by rule %s, want %s by %s", j.Code, j.Attempts[0].Rule, c.code, c.rule)
			}
			w.ends(te)
			w.wants(w.ok("why", id), "attempt 1 ended with", "(rule "+c.rule+")")
			if !j.Code.Final() {
				w.ok("cancel", id)
				w.ends(id)
			}
		})
	}
}
