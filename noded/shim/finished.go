package shim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/shim/lifecycle"
)

// finishedLine bounds a line that says that the program is finished, in bytes.
const finishedLine = 4096

// finishedScan looks in a task's progress file for a line that says that its program is finished. It reads
// each byte once, however fast the file grows, and the file is not emptied before.
type finishedScan struct {
	mu     sync.Mutex // held by what reads the file
	offset int64
	found  atomic.Bool
}

// read reads what was added to the file since the last call.
func (s *finishedScan) read(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return // there is none before its container is made
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || s.found.Load() {
		return
	}
	if info.Size() < s.offset {
		s.offset = 0 // it was emptied
	}
	if _, err := f.Seek(s.offset, 0); err != nil {
		return
	}
	lines := bufio.NewReaderSize(f, finishedLine)
	for long := false; ; {
		line, err := lines.ReadSlice('\n')
		full := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !full {
			return // the rest is no whole line yet
		}
		s.offset += int64(len(line))
		if !long && !full && saysFinished(line) {
			s.found.Store(true)
			return
		}
		long = full
	}
}

// saysFinished reports whether a line of progress says that the program is finished.
func saysFinished(line []byte) bool {
	var l struct {
		Finished bool `json:"finished"`
	}
	return bytes.Contains(line, []byte("finished")) && json.Unmarshal(line, &l) == nil && l.Finished
}

// saidFinished reports whether the program of a worker has said that it is finished. Its leader
// must have said so where the leader decides its success, else any of its main tasks.
func (sup *supervisor) saidFinished() bool {
	leader := lifecycle.LeaderOf(sup.taskStates())
	for _, t := range sup.tasks {
		if t.IsMain() && t.finished.found.Load() && (sup.Success != "leader" || &t.TaskState == leader) {
			return true
		}
	}
	return false
}

// readFinished reads a task's progress file to its present end.
func (t *task) readFinished() { t.finished.read(container.ProgressPath(t.dir)) }
