package noded

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
	"github.com/rota-hpc/rota/jobspec"
)

// installed returns the settings of a node that has joined a cluster.
func installed(t *testing.T, cluster *pkitest.Cluster, r pki.Role) Config {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := cluster.First().Issue(pki.Dir(dir), r, "n1", nil); err != nil {
		t.Fatal(err)
	}
	return Config{Name: "n1", DataDir: dir, Gossip: "127.0.0.1:0", Socket: filepath.Join(t.TempDir(), "s"), SimGPUs: 2,
		Cores: 1, Memory: jobspec.GiB, CgroupRoot: "/rota-noded-test", ShimPath: "/bin/true", InitPath: "/bin/true",
		Login: r == pki.Login}
}

// runningDaemon is a daemon that runs in this process.
type runningDaemon struct {
	t      *testing.T
	cancel context.CancelFunc
	ended  chan error
	log    chan string
}

// runDaemon starts a daemon and waits for the message that it has started.
func runDaemon(t *testing.T, cfg Config) (*runningDaemon, map[string]string) {
	t.Helper()
	before := unix.Umask(0o022)
	t.Cleanup(func() { unix.Umask(before) })
	ctx, cancel := context.WithCancel(context.Background())
	r := &runningDaemon{t: t, cancel: cancel, ended: make(chan error, 1), log: make(chan string, 1000)}
	reader, writer := io.Pipe()
	cfg.Logger = slog.New(slog.NewTextHandler(writer, nil))
	go func() {
		var line []byte
		one := make([]byte, 1)
		for {
			if _, err := reader.Read(one); err != nil {
				return
			}
			if line = append(line, one[0]); one[0] == '\n' {
				select {
				case r.log <- string(line):
				default:
				}
				line = nil
			}
		}
	}()
	go func() { r.ended <- Run(ctx, cfg); writer.Close() }()
	t.Cleanup(r.stop)
	timeout := time.After(30 * time.Second)
	for {
		select {
		case line := <-r.log:
			if !strings.Contains(line, "daemon started") && !strings.Contains(line, "login node started") {
				continue
			}
			said := map[string]string{}
			for field := range strings.FieldsSeq(line) {
				if k, v, ok := strings.Cut(field, "="); ok {
					said[k] = v
				}
			}
			return r, said
		case err := <-r.ended:
			r.ended <- err
			t.Fatalf("the daemon has ended: %v", err)
		case <-timeout:
			t.Fatal("the daemon does not start")
		}
	}
}

// stop ends the daemon, which must take it for no error.
func (r *runningDaemon) stop() {
	r.cancel()
	select {
	case err := <-r.ended:
		r.ended <- nil
		if err != nil {
			r.t.Errorf("the daemon ended with %v", err)
		}
	case <-time.After(30 * time.Second):
		r.t.Error("the daemon does not end")
	}
}

func isRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("the node daemon needs root")
	}
}

// TestADaemonFromStartToEnd notices a listener that answers a stranger, files that others may read,
// parts that are not started, and remains after the end.
func TestADaemonFromStartToEnd(t *testing.T) {
	isRoot(t)
	cluster := pkitest.New(t)
	cfg := installed(t, cluster, pki.Node)
	r, said := runDaemon(t, cfg)
	if said["node"] != "n1" {
		t.Errorf("it says %v", said)
	}
	get := func(c *pki.Credential, path string) (int, string) {
		conf := c.Client(pki.Node)
		client := &http.Client{Transport: &http.Transport{DialTLSContext: pki.Dialer(conf), DisableKeepAlives: true}}
		resp, err := client.Get("https://" + said["http"] + path)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	if code, text := get(cluster.First(), "/v1/healthz"); code != 200 || text != "ok\n" {
		t.Errorf("a controller gets %d, %s", code, text)
	}
	if code, text := get(cluster.First(), "/v1/logs/1.1.0"); code != 404 || !strings.Contains(text, "no stdout of 1.1.0") {
		t.Errorf("a log that is not here: %d, %s", code, text)
	}
	if code, text := get(cluster.Member(pki.Node, "n2"), "/v1/logs/1.1.0"); code != 403 {
		t.Errorf("another node reads logs: %d, %s", code, text)
	}
	if code, text := get(pkitest.New(t).First(), "/v1/healthz"); code == 200 {
		t.Errorf("a stranger gets %d, %s", code, text)
	}
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if resp, err := plain.Get("http://" + said["http"] + "/v1/healthz"); err == nil {
		if resp.StatusCode == 200 {
			t.Error("it answers without TLS")
		}
		resp.Body.Close()
	}
	local := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		Dial: func(string, string) (net.Conn, error) { return net.Dial("unix", cfg.Socket) }}}
	resp, err := local.Get("http://rota/v1/jobs")
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 503 || !strings.Contains(string(b), "cannot reach a controller") {
		t.Errorf("the socket answers %d, %s", resp.StatusCode, b)
	}
	resp.Body.Close()
	for path, mode := range map[string]os.FileMode{"journal": 0o600, "version": 0o600, "cluster": 0o600,
		"logs": 0o700 | os.ModeDir, "containers": 0o711 | os.ModeDir} {
		info, err := os.Stat(filepath.Join(cfg.DataDir, path))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, mode %v", path, err, info.Mode())
		}
	}
	r.stop()
	for _, pattern := range []string{"/sys/fs/cgroup/*/rota-noded-test", "/sys/fs/cgroup/rota-noded-test"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			t.Errorf("cgroups are left: %v", found)
		}
	}
	if _, err := net.Dial("tcp", said["http"]); err == nil {
		t.Error("its listener is open")
	}
	if _, said := runDaemon(t, cfg); said["node"] != "n1" { // its locks are free
		t.Errorf("the next one says %v", said)
	}
}

