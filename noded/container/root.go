package container

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Bind is a path of the host that a root shows read-only.
type Bind struct {
	Source string
	Target string
}

// Root is a directory that a container can have as its root, and what must be bound onto it.
type Root struct {
	Path  string
	Binds []Bind
}

// rootDirs are made in every root and never taken from the host or an image.
var rootDirs = []string{"proc", "sys", "dev", "tmp", "run", "var"}

// hostDirs are what a job sees of the machine's own system.
var hostDirs = []string{"usr", "etc", "opt", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "srv", "nix"}

// hostServices are sockets and files outside of hostDirs that name lookups need.
var hostServices = []string{"/run/systemd/resolve", "/run/nscd", "/run/resolvconf", "/run/NetworkManager",
	"/var/lib/sss/pipes", "/var/lib/sss/mc"}

// PrepareHostRoot makes a root below dir that shows the host's system, with a mount point for each
// of shared (absolute directories). It is made once for a node; making it again is safe while
// containers use it.
func PrepareHostRoot(dir string, shared []string) (Root, error) {
	root, err := skeleton(dir, "/", hostDirs)
	if err != nil {
		return Root{}, fmt.Errorf("make root directory for containers: %w", err)
	}
	for _, path := range hostServices {
		if strings.HasPrefix(path, "/var") {
			err = errors.Join(err, os.MkdirAll(filepath.Join(dir, path), 0o755))
		}
	}
	return root, errors.Join(err, mountPoints(root, shared))
}

// HostServices returns what a container of the machine's own system shows beside it now: services may
// start after the node daemon.
func HostServices() []Bind {
	var binds []Bind
	for _, path := range hostServices {
		if isDir(path) {
			binds = append(binds, Bind{path, path})
		}
	}
	return binds
}

// maxImageEntries bounds the entries at the top of an image. Each becomes a mount of the container.
const maxImageEntries = 256

// readTop returns the entries at the top of an image. It reads no further than they may be many.
func readTop(image string) ([]os.DirEntry, error) {
	f, err := os.Open(image)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it is only read
	entries, err := f.ReadDir(maxImageEntries + 1)
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	case len(entries) > maxImageEntries:
		return nil, Final(fmt.Errorf("it has more than %d entries: it is not a root file system", maxImageEntries))
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// PrepareImageRoot makes a root below dir that shows the root file system in image, read-only, with
// a mount point for each of targets. The image itself is not changed.
func PrepareImageRoot(dir, image string, targets []string) (Root, error) {
	entries, err := readTop(image)
	if err != nil {
		return Root{}, FinalAt(image, fmt.Errorf("image %s cannot be read: %w", image, err))
	}
	var names []string
	for _, e := range entries {
		if !slices.Contains(rootDirs, e.Name()) {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return Root{}, Final(fmt.Errorf("image %s is not a root file system: it has no usr, bin or etc", image))
	}
	root, err := skeleton(dir, image, names)
	if err != nil {
		return Root{}, fmt.Errorf("make root directory for image %s: %w", image, err)
	}
	return root, mountPoints(root, targets)
}

// skeleton fills dir with rootDirs and with the given entries of from: links as links, directories
// as mount points.
func skeleton(dir, from string, names []string) (Root, error) {
	root := Root{Path: dir}
	for _, d := range rootDirs {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return Root{}, err
		}
	}
	err := errors.Join(
		os.Chmod(filepath.Join(dir, "tmp"), 0o777|os.ModeSticky), // a tmpfs takes its mode from here
		symlink("/run", filepath.Join(dir, "var/run")),
		symlink("/tmp", filepath.Join(dir, "var/tmp")),
	)
	if err != nil {
		return Root{}, err
	}
	for _, name := range names {
		bind, err := addEntry(dir, from, name)
		if err != nil {
			return Root{}, err
		}
		root.Binds = append(root.Binds, bind...)
	}
	return root, nil
}

// addEntry puts one top-level entry of from into dir.
func addEntry(dir, from, name string) ([]Bind, error) {
	source, target := filepath.Join(from, name), filepath.Join(dir, name)
	info, err := os.Lstat(source)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.Mode()&os.ModeSymlink != 0:
		to, err := os.Readlink(source)
		if err != nil {
			return nil, err
		}
		return nil, symlink(to, target)
	case info.IsDir():
		return []Bind{{source, "/" + name}}, os.MkdirAll(target, 0o755)
	}
	return nil, nil // a plain file at the top of a root is of no use to a job
}

// symlink makes a symbolic link, or leaves an equal one.
func symlink(to, at string) error {
	if old, err := os.Readlink(at); err == nil && old == to {
		return nil
	}
	if err := os.Symlink(to, at); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// mountPoints makes directories for targets in the root. A target inside a bound directory must
// exist there already.
func mountPoints(root Root, targets []string) error {
	inside, err := os.OpenRoot(root.Path)
	if err != nil {
		return err
	}
	defer func() { _ = inside.Close() }() // no file is written through it
	for _, t := range targets {
		under := slices.IndexFunc(root.Binds, func(b Bind) bool {
			return t == b.Target ||
				strings.HasPrefix(t, b.Target+"/")
		})
		if under >= 0 {
			b := root.Binds[under]
			if !isDir(filepath.Join(b.Source, strings.TrimPrefix(t, b.Target))) {
				return fmt.Errorf("mount target %s: it does not exist in %s; create it there, or choose a "+
					"target outside of %s", t, b.Source, b.Target)
			}
			continue
		}
		if err := mountPoint(inside, t); err != nil {
			return fmt.Errorf("mount target %s: %w", t, err)
		}
	}
	return nil
}

// mountPoint makes one directory in a root. Links in it come from the image, and are not followed.
func mountPoint(root *os.Root, target string) error {
	parts := strings.Split(strings.Trim(target, "/"), "/")
	for i := range parts {
		name := strings.Join(parts[:i+1], "/")
		if info, err := root.Lstat(name); err == nil && info.Mode()&os.ModeSymlink != 0 {
			return fmt.Errorf("/%s is a symbolic link in the image; choose a target without links", name)
		}
	}
	return root.MkdirAll(strings.Join(parts, "/"), 0o755)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
