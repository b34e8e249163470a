package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rota-hpc/rota/controld/api/pki"
)

// envCommand makes this program run a command line, one argument a line, in place of the tests.
const envCommand = "ROTA_TEST_CONTROLD"

func TestMain(m *testing.M) {
	if line := os.Getenv(envCommand); line != "" {
		if err := run(context.Background(), strings.Split(line, "\n"), os.Stderr); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// command runs rota-controld in a process of its own, because it may give up its rights.
func command(t *testing.T, args ...string) (out string, ok bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), envCommand+"=rota-controld\n"+strings.Join(args, "\n"))
	b, err := cmd.CombinedOutput()
	return string(b), err == nil
}

// dataDir makes a data directory of an account.
func dataDir(t *testing.T, uid int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for at := filepath.Dir(dir); at != "/tmp" && at != "/"; at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestInitAndJoinActAsTheOwner notices a command of root whose files the daemon's own account cannot
// read, and one that gives up its rights before it has read its configuration.
func TestInitAndJoinActAsTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another account")
	}
	const uid = 23456
	dir := dataDir(t, uid)
	file := filepath.Join(t.TempDir(), "controld.hcl")
	text := fmt.Sprintf("name = \"c9\"\ndata_dir = %q\n", dir)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, ok := command(t, "init", "--config", file)
	if !ok || !strings.Contains(out, "acting as uid 23456, which owns "+dir+"\n") ||
		!strings.Contains(out, "with controller c9;") {
		t.Fatalf("init says %s", out)
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		files++
		info, err := d.Info()
		if err != nil {
			return err
		}
		if s, ok := info.Sys().(*syscall.Stat_t); !ok || s.Uid != uid || s.Gid != uid {
			t.Errorf("%s belongs to %d:%d", path, s.Uid, s.Gid)
		}
		return nil
	})
	if err != nil || files < 4 {
		t.Errorf("%d files, %v", files, err)
	}
	mine := pki.Dir(filepath.Join(t.TempDir(), "mine"))
	if _, err := pki.Init(mine, "c1"); err != nil {
		t.Fatal(err)
	}
	signer, err := pki.Load(mine)
	if err != nil {
		t.Fatal(err)
	}
	other := dataDir(t, uid)
	// nothing listens there
	out, ok = command(t, "join", "127.0.0.1:1", "--data-dir", other, "--name", "c2", "--token", signer.NewToken().String())
	if ok || !strings.Contains(out, "acting as uid 23456, which owns "+other+"\n") {
		t.Errorf("join says %s", out)
	}
	out, ok = command(t, "join", "127.0.0.1:1", "--data-dir", other, "--name", "c2", "--token", "none")
	if ok || strings.Contains(out, "acting as") {
		t.Errorf("join without a token says %s", out)
	}
}

// TestInitOfRootsOwnDirectory notices an init that gives up rights that it needs.
func TestInitOfRootsOwnDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	out, ok := command(t, "init", "--data-dir", dir, "--name", "c1")
	if !ok || strings.Contains(out, "acting as") {
		t.Errorf("init says %s", out)
	}
	if c, err := pki.Load(pki.Dir(dir)); err != nil || c.Member.Name != "c1" {
		t.Errorf("the certificate: %+v, %v", c, err)
	}
}

// TestFlagsBelongToTheirCommand notices flags that are read and do not count: init would make its
// cluster in the default directory.
func TestFlagsBelongToTheirCommand(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	for _, args := range [][]string{{"--data-dir", dir, "init"}, {"--data-dir", dir, "join", "127.0.0.1:1"}} {
		out, ok := command(t, args...)
		if ok || !strings.Contains(out, "--data-dir must come after "+args[2]+": write rota-controld "+args[2]) {
			t.Errorf("%v says %s", args, out)
		}
	}
}

// TestRestoreTakesItsFileFirstOrLast gives the command its file on either side of the flags.
func TestRestoreTakesItsFileFirstOrLast(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	flags := []string{"--name", "c1", "--data-dir", t.TempDir()}
	for _, args := range [][]string{append([]string{missing}, flags...), append(slices.Clone(flags), missing)} {
		err := run(t.Context(), append([]string{"rota-controld", "restore"}, args...), io.Discard)
		if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
			t.Errorf("restore %q: %v", args, err)
		}
	}
}
