package noded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/noded/container"
)

const (
	logPoll    = 100 * time.Millisecond // between looks at a log that is followed
	logRotated = 1000                   // rotated files looked for
	tailMost   = 1 << 30                // bytes searched backwards for the beginning of a tail
)

// logServer answers GET /v1/logs/{job}.{attempt}.{worker} for machines of the cluster and root.
type logServer struct {
	disk *disk
	live func(container.ID) bool // whether there may be more output
}

// logQuery is what is asked for: of which task of several ("": the one that leads), stream, whether to follow, the last lines (-1: all), or
// bytes to leave out.
type logQuery struct {
	task   string
	stream string
	follow bool
	tail   int
	offset int64
}

func parseLogQuery(r *http.Request) (logQuery, error) {
	v := r.URL.Query()
	q := logQuery{task: v.Get("task"), stream: v.Get("stream"), tail: -1}
	if q.stream == "" {
		q.stream = "stdout"
	}
	if q.stream != "stdout" && q.stream != "stderr" {
		return q, fmt.Errorf("stream %q is neither stdout nor stderr", q.stream)
	}
	var errs [3]error
	if s := v.Get("follow"); s != "" {
		q.follow, errs[0] = strconv.ParseBool(s)
	}
	if s := v.Get("tail"); s != "" {
		q.tail, errs[1] = strconv.Atoi(s)
	}
	if s := v.Get("offset"); s != "" {
		q.offset, errs[2] = strconv.ParseInt(s, 10, 64)
	}
	return q, errors.Join(errs[:]...)
}

// ServeHTTP implements http.Handler.
func (l *logServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c, ok := identity.CallerOf(r.Context()); !ok || !c.Trusted {
		problem(w, http.StatusForbidden, api.CodeDenied, "logs are read through a controller, which knows whose they are")
		return
	}
	id, ok := container.ParseID(r.PathValue("id"))
	if !ok {
		problem(w, http.StatusBadRequest, api.CodeInvalid, "write /v1/logs/JOB.ATTEMPT.WORKER")
		return
	}
	q, err := parseLogQuery(r)
	if err != nil {
		problem(w, http.StatusBadRequest, api.CodeInvalid, err.Error())
		return
	}
	reader, err := l.open(r.Context(), id, q)
	if err != nil {
		problem(w, http.StatusNotFound, api.CodeNotFound, fmt.Sprintf("there is no %s of %s on this node: %v", q.stream, id, err))
		return
	}
	defer reader.close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(http.StatusOK)
	// A write error means that the reader has gone, and there is nobody to tell.
	_ = reader.copy(r.Context(), flusher{w, http.NewResponseController(w)}, q.follow, func() bool { return l.live(id) })
}

// flusher sends everything on at once.
type flusher struct {
	io.Writer
	control *http.ResponseController
}

func (f flusher) Write(b []byte) (int, error) {
	n, err := f.Writer.Write(b)
	return n, errors.Join(err, f.control.Flush())
}

// problem answers with an error.
func problem(w http.ResponseWriter, status int, code, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(api.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: detail})
}

// open finds the log. When it is to be followed and its container is only being made, it waits for it.
func (l *logServer) open(ctx context.Context, id container.ID, q logQuery) (*logReader, error) {
	for {
		live := l.live(id)
		r, err := l.find(id, q)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || !live || !q.follow {
			return r, err
		}
		if err := pause(ctx, logPoll); err != nil {
			return nil, err
		}
	}
}

// find opens the log of a container, in its own directory or where it is kept afterwards.
func (l *logServer) find(id container.ID, q logQuery) (*logReader, error) {
	dir := filepath.Join(l.disk.containers, id.String())
	kept := filepath.Join(l.disk.logs, id.String())
	settings, err := container.ReadSettings(dir)
	if err != nil {
		if b, rerr := os.ReadFile(filepath.Join(kept, whereFile)); rerr == nil {
			err = json.Unmarshal(b, &settings)
		}
	}
	name, files := "", settings.Log
	if len(settings.Tasks) > 0 {
		t, terr := taskOf(settings.Tasks, q.task)
		if terr != nil {
			return nil, terr
		}
		name, files = t.Name, t.Log
	}
	places := []string{filepath.Join(container.LogDir(dir), name, q.stream), filepath.Join(kept, name, q.stream)}
	var user *container.User
	if err == nil {
		if path := sentTo(files, q.stream); path != "" {
			places, user = []string{path}, &settings.User
		}
	}
	for _, path := range places {
		var r *logReader
		if r, err = openLog(path, user); err == nil {
			return r, r.skip(q)
		}
	}
	return nil, err
}

