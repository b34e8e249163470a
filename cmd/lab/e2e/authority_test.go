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
	"github.com/rota-hpc/rota/controld/api"
)

// background runs a command until the test ends, and keeps what it writes.
func (w *world) background(name string, args ...string) (output string) {
	w.t.Helper()
	output = filepath.Join(w.t.TempDir(), name)
	f, err := os.Create(output)
	w.must(err)
	cmd := exec.CommandContext(w.ctx, filepath.Join(bin, "rota"), args...)
	cmd.Env = append(os.Environ(), "ROTA_ADDR=", "ROTA_TOKEN=")
	cmd.Stdout, cmd.Stderr = f, f
	w.must(cmd.Start())
	w.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); _ = f.Close() })
	return output
}

// The authority of certificates is replaced while a job runs. Its output, its events and a process beside it are
// followed through a login node. A node and a controller are off meanwhile. Each says what to do when it returns, and
// works again afterwards.
func TestStreamsOutliveAnAuthority(t *testing.T) {
	w := start(t, lab.Options{Controllers: 3, Nodes: 2, Loopback: true})
	w.allVote()
	off, node := w.Controllers[2], w.Nodes[1]
	token := func(role string) string { return strings.TrimSpace(w.ok("cluster", "join-token", "--role", role)) }
	join := func(daemon, name, role, dir string, more ...string) {
		t.Helper()
		args := append([]string{"join", strings.TrimPrefix(w.Controllers[0].HTTP, "https://"), "--name", name,
			"--data-dir", dir}, more...)
		w.wait(name+" joins", func() bool { // until it counts as down
			_, err := program(t, w.ctx, daemon, append(args, "--token", token(role))...)
			return err == nil
		})
	}
	login, err := w.Daemon("rota-noded", "l1", "--login", "--gossip", "127.0.0.1:0")
	w.must(err)
	join("rota-noded", "l1", "login", login.Data, "--login")
	w.must(login.Start())
	defer login.Term()
	at := "unix:" + login.Socket
	w.wait("the login node to serve", func() bool {
		_, err := program(t, w.ctx, "rota", "--addr", at, "nodes")
		return err == nil
	})

	node.Term()
	off.Term()
	id := w.submit(simple("goes-on", "while :; do echo still; sleep 0.1; done", ""))
	w.until(id, "running", func(j api.Job) bool { return j.Code == "R" })
	streams := map[string]string{
		"logs": w.background("logs", "logs", "--addr", at, "-f", id),
		"exec": w.background("exec", "exec", "--addr", at, id, "--", "sh", "-c", "while :; do echo here; sleep 0.1; done"),
	}
	longer := func(what string) {
		t.Helper()
		for name, path := range streams {
			b, err := os.ReadFile(path)
			w.must(err)
			w.lines(path, bytes.Count(b, []byte("\n"))+10)
			if t.Failed() {
				t.Fatalf("%s: %s: %s", what, name, b)
			}
		}
	}
	longer("before")
	watched := w.background("events", "events", "--addr", at, "-f")

	phase := func(want string) {
		t.Helper()
		w.wait("authority: "+want, func() bool { return strings.Contains(w.ok("cluster"), want) })
	}
	fine := func(when string) { // doctor has nothing to say of certificates
		t.Helper()
		c := w.Controllers[0]
		file := filepath.Join(t.TempDir(), "controld.hcl")
		text := fmt.Sprintf("name = %q\ndata_dir = %q\nhttp = %q\n", c.Name, c.Data, strings.TrimPrefix(c.HTTP, "https://"))
		w.must(os.WriteFile(file, []byte(text), 0o600))
		out, errs, _ := w.rota("doctor", "--quick", "--controld-config", file)
		for line := range strings.Lines(out) {
			if strings.Contains(line, "certificate") && !strings.Contains(line, "is good until") {
				t.Errorf("%s: doctor says %s", when, line)
			}
		}
		w.wants(out+errs, "of controller c1 is good until")
	}
	w.ok("cluster", "rotate-authority")
	phase("trusted; controller/c3 has no copy of its key yet")
	fine("trusted")
	longer("trusted")
	w.ok("cluster", "remove", "c3")
	phase("issues; node/n2 has no certificate from it yet")
	fine("issues")
	longer("issues")
	w.wants(w.ok("cluster", "rotate-authority", "--finish"), "node/n2 has no certificate of this authority and "+
		"must join again")
	w.wait("the end", func() bool { return !strings.Contains(w.ok("cluster"), "of certificates:") })
	fine("afterwards")
	longer("afterwards")
	w.wants(w.ok("audit"), "POST authority/rotate ", "POST authority/finish ")

	// Both return.
	w.must(node.Start())
	const advice = "its authority was replaced while this machine was off: have it join again with a new token"
	w.wait("n2 says what to do", func() bool { return strings.Contains(node.LogTail(4000), advice) })
	node.Term()
	join("rota-noded", "n2", "node", node.Data)
	w.must(node.Start())
	w.must(off.Start())
	w.wait("c3 says what to do", func() bool { return strings.Contains(off.LogTail(4000), advice) })
	off.Kill()
	w.must(off.EmptyDisk())
	w.must(os.RemoveAll(filepath.Join(off.Data, "tls")))
	join("rota-controld", "c3", "controller", off.Data)
	w.must(off.Start())
	w.wait("both nodes are up", func() bool { return !strings.Contains(w.ok("nodes"), "down") })
	w.allVote()
	longer("in the end")
	last := w.submit(simple("last", "true", ""))
	w.ends(last)
	w.lines(watched, 1)
	w.wait("its end among the events", func() bool {
		b, err := os.ReadFile(watched)
		w.must(err)
		return strings.Contains(string(b), last)
	})
	w.ok("cancel", id)
	w.ends(id)
}
