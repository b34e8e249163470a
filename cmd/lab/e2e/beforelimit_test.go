package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// chained is a number of steps that a trainer cannot take in five time limits. An attempt has two
// seconds until it is told, and a step takes 20 ms.
const chained = 520

// chains are the ways in which a training asks to go on after its time limit. Each takes the training's
// command line.
var chains = map[string]string{
	"trap": `#!/bin/bash
#SBATCH -t 0:05 --signal=B:USR1@1 --mem=256M --output=%[2]s/out
echo restart ${SLURM_RESTART_COUNT:-0}
trap 'kill -TERM $pid; wait $pid; exit 85' USR1
%[1]s & pid=$!
wait $pid
`,
	"srun": `#!/bin/bash
#SBATCH -t 0:06 --signal=USR1@2 --mem=256M --output=%[2]s/out
echo restart ${SLURM_RESTART_COUNT:-0}
srun %[1]s
`,
	// as frameworks do it: by exec, and by a shell
	"exec":  framework("USR1", "subprocess.check_call(['scontrol', 'requeue', os.environ['SLURM_JOB_ID']])"),
	"shell": framework("USR2", "assert os.system('scontrol requeue ' + os.environ['SLURM_JOB_ID']) == 0"),
	"hcl": `job "hcl" {
  time_limit = "5s"
  checkpoint {
    path         = "%[2]s"
    before_limit = "1s"
  }
  task "t" {
    script = "echo restart $ROTA_RESTARTS; exec %[1]s"
    resources {
      memory = "256MiB"
    }
  }
}
`,
}

// framework is a program that saves by a signal, asks to go on, and waits to be stopped.
func framework(signal, ask string) string {
	return `#!/usr/bin/python3
#SBATCH -t 0:05 --signal=` + signal + `@1 --mem=256M --output=%[2]s/out
import os, signal, subprocess, time
told = []
signal.signal(signal.SIG` + signal + `, lambda *_: told.append(1))
print('restart', os.environ.get('SLURM_RESTART_COUNT', '0'), flush=True)
train = subprocess.Popen('%[1]s'.split())
while train.poll() is None and not told:
    time.sleep(0.02)
if told:
    train.terminate()
    train.wait()
    ` + ask + `
    time.sleep(1000)
`
}

// TestATrainingGoesOnAfterItsTimeLimit has trainings that take longer than two time limits. Each
// is told before the limit, saves, and goes on under the same id. It takes every step once and ends
// with the loss of a run left alone. All its output is in one file, or where the node keeps it.
func TestATrainingGoesOnAfterItsTimeLimit(t *testing.T) {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("needs python3")
	}
	w := start(t, lab.Options{Controllers: 1, Nodes: 1})
	want := lastLoss(t, w.alone(chained))
	ids, dirs := map[string]string{}, map[string]string{}
	for name, text := range chains {
		dirs[name] = w.scratch(name)
		train := fmt.Sprintf("bin/trainer -steps %d -pause 20ms -every 0 -log 1 -dir %s", chained, dirs[name])
		file := filepath.Join(w.shared, name+".sh")
		if name == "hcl" {
			file = filepath.Join(w.shared, name+".hcl")
		}
		w.must(os.WriteFile(file, fmt.Appendf(nil, text, train, dirs[name]), 0o755))
		ids[name] = strings.TrimSpace(w.ok("submit", "--parsable", file))
	}
	for name, id := range ids {
		j := w.ends(id)
		if j.Code != "CD" || j.Attempt < 3 {
			t.Errorf("%s ended as %s after %d attempts, %s", name, j.Code, j.Attempt, exitOf(j))
		}
		for _, a := range j.Attempts[:len(j.Attempts)-1] {
			asks := name == "exec" || name == "shell" // and is stopped
			if a.Cause != model.CauseRequeue || !asks && a.ExitCode != 85 {
				t.Errorf("%s: attempt %d ended for %s with %d", name, a.N, a.Cause, a.ExitCode)
			}
		}
		told := 0
		for _, e := range w.events(string(model.EventEarly), id) {
			if e == string(model.EventEarly)+" "+id {
				told++
			}
		}
		if told < j.Attempt-1 || told > j.Attempt {
			t.Errorf("%s: %d attempts were told %d times", name, j.Attempt, told)
		}
		out := ""
		if name == "hcl" {
			for n := range j.Attempt {
				out += w.ok("logs", "--attempt", strconv.Itoa(n+1), id)
			}
		} else {
			b, err := os.ReadFile(filepath.Join(dirs[name], "out"))
			w.must(err)
			if out = string(b); out != w.ok("logs", id) {
				t.Errorf("%s: rota logs shows something else than its file:\n%s", name, w.ok("logs", id))
			}
		}
		if got := lastLoss(t, out); got != want {
			t.Errorf("%s: the last loss is %s, a run left alone has %s", name, got, want)
		}
		if got := numbers(out, `(?m)^step (\d+) of`); !slices.Equal(got, upTo(1, chained)) {
			t.Errorf("%s: the steps taken are %v", name, got)
		}
		if got := numbers(out, `(?m)^restart (\d+)$`); !slices.Equal(got, upTo(0, j.Attempt-1)) {
			t.Errorf("%s: restarts %v in %d attempts", name, got, j.Attempt)
		}
		w.noOverlap(filepath.Join(dirs[name], "heartbeat"))
	}
	if out, errs, code := w.rota("check"); code != 0 {
		t.Errorf("check: exit %d\n%s%s", code, out, errs)
	}
}

