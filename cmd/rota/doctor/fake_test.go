package doctor

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/gpu"
)

// noon is the time on the machine of the tests.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fake returns an inspection by root of a machine on which all is well and nothing is configured.
func fake(t *testing.T) *inspection {
	t.Helper()
	in := &inspection{system: &system{
		root: t.TempDir(), now: func() time.Time { return noon },
		hostname: func() (string, error) { return "n1", nil },
		release:  func() (string, error) { return "6.1.0-18-amd64", nil },
		addrs:    func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil },
		lookup:   func(context.Context, string) ([]string, error) { return []string{"192.0.2.1"}, nil },
		dial: func(context.Context, string, string) (net.Conn, error) {
			a, b := net.Pipe()
			b.Close()
			return a, nil
		},
		listen:  func(string, string) error { return nil },
		clone:   func(uintptr) error { return nil },
		keyring: func() error { return nil },
		criu:    func(context.Context, string) (string, string, error) { return "/usr/sbin/criu", "4.3.1", nil },
		timex:   func() (int, unix.Timex, error) { return 0, unix.Timex{Maxerror: 5000}, nil },
		statfs: func(string) (unix.Statfs_t, error) {
			return unix.Statfs_t{Bsize: 4096, Bavail: 1 << 24, Files: 1 << 20, Ffree: 1 << 20}, nil
		},
		syncs: func(string, int, time.Duration) ([]time.Duration, error) {
			return []time.Duration{time.Millisecond, 2 * time.Millisecond}, nil
		},
		cgroup:  func(string) error { return nil },
		gpuList: func(context.Context, string) (gpu.Inventory, error) { return gpu.Inventory{Absent: "no library"}, nil },
		output:  func(context.Context, string, ...string) ([]byte, error) { return nil, errors.New("no getent") },
		find:    func(name string) string { return "" },
	}}
	in.cluster.err = errors.New("no controller reachable")
	files(t, in, map[string]string{
		"/proc/self/status":                      "Name:\trota\nSeccomp:\t0\n",
		"/proc/sys/kernel/seccomp/actions_avail": "kill_process errno allow\n",
		"/sys/fs/cgroup/cgroup.controllers":      "cpuset cpu memory pids\n",
		"/proc/self/mountinfo":                   "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
		"/etc/passwd":                            "root:x:0:0::/root:/bin/sh\nada:x:1001:1001::/home/ada:/bin/sh\n",
		"/proc/swaps":                            "Filename Type Size Used Priority\n",
	})
	return in
}

// files writes files of the machine.
func files(t *testing.T, in *inspection, all map[string]string) {
	t.Helper()
	for name, text := range all {
		path := in.path(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// node makes the machine a node with its programs and this configuration.
func node(t *testing.T, in *inspection, config string) {
	t.Helper()
	files(t, in, map[string]string{nodedFile: config})
	dataDirectory(t, in, nodedData)
	in.readSettings(controldFile, nodedFile)
}

// controller makes the machine a controller with this configuration.
func controller(t *testing.T, in *inspection, config string) {
	t.Helper()
	files(t, in, map[string]string{controldFile: config})
	dataDirectory(t, in, controldData)
	in.readSettings(controldFile, nodedFile)
}

func dataDirectory(t *testing.T, in *inspection, path string) {
	t.Helper()
	if err := os.MkdirAll(in.path(path), 0o700); err != nil {
		t.Fatal(err)
	}
}

// expect runs all checks and wants a finding of this level whose text and fix have these parts.
func expect(t *testing.T, in *inspection, check string, want level, text, fix string) {
	t.Helper()
	r := in.report(t.Context())
	var seen []string
	for _, f := range r.Items {
		if f.Check == check {
			seen = append(seen, f.Level.String()+": "+f.Text+" (fix: "+f.Fix+")")
			if f.Level == want && strings.Contains(f.Text, text) && strings.Contains(f.Fix, fix) {
				return
			}
		}
	}
	t.Errorf("%s: got %q, want %v: %q (fix: %q)", check, seen, want, text, fix)
}
