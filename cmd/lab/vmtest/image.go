package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Parts of the machine.
const (
	planPath     = "/vmtest.json"
	programsDir  = "/programs"
	sourceDir    = "/src"
	testProgram  = "/test"
	guestArg     = "in-the-machine"
	searchPath   = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	testPrograms = "ROTA_TEST_PROGRAMS" // tells tests where programs are that they would build otherwise
)

// plan is what the machine does.
type plan struct {
	Packages []string // directories of the module, such as noded/shim
	Run      string
	Lanes    int // how many packages run at the same time
}

// systemPackages are those of Debian whose programs tests and their containers use.
var systemPackages = []string{"bash", "coreutils", "dash", "diffutils", "findutils", "grep", "mawk", "mount", "procps",
	"sed", "util-linux"}

// morePrograms are not all there on every machine; tests that need one say what they lack.
var morePrograms = []string{"busybox", "runc", "ip", "python3"}

// pythonModules are those that scripts in tests import.
const pythonModules = "ctypes, errno, json, os, signal, socket, struct, subprocess, sys, time"

// systemFiles are read by the programs above.
var systemFiles = []string{"/etc/group", "/etc/hosts", "/etc/ld.so.cache", "/etc/nsswitch.conf", "/etc/passwd",
	"/etc/protocols", "/etc/services"}

// buildImage builds the tests and the programs under test in dir, and writes the machine's first
// file system.
func buildImage(ctx context.Context, o options, dir, image string) error {
	f, err := os.Create(image)
	if err != nil {
		return err
	}
	defer f.Close()
	a := newArchive(f)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	errs := []error{a.as("/init", self), addSystem(ctx, a), addPrograms(ctx, a, dir)}
	p := plan{Run: o.run, Lanes: o.cores}
	for _, name := range o.packages {
		name = filepath.Clean(name)
		p.Packages = append(p.Packages, name)
		errs = append(errs, addTest(ctx, a, dir, name))
	}
	text, err := json.Marshal(p)
	errs = append(errs, err, a.put(planPath, typeFile|0o644, text))
	for _, name := range []string{"/dev", "/proc", "/root", "/run", "/sys", "/tmp", "/var/lib"} {
		errs = append(errs, a.dir(name))
	}
	if err := errors.Join(append(errs, a.close(), f.Close())...); err != nil {
		return fmt.Errorf("make the machine's file system: %w", err)
	}
	return nil
}

// addPrograms builds the programs that tests start, as they are shipped.
func addPrograms(ctx context.Context, a *archive, dir string) error {
	for from, cgo := range map[string]string{"cmd/rota-shim": "1", "cmd/rota-init": "0", "examples/trainer": "0"} {
		name := filepath.Base(from)
		file := filepath.Join(dir, name)
		err := build(ctx, cgo, "build", "-tags", "seccomp", "-trimpath", "-o", file, "./"+from)
		if err != nil {
			return err
		}
		if err := addLinked(ctx, a, programsDir+"/"+name, file); err != nil {
			return err
		}
	}
	return nil
}

// addTest builds the tests of one package and adds what they read of the source.
func addTest(ctx context.Context, a *archive, dir, name string) error {
	file := filepath.Join(dir, strings.ReplaceAll(name, "/", "-")+".test")
	if err := build(ctx, "1", "test", "-c", "-ldflags", "-s -w", "-o", file, "./"+name); err != nil {
		return err
	}
	at := filepath.Join(sourceDir, name)
	if err := addLinked(ctx, a, at+testProgram, file); err != nil {
		return err
	}
	for _, from := range []string{filepath.Join(name, "testdata"), "docs"} {
		err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			return a.as(filepath.Join(sourceDir, path), path)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func build(ctx context.Context, cgo string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// addSystem adds programs of this machine.
func addSystem(ctx context.Context, a *archive) error {
	list, err := output(ctx, "/", "dpkg-query", append([]string{"--listfiles"}, systemPackages...)...)
	if err != nil {
		return err
	}
	for path := range strings.Lines(list) {
		path = strings.TrimSpace(path)
		if name := filepath.Base(filepath.Dir(path)); name != "bin" && name != "sbin" {
			continue
		}
		if err := addProgram(ctx, a, path); err != nil {
			return err
		}
	}
	for _, name := range append([]string{"sh", "awk"}, morePrograms...) {
		if path := lookPath(name); path != "" {
			if err := addProgram(ctx, a, path); err != nil {
				return err
			}
		}
	}
	for _, path := range systemFiles {
		if err := a.same(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return addPython(ctx, a)
}

// lookPath finds a program where the machine will, so that none of a user's own is taken. It returns
// "" for what is not there.
func lookPath(name string) string {
	for _, dir := range filepath.SplitList(searchPath) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	return ""
}

// addPython adds the modules that tests import, and what these import.
func addPython(ctx context.Context, a *archive) error {
	python := lookPath("python3")
	if python == "" {
		return nil // the tests will say what they lack
	}
	list, err := output(ctx, "/", python, "-c", "import encodings.utf_8, "+pythonModules+`
for m in list(sys.modules.values()):
    for name in getattr(m, "__file__", None), getattr(m, "__cached__", None):
        if name: print(name)`)
	if err != nil {
		return err
	}
	for path := range strings.Lines(list) {
		path = strings.TrimSpace(path)
		if _, err := os.Stat(path); err != nil {
			continue // a module that was never compiled
		}
		if err := addProgram(ctx, a, path); err != nil {
			return err
		}
		if dir := filepath.Dir(path); filepath.Base(dir) == "lib-dynload" {
			err = errors.Join(err, a.same(dir))
		}
	}
	return err
}

// addProgram adds a file under its own name, with the libraries it is linked with.
func addProgram(ctx context.Context, a *archive, path string) error {
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return nil // what the package lists was removed on this machine
	}
	if err := a.same(path); err != nil {
		return err
	}
	return addLibraries(ctx, a, path)
}

func addLinked(ctx context.Context, a *archive, name, file string) error {
	if err := a.as(name, file); err != nil {
		return err
	}
	return addLibraries(ctx, a, file)
}

func addLibraries(ctx context.Context, a *archive, file string) error {
	libraries, err := libraries(ctx, file)
	for _, path := range libraries {
		err = errors.Join(err, a.same(path))
	}
	return err
}

// libraries returns what a program is linked with. A script, or a program without libraries, has none.
func libraries(ctx context.Context, file string) ([]string, error) {
	b, err := exec.CommandContext(ctx, "ldd", file).Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	return librariesOf(string(b)), nil
}

// librariesOf reads what ldd printed.
func librariesOf(text string) []string {
	var paths []string
	for line := range strings.Lines(text) {
		for _, word := range strings.Fields(line) {
			if strings.HasPrefix(word, "/") {
				paths = append(paths, word)
			}
		}
	}
	return paths
}
