package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"

	"github.com/rota-hpc/rota/noded"
	"github.com/rota-hpc/rota/noded/config"
)

// packagedSettings are what the package installs as /etc/rota/noded.hcl.
const packagedSettings = "../../packaging/etc/noded.hcl"

// TestPackagedSettingsNeedNoChange: the daemon of a package listens on all addresses, at other ports
// than a controller's, and has the defaults otherwise.
func TestPackagedSettingsNeedNoChange(t *testing.T) {
	cfg, err := parse(t, "--config", packagedSettings)
	if err != nil {
		t.Fatal(err)
	}
	want, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	want.Gossip, want.HTTP = "0.0.0.0:7073", "0.0.0.0:7074"
	if !reflect.DeepEqual(cfg, want) {
		t.Errorf("got %+v, want %+v", cfg, want)
	}
}

// commented are lines that become settings without their "#".
var commented = regexp.MustCompile(`(?m)^# ?([a-z_]+ *= .*)$`)

// TestPackagedSettingsShowDefaults: every setting is in the file, and what is commented out are the
// defaults or examples.
func TestPackagedSettingsShowDefaults(t *testing.T) {
	text, err := os.ReadFile(packagedSettings)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "noded.hcl")
	if err := os.WriteFile(path, commented.ReplaceAll(text, []byte("$1")), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := config.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	v := reflect.ValueOf(*f)
	for i := range v.NumField() {
		if v.Field(i).IsNil() {
			t.Errorf("%s is not in the file", v.Type().Field(i).Name)
		}
	}
	cfg, err := parse(t, "--config", path)
	if err != nil {
		t.Fatal(err)
	}
	def := noded.DefaultConfig()
	if cfg.DataDir != def.DataDir || cfg.Socket != def.Socket || cfg.WarmShims != def.WarmShims ||
		cfg.MaxOutputRate != def.MaxOutputRate || cfg.MaxLogs != def.MaxLogs || cfg.SimGPUs != 0 || cfg.Login ||
		cfg.AllowRootJobs || cfg.AllowUserNamespaces || cfg.Criu ||
		len(cfg.Join)+len(cfg.Controllers)+len(cfg.SharedPaths) > 0 {
		t.Errorf("got %+v, want %+v", cfg, def)
	}
}
