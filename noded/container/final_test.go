package container

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFinalAt(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		path string
		err  error
		want bool
	}{
		{filepath.Join(dir, "image"), fs.ErrNotExist, true},
		{filepath.Join(dir, "lost", "image"), unix.ENOENT, false},
		{filepath.Join(dir, "lost", "image"), unix.EACCES, true},
		{dir, unix.ENOTDIR, true},
		{dir, unix.ESTALE, false},
		{dir, unix.EIO, false},
	} {
		err := FinalAt(c.path, fmt.Errorf("%s: %w", c.path, c.err))
		if IsFinal(err) != c.want || IsFinal(fmt.Errorf("wrapped: %w", err)) != c.want {
			t.Errorf("%v is final: %v", err, !c.want)
		}
	}
}