// numbers returns what a pattern finds in a text.
func numbers(text, pattern string) (list []int) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[1]) // the pattern finds digits
		list = append(list, n)
	}
	return list
}

func upTo(first, last int) (list []int) {
	for n := first; n <= last; n++ {
		list = append(list, n)
	}
	return list
}

// TestAtItsTimeLimit: a script that says nothing until it is stopped at its limit goes on with exit
// code 85 or a request from outside. Without either it is over. The signal of --signal kills
// nothing.
func TestAtItsTimeLimit(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 1})
	dir := w.scratch("limits")
	submit := func(flags, body string) string {
		return strings.TrimSpace(w.ok("submit", "--parsable", w.file(t, "at.sh",
			"#!/bin/bash\n#SBATCH --mem=64M -t 0:02 -o "+dir+"/%j "+flags+"\n"+body)))
	}
	asks := submit("", "[ ${SLURM_RESTART_COUNT:-0} = 1 ] && exit 0\ntrap 'exit 85' TERM\nsleep 100 & wait\n")
	never := submit("--no-requeue", "trap 'exit 85' TERM\nsleep 100 & wait\n")
	quiet := submit("--signal=B:USR2@1", "trap 'echo told; told=1' USR2\nfor i in $(seq 100); do sleep 0.1; done\n")
	outside := submit("", "[ ${SLURM_RESTART_COUNT:-0} = 1 ] && exit 0\n"+
		"trap 'while [ ! -e "+dir+"/go ]; do sleep 0.1; done; exit 1' TERM\nsleep 100 & wait\n")
	w.until(outside, "at its limit", func(j api.Job) bool { return j.Code == "CG" })
	w.ok("requeue", outside)
	w.must(os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	for id, want := range map[string]string{asks: "CD", never: "TO", quiet: "TO"} {
		if j := w.ends(id); string(j.Code) != want {
			t.Errorf("job %s ended as %s after %d attempts, want %s", id, j.Code, j.Attempt, want)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, quiet))
	w.must(err)
	if got := string(b); strings.Count(got, "told\n") != 1 {
		t.Errorf("the script that was told wrote %q", got)
	}
	if j := w.ends(outside); j.Code != "CD" || j.Attempt != 2 {
		t.Errorf("the one that was requeued ended as %s after %d attempts", j.Code, j.Attempt)
	}
}
