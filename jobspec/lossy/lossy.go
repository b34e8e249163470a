// Package lossy writes the output of programs to files that may be full. A disk without room never
// stops a program: its bytes are counted, and a line in the file says how many are missing.
package lossy

import (
	"errors"
	"fmt"
	"io"
	"math"
	"syscall"
)

// Loss counts bytes of output that were not written.
type Loss struct {
	Bytes int64 `json:"bytes"`
	Errno int   `json:"errno,omitempty"` // number of the last error of the system, as on Linux; 0: another error
}

// Possible reports whether a node can say so.
func (l Loss) Possible() bool { return l.Bytes > 0 && l.Errno >= 0 && l.Errno <= maxErrno }

// maxErrno is the highest error number that Linux returns.
const maxErrno = 4095

// Add adds another loss. The later error counts.
func (l *Loss) Add(more Loss) {
	if more.Bytes <= 0 {
		return
	}
	l.Bytes += min(more.Bytes, math.MaxInt64-l.Bytes)
	l.Errno = more.Errno
}

// Why returns the error in words, such as "no space left on device".
func (l Loss) Why() string {
	if l.Errno <= 0 {
		return "it could not be written"
	}
	return syscall.Errno(l.Errno).Error()
}

// lossOf returns the loss of so many bytes by an error.
func lossOf(n int, err error) Loss {
	var errno syscall.Errno
	_ = errors.As(err, &errno) // 0: another error
	return Loss{Bytes: int64(n), Errno: int(errno)}
}

// Writer writes to one destination. After a loss it writes a line with the number of missing bytes
// in their place, as soon as there is room again. It is not safe for concurrent use.
type Writer struct {
	To io.Writer

	missing Loss   // since the last line about missing bytes
	note    []byte // rest of a line about missing bytes that was written in part
	within  bool   // the last line has no end yet
}

// Write writes b. It returns how many bytes the destination has got, with lines about missing
// bytes. It also returns how much of b is lost, and by which error.
func (w *Writer) Write(b []byte) (grown int64, lost Loss, err error) {
	grown, err = w.announce()
	if err != nil {
		lost = lossOf(len(b), err)
		w.missing.Add(lost)
		return grown, lost, err
	}
	n, err := w.To.Write(b)
	if n > 0 {
		w.within = b[n-1] != '\n'
	}
	if err != nil && n < len(b) {
		lost = lossOf(len(b)-n, err)
		w.missing.Add(lost)
	}
	return grown + int64(n), lost, err
}

// WriteLine writes a line of its own, on a new line of the destination.
func (w *Writer) WriteLine(text string) (grown int64, lost Loss, err error) {
	if w.within && w.missing.Bytes == 0 && len(w.note) == 0 {
		text = "\n" + text
	}
	return w.Write([]byte(text))
}

// End writes a line about bytes that are missing at the end of the output.
func (w *Writer) End() (grown int64, err error) { return w.announce() }

// announce writes the line about missing bytes, if some are missing. A line that is cut off by an
// error is completed by the next call.
func (w *Writer) announce() (grown int64, err error) {
	for len(w.note) > 0 || w.missing.Bytes > 0 {
		about := w.missing
		if len(w.note) == 0 {
			begin := ""
			if w.within {
				begin = "\n"
			}
			w.note = fmt.Appendf(nil, "%s[rota: %d bytes of output lost: %s]\n", begin, w.missing.Bytes, w.missing.Why())
			w.missing = Loss{}
		}
		n, err := w.To.Write(w.note)
		grown += int64(n)
		w.note = w.note[n:]
		if err != nil {
			if n == 0 && about.Bytes > 0 && w.missing.Bytes == 0 { // no part of it is there: the next one has the sum
				w.note, w.missing = nil, about
			}
			return grown, err
		}
		w.within = false
	}
	return grown, nil
}
