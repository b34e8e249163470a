// Package checkpoint keeps the folders to which workers save on the disk of their node. It carries
// a folder to the node where the worker of that number runs next. [Store.Prepare] makes the folder
// of a worker: anew, from the folder of an earlier attempt here, or from a folder of another node.
// A [Client] fetches such a folder, and a [Server] sends it. A folder under its final name is
// whole.
//
// A job has written the content of a folder, and may have made it to mislead root. So links are
// never followed out of a folder, and only files, directories and links are carried.
package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
)

// The content of the directory of a worker.
const (
	filesDir   = "files"      // the job's
	imageDir   = "image"      // root's
	markerFile = "owner.json" // which job it is of; it is not carried
)

const (
	partialSuffix = ".partial" // of a folder that is not whole
	goneSuffix    = ".gone"    // of a folder that is being removed
)

const (
	parallelCopies = 4 // at once; more would only share the network and the disk
	// for which a source that does not answer is tried again
	patience = 2 * time.Minute
	retryMin = 500 * time.Millisecond // between two tries at first; it doubles
	retryMax = 10 * time.Second
)

// Worker is a worker of an attempt that is to have a folder.
type Worker struct {
	ID        container.ID
	User      container.User // owner of the files in it
	Submitted model.UnixMS   // of its job; tells the job from an earlier one with the same id
}

// Stream is a folder on its way from another node.
type Stream struct {
	io.ReadCloser
	Bytes int64 // that it takes on the disk
}

// Source opens the folder that a worker has left on another node. Its errors are temporary unless
// they are marked as [ErrGone] or [ErrRefused].
type Source interface {
	Open(ctx context.Context, from *api.CheckpointSource, id container.ID) (*Stream, error)
}

// Errors of a [Source] for which trying again does not help.
var (
	ErrGone    = errors.New("no such folder")
	ErrRefused = errors.New("it may not be copied")
)

// Store is the folders of workers on this node.
type Store struct {
	dir    string
	node   string
	source Source
	log    *slog.Logger
	copies chan struct{}

	mu       sync.Mutex // held while folders get other names
	removals sync.WaitGroup
}

// Open makes the directory of the folders, and removes the remains of copies that were cut off. It
// returns the store of a node of that name.
func Open(dir, node string, from Source, log *slog.Logger) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory for checkpoints: %w", err)
	}
	s := &Store{dir: dir, node: node, source: from, log: log, copies: make(chan struct{}, parallelCopies)}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("directory for checkpoints: %w", err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), partialSuffix) || strings.HasSuffix(e.Name(), goneSuffix) {
			s.discard(e.Name())
		}
	}
	return s, nil
}

// Files returns where the job's own files of a worker are.
func (s *Store) Files(id container.ID) string { return filepath.Join(s.path(id), filesDir) }

// NewImage returns the directory to which the processes of a running worker are to be saved. It
// does not exist yet, and lies in a directory that is root's alone. An image is named after the
// attempt that it is of, so that no later attempt but the next one goes on from it. Folders of
// earlier attempts are removed.
func (s *Store) NewImage(id container.ID) (string, error) {
	s.dropImages(id, id.Attempt)
	if err := s.checkRoom(0); err != nil {
		return "", err
	}
	dir := filepath.Join(s.path(id), imageDir)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", noRoom(err)
	}
	return filepath.Join(dir, strconv.Itoa(id.Attempt)), nil
}

// Image returns the image in the folder with which a worker begins, "" if there is none.
func (s *Store) Image(id container.ID) string {
	dir := filepath.Join(s.path(id), imageDir)
	entries, _ := os.ReadDir(dir) // mostly there is none
	newest := 0
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && n < id.Attempt && e.IsDir() {
			newest = max(newest, n)
		}
	}
	if newest == 0 {
		return ""
	}
	return filepath.Join(dir, strconv.Itoa(newest))
}

// Prepare makes the folder of a worker that has not run yet. from is where the worker of that
// number ran last, nil to begin anew. It may be called again. When it fails or ctx ends, it removes
// its partial copy.
func (s *Store) Prepare(ctx context.Context, w Worker, from *api.CheckpointSource) error {
	err := s.prepare(ctx, w, from)
	if err == nil && from != nil {
		s.dropImages(w.ID, from.Attempt)
	}
	return err
}

