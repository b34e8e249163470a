package shim

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rota-hpc/rota/noded/container"
)

// TestTheDaemonsLogsAreBounded by what they are by default; those at a path of the user's are as the user wants them.
func TestTheDaemonsLogsAreBounded(t *testing.T) {
	dir := t.TempDir()
	cfg := container.LogFiles{MaxSize: 1 << 50, Keep: 1000}
	for _, c := range []struct {
		path string
		max  int64
		keep int
	}{{"", 1 << 30, 3}, {filepath.Join(dir, "own"), 1 << 50, 1000}} {
		f, err := openLog(dir, cfg, c.path, "stdout", rootAccess{})
		if err != nil {
			t.Fatal(err)
		}
		if f.max != c.max || f.keep != c.keep {
			t.Errorf("at %q: got %d files of %d bytes besides the first", c.path, f.keep, f.max)
		}
		f.file.Close()
	}
}

// TestDrainOfALogThatTakesNothing: the file is on a server that has gone away, and the end of its worker is to be told nevertheless.
func TestDrainOfALogThatTakesNothing(t *testing.T) {
	never, full, err := os.Pipe() // nobody reads it, so that writes hang
	if err != nil {
		t.Fatal(err)
	}
	l := &logs{}
	out, err := l.pipe(&rotatingFile{file: full, max: 1 << 30}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var written int
	for err == nil { // until every pipe is full
		var n int
		err = out.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		if err == nil {
			n, err = out.Write(make([]byte, 1<<20))
		}
		written += n
	}
	drained := make(chan struct{})
	go func() {
		l.drain(10 * time.Millisecond)
		close(drained)
	}()
	select {
	case <-drained:
	case <-time.After(10 * time.Second):
		t.Errorf("after %d bytes the log is still waited for", written)
	}
	out.Close()
	never.Close()
}
