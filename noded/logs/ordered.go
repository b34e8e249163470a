package logs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rota-hpc/rota/noded/container"
)

// orderedReader reads two streams in the order in which they were written, as the
// [container.OrderFile] beside them says. The parts of a rotated file that are gone are left out.
type orderedReader struct {
	index  *os.File
	part   []byte          // of a line that is half written
	runs   []container.Run // read of the index, and not begun
	places map[string]place
	latest map[fileOf]int // number of the last file of a stream that an inode was

	run   container.Run // that is read; its Stream is "" before the first one
	at    int64         // in its file
	file  *os.File      // of run; nil: it is gone
	owner fileOf        // whose file is open
	nth   int           // its number

	before int64 // bytes that seekTail has skipped
}

func (r *orderedReader) skipped() int64 { return r.before }

// place says where the files of a stream may be.
type place struct {
	paths []string
	user  *container.User
}

// fileOf is a file of a stream.
type fileOf struct {
	stream string
	inode  uint64
}

// openOrdered opens the index in the first of dirs that has one.
func openOrdered(dirs []string, places map[string]place) (*orderedReader, error) {
	var first error
	for _, dir := range dirs {
		f, err := os.Open(filepath.Join(dir, container.OrderFile))
		if err == nil {
			return &orderedReader{index: f, places: places, latest: map[fileOf]int{}}, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

func (r *orderedReader) close() {
	r.index.Close()
	r.closeFile()
}

func (r *orderedReader) closeFile() {
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}

// fill reads the lines that the index has by now.
func (r *orderedReader) fill() error {
	b, err := io.ReadAll(r.index)
	r.part = append(r.part, b...)
	for {
		end := bytes.IndexByte(r.part, '\n')
		if end < 0 {
			return err
		}
		if run, ok := container.ParseRun(string(r.part[:end])); ok {
			r.runs = append(r.runs, run)
			r.latest[fileOf{run.Stream, run.Inode}] = run.File
		}
		r.part = r.part[end+1:]
	}
}

// begin begins a run.
func (r *orderedReader) begin(run container.Run) {
	key := fileOf{run.Stream, run.Inode}
	if r.file == nil || r.owner != key || r.nth != run.File {
		r.closeFile()
		r.file, r.owner, r.nth = r.find(key), key, run.File
	}
	r.run, r.at = run, run.From
}

// find opens a file of a stream by its inode, nil if it is gone.
func (r *orderedReader) find(key fileOf) *os.File {
	p := r.places[key.stream]
	for _, path := range p.paths {
		all, err := openLog(path, p.user)
		if err != nil {
			continue
		}
		var found *os.File
		for _, f := range all.files {
			if found == nil && inodeOf(f) == key.inode {
				found = f
			} else {
				f.Close()
			}
		}
		if found != nil {
			return found
		}
	}
	return nil
}

func inodeOf(f *os.File) uint64 {
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}

// there reports whether the file of the present run is still the same file. Its inode may have been
// given to a later file of the stream.
func (r *orderedReader) there() bool { return r.file != nil && r.latest[r.owner] == r.nth }

// available returns up to where the present run can be read now, and whether another run follows
// it. Output that is in the file before the index is read belongs to this run, unless the index has
// another one.
func (r *orderedReader) available() (until int64, more bool, err error) {
	if r.file != nil {
		info, err := r.file.Stat()
		if err != nil {
			return 0, false, err
		}
		until = info.Size()
	}
	if len(r.runs) == 0 {
		if err := r.fill(); err != nil {
			return 0, false, err
		}
	}
	if len(r.runs) > 0 {
		return r.runs[0].Until, true, nil
	}
	return until, false, nil
}

// send sends all that is written.
func (r *orderedReader) send(w io.Writer) error {
	if err := r.fill(); err != nil { // so that inodes that have been given away are known
		return err
	}
	for {
		until, more, err := r.available()
		if err != nil {
			return err
		}
		if r.run.Stream != "" && r.there() && until > r.at {
			n, err := io.Copy(w, io.NewSectionReader(r.file, r.at, until-r.at))
			if r.at += n; err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
		next := r.runs[0]
		r.runs = r.runs[1:]
		r.begin(next)
	}
}

// copyTo sends the log to w. With follow it then sends added lines, until live returns false.
func (r *orderedReader) copyTo(ctx context.Context, w io.Writer, follow bool, live func() bool) error {
	for {
		more := live() // checked before reading, so that the last output is still read
		if err := r.send(w); err != nil || !follow || !more {
			return err
		}
		if err := pause(ctx, logPoll); err != nil {
			return err
		}
	}
}

// seekTail skips all but the last n lines.
func (r *orderedReader) seekTail(n int) error {
	if err := r.fill(); err != nil {
		return err
	}
	all := r.runs
	last := true // a newline at the very end ends the last line and starts none
	for i := len(all) - 1; i >= 0; i-- {
		r.begin(all[i])
		if !r.there() {
			continue
		}
		info, err := r.file.Stat()
		if err != nil {
			return err
		}
		end := info.Size()
		if i+1 < len(all) {
			end = min(end, all[i+1].Until)
		}
		size := max(0, end-all[i].From)
		at, left, err := tailStart(io.NewSectionReader(r.file, all[i].From, size), size, n, last)
		if err != nil {
			return err
		}
		if left == 0 {
			r.at, r.runs = all[i].From+at, all[i+1:]
			r.before = r.lengthOf(all[:i], all[i].Until) + at
			return nil
		}
		n, last = left, last && size == 0
	}
	r.run, r.runs = container.Run{}, all
	return nil
}

// lengthOf returns how many bytes some runs have whose files are still there. The last one ends at
// until.
func (r *orderedReader) lengthOf(runs []container.Run, until int64) (sum int64) {
	type numbered struct {
		fileOf
		number int
	}
	there := map[numbered]bool{}
	for i, run := range runs {
		end := until
		if i+1 < len(runs) {
			end = runs[i+1].Until
		}
		key := numbered{fileOf{run.Stream, run.Inode}, run.File}
		known, asked := there[key]
		if !asked {
			f := r.find(key.fileOf)
			known = f != nil && r.latest[key.fileOf] == run.File
			if f != nil {
				f.Close()
			}
			there[key] = known
		}
		if known {
			sum += max(0, end-run.From)
		}
	}
	return sum
}

// errNoOffset: an offset counts bytes of one stream.
var errNoOffset = errors.New("an offset needs a single stream: stdout or stderr")
