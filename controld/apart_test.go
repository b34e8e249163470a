package controld

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const apartVariable = "ROTA_TEST_CONTROLLER"

// TestMain is a controller in a process of its own, if it was started as such by apart.
func TestMain(m *testing.M) {
	name, join, alone := strings.Cut(os.Getenv(apartVariable), " ")
	if !alone {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "rota-apart-")
	if err != nil {
		os.Exit(1)
	}
	cfg := DefaultConfig()
	cfg.Name, cfg.DataDir, cfg.Join = name, filepath.Join(dir, "data"), strings.Fields(join)
	cfg.HTTP, cfg.Raft, cfg.Gossip, cfg.Socket = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", ""
	cfg.Ready = func(a Addresses) { fmt.Println(a.HTTP, a.Raft, a.Gossip) }
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin) // until the test ends
		cancel()
	}()
	err = Run(ctx, cfg)
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		os.Exit(1)
	}
}

// apart starts a controller in a process of its own, which ends with the test.
func apart(t *testing.T, name, join string, attr *syscall.SysProcAttr) (*os.Process, Addresses) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe") // which another user may run wherever it lies
	cmd.Env = append(os.Environ(), apartVariable+"="+name+" "+join)
	cmd.Dir, cmd.SysProcAttr = "/", attr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait() // what it says of itself is of no interest any more
	})
	var a Addresses
	if _, err := fmt.Fscan(out, &a.HTTP, &a.Raft, &a.Gossip); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	return cmd.Process, a
}
