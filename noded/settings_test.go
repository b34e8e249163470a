package noded

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestValidateTellsEverything(t *testing.T) {
	bad := Config{
		Name: "-n", DataDir: "relative", Gossip: "10.0.0.1:x", HTTP: "nowhere", Cores: -1, CgroupRoot: "/",
		SharedPaths: []string{"/a/../b"}, Ports: "5-1", MaxPids: 1, MaxOutputRate: 1, MaxLogs: 1,
		Labels: map[string]string{"criu": "5"}, CriuProgram: "criu",
	}
	err := bad.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"--name", "--data-dir", "--gossip", "--http",
		"--cores", "--cgroup-root", "--shared-path", "--ports", "--max-pids", "--max-output-rate",
		"--max-logs", "--label criu=", "--criu-program"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	good := DefaultConfig()
	good.Join = []string{"127.0.0.1:7072"}
	if err := good.withDefaults().Validate(); err != nil {
		t.Fatal(err)
	}
}

// TestUmask is for a root with a umask such as 077, under which no job's user could enter its
// container.
func TestUmask(t *testing.T) {
	before := unix.Umask(0o077)
	defer unix.Umask(before)
	if err := Run(t.Context(), Config{}); err == nil {
		t.Fatal("an empty configuration is no error")
	}
	if now := unix.Umask(0o077); now != 0o022 {
		t.Errorf("got %03o", now)
	}
}
