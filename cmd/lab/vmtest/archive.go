package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// archive writes files for the kernel's first file system, in the format that the kernel's
// documentation calls newc. Everything belongs to root and is as old as the epoch.
type archive struct {
	w    *bufio.Writer
	seen map[string]bool // absolute paths
	next int             // inode
}

func newArchive(w io.Writer) *archive {
	return &archive{w: bufio.NewWriter(w), seen: map[string]bool{"/": true}}
}

// Types of files, as in st_mode.
const (
	typeDir  = 0o040000
	typeFile = 0o100000
	typeLink = 0o120000
)

// put writes one entry. Its directory must be there.
func (a *archive) put(name string, mode int, content []byte) error {
	a.seen[name] = true
	return a.entry(strings.TrimPrefix(name, "/"), mode, content)
}

func (a *archive) entry(name string, mode int, content []byte) error {
	a.next++
	const links = 1
	fields := []int{a.next, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0}
	a.printf("070701")
	for _, f := range fields {
		a.printf("%08x", f)
	}
	a.printf("%s\x00", name)
	a.pad(len("070701") + 8*len(fields) + len(name) + 1)
	_, err := a.w.Write(content)
	a.pad(len(content))
	return err
}

func (a *archive) printf(format string, args ...any) { fmt.Fprintf(a.w, format, args...) }

// pad fills what n bytes leave of a block of four.
func (a *archive) pad(n int) { a.printf("%s", "\x00\x00\x00"[:(4-n%4)%4]) }

// close writes the end.
func (a *archive) close() error {
	if err := a.entry("TRAILER!!!", 0, nil); err != nil {
		return err
	}
	return a.w.Flush()
}

// dir makes a directory and those above it.
func (a *archive) dir(name string) error {
	if a.seen[name] {
		return nil
	}
	if err := a.dir(filepath.Dir(name)); err != nil {
		return err
	}
	return a.put(name, typeDir|0o755, nil)
}

// as writes a file of this machine under another name.
func (a *archive) as(name, from string) error {
	if a.seen[name] {
		return nil
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := a.dir(filepath.Dir(name)); err != nil {
		return err
	}
	return a.put(name, typeFile|int(info.Mode().Perm()), content)
}

// same writes a file, a link or an empty directory of this machine under its own name. It also
// writes the links on the way and their targets.
func (a *archive) same(path string) error {
	path = filepath.Clean(path)
	if a.seen[path] {
		return nil
	}
	if err := a.same(filepath.Dir(path)); err != nil {
		return err
	}
	above, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return err
	}
	real := filepath.Join(above, filepath.Base(path))
	if a.seen[real] {
		return nil
	}
	info, err := os.Lstat(real)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return a.put(real, typeDir|0o755, nil)
	case info.Mode()&fs.ModeSymlink == 0:
		return a.as(real, real)
	}
	to, err := os.Readlink(real)
	if err != nil {
		return err
	}
	if err := a.put(real, typeLink|0o777, []byte(to)); err != nil {
		return err
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(above, to)
	}
	if err := a.same(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
