package controld

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/recovery"
)

// inPhase waits until a replacement of the authority is in a phase; "": none is going on.
func inPhase(t *testing.T, s *running, phase string) {
	t.Helper()
	eventually(t, "phase "+phase, func() error {
		known(t, s.addrs, pki.Dir(s.cfg.DataDir)) // to ask with its certificate of now
		cl, _, err := s.client(user(0)).Cluster(t.Context())
		if err != nil {
			return err
		}
		if a := cl.Authority; (a == nil) != (phase == "") || a != nil && a.Phase != phase {
			return fmt.Errorf("%+v", a)
		}
		return nil
	})
}

// TestAReplacementOutlivesARestore takes a cluster back to each phase of a replacement of the
// authority. It does so by a backup or the log of one survivor, and ends the replacement there. It
// notices a machine with a certificate of either authority that is locked out before the end, and
// keys of two times in one backup. It also notices two authorities that stay trusted for good
// because the restored state is older than the keys.
func TestAReplacementOutlivesARestore(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for which alone a backup is")
	}
	cfg := controller(t, "c1")
	cfg.Socket = filepath.Join(t.TempDir(), "s")
	s := start(t, cfg)
	leaderOf(t, []*running{s})
	early, late := machineOf(t, s.addrs.HTTP, pki.Node, "n1"), machineOf(t, s.addrs.HTTP, pki.Node, "n2")
	for _, name := range []string{"n1", "n2"} {
		n := newNode(t, s.addrs.HTTP, name, 1)
		if _, err := n.c.Register(t.Context(), name, api.RegisterRequest{Node: n.node}); err != nil {
			t.Fatal(err)
		}
	}
	withKeys := api.BackupRequest{WithKeys: true, Passphrase: passphrase}
	before := saved(t, s, api.BackupRequest{})
	if _, err := s.client(user(0)).ReplaceAuthority(t.Context()); err != nil {
		t.Fatal(err)
	}
	trusted := saved(t, s, withKeys)
	stop := follows(t, early, []*running{s})
	inPhase(t, s, "issues")
	next := ""
	eventually(t, "a certificate of the new authority", func() error {
		if next = onDisk(t, s).Issuer(); early.Issuer() != next || next == late.Issuer() {
			return errors.New("n1 has none")
		}
		return nil
	})
	issues := saved(t, s, withKeys)
	stop()
	s.stop()
	keys := filepath.Join(t.TempDir(), "keys") // of the middle of the replacement
	if err := os.CopyFS(keys, os.DirFS(pki.Dir(s.cfg.DataDir))); err != nil {
		t.Fatal(err)
	}

	fromBackup := func(file string) func(dir string) error {
		return func(dir string) error { _, err := restored(t, s, file, dir, passphrase); return err }
	}
	for name, back := range map[string]func(dir string) error{
		"trusted": fromBackup(trusted), "issues": fromBackup(issues),
		"recovered": func(dir string) error {
			if err := os.CopyFS(dir, os.DirFS(s.cfg.DataDir)); err != nil {
				return err
			}
			if err := private(dir); err != nil {
				return err
			}
			_, err := recovery.Recover(t.Context(), recovery.Options{DataDir: dir, Name: s.cfg.Name, User: "root"})
			return err
		},
		"state of before": func(dir string) error {
			if err := os.CopyFS(pki.Dir(dir), os.DirFS(keys)); err != nil {
				return err
			}
			if err := private(pki.Dir(dir)); err != nil {
				return err
			}
			return fromBackup(before)(dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if err := back(dir); err != nil {
				t.Fatal(err)
			}
			cfg := s.cfg
			cfg.DataDir, cfg.Socket = dir, ""
			at := start(t, cfg)
			known(t, at.addrs, pki.Dir(dir))
			leaderOf(t, []*running{at})
			admin := at.client(user(0))
			if name == "state of before" {
				if a, err := admin.ReplaceAuthority(t.Context()); err != nil || a.Number != 1 || a.Phase != "trusted" {
					t.Fatalf("the replacement is not taken up: %+v, %v", a, err)
				}
			}
			eventually(t, "a controller that has followed", func() error { return speaks(t, late, at) })
			inPhase(t, at, "issues")
			eventually(t, "both machines", func() error { return errors.Join(speaks(t, early, at), speaks(t, late, at)) })
			eventually(t, "the end", func() error { _, err := admin.FinishAuthority(t.Context()); return err })
			inPhase(t, at, "")
			eventually(t, "the new authority alone", func() error {
				c := onDisk(t, at)
				if err := speaks(t, late, at); err == nil {
					return errors.New("the old authority still counts")
				}
				if c.Authorities() != 1 || name != "trusted" && c.Anchor() != next {
					return fmt.Errorf("%d authorities, %s", c.Authorities(), c.Anchor())
				}
				return nil
			})
			known(t, at.addrs, pki.Dir(dir))
			if err := speaks(t, early, at); err != nil {
				t.Errorf("a machine of the new authority: %v", err)
			}
		})
	}
}

// private takes the rights of others away, which a copy gives.
func private(dir string) error {
	return filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o600)
		if e.IsDir() {
			mode = 0o700
		}
		return os.Chmod(path, mode)
	})
}
