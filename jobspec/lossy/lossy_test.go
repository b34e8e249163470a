package lossy_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"syscall"
	"testing"

	"github.com/rota-hpc/rota/jobspec/lossy"
)

// disk takes so many more bytes, and then fails.
type disk struct {
	bytes.Buffer
	room int
	err  error
}

func (d *disk) Write(b []byte) (int, error) {
	n := min(d.room, len(b))
	d.room -= n
	d.Buffer.Write(b[:n])
	if n < len(b) {
		return n, d.err
	}
	return n, nil
}

// TestLosses notices bytes that are neither written nor counted. It also notices a line about them
// that is missing, cut off or wrong.
func TestLosses(t *testing.T) {
	const note = "\n[rota: 7 bytes of output lost: disk quota exceeded]\n"
	for room := range len(note) + 1 { // that there is after the loss, at first
		d := &disk{room: 3, err: &fullError{syscall.EDQUOT}}
		w := lossy.Writer{To: d}
		var lost lossy.Loss
		write := func(text string) {
			_, l, _ := w.Write([]byte(text))
			lost.Add(l)
		}
		write("0123456789")
		if lost != (lossy.Loss{Bytes: 7, Errno: int(syscall.EDQUOT)}) {
			t.Fatalf("%+v", lost)
		}
		d.room = room
		write("abc")
		d.room = 1 << 20
		write("rest\n")
		if _, err := w.End(); err != nil {
			t.Fatal(err)
		}
		want := "012" + note
		switch {
		case room == 0: // both losses are in one line
			want = "012\n[rota: 10 bytes of output lost: disk quota exceeded]\nrest\n"
		case room < len(note): // the line was completed, and another one follows
			want += "[rota: 3 bytes of output lost: disk quota exceeded]\nrest\n"
		default: // and no room for the text behind it
			want += "[rota: 3 bytes of output lost: disk quota exceeded]\nrest\n"
		}
		if got := d.String(); got != want || lost.Bytes != 10 {
			t.Errorf("room %d: %q, want %q; lost %+v", room, got, want, lost)
		}
	}
}

// fullError wraps a number of the system, as errors of files do.
type fullError struct{ errno syscall.Errno }

func (e *fullError) Error() string { return "write: " + e.errno.Error() }
func (e *fullError) Unwrap() error { return e.errno }

// TestTheEndTells notices a loss at the end of the output that no line tells.
func TestTheEndTells(t *testing.T) {
	d := &disk{err: errors.New("it is gone")}
	w := lossy.Writer{To: d}
	if _, lost, err := w.Write([]byte("x")); lost.Bytes != 1 || lost.Errno != 0 || err == nil {
		t.Errorf("%+v, %v", lost, err)
	}
	d.room = 1000
	if n, err := w.End(); err != nil || n != int64(d.Len()) ||
		d.String() != "[rota: 1 bytes of output lost: it could not be written]\n" {
		t.Errorf("%d, %v: %q", n, err, d)
	}
	if _, _, err := w.WriteLine("a line\n"); err != nil {
		t.Error(err)
	}
	_, _, _ = w.Write([]byte("part"))
	_, _, _ = w.WriteLine("own\n")
	if got := d.String(); got[len(got)-len("a line\npart\nown\n"):] != "a line\npart\nown\n" {
		t.Errorf("%q", got)
	}
}

// TestPossible has the bounds of what a node may say, and a sum that cannot overflow.
func TestPossible(t *testing.T) {
	for l, want := range map[lossy.Loss]bool{{}: false, {Bytes: 1}: true, {Bytes: 1, Errno: 4095}: true,
		{Bytes: 1, Errno: 4096}: false, {Bytes: -1}: false, {Bytes: 1, Errno: -1}: false} {
		if l.Possible() != want {
			t.Errorf("%+v: %t", l, !want)
		}
	}
	l := lossy.Loss{Bytes: math.MaxInt64 - 1}
	l.Add(lossy.Loss{Bytes: 5, Errno: 28})
	if l.Bytes != math.MaxInt64 || l.Why() != "no space left on device" {
		t.Error(fmt.Sprint(l, l.Why()))
	}
}
