package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/config"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// packagedSettings are what the package installs as /etc/rota/controld.hcl.
const packagedSettings = "../../packaging/etc/controld.hcl"

// TestPackagedSettingsNeedNoChange: the daemon of a package listens on all addresses and beside a
// node's socket, and has the defaults otherwise.
func TestPackagedSettingsNeedNoChange(t *testing.T) {
	cfg, err := parse(t, "--config", packagedSettings)
	if err != nil {
		t.Fatal(err)
	}
	want := controld.DefaultConfig()
	want.HTTP, want.Raft, want.Gossip = "0.0.0.0:7070", "0.0.0.0:7071", "0.0.0.0:7072"
	want.Socket = api.ControllerSocket
	for _, got := range [][2]string{{cfg.HTTP, want.HTTP}, {cfg.Raft, want.Raft}, {cfg.Gossip, want.Gossip},
		{cfg.Name, want.Name}, {cfg.DataDir, want.DataDir}, {cfg.Socket, want.Socket}} {
		if got[0] != got[1] {
			t.Errorf("got %s, want %s", got[0], got[1])
		}
	}
	if cfg.Cluster != nil {
		t.Errorf("the file has settings of the cluster: %+v", cfg.Cluster)
	}
}

// commented are lines that become settings without their "#".
var commented = regexp.MustCompile(`(?m)^# ?( *[a-z_]+ *= .*| *[a-z]+( "[a-z*]+")? \{| *\})$`)

// TestPackagedSettingsShowDefaults: every setting is in the file, and what is commented out are the
// defaults.
func TestPackagedSettingsShowDefaults(t *testing.T) {
	text, err := os.ReadFile(packagedSettings)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "controld.hcl")
	if err := os.WriteFile(path, commented.ReplaceAll(text, []byte("$1")), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := config.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	v := reflect.ValueOf(*f)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		examples := slices.Contains([]string{"Accounts", "Capacity", "DefaultAccount"}, name)
		if !examples && v.Field(i).IsNil() {
			t.Errorf("%s is not in the file", name)
		}
	}
	def := controld.DefaultConfig()
	if *f.DataDir != def.DataDir || *f.AllowRootJobs || *f.RootJobsAs != "" {
		t.Errorf("these are no defaults: %s, %t, %q", *f.DataDir, *f.AllowRootJobs, *f.RootJobsAs)
	}
	got, want := f.Replicated(), cluster.DefaultConfig()
	if got.ClusterName != want.ClusterName || !reflect.DeepEqual(got.Queues, want.Queues) || got.LeaseMS != want.LeaseMS ||
		got.MarginMS != want.MarginMS || got.NodeDownMS != want.NodeDownMS || got.NoNewAccounts {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