// taskOf finds a task by its name, or the one that leads.
func taskOf(tasks []container.Task, name string) (container.Task, error) {
	leader := -1
	for i, t := range tasks {
		if t.Name == name {
			return t, nil
		}
		if t.Hook == "" && (leader < 0 || t.Leader && !tasks[leader].Leader) {
			leader = i
		}
	}
	if name != "" || leader < 0 {
		return container.Task{}, fmt.Errorf("it has no task %q", name)
	}
	return tasks[leader], nil
}

// sentTo is the path of the user's that a stream goes to, "" if it goes to none.
func sentTo(l container.LogFiles, stream string) string {
	if stream == "stderr" && !l.Join {
		return l.Stderr
	}
	return l.Stdout
}

// logReader reads a log that may be rotated meanwhile: the files that there are, oldest first, then what is added.
type logReader struct {
	path  string
	user  *container.User
	files []*os.File // not yet read to the end; the last one is or was at path
	gap   bool       // nothing was at path when it was opened
}

// openLog opens all files that there are. While a log is rotated one name after the other moves on, so that one of them may be missing.
func openLog(path string, user *container.User) (*logReader, error) {
	r := &logReader{path: path, user: user}
	var first error
	missing := 0
	for n := 0; n <= logRotated && missing < 2; n++ {
		name := path
		if n > 0 {
			name = fmt.Sprintf("%s.%d", path, n)
		}
		f, err := openAs(name, user)
		switch {
		case err != nil:
			missing++
			r.gap = r.gap || n == 0
			if first == nil {
				first = err
			}
		case len(r.files) > 0 && sameFile(f, r.files[0]): // it has moved on since it was opened
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

// skip leaves out what was not asked for.
func (r *logReader) skip(q logQuery) error {
	if q.tail >= 0 {
		return r.skipToTail(q.tail)
	}
	for q.offset > 0 && len(r.files) > 0 {
		info, err := r.files[0].Stat()
		if err != nil {
			return err
		}
		if q.offset < info.Size() || len(r.files) == 1 {
			_, err := r.files[0].Seek(min(q.offset, info.Size()), io.SeekStart)
			return err
		}
		q.offset -= info.Size()
		r.drop()
	}
	return nil
}

func (r *logReader) drop() {
	r.files[0].Close()
	r.files = r.files[1:]
}

// skipToTail leaves the last n lines.
func (r *logReader) skipToTail(n int) error {
	searched := int64(0)
	last := true // a newline at the very end ends the last line and begins none
	for i := len(r.files) - 1; i >= 0; i-- {
		info, err := r.files[i].Stat()
		if err != nil {
			return err
		}
		at, left, err := tailStart(r.files[i], info.Size(), n, last)
		if err != nil {
			return err
		}
		if left == 0 || i == 0 || searched > tailMost {
			for range i {
				r.drop()
			}
			_, err := r.files[0].Seek(at, io.SeekStart)
			return err
		}
		searched += info.Size()
		n, last = left, last && info.Size() == 0
	}
	return nil
}

// tailStart finds where the last n lines of a file begin, and how many more there have to be in front of it.
func tailStart(f *os.File, size int64, n int, last bool) (at int64, left int, err error) {
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

// copy sends the log to w, and when it is followed everything that is added until its container has ended.
func (r *logReader) copy(ctx context.Context, w io.Writer, follow bool, live func() bool) error {
	buf := make([]byte, 64<<10)
	for {
		more := live() // asked before reading: what is written before the end is then read
		if err := r.drain(w, buf); err != nil {
			return err
		}
		next, err := r.rotated()
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

// drain sends all there is.
func (r *logReader) drain(w io.Writer, buf []byte) error {
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
		r.drop()
	}
}

// rotated opens the files that have come after the one that is read.
func (r *logReader) rotated() (bool, error) {
	now, err := openLog(r.path, r.user)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // the log has moved with its container's end: what was open is all
	}
	if err != nil {
		return false, err
	}
	if now.gap { // it is being rotated, or moves with its container's end
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
	// So much was written that the file is gone: go on with the oldest there is.
	r.files = append(r.files, now.files...)
	return true, nil
}

// pause waits, unless ctx ends.
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
