package shim

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rota-hpc/rota/noded/container"
)

// TestTheDaemonsLogsAreBounded shows that the daemon's files keep to the defaults, while files at a
// user's path follow the user's settings.
func TestTheDaemonsLogsAreBounded(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "own")
	for _, c := range []struct {
		path  string
		asked int64
		max   int64
		keep  int
	}{{"", 1 << 50, 1 << 30, 3}, {own, 1 << 50, 1 << 50, 1000}, {"", 0, 1 << 30, 3}, {own, 0, 1 << 30, 1000},
		{"", 1, 1, 3}, {own, 1, 1, 1000}} {
		cfg := container.LogFiles{MaxSize: c.asked, Keep: 1000}
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

// TestDrainOfALogThatTakesNothing shows that the end of a worker is reported although the server of
// its log file does not answer.
func TestDrainOfALogThatTakesNothing(t *testing.T) {
	never, full, err := os.Pipe() // it is never read, so that writes hang
	if err != nil {
		t.Fatal(err)
	}
	l := newLogs(nil)
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
		l.awaitRest(10 * time.Millisecond)
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