// dropImages removes the images of attempts before the one in which the worker ran last, and images
// that are not whole. Nothing goes on from them any more.
func (s *Store) dropImages(id container.ID, last int) {
	entries, _ := os.ReadDir(filepath.Join(s.path(id), imageDir)) // mostly there is none
	for _, e := range entries {
		n, err := strconv.Atoi(strings.TrimSuffix(e.Name(), container.PartOfImage("")))
		part := strings.HasSuffix(e.Name(), container.PartOfImage(""))
		if err != nil || n < last || part && n < id.Attempt { // files that are being written now stay
			s.discard(filepath.Join(id.String(), imageDir, e.Name()))
		}
	}
}

func (s *Store) prepare(ctx context.Context, w Worker, from *api.CheckpointSource) error {
	found, err := s.take(w, from)
	switch {
	case err != nil || found:
		return err
	case from == nil:
		return s.make(w, nil)
	case from.Node == s.node:
		s.log.Warn("the folder of a worker is gone from this node: the worker starts from the beginning", "alloc",
			w.ID.String(),
			"attempt", from.Attempt)
		return s.make(w, nil)
	}
	err = s.fetch(ctx, w, from)
	if errors.Is(err, ErrGone) {
		s.log.Warn("the folder of a worker is gone from its last node: the worker starts from the beginning", "alloc",
			w.ID.String(),
			"node", from.Node, "attempt", from.Attempt)
		return s.make(w, nil)
	}
	if err != nil {
		return fmt.Errorf("checkpoint of worker %d of job %d, from node %s: %w", w.ID.Worker, w.ID.Job, from.Node, err)
	}
	return nil
}

// take gives the worker a folder that is here, and reports whether it found one. That is its own
// folder, or the folder of the last attempt since the worker ran. Attempts after that have changed
// nothing.
func (s *Store) take(w Worker, from *api.CheckpointSource) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := os.Lstat(s.path(w.ID)); err == nil {
		if s.isOf(w.ID, w.Submitted, w.User.UID) {
			return true, nil
		}
		s.discard(w.ID.String())
	}
	if from == nil {
		return false, nil
	}
	older, ok := s.latest(w.ID, from.Attempt, w.Submitted, w.User.UID)
	if !ok {
		return false, nil
	}
	if err := os.Rename(s.path(older), s.path(w.ID)); err != nil {
		return false, fmt.Errorf("take the checkpoint of an earlier attempt: %w", err)
	}
	return true, container.SyncPath(s.dir)
}

// latest returns the folder of the last attempt from number least on that comes before id's and is of
// the same worker.
func (s *Store) latest(id container.ID, least int, submitted model.UnixMS, uid uint32) (container.ID, bool) {
	var best container.ID
	for _, other := range s.List() {
		if other.Job == id.Job && other.Worker == id.Worker && other.Attempt >= least && other.Attempt < id.Attempt &&
			other.Attempt > best.Attempt && s.isOf(other, submitted, uid) {
			best = other
		}
	}
	return best, best.Job != 0
}

// marker says which job a folder is of.
type marker struct {
	UID       uint32       `json:"uid"`
	Submitted model.UnixMS `json:"submitted"`
}

// anyUser stands for the uid of a job that is not known.
const anyUser = ^uint32(0)

// isOf reports whether a folder is of a job that was submitted at this moment by this user. After a
// restore of the controllers another job may have got its id.
func (s *Store) isOf(id container.ID, submitted model.UnixMS, uid uint32) bool {
	var m marker
	b, err := os.ReadFile(filepath.Join(s.path(id), markerFile))
	return err == nil && json.Unmarshal(b, &m) == nil && m.Submitted == submitted && (m.UID == uid || uid == anyUser)
}

