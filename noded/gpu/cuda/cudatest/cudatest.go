// Package cudatest stands in for NVIDIA's driver: it builds a libcuda.so.1 that moves the CUDA
// state of processes in files. So the real way through dlopen and cgo can be tested on machines
// without a GPU.
package cudatest

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

//go:embed testdata/cuda.c
var source []byte

// States of a process.
const (
	Running      = "0"
	Locked       = "1"
	Checkpointed = "2"
)

// World is what the library works on, see testdata/cuda.c.
type World struct {
	t   testing.TB
	dir string
}

// Install builds the library and has programs that are started from now on find it. With old it
// lacks the functions that drivers before 570 lack. The test is skipped where there is no C
// compiler.
func Install(t *testing.T, old bool) *World {
	t.Helper()
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc: the library that stands in for CUDA cannot be built")
	}
	lib := t.TempDir()
	w := &World{t: t, dir: t.TempDir()}
	from := filepath.Join(lib, "cuda.c")
	w.check(os.WriteFile(from, source, 0o600))
	args := []string{"-shared", "-fPIC", "-Wall", "-Werror", "-o", filepath.Join(lib, "libcuda.so.1"), from}
	if old {
		args = append(args, "-DOLD")
	}
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("build library: %v\n%s", err, out)
	}
	t.Setenv("LD_LIBRARY_PATH", lib)
	t.Setenv("ROTA_FAKE_CUDA", w.dir)
	t.Setenv("CUDA_VISIBLE_DEVICES", "") // the variables that a daemon's environment may have
	return w
}

func (w *World) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *World) path(pid int) string { return filepath.Join(w.dir, strconv.Itoa(pid)) }

// Use gives a process CUDA state.
func (w *World) Use(pid int, state string) {
	w.t.Helper()
	w.check(os.WriteFile(w.path(pid), []byte(state), 0o600))
}

// State returns the CUDA state of a process.
func (w *World) State(pid int) string {
	w.t.Helper()
	b, err := os.ReadFile(w.path(pid))
	w.check(err)
	return string(b)
}

// Plan says which calls fail, hang or die from now on: "fail lock 12".
func (w *World) Plan(lines ...string) {
	w.t.Helper()
	path := filepath.Join(w.dir, "plan")
	w.check(os.WriteFile(path+".new", []byte(strings.Join(lines, "\n")), 0o600))
	w.check(os.Rename(path+".new", path))
}

// Block has a call wait, for any process, until [World.Unblock].
func (w *World) Block(call string) {
	w.t.Helper()
	w.Plan("block " + call + " 0")
}

// AwaitBlocked returns when a call waits, or hangs.
func (w *World) AwaitBlocked() {
	w.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		switch err := os.Remove(filepath.Join(w.dir, "waits")); {
		case err == nil:
			return
		case time.Now().After(deadline):
			w.t.Fatal("no call waits")
		}
	}
}

// Unblock has all calls go on.
func (w *World) Unblock() {
	w.t.Helper()
	w.Plan()
}

// Calls returns which calls that change something were made since it was asked last, in order.
func (w *World) Calls() string {
	w.t.Helper()
	path := filepath.Join(w.dir, "calls")
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	w.check(errors.Join(err, os.Remove(path)))
	var out []string
	for line := range strings.Lines(string(b)) {
		var call string
		var pid int
		_, err := fmt.Sscanf(line, "%s %d", &call, &pid)
		w.check(err)
		if call != "init" && call != "thread" && call != "state" {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return strings.Join(out, ", ")
}
