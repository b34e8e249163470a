package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
)

// TestFollowersOutliveTheNodeDaemon stops a node's daemon, politely and by a kill, while commands follow
// jobs on it. Each shows every line once, and ends with the code that it has without the restart.
func TestFollowersOutliveTheNodeDaemon(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 1})
	dir := w.scratch("follow")
	// a job writes 20 lines for each file that the test makes
	script := func(name string) string {
		return fmt.Sprintf(`i=0; for part in 1 2 3; do until [ -e %s/$part ]; do sleep 0.1; done; for n in $(seq 20); do `+
			`i=$((i+1)); echo "%s line $i"; done; done; exit 7`, dir, name)
	}
	logged := w.submit(simple("logged", script("logged"), ""))
	tailed := w.submit(simple("tailed", `i=0; while [ $i -lt 100 ]; do i=$((i+1)); echo "before $i"; done; `+
		`echo >&2 "an error"; echo >`+dir+`/begun; `+script("tailed"), ""))
	w.lines(filepath.Join(dir, "begun"), 1)
	commands := map[string]*exec.Cmd{
		"logged": w.Rota(w.ctx, "logs", "-f", logged),
		"tailed": w.Rota(w.ctx, "logs", "-f", "--tail", "5", tailed),
		"run":    w.Rota(w.ctx, "run", "--mem", "64M", "--", "sh", "-c", script("run")),
	}
	codes := map[string]int{"logged": 0, "tailed": 0, "run": 7}
	// the lines that a tail begins with
	heads := map[string]string{"tailed": "before 97\nbefore 98\nbefore 99\nbefore 100\nan error\n"}
	outputs, messages := map[string]string{}, map[string]*bytes.Buffer{}
	for name, cmd := range commands {
		outputs[name], messages[name] = filepath.Join(t.TempDir(), name), &bytes.Buffer{}
		out, err := os.Create(outputs[name])
		w.must(err)
		cmd.Dir, cmd.Stdout, cmd.Stderr = w.shared, out, messages[name]
		w.must(cmd.Start())
		w.must(out.Close())
	}
	node := w.Cluster.Nodes[0]
	for part, stop := range []func(){node.Term, node.Kill} {
		w.must(os.WriteFile(filepath.Join(dir, fmt.Sprint(part+1)), nil, 0o644))
		for name, path := range outputs {
			w.lines(path, 20*(part+1)+strings.Count(heads[name], "\n"))
		}
		stop()
		w.must(node.Start())
	}
	w.must(os.WriteFile(filepath.Join(dir, "3"), nil, 0o644))
	for name, cmd := range commands {
		_ = cmd.Wait() // its code is compared below
		var want strings.Builder
		want.WriteString(heads[name])
		for i := 1; i <= 60; i++ {
			fmt.Fprintf(&want, "%s line %d\n", name, i)
		}
		got, err := os.ReadFile(outputs[name])
		w.must(err)
		if string(got) != want.String() || cmd.ProcessState.ExitCode() != codes[name] {
			t.Errorf("%s: code %d, want %d, stderr %s\n%s", name, cmd.ProcessState.ExitCode(), codes[name], messages[name], got)
		}
	}
}

// TestLogsOfAllAttempts shows that rota logs says that there are earlier attempts, and shows them all.
func TestLogsOfAllAttempts(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 1})
	id := w.submit(simple("again", `echo "this is $ROTA_ATTEMPT"; [ $ROTA_ATTEMPT = 3 ] || exit 5`,
		"restart {\n    attempts = 2\n    delay    = \"1s\"\n    backoff  = \"constant\"\n  }\n"))
	if j := w.ends(id); j.Code != "CD" || j.Attempt != 3 {
		t.Fatalf("%+v", j)
	}
	out, said, code := w.rota("logs", id)
	const note = "rota: this is the output of attempt 3; --all shows earlier attempts too, from 1 on\n"
	if out != "this is 3\n" || said != note || code != 0 {
		t.Errorf("exit %d, %q, %q", code, out, said)
	}
	const all = "==> attempt 1 <==\nthis is 1\n==> attempt 2 <==\nthis is 2\n==> attempt 3 <==\nthis is 3\n"
	if out, said, code := w.rota("logs", id, "--all"); out != all || said != "" || code != 0 {
		t.Errorf("--all: exit %d, %q, %q", code, out, said)
	}
}
