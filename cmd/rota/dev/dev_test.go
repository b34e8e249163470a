package dev

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/command"
)

// openTest does what openDev does, without looking for the daemons' programs.
func openTest(o devOptions) (devLayout, error) {
	l := devLayout{dir: o.dir, id: "dev-test0000", bin: "/nowhere"}
	if err := l.lockDir(); err != nil {
		return l, err
	}
	if err := l.prepare(o); err != nil {
		l.undoLock()
		return l, err
	}
	return l, nil
}

func testOptions(t *testing.T) devOptions {
	dir := t.TempDir()
	return devOptions{dir: filepath.Join(dir, ".rota"), from: dir, controllers: 3, nodes: 2, simGPUs: 4, cores: 8,
		jobsAs: "nobody"}
}

func TestDevDirectoryIsLockedAndRemoved(t *testing.T) {
	o := testOptions(t)
	first, err := openTest(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openTest(o); err == nil || !strings.Contains(err.Error(), "already running") {
		t.Errorf("a second cluster in the same directory: %v", err)
	}
	if info, err := os.Stat(first.path("shared")); err != nil || info.Mode() != os.ModeDir|os.ModeSticky|0o777 {
		t.Errorf("shared: %v %v", info, err)
	}
	if err := first.cleanUp(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(o.dir); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
}

// TestDevDirectoryOfOneThatEndsIsWaitedFor: a directory that another cluster is about to leave, or
// to remove, is no reason to fail.
func TestDevDirectoryOfOneThatEndsIsWaitedFor(t *testing.T) {
	o := testOptions(t)
	first, err := openTest(o)
	if err != nil {
		t.Fatal(err)
	}
	type opened struct {
		layout devLayout
		err    error
	}
	second := make(chan opened)
	begun := make(chan struct{})
	go func() {
		close(begun)
		l, err := openTest(o)
		second <- opened{l, err}
	}()
	<-begun
	runtime.Gosched()
	if err := first.cleanUp(); err != nil {
		t.Fatal(err)
	}
	got := <-second
	if got.err != nil {
		t.Fatal(got.err)
	}
	if _, err := os.Stat(got.layout.path("shared")); err != nil {
		t.Error(err)
	}
	if err := got.layout.cleanUp(); err != nil {
		t.Error(err)
	}
}

// TestDevDirectoryThatCannotBeMade fails at once: waiting does not help if the parent directory is
// missing.
func TestDevDirectoryThatCannotBeMade(t *testing.T) {
	l := devLayout{dir: filepath.Join(t.TempDir(), "none", "dev")}
	if err := l.tryLock(); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, errDevGone) {
		t.Errorf("got %v", err)
	}
}

func TestDevKeepsItsPorts(t *testing.T) {
	o := testOptions(t)
	o.keep = true
	first, err := openTest(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(first.path("c1/log"), []byte("state"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := first.cleanUp(); err != nil {
		t.Fatal(err)
	}
	second, err := openTest(o)
	if err != nil {
		t.Fatal(err)
	}
	if n := portsEach * o.controllers; !slices.Equal(first.record.Ports[:n], second.record.Ports[:n]) ||
		first.addr != second.addr {
		t.Errorf("ports %v became %v", first.record.Ports, second.record.Ports)
	}
	if _, err := os.Stat(second.path("c1/log")); err != nil {
		t.Errorf("the kept state is gone: %v", err)
	}
	if err := second.cleanUp(); err != nil {
		t.Fatal(err)
	}
	o.controllers = 1
	if _, err := openTest(o); err == nil || !strings.Contains(err.Error(), "--controllers 3") {
		t.Errorf("another number of controllers over kept state: %v", err)
	}
}

// TestDevStartsAnewAfterAKill leaves a directory as a killed process does.
func TestDevStartsAnewAfterAKill(t *testing.T) {
	o := testOptions(t)
	first, err := openTest(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(first.path("c1/log"), []byte("state"), 0o600); err != nil {
		t.Fatal(err)
	}
	first.lock.Close() // the kernel does this for the dead
	o.controllers = 1
	second, err := openTest(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(second.path("c1/log")); !os.IsNotExist(err) {
		t.Errorf("the state of the killed cluster is still there: %v", err)
	}
	if err := second.cleanUp(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(o.dir); !os.IsNotExist(err) {
		t.Errorf("the directory that the killed process had made is still there: %v", err)
	}
}

func TestDevLeavesADirectoryThatWasThere(t *testing.T) {
	o := testOptions(t)
	mine := filepath.Join(o.dir, "shared", "result")
	if err := os.MkdirAll(filepath.Dir(mine), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{mine, filepath.Join(o.dir, "notes.txt"), filepath.Join(o.dir, "n")} {
		if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l, err := openTest(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.cleanUp(); err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir(o.dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, []string{"n", "notes.txt", "shared"}) {
		t.Errorf("left %v", names)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
}

func TestDevSpecs(t *testing.T) {
	o := testOptions(t)
	l, err := openTest(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.cleanUp(); err != nil {
			t.Error(err)
		}
	}()
	specs := l.specs(o)
	var names []string
	listens := map[string]bool{}
	for _, s := range specs {
		names = append(names, s.name)
		for i, a := range s.args {
			if a != "--http" && a != "--raft" && a != "--gossip" {
				continue
			}
			if at := s.args[i+1]; listens[at] || !strings.HasPrefix(at, "127.0.0.1:") {
				t.Errorf("%s listens on %s, which is taken or not on loopback", s.name, at)
			} else {
				listens[at] = true
			}
		}
	}
	if !slices.Equal(names, []string{"c1", "c2", "c3", "n1", "n2"}) {
		t.Errorf("daemons %v", names)
	}
	node := strings.Join(specs[4].args, " ")
	for _, want := range []string{"--shared-path " + o.from, "--sim-gpus 4", "--cores 8",
		"--cgroup-root /rota/dev-test0000-n2"} {
		if !strings.Contains(node, want) {
			t.Errorf("no %q in %s", want, node)
		}
	}
	o.memory, o.config = "2048MiB", "/etc/rota.hcl"
	specs = l.specs(o)
	if node := strings.Join(specs[4].args, " "); !strings.HasSuffix(node, " --memory 2048MiB") ||
		!strings.HasSuffix(strings.Join(specs[2].args, " "), " --config /etc/rota.hcl") {
		t.Errorf("with memory and configuration: %+v", specs)
	}
	if strings.Count(node, "--shared-path") != 1 {
		t.Errorf("%s is shared twice: %s", l.path("shared"), node)
	}
}

func TestDevNodesShareNoJobPorts(t *testing.T) {
	l := devLayout{dir: testOptions(t).dir}
	owner := map[int]int{}
	for node := range 64 {
		var low, high int
		if _, err := fmt.Sscanf(l.jobPorts(node), "%d-%d", &low, &high); err != nil || low < devJobPortsLow ||
			high >= 32768 || low >= high {
			t.Fatalf("node %d: %s: %v", node, l.jobPorts(node), err)
		}
		for port := low; port <= high; port++ {
			if other, taken := owner[port]; taken {
				t.Fatalf("nodes %d and %d share port %d", other, node, port)
			}
			owner[port] = node
		}
	}
}

func TestDevAddressOfALongPath(t *testing.T) {
	l := devLayout{dir: "/" + strings.Repeat("d", 120), record: devRecord{Ports: []int{10001, 10002, 10003}}}
	if got := l.address(1); got != "http://127.0.0.1:10001" {
		t.Errorf("got %s: a socket's path has at most 107 bytes", got)
	}
}

// TestDevSaysHowItIsReached notices a cluster that commands do not find, and that does not say how.
func TestDevSaysHowItIsReached(t *testing.T) {
	for dir, want := range map[string]string{
		"/w/.rota":     "rota: commands in /w and below find this cluster; elsewhere: export ROTA_ADDR=unix:/s\n",
		"/w/other":     "rota: in other terminals: export ROTA_ADDR=unix:/s\n",
		"/w/sub/.rota": "rota: in other terminals: export ROTA_ADDR=unix:/s\n",
	} {
		var said bytes.Buffer
		d := &devCluster{Env: &command.Env{Stderr: &said}, devLayout: devLayout{dir: dir, addr: "unix:/s"},
			opts: devOptions{from: "/w"}}
		if d.noteReach(); said.String() != want {
			t.Errorf("%s: %q, want %q", dir, &said, want)
		}
	}
}

func TestDevRecognisesItsProcesses(t *testing.T) {
	for exe, want := range map[string]bool{"/opt/bin/rota-noded": true, "/memfd:rota-shim (deleted)": true,
		"/opt/bin/rota-controld (deleted)": true,
		"/opt/bin/rota":                    false, "/usr/bin/python3": false, "/opt/bin/rota-shim-other": false} {
		if got := isDaemon(exe); got != want {
			t.Errorf("%s: %v", exe, got)
		}
	}
}
