package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/oci/launch"
)

// CloseAll closes files, some of which may be closed already.
func CloseAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // it may be closed already
	}
}

// SocketForFiles returns the two ends of a socket for messages with descriptors.
func SocketForFiles() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "files"), os.NewFile(uintptr(fds[1]), "files"), nil
}

// maxFiles is how many descriptors come with one message.
const maxFiles = 3

// ReceiveFiles waits for a message with descriptors. No text and no file is the end.
func ReceiveFiles(socket *os.File) (text []byte, files []*os.File, err error) {
	text, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4*maxFiles))
	n, m := 0, 0
	for {
		n, m, _, _, err = unix.Recvmsg(int(socket.Fd()), text, rights, unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil || n == 0 {
		return nil, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:m])
	if err != nil {
		return nil, nil, err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // another kind of message
		}
		for _, fd := range fds {
			if err := unix.SetNonblock(fd, true); err != nil {
				return nil, nil, errors.Join(err, unix.Close(fd))
			}
			files = append(files, os.NewFile(uintptr(fd), "task"))
		}
	}
	return text[:n], files, nil
}

// ReceiveRanks takes what the ranks read and write from rota-init.
func ReceiveRanks(socket *os.File, s *Session) {
	defer s.Begin()
	defer socket.Close()
	for {
		text, files, err := ReceiveFiles(socket)
		if err != nil || text == nil {
			return
		}
		var of launch.Files
		want := map[bool]int{true: 1, false: 3}
		if json.Unmarshal(text, &of) != nil || len(files) != want[of.Terminal] {
			CloseAll(files)
			continue
		}
		s.AddTask(uint32(of.Rank), files)
	}
}
