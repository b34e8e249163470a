package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
)

// program runs one of the programs to its end and returns what it said.
func program(t *testing.T, ctx context.Context, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
	cmd.Env = append(os.Environ(), "ROTA_ADDR=", "ROTA_TOKEN=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// refused runs a program that must fail, and say all of some words.
func refused(t *testing.T, ctx context.Context, words []string, name string, args ...string) {
	t.Helper()
	out, err := program(t, ctx, name, args...)
	if err == nil {
		t.Errorf("%s %v: it was accepted: %s", name, args, out)
	}
	for _, w := range words {
		if !strings.Contains(out, w) {
			t.Errorf("%s %v says %q, without %q", name, args, out, w)
		}
	}
	if strings.Contains(out, "goroutine ") || strings.Count(out, "\n") > 2 {
		t.Errorf("%s %v: more than a message: %s", name, args, out)
	}
}

// TestMachinesJoinACluster grows a cluster as an operator does: init, tokens, join, also with
// tokens that are no good.
func TestMachinesJoinACluster(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 1})
	at := strings.TrimPrefix(w.Controllers[0].HTTP, "https://")
	token := func(role string) string {
		t.Helper()
		out, err := w.Rota(w.ctx, "cluster", "join-token", "--role", role).Output()
		if err != nil {
			t.Fatalf("join-token: %s, %v", out, err)
		}
		return strings.TrimSpace(string(out))
	}
	dir := func(name string) string { return filepath.Join(w.Dir, name) }

	// Nothing starts by itself.
	for _, daemon := range []string{"rota-controld", "rota-noded"} {
		refused(t, w.ctx, []string{"not a member", "join ADDR --token"}, daemon, "--name", "x1", "--data-dir", dir("x1"))
	}
	// Tokens that are no good.
	good := token("node")
	other := filepath.Join(w.Dir, "other")
	if out, err := program(t, w.ctx, "rota-controld", "init", "--name", "o1", "--data-dir", other); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	refused(t, w.ctx, []string{"already", "move"}, "rota-controld", "init", "--name", "o1", "--data-dir", other)
	join := func(daemon, name, text string, more ...string) []string {
		return append([]string{"join", at, "--token", text, "--name", name, "--data-dir", dir(name)}, more...)
	}
	cut := good[:len(good)-5]
	foreign := good[:strings.LastIndex(good, ".")+1] + strings.Repeat("A", 43)
	refused(t, w.ctx, []string{"not a join token"}, "rota-noded", join("rota-noded", "n2", cut)...)
	refused(t, w.ctx, []string{"different clusters"}, "rota-noded", join("rota-noded", "n2", foreign)...)
	refused(t, w.ctx, []string{"another role", "--role controller"}, "rota-controld", join("rota-controld", "c2", good)...)
	refused(t, w.ctx, []string{"another role", "--role login"}, "rota-noded", join("rota-noded", "n2", good, "--login")...)
	refused(t, w.ctx, []string{"node n1 is up", "another --name"}, "rota-noded", join("rota-noded", "n1", good)...)
	refused(t, w.ctx, []string{"controller c1 is up"}, "rota-controld",
		join("rota-controld", "c1", token("controller"))...)
	refused(t, w.ctx, []string{"--name"}, "rota-noded", join("rota-noded", "bad/name", good)...)
	unknown := "rota-join." + strings.Repeat("A", 22) + good[strings.LastIndex(good, "."):]
	refused(t, w.ctx, []string{"not known"}, "rota-noded", join("rota-noded", "n2", unknown)...)

	// A token is good once, white space from pasting does no harm.
	if out, err := program(t, w.ctx, "rota-noded", join("rota-noded", "n2", " "+good+"\n")...); err != nil {
		t.Fatalf("join: %s, %v", out, err)
	}
	refused(t, w.ctx, []string{"used already"}, "rota-noded", join("rota-noded", "n3", good)...)
	refused(t, w.ctx, []string{"joined as n2", "--name n2"}, "rota-noded", "--name", "n4", "--data-dir", dir("n2"))
	refused(t, w.ctx, []string{"role node"}, "rota-controld", "--name", "n2", "--data-dir", dir("n2"))
	key := filepath.Join(dir("n2"), "tls", "key.pem")
	w.must(os.Chmod(key, 0o644))
	refused(t, w.ctx, []string{key, "chmod 0600"}, "rota-noded", "--name", "n2", "--data-dir", dir("n2"))
	w.must(os.Chmod(key, 0o600))

	// A login node has a socket and no containers, and its users are known by their accounts.
	if out, err := program(t, w.ctx, "rota-noded", join("rota-noded", "l1", token("login"), "--login")...); err != nil {
		t.Fatalf("join: %s, %v", out, err)
	}
	refused(t, w.ctx, []string{"role login"}, "rota-noded", "--name", "l1", "--data-dir", dir("l1"))
	login, err := w.Daemon("rota-noded", "l1", "--login", "--gossip", "127.0.0.1:0")
	w.must(err)
	w.must(login.Start())
	defer login.Term()
	w.wait("the login node to serve", func() bool {
		out, err := program(t, w.ctx, "rota", "--addr", "unix:"+login.Socket, "nodes")
		return err == nil && strings.Contains(out, "n1")
	})
	if out, err := program(t, w.ctx, "rota", "nodes", "--addr", "unix:"+login.Socket); err != nil ||
		strings.Contains(out, "l1") {
		t.Errorf("a login node among the nodes that run jobs: %s, %v", out, err)
	}

	// A second controller, and the first one goes: the cluster is the same.
	if out, err := program(t, w.ctx, "rota-controld", join("rota-controld", "c2", token("controller"))...); err != nil {
		t.Fatalf("join: %s, %v", out, err)
	}

	// A node whose certificate was revoked is refused, until it joins again.
	if out, err := w.Rota(w.ctx, "cluster", "revoke", "login/l1").CombinedOutput(); err != nil {
		t.Fatalf("revoke: %s, %v", out, err)
	}
	refused(t, w.ctx, []string{"revoked"}, "rota", "nodes", "--addr", "unix:"+login.Socket)
	login.Term()
	if out, err := program(t, w.ctx, "rota-noded", join("rota-noded", "l1", token("login"), "--login")...); err != nil {
		t.Fatalf("join again: %s, %v", out, err)
	}
	w.must(login.Start())
	w.wait("the login node to serve again", func() bool {
		_, err := program(t, w.ctx, "rota", "--addr", "unix:"+login.Socket, "nodes")
		return err == nil
	})
}
