package noded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rota-hpc/rota/controld/api/pki"
)

// openToUsers are the entries of a data directory that users' containers show, below a directory
// that no user enters.
var openToUsers = map[string]bool{"containers": true, "root": true}

// usersShare are the directories of a container that have files of its user.
var usersShare = map[string]bool{"run": true, "progress": true, "shm": true, "tmp": true, "root": true}

// checkDataDir makes sure that no other account reads or writes the data directory. That has the
// scripts, environments and output of all jobs, and the files from which root makes containers. It
// makes the directory if there is none.
//
// A file is refused if its owner is neither root nor the daemon's account, or if others may write
// to it. Its content may be theirs. A file that others may only read is closed to them. Keys are
// not mended, see [pki.Load].
func checkDataDir(dir string, log *slog.Logger) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("--data-dir %s cannot be written: %w", dir, err)
	}
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	if err := closeToOthers(root, log, slog.LevelWarn); err != nil {
		return err
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(root, e.Name())
		switch {
		case path == pki.Dir(root):
		case openToUsers[e.Name()]:
			err = ownedHere(path)
		default:
			err = closeToOthers(path, log, slog.LevelDebug)
		}
		if err != nil {
			return err
		}
	}
	return checkContainers(filepath.Join(root, "containers"))
}

// checkContainers checks the files that containers are made from, and the files that their shims
// have left.
func checkContainers(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // there is none, or it has just ended
			return nil
		case err != nil:
			return fmt.Errorf("--data-dir: %w", err)
		case d.IsDir() && filepath.Dir(path) != dir && usersShare[d.Name()]:
			return fs.SkipDir
		case !d.IsDir() && !d.Type().IsRegular(): // such as the pipe on which a container waits for its start
			return nil
		}
		return ownedHere(path)
	})
}

// ownedHere refuses a file of another account, or one that others may write to.
func ownedHere(path string) error {
	_, err := permissionsOf(path)
	return err
}

// closeToOthers is like ownedHere, and also withdraws read rights of others.
func closeToOthers(path string, log *slog.Logger, level slog.Level) error {
	mode, err := permissionsOf(path)
	if err != nil || mode&0o077 == 0 {
		return err
	}
	if err := os.Chmod(path, mode&0o700); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	log.Log(context.Background(), level, "other accounts could read this file: its mode was corrected", "path", path,
		"mode",
		fmt.Sprintf("%04o", mode))
	return nil
}

// permissionsOf returns the mode of a file that belongs to this daemon. A link may lead to another
// disk, so its target's mode counts. A file that has just gone has no mode.
func permissionsOf(path string) (fs.FileMode, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("--data-dir: %w", err)
	}
	own := os.Geteuid()
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != own {
		return 0, fmt.Errorf("--data-dir: %s belongs to uid %d, and this daemon runs as uid %d: run chown -R %d %s, if you "+
			"trust its contents", path, stat.Uid, own, own, path)
	}
	mode := info.Mode().Perm()
	if mode&0o022 != 0 {
		return 0, fmt.Errorf("--data-dir: other accounts may write to %s (mode %04o): run chmod go-w %s, if you trust its "+
			"contents", path, mode, path)
	}
	return mode, nil
}

// checkWritable makes sure that files can be made in a directory.
func checkWritable(dir string) error {
	f, err := os.CreateTemp(dir, ".probe-*")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return fmt.Errorf("--data-dir %s cannot be written: %w", dir, err)
	}
	return nil
}
