package output

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/rota-hpc/rota/noded/container"
)

// maxOrder is how many bytes the order of two streams may take. Reason: it is 40 bytes for each change
// from one to the other, so that it holds 400,000 of them. Beyond that each stream is only known by
// itself.
const maxOrder = 16 << 20

// logOrder notes in which order two streams are written to two files, see [container.OrderFile].
// Output of one of them at a time is written.
type logOrder struct {
	mu   sync.Mutex
	path string
	file *os.File // nil: the order is not known any more
	size int
	last container.Run
	end  int64 // of what was written of last, in its file
}

// openLogOrder makes the file anew. Without it the output is kept all the same.
func openLogOrder(dir string) *logOrder {
	o := &logOrder{path: filepath.Join(dir, container.OrderFile)}
	o.file, _ = rootAccess{}.open(o.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND) // nil: it is not known
	return o
}

// begin notes that the next output goes to a file, unless it goes on there. The mutex is held.
func (o *logOrder) begin(r *rotatingFile) {
	if o.file == nil {
		return
	}
	if o.size > 0 && o.last.Stream == r.stream && o.last.File == r.number && o.end == r.size {
		return
	}
	run := container.Run{Stream: r.stream, File: r.number, Inode: inodeOf(r.file), From: r.size, Until: o.end}
	n, err := o.file.WriteString(run.String())
	if o.size += n; err != nil || o.size > maxOrder {
		o.close()
		_ = os.Remove(o.path) // half of it would put output where it does not belong
		o.file = nil
		return
	}
	o.last = run
}

// wrote notes up to where a file was written. The mutex is held.
func (o *logOrder) wrote(r *rotatingFile) { o.end = r.size }

func (o *logOrder) close() {
	if o.file != nil {
		o.file.Close()
	}
}

func inodeOf(f *os.File) uint64 {
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return s.Ino
}
