package output

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// TestTheRateOfOutput notices output that is taken faster than the node allows or much slower, a
// stream that has a rate of its own, and bytes that are lost on the way.
func TestTheRateOfOutput(t *testing.T) {
	const (
		rate  = 1 << 20
		total = 10 * rate
	)
	for _, streams := range []int{1, 2} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			l := newLogs(NewThrottle(rate))
			begin := time.Now()
			var files []*rotatingFile
			for n := range streams {
				f := &rotatingFile{path: filepath.Join(dir, string(rune('a'+n))), max: 1 << 30, as: rootAccess{}, users: 1}
				check(t, f.open(false))
				files = append(files, f)
				from, to := io.Pipe()
				l.copying.Go(func() { l.copyOutput(f, from, nil) })
				go func() {
					_, err := to.Write(bytes.Repeat([]byte("x"), total/streams))
					_ = to.CloseWithError(err)
				}()
			}
			l.copying.Wait()
			// a second's worth is taken at once, and the rest at the rate
			if took := time.Since(begin); took < 9*time.Second || took > 9*time.Second+100*time.Millisecond {
				t.Errorf("%d streams: it took %v", streams, took)
			}
			for _, f := range files {
				if info, err := os.Stat(f.path); err != nil || info.Size() != total/int64(streams) {
					t.Errorf("%d streams: %v, %v", streams, info, err)
				}
			}
		})
	}
}

// TestSilenceIsNotSaved notices a worker that was silent for an hour and may then write an hour's
// worth at once.
func TestSilenceIsNotSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := NewThrottle(1000)
		begin := time.Now()
		for range 2 {
			limit.pace(1000, nil)
			if took := time.Since(begin); took != 0 {
				t.Errorf("the first second's worth waits %v", took)
			}
			limit.pace(500, nil)
			if took := time.Since(begin); took != 500*time.Millisecond {
				t.Errorf("what is beyond waits %v", took)
			}
			time.Sleep(time.Hour) // of the bubble
			begin = time.Now()
		}
	})
}

// TestAJobThatWritesTooFastWaits writes into real pipes until they are full. It notices a shim that
// goes on reading, and output that is lost when the worker ends: what is in the pipe is then taken
// whatever the rate.
func TestAJobThatWritesTooFastWaits(t *testing.T) {
	dir := t.TempDir()
	s, err := NewScanner(dir, container.Settings{})
	check(t, err)
	const rate = 1000
	l, err := Open(dir, container.LogFiles{Join: true}, self(), s.Task(""), NewThrottle(rate))
	check(t, err)
	room, err := unix.FcntlInt(l.Stdout.Fd(), unix.F_GETPIPE_SZ, 0)
	check(t, err)
	check(t, unix.SetNonblock(int(l.Stdout.Fd()), true)) // Fd has made it block
	job := os.NewFile(dupOf(t, l.Stdout), "job")
	l.CloseContainerEnds()
	chunk := bytes.Repeat([]byte("0123456789abcde\n"), 1<<8)
	written := 0
	for err == nil { // until the pipe is full and nothing is taken
		check(t, job.SetWriteDeadline(time.Now().Add(300*time.Millisecond)))
		var n int
		n, err = job.Write(chunk)
		written += n
	}
	const buffer = 64 << 10
	if most := room + 2*buffer + 2*rate; !errors.Is(err, os.ErrDeadlineExceeded) || written > most {
		t.Errorf("%d bytes were taken, %v; want at most %d", written, err, most)
	}
	check(t, job.Close())
	l.AwaitRest(10 * time.Second)
	got, err := os.ReadFile(filepath.Join(dir, "stdout"))
	if err != nil || len(got) != written || l.Lost().Bytes != 0 {
		t.Errorf("the file has %d bytes of %d, %d are lost, %v", len(got), written, l.Lost().Bytes, err)
	}
	for i, b := range got {
		if b != chunk[i%len(chunk)] {
			t.Fatalf("byte %d is %q", i, b)
		}
	}
}

func dupOf(t *testing.T, f *os.File) uintptr {
	t.Helper()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	check(t, err)
	check(t, unix.SetNonblock(fd, true))
	return uintptr(fd)
}
