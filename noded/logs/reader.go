package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/rota-hpc/rota/noded/container"
)

const (
	rotatedMax = 1000    // rotated files that are looked for
	tailMax    = 1 << 30 // bytes that are searched backwards for the start of a tail
)

// logReader reads a log that may be rotated meanwhile: first the existing files, oldest first, then
// added lines.
type logReader struct {
	path        string
	user        *container.User
	files       []*os.File // not yet read to the end; the last one is or was at path
	pathMissing bool       // no file was at path when the log was opened
	before      int64      // bytes that seek has skipped
}

func (r *logReader) skipped() int64 { return r.before }

// openAs opens a file with the rights of a user. Tests count its calls.
var openAs = container.OpenAs

// openLog opens all files of a log. During a rotation the files are renamed one after the other, so
// that one of them may be missing.
func openLog(path string, user *container.User) (*logReader, error) {
	r := &logReader{path: path, user: user}
	var first error
	missing := 0
	for n := 0; n <= rotatedMax && missing < 2; n++ {
		name := path
		if n > 0 {
			name = fmt.Sprintf("%s.%d", path, n)
		}
		f, err := openAs(name, user)
		switch {
		case err != nil:
			missing++
			r.pathMissing = r.pathMissing || n == 0
			if first == nil {
				first = err
			}
		case len(r.files) > 0 && sameFile(f, r.files[0]): // it was renamed after it was opened
			f.Close()
		default:
			missing = 0
			r.files = append([]*os.File{f}, r.files...)
		}
	}
	if len(r.files) == 0 {
		return nil, first
	}
	return r, nil
}

func sameFile(a, b *os.File) bool {
	x, err1 := a.Stat()
	y, err2 := b.Stat()
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

func (r *logReader) close() {
	for _, f := range r.files {
		f.Close()
	}
}

// seek skips the part before the requested range.
func (r *logReader) seek(q query) error {
	if q.tail >= 0 {
		return r.seekTail(q.tail)
	}
	for q.offset > 0 && len(r.files) > 0 {
		info, err := r.files[0].Stat()
		if err != nil {
			return err
		}
		if q.offset < info.Size() || len(r.files) == 1 {
			r.before += min(q.offset, info.Size())
			_, err := r.files[0].Seek(min(q.offset, info.Size()), io.SeekStart)
			return err
		}
		q.offset -= info.Size()
		r.before += info.Size()
		r.closeFirst()
	}
	return nil
}

func (r *logReader) closeFirst() {
	r.files[0].Close()
	r.files = r.files[1:]
}

// seekTail skips all but the last n lines.
func (r *logReader) seekTail(n int) error {
	searched := int64(0)
	last := true // a newline at the very end ends the last line and starts none
	for i := len(r.files) - 1; i >= 0; i-- {
		info, err := r.files[i].Stat()
		if err != nil {
			return err
		}
		at, left, err := tailStart(r.files[i], info.Size(), n, last)
		if err != nil {
			return err
		}
		if left == 0 || i == 0 || searched > tailMax {
			for range i {
				info, err := r.files[0].Stat()
				if err != nil {
					return err
				}
				r.before += info.Size()
				r.closeFirst()
			}
			r.before += at
			_, err := r.files[0].Seek(at, io.SeekStart)
			return err
		}
		searched += info.Size()
		n, last = left, last && info.Size() == 0
	}
	return nil
}

// tailStart finds where the last n lines of a file start, and how many lines are still missing.
func tailStart(f io.ReaderAt, size int64, n int, last bool) (at int64, left int, err error) {
	if n == 0 {
		return size, 0, nil
	}
	buf := make([]byte, 64<<10)
	for end := size; end > 0; {
		begin := max(0, end-int64(len(buf)))
		part := buf[:end-begin]
		if _, err := f.ReadAt(part, begin); err != nil && !errors.Is(err, io.EOF) {
			return 0, 0, err
		}
		for {
			i := bytes.LastIndexByte(part, '\n')
			if i < 0 {
				break
			}
			part = part[:i]
			if last {
				last = false
				if begin+int64(i)+1 == size {
					continue
				}
			}
			if n--; n == 0 {
				return begin + int64(i) + 1, 0, nil
			}
		}
		last = false
		end = begin
	}
	return 0, n, nil
}

// copyTo sends the log to w. With follow it then sends added lines, until live returns false.
func (r *logReader) copyTo(ctx context.Context, w io.Writer, follow bool, live func() bool) error {
	buf := make([]byte, 64<<10)
	for {
		more := live() // checked before reading, so that the last output is still read
		if err := r.sendAvailable(w, buf); err != nil {
			return err
		}
		next, err := r.openNewer()
		switch {
		case err != nil:
			return err
		case next:
			continue
		case !follow || !more:
			return nil
		}
		if err := pause(ctx, logPoll); err != nil {
			return err
		}
	}
}

// sendAvailable sends all that is written.
func (r *logReader) sendAvailable(w io.Writer, buf []byte) error {
	for {
		n, err := r.files[0].Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(r.files) == 1 {
			return nil
		}
		r.closeFirst()
	}
}

// openNewer opens the files that were started after the current one. It reports whether there are
// any.
func (r *logReader) openNewer() (bool, error) {
	if r.readsNewest() {
		return false, nil
	}
	now, err := openLog(r.path, r.user)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // the log was moved when its container ended: all of it is open already
	}
	if err != nil {
		return false, err
	}
	if now.pathMissing { // the log is being rotated, or moved because its container has ended
		now.close()
		return false, nil
	}
	for i, f := range now.files {
		if sameFile(f, r.files[0]) {
			newer := now.files[i+1:]
			for _, old := range now.files[:i+1] {
				old.Close()
			}
			r.files = append(r.files, newer...)
			return len(newer) > 0, nil
		}
	}
	// The file is gone because so much was written: continue with the oldest file.
	r.files = append(r.files, now.files...)
	return true, nil
}

// readsNewest reports whether the file that is read is the one at the log's path. A log that is followed
// asks this ten times a second, so it opens one file, however many were rotated.
func (r *logReader) readsNewest() bool {
	f, err := openAs(r.path, r.user)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // it is only compared
	return sameFile(f, r.files[len(r.files)-1])
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