func TestALoginNodeHasASocketAlone(t *testing.T) {
	cfg := installed(t, pkitest.New(t), pki.Login)
	_, said := runDaemon(t, cfg)
	if said["socket"] != cfg.Socket {
		t.Errorf("it says %v", said)
	}
	if left, _ := os.ReadDir(cfg.DataDir); len(left) != 1 || left[0].Name() != "tls" {
		t.Errorf("its data directory has %v", left)
	}
}

// TestADaemonThatMustNotStart notices a machine of another name or role that works as a node.
func TestADaemonThatMustNotStart(t *testing.T) {
	isRoot(t)
	before := unix.Umask(0o022)
	defer unix.Umask(before)
	cluster := pkitest.New(t)
	for says, edit := range map[string]func(*Config){
		"joined as n1: start it with --name n1": func(c *Config) { c.Name = "n2" },
		"for a machine of role node":            func(c *Config) { c.Login = true },
		"rota-noded join ADDR --token TOKEN": func(c *Config) {
			if err := os.RemoveAll(pki.Dir(c.DataDir)); err != nil {
				t.Fatal(err)
			}
		},
		"--shim: /proc/none is not a program":         func(c *Config) { c.ShimPath = "/proc/none" },
		"--init: /etc/passwd is not a program":        func(c *Config) { c.InitPath = "/etc/passwd" },
		"--shared-path /proc/none is not a directory": func(c *Config) { c.SharedPaths = []string{"/proc/none"} },
		"--http":                     func(c *Config) { c.HTTP = "192.0.2.1:0" },
		"--socket: ":                 func(c *Config) { c.Socket = "/etc/passwd/s" },
		"written by a newer version": func(c *Config) { writeFile(t, c.DataDir+"/version", `{"format":99}`) },
		"journal":                    func(c *Config) { writeFile(t, c.DataDir+"/journal", "damaged\nlines\n") },
		"/sys/fs/cgroup":             func(c *Config) { c.CgroupRoot = "/a\x00b" },
		"cannot be written":          func(c *Config) { c.DataDir = "/proc/none" },
	} {
		cfg := installed(t, cluster, pki.Node)
		edit(&cfg)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err := Run(ctx, cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
		cancel()
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestEachSettingIsChecked notices a check that is dropped or off by one, one at a time.
func TestEachSettingIsChecked(t *testing.T) {
	good := DefaultConfig()
	good.Name = "n1"
	for _, c := range []struct {
		says string
		edit func(*Config)
	}{
		{"", func(c *Config) { c.CgroupRoot = "/rota/x" }}, {"--cgroup-root", func(c *Config) { c.CgroupRoot = "rota" }},
		{"--cgroup-root", func(c *Config) { c.CgroupRoot = "/rota/../x" }}, {"--cgroup-root",
			func(c *Config) { c.CgroupRoot = "/" }},
		{"", func(c *Config) { c.SimGPUs = 1024 }}, {"--sim-gpus", func(c *Config) { c.SimGPUs = 1025 }},
		{"--gpus", func(c *Config) { c.GPUs = -1 }}, {"--sim-gpus", func(c *Config) { c.SimGPUs = -1 }},
		{"--memory", func(c *Config) { c.Memory = -1 }},
		{"--cores", func(c *Config) { c.Cores = -1 }}, {"--max-memlock", func(c *Config) { c.MaxMemlock = -1 }},
		{"--max-nofile", func(c *Config) { c.MaxNofile = -1 }}, {"", func(c *Config) { c.MaxNofile = 1 }},
		{"--shared-path", func(c *Config) { c.SharedPaths = []string{"/a", "b"} }},
		{"--shared-path", func(c *Config) { c.SharedPaths = []string{"/"} }},
		{"", func(c *Config) { c.SharedPaths = []string{"/a/b"} }}, {"--ports", func(c *Config) { c.Ports = "1023-2000" }},
		{"", func(c *Config) { c.Ports = "1024-65535" }}, {"--ports", func(c *Config) { c.Ports = "1024-65536" }},
		{"", func(c *Config) { c.Ports = "2000-2000" }}, {"--ports", func(c *Config) { c.Ports = "2001-2000" }},
		{"--ports", func(c *Config) { c.Ports = "2000" }}, {"--ports", func(c *Config) { c.Ports = "x-2000" }},
		{"--gossip", func(c *Config) { c.Gossip = "127.0.0.1:65536" }}, {"",
			func(c *Config) { c.Gossip = "127.0.0.1:65535" }},
		{"--gossip", func(c *Config) { c.Gossip = "127.0.0.1" }}, {"--socket", func(c *Config) {
			c.Login, c.Socket = true,
				""
		}},
		{"", func(c *Config) { c.Socket = "" }}, {"--data-dir", func(c *Config) { c.DataDir = "x" }},
		{"--name", func(c *Config) { c.Name = "" }},
		{"", func(c *Config) { c.MaxPids = 64 }}, {"--max-pids", func(c *Config) { c.MaxPids = 63 }},
		{"", func(c *Config) { c.MaxPids = 0 }}, {"--max-pids", func(c *Config) { c.MaxPids = -1 }},
		{"", func(c *Config) { c.MaxOutputRate = 64 << 10 }},
		{"--max-output-rate", func(c *Config) { c.MaxOutputRate = 64<<10 - 1 }},
		{"", func(c *Config) { c.MaxOutputRate = 0 }}, {"--max-output-rate", func(c *Config) { c.MaxOutputRate = -1 }},
		{"", func(c *Config) { c.MaxLogs = 1 << 20 }}, {"--max-logs", func(c *Config) { c.MaxLogs = 1<<20 - 1 }},
		{"", func(c *Config) { c.MaxLogs = 0 }}, {"--max-logs", func(c *Config) { c.MaxLogs = -1 }},
	} {
		cfg := good
		cfg.SharedPaths = slices.Clone(good.SharedPaths)
		c.edit(&cfg)
		err := cfg.withDefaults().Validate()
		if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) ||
			c.says != "--gossip" && c.says != "--name" && strings.Contains(err.Error(), "\n")) {
			t.Errorf("%q: %v", c.says, err)
		}
	}
}

func TestDefaultsFollowFromOthers(t *testing.T) {
	c := Config{Name: "n7", Gossip: "127.0.0.1:7072"}.withDefaults()
	if c.CgroupRoot != "/rota/n7" || c.HTTP != "127.0.0.1:0" || filepath.Base(c.ShimPath) != "rota-shim" ||
		filepath.Base(c.InitPath) != "rota-init" || len(c.NVMLHelper) != 2 || c.NVMLHelper[1] != "nvml-helper" ||
		c.Logger == nil {
		t.Errorf("got %+v", c)
	}
	low, high, err := parsePorts(c.Ports)
	if err != nil || low < 20000 || high > 29999 || high != low+99 {
		t.Errorf("ports %s on loopback", c.Ports)
	}
	if c := (Config{Name: "n7", Gossip: "10.0.0.1:7072"}).withDefaults(); c.Ports != "20000-29999" {
		t.Errorf("ports %s", c.Ports)
	}
	own := Config{Name: "n7", CgroupRoot: "/x", HTTP: "h:1", ShimPath: "/s", InitPath: "/i", Ports: "3000-4000",
		NVMLHelper: []string{"h"}}
	if c := own.withDefaults(); c.CgroupRoot != "/x" || c.HTTP != "h:1" || c.ShimPath != "/s" || c.InitPath != "/i" ||
		c.Ports != "3000-4000" || len(c.NVMLHelper) != 1 {
		t.Errorf("got %+v", c)
	}
}
