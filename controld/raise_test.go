package controld

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
)

// TestTheClusterVersionIsRaised shows how a second version comes into use: controllers are replaced
// one by one, and the cluster has the version once the last of them knows it, also after all were
// started again.
func TestTheClusterVersionIsRaised(t *testing.T) {
	const second = fsm.LatestVersion + 1
	servers := startThree(t, func(c *Config) {
		if c.Name != "c1" {
			c.knows = second
		}
	})
	version := func(want int) func() error {
		return func() error {
			for _, s := range servers {
				cl, _, err := s.client(user(1000)).Cluster(t.Context())
				if err == nil && cl.Version != want {
					err = fmt.Errorf("%s has version %d", s.cfg.Name, cl.Version)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
	time.Sleep(3 * time.Second)
	if err := version(fsm.LatestVersion)(); err != nil {
		t.Fatalf("c1 does not know another version: %v", err)
	}
	servers[0].stop()
	servers[0].cfg.knows = second
	servers[0] = start(t, servers[0].cfg)
	eventually(t, "the second version", version(second))
	for i, s := range servers {
		s.stop()
		servers[i] = start(t, s.cfg)
	}
	eventually(t, "the second version after a restart", version(second))
}

// TestADataDirectoryOfAnotherFormatIsRefused with words that say what it is and what to do.
func TestADataDirectoryOfAnotherFormatIsRefused(t *testing.T) {
	s := start(t, controller(t, "c1"))
	s.ready()
	s.stop()
	file := filepath.Join(s.cfg.DataDir, "format")
	if text, err := os.ReadFile(file); err != nil || string(text) != state.DataFormat+"\n" {
		t.Fatalf("the directory is marked %q, %v", text, err)
	}
	start(t, s.cfg).stop()
	for _, other := range []string{"", "1-dev.0\n"} {
		if err := os.WriteFile(file, []byte(other), 0o600); err != nil {
			t.Fatal(err)
		}
		err := Run(t.Context(), s.cfg)
		if err == nil {
			t.Fatalf("format %q is accepted", other)
		}
		for _, want := range []string{s.cfg.DataDir, state.DataFormat, "move the directory away",
			strings.TrimSpace(other)} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("format %q: %v; want %q in it", other, err, want)
			}
		}
	}
}
