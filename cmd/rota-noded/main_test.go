package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/daemon"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded"
)

// parse returns the configuration that a command line gives.
func parse(t *testing.T, args ...string) (noded.Config, error) {
	t.Helper()
	var cfg noded.Config
	app := daemon.NewApp("rota-noded", "", io.Discard, flags(noded.DefaultConfig()), func(c *cli.Context) (err error) {
		cfg, err = readSettings(c)
		return err
	})
	app.Writer = io.Discard
	err := app.RunContext(context.Background(), append([]string{"rota-noded"}, args...))
	return cfg, err
}

func TestFlagsWinOverFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.hcl")
	text := `
name        = "n1"
cores       = 4
memory      = "2GiB"
join        = ["a:7072", "b:7072"]
label       = { rack = "r1" }
max_memlock = "8GiB"
max_nofile  = 65536

max_pids        = 1000
max_output_rate = "1MiB"
max_logs        = "2GiB"
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := parse(t, "--config", path, "--cores", "6", "--label", "rack=r2")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Name != "n1" || cfg.Cores != 6 || cfg.Memory != 2*jobspec.GiB || cfg.MaxMemlock != 8*jobspec.GiB ||
		cfg.MaxNofile != 65536 || cfg.MaxPids != 1000 || cfg.MaxOutputRate != jobspec.MiB || cfg.MaxLogs != 2*jobspec.GiB ||
		cfg.Labels["rack"] != "r2" ||
		!reflect.DeepEqual(cfg.Join, []string{"a:7072", "b:7072"}) {
		t.Fatalf("got %+v", cfg)
	}
}

func TestBadFlags(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.hcl")
	if err := os.WriteFile(path, []byte("coers = 4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		want string
		args []string
	}{
		{"cores", []string{"--config", path}},
		{"--config", []string{"--config", path + ".missing"}},
		{"--memory", []string{"--memory", "64"}},
		{"--max-output-rate", []string{"--max-output-rate", "64"}},
		{"KEY=VALUE", []string{"--label", "x"}},
	} {
		if _, err := parse(t, test.args...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %v, want something about %q", test.args, err, test.want)
		}
	}
}

// TestMisspeltFlags shows that a misspelt flag gives one line of error, without the whole help.
func TestMisspeltFlags(t *testing.T) {
	for _, args := range [][]string{{"--max-nofile", "x"}, {"--naem", "n1"}} {
		var said strings.Builder
		err := run(t.Context(), append([]string{"rota-noded"}, args...), &said)
		if err == nil || !strings.HasSuffix(err.Error(), "(--help lists the flags)") || said.Len() > 0 {
			t.Errorf("%v: %v, and %q", args, err, said.String())
		}
	}
}
