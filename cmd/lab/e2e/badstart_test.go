package e2e

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api/clock"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
	"github.com/rota-hpc/rota/controld/fsm/state"
)

// nobody is the uid of an account without rights.
const nobody = 65534

// badStart is a daemon that cannot start, and what its operator is told.
type badStart struct {
	name  string
	flags []string // in place of the usual ones
	user  uint32
	env   string
	setup func(t *testing.T, data string)
	want  []string
}

// TestDaemonsThatCannotStart runs the programs as an operator does: a clear message, once, and an
// exit code that is not 0.
func TestDaemonsThatCannotStart(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: daemons are started as other users")
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	busy := taken.Addr().String()
	newer := func(file, text string) func(*testing.T, string) {
		return func(t *testing.T, data string) {
			path := filepath.Join(data, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	newerLog := func(t *testing.T, data string) {
		newer("format", state.DataFormat+"\n")(t, data)
		newer("raft/version", `{"format":99}`)(t, data)
	}
	otherFormat := func(t *testing.T, data string) {
		newer("format", "9-dev\n")(t, data)
		newer("raft/version", `{"format":1}`)(t, data)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for program, cases := range map[string][]badStart{
		"rota-controld": {
			{name: "API port in use", flags: []string{"--http", busy},
				want: []string{"--http", "port in use", busy, "choose another"}},
			{name: "raft port in use", flags: []string{"--raft", busy}, want: []string{"--raft", "port in use", busy}},
			{name: "gossip port in use", flags: []string{"--gossip", busy}, want: []string{"--gossip", "in use", busy}},
			{name: "directory below a file", flags: []string{"--data-dir", file + "/x"},
				want: []string{"data directory", file, "not a directory", "writable"}},
			{name: "directory not writable", user: nobody, want: []string{"data", "permission denied"}},
			{name: "log of a newer version", setup: newerLog, want: []string{"newer version", "format 99", "install"}},
			{name: "data of an earlier program", setup: newer("raft/version", `{"format":1}`),
				want: []string{"earlier program", state.DataFormat, "empty one"}},
			{name: "an offset of the clock that is none", env: clock.OffsetVariable + "=an hour",
				want: []string{clock.OffsetVariable, `"an hour"`, "-1h", "unset"}},
			{name: "data of another format", setup: otherFormat, want: []string{"format 9-dev", state.DataFormat, "empty one"}},
		},
		"rota-noded": {
			{name: "port in use", flags: []string{"--http", busy}, want: []string{"--http", "port in use", busy,
				"choose another"}},
			{name: "gossip port in use", flags: []string{"--gossip", busy}, want: []string{"gossip", "in use", busy}},
			{name: "directory below a file", flags: []string{"--data-dir", file + "/x"},
				want: []string{"--data-dir " + file, "cannot be written", "not a directory"}},
			{name: "an offset of the clock that is none", env: clock.OffsetVariable + "=5",
				want: []string{clock.OffsetVariable, `"5"`}},
			{name: "not root", user: nobody, want: []string{"must run as root", "sudo"}},
			{name: "cgroups unusable", flags: []string{"--cgroup-root", "/cgroup.procs/x"},
				want: []string{"cgroups cannot be used", "--cgroup-root"}},
			{name: "data of a newer version", setup: newer("version", `{"format":99}`),
				want: []string{"newer version", "format 99", "install"}},
			{name: "damaged mark", setup: newer("version", `rubbish`), want: []string{"not a version", "--data-dir"}},
		},
	} {
		for _, c := range cases {
			t.Run(program+" "+c.name, func(t *testing.T) { c.run(t, program) })
		}
	}
}

func (c badStart) run(t *testing.T, program string) {
	data := t.TempDir()
	if err := os.Chmod(data, 0o755); err != nil {
		t.Fatal(err)
	}
	cluster := pkitest.New(t)
	if program == "rota-controld" {
		cluster.Issue(pki.Dir(data), pki.Controller, "bad")
	} else {
		cluster.Issue(pki.Dir(data), pki.Node, "bad")
	}
	if c.setup != nil {
		c.setup(t, data)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	args := []string{"--name", "bad", "--data-dir", data, "--socket", "", "--http", "127.0.0.1:0", "--gossip",
		"127.0.0.1:0"}
	if program == "rota-controld" {
		args = append(args, "--raft", "127.0.0.1:0")
	} else {
		args = append(args, "--cgroup-root", "/rota-bad-"+strconv.Itoa(os.Getpid()))
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(bin, program), append(args, c.flags...)...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &out, "/"
	cmd.Env = append(os.Environ(), c.env)
	if c.user != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.user, Gid: c.user}}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its exit code is looked at
	if ctx.Err() != nil {
		t.Fatalf("it ran on:\n%s", out.String())
	}
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	var said []string
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, program+": ") {
			said = append(said, line)
		}
	}
	t.Log(out.String())
	text := strings.Join(said, "")
	if len(said) == 0 || len(said) > 7 || strings.Contains(out.String(), "goroutine ") {
		t.Errorf("not one clear message:\n%s", out.String())
	}
	for _, part := range c.want {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, out.String())
		}
	}
	if left := cgroupsOf("rota-bad-" + strconv.Itoa(os.Getpid())); len(left) > 0 {
		t.Errorf("cgroups remain: %v", left)
	}
}

func cgroupsOf(name string) []string {
	found, _ := filepath.Glob("/sys/fs/cgroup/*/" + name) // the patterns are well formed
	unified, _ := filepath.Glob("/sys/fs/cgroup/" + name)
	found = append(found, unified...)
	return found
}
