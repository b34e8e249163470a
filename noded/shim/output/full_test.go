package output

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// smallDisk mounts a file system of 2 MB, and returns its directory.
func smallDisk(t *testing.T) string {
	t.Helper()
	needsRoot(t)
	dir := openTempDir(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m,mode=1777"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() { check(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// TestOutputToAFullDisk writes 4 MB to a disk of 2 MB, to the daemon's file and to one of the
// user's. The missing bytes are counted, and the program never waits. Once there is room again, a
// line in the file has their number.
func TestOutputToAFullDisk(t *testing.T) {
	for _, own := range []bool{false, true} {
		dir := smallDisk(t)
		cfg, path, u := container.LogFiles{Join: true, Keep: 1}, filepath.Join(dir, "stdout"), self()
		if own {
			path, u = filepath.Join(dir, "mine"), testUser
			cfg.Stdout = path
		}
		ballast := filepath.Join(dir, "ballast")
		check(t, os.WriteFile(ballast, make([]byte, 1<<20), 0o600))
		l, err := logsOf(t, dir, cfg, u)
		check(t, err)
		text := bytes.Repeat([]byte("0123456789abcde\n"), 4<<20/16)
		_, err = l.Stdout.Write(text)
		check(t, err)
		for l.Lost().Bytes < 2<<20 { // all of it was read once the pipe is empty
			time.Sleep(time.Millisecond)
		}
		awaitEmpty(t, l.Stdout)
		before := l.Lost()
		check(t, os.Remove(ballast))
		_, err = l.Stdout.WriteString("after\n")
		check(t, err)
		l.CloseContainerEnds()
		l.AwaitRest(10 * time.Second)
		l.EndNotes()
		got, err := os.ReadFile(path)
		check(t, err)
		note := fmt.Sprintf("[rota: %d bytes of output lost: no space left on device]\n", before.Bytes)
		head, tail, found := strings.Cut(string(got), note)
		if !found || !strings.HasSuffix(tail, "after\n") || l.Lost() != before || before.Errno != int(unix.ENOSPC) {
			t.Errorf("own %t: lost %+v, then %+v; the file ends with %q", own, before, l.Lost(), got[max(0, len(got)-200):])
		}
		kept := int64(len(head))
		if kept%16 != 0 { // a line was cut off, and the note has a line of its own
			kept--
		}
		if kept+before.Bytes != int64(len(text)) {
			t.Errorf("own %t: %d bytes kept and %d lost of %d", own, kept, before.Bytes, len(text))
		}
	}
}

// awaitEmpty waits until a pipe was read to its end.
func awaitEmpty(t *testing.T, pipe *os.File) {
	t.Helper()
	for {
		n, err := unix.IoctlGetInt(int(pipe.Fd()), unix.TIOCINQ)
		check(t, err)
		if n == 0 {
			time.Sleep(20 * time.Millisecond) // the last part is being written
			return
		}
		time.Sleep(time.Millisecond)
	}
}
