package controld

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rota-hpc/rota/controld/api/pki"
)

// checkDataDir makes sure that no other account can read or write the data directory, because it
// has every user's scripts and environments. It creates a missing directory.
//
// It refuses a directory that belongs to another account or that others may write to, because its
// content may be theirs. If others may only read it, it removes that permission, because programs
// that restore a directory often leave it so. The modes of key files are not changed, see
// [pki.Load].
func checkDataDir(dir string, log *slog.Logger) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w (is it on a writable disk, and does it belong to this account?)", err)
	}
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
		if path == pki.Dir(root) {
			return fs.SkipDir
		}
		info, err := d.Info()
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
		return closeToOthers(path, info, path == root, log)
	})
}

// closeToOthers takes one file or directory away from other accounts.
func closeToOthers(path string, info fs.FileInfo, top bool, log *slog.Logger) error {
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	own := os.Geteuid()
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != own {
		return fmt.Errorf("data directory: %s belongs to uid %d, and this daemon runs as uid %d: run chown -R %d %s, if "+
			"you trust its contents", path, stat.Uid, own, own, path)
	}
	mode := info.Mode().Perm()
	switch {
	case mode&0o077 == 0:
		return nil
	case mode&0o022 != 0:
		return fmt.Errorf("data directory: other accounts may write to %s (mode %04o): run chmod -R go= %s, if you trust "+
			"its contents", path, mode, path)
	}
	if err := os.Chmod(path, mode&0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	level := slog.LevelDebug
	if top {
		level = slog.LevelWarn
	}
	log.Log(context.Background(), level, "other accounts could read this file: its mode was corrected", "path", path,
		"mode",
		fmt.Sprintf("%04o", mode))
	return nil
}
