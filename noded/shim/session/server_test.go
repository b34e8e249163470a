package session

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/noded/container"
)

// TestHowLongOutputIsWaitedFor: the end of a worker waits a while for a reader, longer where one is on its way, and
// not for output that may be dropped.
func TestHowLongOutputIsWaitedFor(t *testing.T) {
	for ms, want := range map[int64]time.Duration{0: 2 * time.Second, 1000: 2 * time.Second, 5000: 5 * time.Second,
		14_999: 14_999 * time.Millisecond, 15_000: 15 * time.Second, 60_000: 15 * time.Second} {
		o := NewServer(container.Settings{IO: &container.IO{HangUpMS: ms}})
		if o.patience != want || o.Own.awaited != (ms > 0) || (o.timer != nil) != (ms > 0) {
			t.Errorf("hung up after %d ms: %v, awaited %t", ms, o.patience, o.Own.awaited)
		}
		if o.timer != nil {
			o.timer.Stop()
		}
	}
	if o := NewServer(container.Settings{}); o.Own != nil || o.patience != 2*time.Second {
		t.Errorf("output that goes to files: %+v", o)
	}
	for _, c := range []struct {
		read, reader, drop, awaited, closed bool
		gone                                time.Duration
		over                                bool
	}{
		{read: true, over: true}, {}, {reader: true}, {drop: true, over: true}, {drop: true, awaited: true},
		{drop: true, reader: true}, {closed: true, over: true}, {closed: true, reader: true},
		{gone: lingerTime - 1}, {gone: lingerTime, over: true}, {gone: lingerTime, reader: true},
		{gone: lingerTime, drop: true, awaited: true, over: true}, {read: true, reader: true, over: true},
	} {
		s := New(c.drop, nil)
		s.awaited, s.closed = c.awaited, c.closed
		if c.reader {
			s.reader = &stream.Conn{}
		}
		if c.read {
			close(s.read)
		}
		if got := s.over(c.gone); got != c.over {
			t.Errorf("%+v: it is waited for: %t", c, !got)
		}
	}
}

// TestAReaderThatDoesNotCome notices a worker that is hung up though its reader has come, too early, or never.
func TestAReaderThatDoesNotCome(t *testing.T) {
	for _, reader := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := NewServer(container.Settings{IO: &container.IO{HangUpMS: 5000}})
			hungUp := func() bool {
				synctest.Wait()
				select {
				case <-o.HangUp:
					return true
				default:
					return false
				}
			}
			time.Sleep(4 * time.Second)
			o.Own.left() // one came, and went: the time begins anew
			if time.Sleep(4 * time.Second); hungUp() {
				t.Error("it is hung up too early")
			}
			if reader {
				o.Own.mu.Lock()
				o.Own.reader = &stream.Conn{}
				o.Own.mu.Unlock()
			}
			if time.Sleep(time.Second); hungUp() == reader {
				t.Errorf("reader %t: it is hung up %t", reader, !reader)
			}
		})
	}
}
