package controld

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api/pki"
)

const apartVariable = "ROTA_TEST_CONTROLLER"

// TestMain is a controller in a process of its own, if it was started as such by apart.
func TestMain(m *testing.M) {
	name, dir, alone := strings.Cut(os.Getenv(apartVariable), " ")
	if !alone {
		os.Exit(m.Run())
	}
	cfg := DefaultConfig()
	cfg.Name, cfg.DataDir = name, dir
	cfg.HTTP, cfg.Raft, cfg.Gossip, cfg.Socket = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", ""
	cfg.Ready = func(a Addresses) { fmt.Println(a.HTTP, a.Raft, a.Gossip) }
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin) // until the test ends
		cancel()
	}()
	if err := Run(ctx, cfg); err != nil {
		os.Exit(1)
	}
}

// apart starts the first controller of a cluster in a process of its own, which ends with the test.
func apart(t *testing.T, name string) (*os.Process, Addresses) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if _, err := pki.Init(pki.Dir(dir), name); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), apartVariable+"="+name+" "+dir)
	cmd.Dir = "/"
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
	known(t, a, pki.Dir(dir))
	return cmd.Process, a
}