// make makes the folder of a worker under a temporary name, and fill writes its content (nil: it
// stays empty). The folder gets its name when all of it is on the disk.
func (s *Store) make(w Worker, fill func(*os.Root) error) (err error) {
	name := w.ID.String() + partialSuffix
	s.discard(name)
	path := filepath.Join(s.dir, name)
	if err := os.Mkdir(path, 0o700); err != nil {
		return noRoom(err)
	}
	defer func() {
		if err != nil {
			s.discard(name)
		}
	}()
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // earlier files are on the disk already
	if fill != nil {
		err = fill(root)
	}
	if err == nil {
		err = completeFolder(root, w)
	}
	if err == nil {
		err = container.SyncPath(path)
	}
	if err != nil {
		return noRoom(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Rename(path, s.path(w.ID)); err != nil {
		return noRoom(err)
	}
	return container.SyncPath(s.dir)
}

// completeFolder adds the common parts of a folder: the job's directory, and the marker.
func completeFolder(root *os.Root, w Worker) error {
	err := root.Mkdir(filesDir, 0o700)
	if err == nil || errors.Is(err, fs.ErrExist) { // a copy has it already
		err = errors.Join(root.Lchown(filesDir, int(w.User.UID), int(w.User.GID)), root.Chmod(filesDir, 0o700))
	}
	if err != nil {
		return err
	}
	b, err := json.Marshal(marker{w.User.UID, w.Submitted})
	if err != nil {
		return err
	}
	f, err := root.OpenFile(markerFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

// fetch copies a folder from another node.
func (s *Store) fetch(ctx context.Context, w Worker, from *api.CheckpointSource) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stream, err := s.open(ctx, w.ID, from)
	if err != nil {
		return err
	}
	defer func() { <-s.copies }()
	defer stream.Close()
	if err := s.checkRoom(stream.Bytes); err != nil {
		return err
	}
	r := receiver{user: w.User, room: func() error { return s.checkRoom(0) }}
	in := watched(ctx, stream, cancel)
	defer in.stop()
	err = s.make(w, func(root *os.Root) error { return r.receive(ctx, root, in) })
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// open opens the stream, and takes one of the places of copies for it. A source that does not answer is
// tried again for a while, without one.
func (s *Store) open(ctx context.Context, id container.ID, from *api.CheckpointSource) (*Stream, error) {
	source := container.ID{Job: id.Job, Attempt: from.Attempt, Worker: id.Worker}
	began, delay := time.Now(), retryMin
	for {
		select {
		case s.copies <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		stream, err := s.source.Open(ctx, from, source)
		if err == nil {
			return stream, nil
		}
		<-s.copies
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, ErrGone) || errors.Is(err, ErrRefused):
			return nil, err
		case time.Since(began)+delay > patience:
			return nil, fmt.Errorf("given up after %v: %w", patience, err)
		}
		t := time.NewTimer(delay)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, context.Cause(ctx)
		}
		delay = min(2*delay, retryMax)
	}
}

const (
	// Copies leave a reserve free: one part in reservePart of the file system, at most reserveMax
	// bytes. The journal and the logs of the daemon lie there too.
	reservePart = 20
	reserveMax  = 10 << 30
)

// checkRoom refuses a copy of need bytes if it would leave too little free.
func (s *Store) checkRoom(need int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(s.dir, &st); err != nil {
		return err
	}
	return s.leaves(need, int64(st.Bavail)*st.Bsize, int64(st.Blocks)*st.Bsize)
}

// leaves refuses a copy that would leave too little of the bytes that are free, of all that a disk has.
func (s *Store) leaves(need, free, all int64) error {
	reserve := min(all/reservePart, reserveMax)
	if need > free-reserve {
		return fmt.Errorf("the disk of node %s is full: the copy needs %v, %v are free, of which %v are reserved for the "+
			"node: make room in %s", s.node, jobspec.Bytes(need), jobspec.Bytes(free), jobspec.Bytes(reserve), s.dir)
	}
	return nil
}

// noRoom says in plain words that a disk is full.
func noRoom(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("the disk is full: make room in the data directory of the node: %w", err)
	}
	return err
}

// List returns the workers whose folders are here and whole.
func (s *Store) List() []container.ID {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		s.log.Error("cannot list checkpoints", "err", err)
	}
	var ids []container.ID
	for _, e := range entries {
		if id, ok := container.ParseID(e.Name()); ok && e.IsDir() {
			ids = append(ids, id)
		}
	}
	return ids
}

// Remove removes a folder. It returns at once: a large one goes on disappearing.
func (s *Store) Remove(id container.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.discard(id.String())
}

// discard takes an entry out of the way and removes it in the background.
func (s *Store) discard(name string) {
	path := filepath.Join(s.dir, name)
	if !strings.HasSuffix(name, goneSuffix) {
		gone := filepath.Join(s.dir, strconv.FormatUint(rand.Uint64(), 36)+goneSuffix)
		if err := os.Rename(path, gone); err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				s.log.Error("cannot remove a checkpoint", "path", path, "err", err)
			}
			return
		}
		path = gone
	}
	s.removals.Go(func() {
		if err := os.RemoveAll(path); err != nil {
			s.log.Error("cannot remove a checkpoint; the next start of the daemon tries again", "path", path, "err", err)
		}
	})
}

func (s *Store) path(id container.ID) string { return filepath.Join(s.dir, id.String()) }
