package powertest

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// listenerSocket is the file descriptor through which the child process sends its seccomp listener.
const listenerSocket = 3

// sendSyncs makes every fsync and fdatasync of this process wait for the parent.
func sendSyncs() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	load := unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS} // loads the number of the system call
	is := func(call uint32, jump uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: jump, K: call}
	}
	answer := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	filter := []unix.SockFilter{load, is(unix.SYS_FSYNC, 2), is(unix.SYS_FDATASYNC, 1),
		answer(unix.SECCOMP_RET_ALLOW), answer(unix.SECCOMP_RET_USER_NOTIF)}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	listener, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_TSYNC|unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH,
		uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("filter the syncs: %w", errno)
	}
	defer func() { _ = unix.Close(int(listener)) }()
	return unix.Sendmsg(listenerSocket, []byte{0}, unix.UnixRights(int(listener)), nil, 0)
}

// receiveListener is the parent's side of sendSyncs.
func receiveListener(from *os.File) (int, error) {
	data, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	n, size, _, _, err := unix.Recvmsg(int(from.Fd()), data, rights, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, errors.New("it has ended")
	}
	messages, err := unix.ParseSocketControlMessage(rights[:size])
	if err != nil || len(messages) != 1 {
		return 0, fmt.Errorf("%d messages: %w", len(messages), err)
	}
	files, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return 0, err
	}
	return files[0], nil
}

func socketPair() (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs"), nil
}

// notification is the kernel's struct seccomp_notif: a waiting system call.
type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	call  int32
	arch  uint32
	at    uint64
	args  [6]uint64
}

// reply is the kernel's struct seccomp_notif_resp: the call returns value, or fails with errno.
type reply struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// watch answers waiting calls until the process has ended.
func (d *disk) watch(listener int) error {
	for {
		events := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		if n, err := unix.Poll(events, int(patience.Milliseconds())); err == unix.EINTR {
			continue
		} else if err != nil {
			return err
		} else if n == 0 || events[0].Revents&unix.POLLIN == 0 { // POLLHUP: no process has the filter any more
			return nil
		}
		var call notification
		if err := ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&call)); err != nil {
			continue // the calling thread has ended
		}
		powered, err := d.sync(fmt.Sprintf("/proc/%d/fd/%d", call.pid, call.args[0]))
		if err != nil && ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&call.id)) == nil {
			return fmt.Errorf("note a sync: %w", err)
		}
		if !powered {
			continue // the call never returns, because the power is cut
		}
		answer := reply{id: call.id}
		_ = ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&answer)) // the thread may have ended
	}
}

func ioctl(fd int, request uint, data unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(data)); errno != 0 {
		return errno
	}
	return nil
}
