package logs

import (
	"cmp"
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
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/noded/container"
)

// logPoll is the time between two reads of a log that is followed.
const logPoll = 100 * time.Millisecond

// Server answers GET /v1/logs/{job}.{attempt}.{worker} for controllers and root.
type Server struct {
	Store *Store
	Live  func(container.ID) bool // reports whether a container may still write output
}

// query is a request. It names the task ("": the leader), the stream, and whether to follow. It
// says how many of the last lines to send (-1: all), and how many bytes to skip.
type query struct {
	task   string
	stream string
	follow bool
	tail   int
	offset int64
}

func parseQuery(r *http.Request) (query, error) {
	v := r.URL.Query()
	q := query{task: v.Get("task"), stream: cmp.Or(v.Get("stream"), "stdout"), tail: -1}
	if q.stream != "stdout" && q.stream != "stderr" && q.stream != bothStreams {
		return q, fmt.Errorf("stream %q is not stdout, stderr or both", q.stream)
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
	if q.stream == bothStreams && q.offset != 0 {
		return q, errNoOffset
	}
	return q, errors.Join(errs[:]...)
}

// bothStreams are stdout and stderr, in the order in which they were written.
const bothStreams = "both"

// source is a log that can be read.
type source interface {
	skipped() int64 // bytes that come before the first one that is sent
	copyTo(ctx context.Context, w io.Writer, follow bool, live func() bool) error
	close()
}

// ServeHTTP implements http.Handler.
func (l *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c, ok := identity.CallerOf(r.Context()); !ok || c.Role != string(pki.Controller) {
		api.WriteProblem(w, http.StatusForbidden, api.CodeDenied, "only controllers may read logs here: use rota logs")
		return
	}
	id, ok := container.ParseID(r.PathValue("id"))
	if !ok {
		api.WriteProblem(w, http.StatusBadRequest, api.CodeInvalid, "write /v1/logs/JOB.ATTEMPT.WORKER")
		return
	}
	q, err := parseQuery(r)
	if err != nil {
		api.WriteProblem(w, http.StatusBadRequest, api.CodeInvalid, err.Error())
		return
	}
	reader, err := l.open(r.Context(), id, q)
	if err != nil {
		api.WriteProblem(w, http.StatusNotFound, api.CodeNotFound, l.Store.absence(id, q.stream, err))
		return
	}
	defer reader.close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set(api.HeaderLogStart, strconv.FormatInt(reader.skipped(), 10))
	w.WriteHeader(http.StatusOK)
	if err := reader.copyTo(r.Context(), flusher{w, http.NewResponseController(w)}, q.follow,
		func() bool { return l.Live(id) }); err != nil {
		panic(http.ErrAbortHandler) // this daemon stops, or the client is gone: the stream must not look complete
	}
}

// flusher sends everything at once, without buffering.
type flusher struct {
	io.Writer
	control *http.ResponseController
}

// Write implements io.Writer.
func (f flusher) Write(b []byte) (int, error) {
	n, err := f.Writer.Write(b)
	return n, errors.Join(err, f.control.Flush())
}

// open finds the log. A log that is to be followed may not exist yet, because its container is
// being created: then open waits.
func (l *Server) open(ctx context.Context, id container.ID, q query) (source, error) {
	for {
		live := l.Live(id)
		r, err := l.find(id, q)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || !live || !q.follow {
			return r, err
		}
		if err := pause(ctx, logPoll); err != nil {
			return nil, err
		}
	}
}

// find opens the log of a container, in the container's directory or where it is kept afterwards.
func (l *Server) find(id container.ID, q query) (source, error) {
	dir := filepath.Join(l.Store.Containers, id.String())
	kept := filepath.Join(l.Store.Dir, id.String())
	settings, err := container.ReadSettings(dir)
	if err != nil {
		if b, rerr := os.ReadFile(filepath.Join(kept, settingsFile)); rerr == nil {
			err = json.Unmarshal(b, &settings)
		}
	}
	var task container.Task
	if settings.Several() {
		var terr error
		if task, terr = findTask(settings.Tasks, q.task); terr != nil {
			return nil, terr
		}
	} else if len(settings.Tasks) > 0 {
		task.Log = settings.Tasks[0].Log // its files lie in the worker's own directory
	}
	dirs := []string{filepath.Join(container.LogDir(dir), task.Name), filepath.Join(kept, task.Name)}
	at := func(stream string) place {
		if path := userPath(task.Log, stream); err == nil && path != "" {
			return place{[]string{path}, &settings.User}
		}
		return place{[]string{filepath.Join(dirs[0], stream), filepath.Join(dirs[1], stream)}, nil}
	}
	if q.stream == bothStreams {
		r, oerr := openOrdered(dirs, map[string]place{"stdout": at("stdout"), "stderr": at("stderr")})
		if oerr == nil && q.tail >= 0 {
			oerr = r.seekTail(q.tail)
		}
		if oerr == nil {
			return r, nil
		}
		if r != nil {
			r.close()
		}
		if !errors.Is(oerr, fs.ErrNotExist) {
			return nil, oerr
		}
		q.stream = "stdout" // both go there, or their order is not known
	}
	from := at(q.stream)
	for _, path := range from.paths {
		var r *logReader
		if r, err = openLog(path, from.user); err == nil {
			return r, r.seek(q)
		}
	}
	return nil, err
}

// findTask returns the task with the given name, or the leader if name is empty.
func findTask(tasks []container.Task, name string) (container.Task, error) {
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
		return container.Task{}, fmt.Errorf("the worker has no task %q", name)
	}
	return tasks[leader], nil
}

// userPath returns the user's path that a stream goes to, "" if the daemon keeps it.
func userPath(l container.LogFiles, stream string) string {
	if stream == "stderr" && !l.Join {
		return l.Stderr
	}
	return l.Stdout
}
