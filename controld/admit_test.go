package controld

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
)

// journal keeps what a daemon logs.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

// says waits until a line has all words in it.
func (j *journal) says(t *testing.T, words ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("a line with %q", words), func() error {
		j.mu.Lock()
		defer j.mu.Unlock()
	next:
		for line := range strings.Lines(j.text.String()) {
			for _, w := range words {
				if !strings.Contains(line, w) {
					continue next
				}
			}
			return nil
		}
		return errors.New("there is none")
	})
}

func voters(t *testing.T, s *server) []string {
	t.Helper()
	cl, _, err := s.client(user(1000)).Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range cl.Controllers {
		if c.Voter {
			names = append(names, c.Name)
		}
	}
	return names
}

// TestTwoClustersThatMeetStayTwo starts a cluster's only controller again with a --join that names another cluster's.
func TestTwoClustersThatMeetStayTwo(t *testing.T) {
	var log journal
	cfg := controller(t, "a1")
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	a := start(t, cfg)
	a.ready()
	lost := controller(t, "b1")
	b := start(t, lost)
	b.ready()
	id, err := b.client(user(1000)).Submit(t.Context(), "", job("of-b"))
	if err != nil {
		t.Fatal(err)
	}
	b.stop()
	lost = b.cfg
	lost.Join = []string{a.addrs.Gossip}
	b = start(t, lost)
	log.says(t, "controller not added", "b1", "another cluster")
	b.ready()
	if j, _, err := b.client(user(1000)).Job(t.Context(), id, api.Read{Consistent: true}); err != nil || j.Name != "of-b" {
		t.Errorf("b1 has lost what it had acknowledged: %v", err)
	}
	for s, want := range map[*server]string{a: "a1", b: "b1"} {
		if got := voters(t, s); len(got) != 1 || got[0] != want {
			t.Errorf("voters of %s: %v", want, got)
		}
	}
}

const strangerVariable = "ROTA_TEST_STRANGER"

// TestMain is a controller that another user runs, if it was started as such.
func TestMain(m *testing.M) {
	join := os.Getenv(strangerVariable)
	if join == "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "rota-stranger-")
	if err != nil {
		os.Exit(1)
	}
	cfg := DefaultConfig()
	cfg.Name, cfg.DataDir, cfg.Join = "evil", filepath.Join(dir, "data"), []string{join}
	cfg.HTTP, cfg.Raft, cfg.Gossip, cfg.Socket = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", ""
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

// TestAControllerOfAnotherUserIsNotAdded is about clusters without a key, whose gossip everyone on the machine can take part in.
func TestAControllerOfAnotherUserIsNotAdded(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	var log journal
	cfg := controller(t, "c1")
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := start(t, cfg)
	s.ready()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), strangerVariable+"="+s.addrs.Gossip)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	log.says(t, "controller not added", "evil", "uid 65534")
	if got := voters(t, s); len(got) != 1 {
		t.Errorf("voters: %v", got)
	}
}
