package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/oci/launch"
)

// rankFiles are the standard input, output and error of a rank.
type rankFiles [3]*os.File

func (f rankFiles) close() {
	for _, one := range f {
		one.Close()
	}
}

// fileSender is the socket over which the shim gets its ends of what ranks read and write. They are
// made here, so that they belong to the job's user: programs open /dev/stdout and /dev/tty again.
type fileSender struct{ socket int }

// openFileSender opens the descriptor that the shim left, nil if there is none.
func openFileSender() *fileSender {
	fd, err := strconv.Atoi(os.Getenv(launch.FilesEnv))
	if err != nil {
		return nil
	}
	unix.CloseOnExec(fd)
	return &fileSender{fd}
}

// close tells the shim that all ranks have what they read and write.
func (s *fileSender) close() {
	if s != nil {
		_ = unix.Close(s.socket)
	}
}

// open makes what a rank reads and writes: pipes, or a terminal.
func (s *fileSender) open(rank int, terminal *launch.Terminal) (rankFiles, error) {
	if terminal == nil {
		return s.openPipes(rank)
	}
	master, slave, err := pty.Open()
	if err != nil {
		return rankFiles{}, fmt.Errorf("open a terminal: %w", err)
	}
	defer master.Close()
	if err := pty.Setsize(master, &pty.Winsize{Rows: terminal.Rows, Cols: terminal.Columns}); err != nil {
		return rankFiles{}, errors.Join(err, slave.Close())
	}
	if err := s.send(launch.Files{Rank: rank, Terminal: true}, master); err != nil {
		return rankFiles{}, errors.Join(err, slave.Close())
	}
	return rankFiles{slave, slave, slave}, nil
}

func (s *fileSender) openPipes(rank int) (rankFiles, error) {
	var own, theirs rankFiles
	for i := range own {
		r, w, err := os.Pipe()
		if err != nil {
			own.close()
			theirs.close()
			return rankFiles{}, fmt.Errorf("make a pipe: %w", err)
		}
		if own[i], theirs[i] = w, r; i == 0 {
			own[i], theirs[i] = r, w
		}
	}
	defer theirs.close()
	if err := s.send(launch.Files{Rank: rank}, theirs[:]...); err != nil {
		own.close()
		return rankFiles{}, err
	}
	return own, nil
}

func (s *fileSender) send(what launch.Files, files ...*os.File) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	if err := unix.Sendmsg(s.socket, text, unix.UnixRights(fds...), nil, 0); err != nil {
		return fmt.Errorf("pass files to the shim: %w", err)
	}
	return nil
}
