package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/daemon"
	"github.com/rota-hpc/rota/controld"
)

// parse returns the settings that a command line gives.
func parse(t *testing.T, args ...string) (controld.Config, error) {
	t.Helper()
	var got controld.Config
	app := daemon.NewApp("rota-controld", "", io.Discard, flags(), func(c *cli.Context) (err error) {
		got, err = readSettings(c, io.Discard)
		return err
	})
	app.Writer = io.Discard
	err := app.RunContext(t.Context(), append([]string{"rota-controld"}, args...))
	return got, err
}

func TestFlagsWinOverTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.hcl")
	text := `
name       = "from-file"
http       = "127.0.0.1:1111"
join       = ["127.0.0.1:9999"]
log_format = "json"
cluster { name = "alpha" }
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := parse(t, "--config", path, "--name", "from-flag", "--join", "a:1,b:2", "--join", "c:3",
		"--socket", "")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Name != "from-flag" || cfg.HTTP != "127.0.0.1:1111" || strings.Join(cfg.Join, " ") != "a:1 b:2 c:3" {
		t.Errorf("settings are %+v", cfg)
	}
	if cfg.Socket != "" || cfg.Raft != controld.DefaultConfig().Raft || cfg.Cluster == nil ||
		cfg.Cluster.ClusterName != "alpha" {
		t.Errorf("settings are %+v", cfg)
	}
	again, err := cfg.Reload()
	if err != nil || again.ClusterName != "alpha" {
		t.Errorf("re-read: %+v, %v", again, err)
	}
}

func TestBadCommandLinesAreRefused(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--no-such-flag"}, "no-such-flag"},
		{[]string{"stray"}, "stray"},
		{[]string{"--log-format", "xml"}, "xml"},
		{[]string{"--config", "/nowhere/cluster.hcl"}, "/nowhere/cluster.hcl"},
	} {
		if _, err := parse(t, c.args...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: got %v, want %q", c.args, err, c.says)
		}
	}
}

func TestRunsUntilItIsStopped(t *testing.T) {
	dir := t.TempDir()
	bare := []string{"rota-controld", "--name", "c1", "--data-dir", filepath.Join(dir, "none"), "--socket", ""}
	if err := run(t.Context(), bare, io.Discard); err == nil || !strings.Contains(err.Error(), "rota-controld init") {
		t.Errorf("without init or join: %v", err)
	}
	found := []string{"rota-controld", "init", "--name", "c1", "--data-dir", dir}
	if err := run(t.Context(), found, io.Discard); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	err := run(ctx, []string{"rota-controld", "--name", "c1", "--data-dir", dir, "--http", "127.0.0.1:0",
		"--raft", "127.0.0.1:0", "--gossip", "127.0.0.1:0", "--socket", ""}, &bytes.Buffer{})
	if err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "raft")); err != nil {
		t.Error(err)
	}
}

func TestADirectoryThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := run(t.Context(), []string{"rota-controld", "--name", "c1", "--data-dir", filepath.Join(dir, "state"),
		"--http", "127.0.0.1:0", "--raft", "127.0.0.1:0", "--gossip", "127.0.0.1:0", "--socket", ""}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "data directory") ||
		!strings.Contains(err.Error(), syscall.ENOTDIR.Error()) {
		t.Errorf("got %v", err)
	}
}
