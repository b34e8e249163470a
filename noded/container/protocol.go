package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api/clock"
	"github.com/rota-hpc/rota/jobspec/lossy"
)

// Op is what the daemon orders a shim to do.
type Op string

// The orders. OpCreate is the first on the socket that a shim is started with, and is never sent
// again.
const (
	OpCreate Op = "create"
	OpStart  Op = "start"
	OpSignal Op = "signal"
	OpKill   Op = "kill"
	OpRenew  Op = "renew"
	OpStatus Op = "status"
	OpSwitch Op = "switch"
	OpSave   Op = "save"
	// OpPlainSignal is a signal that neither stops nor tells anything. It has a name of its own, so that a
	// shim that does not know it refuses it, and takes it for none of the others.
	OpPlainSignal Op = "plain-signal"
	// OpExtend is OpRenew for a container that has a lease which ends earlier.
	OpExtend Op = "extend"
)

// Order is one line of JSON to a shim.
type Order struct {
	Op     Op     `json:"op"`
	Dir    string `json:"dir,omitempty"`    // of the container, with OpCreate
	Lease  int64  `json:"lease,omitempty"`  // its end, CLOCK_BOOTTIME in ns, with OpCreate, OpRenew and OpExtend
	Signal int    `json:"signal,omitempty"` // with OpSignal and OpPlainSignal, and the next two: see [Signal]
	To     string `json:"to,omitempty"`
	Early  bool   `json:"early,omitempty"`

	Switch *SwitchOrder `json:"switch,omitempty"` // with OpSwitch
	Save   *SaveOrder   `json:"save,omitempty"`   // with OpSave
}

// Answer is one line of JSON from a shim, one for every order. One with Changed or Exited set comes
// without an order. One with Exited is the last.
type Answer struct {
	State  State  `json:"state,omitempty"`
	Pid    int    `json:"pid,omitempty"`
	Error  string `json:"error,omitempty"`
	Final  bool   `json:"final,omitempty"` // of an Error: repeating the order would not help
	Exited bool   `json:"exited,omitempty"`

	Changed bool      `json:"changed,omitempty"`
	Switch  Switching `json:"switch"`
	Save    Saving    `json:"save"`
	Extern  Spent     `json:"extern,omitzero"`

	Lost lossy.Loss `json:"lost,omitzero"` // output that could not be written by now
}

// BootTime returns the time on CLOCK_BOOTTIME in nanoseconds. That clock goes on while the machine
// is suspended.
func BootTime() int64 { return clock.Boot().Nanoseconds() }

// Process identifies a process, even after its number was given to another one or the machine was
// rebooted.
type Process struct {
	Pid    int    `json:"pid"`
	Start  uint64 `json:"start"` // clock ticks since boot
	BootID string `json:"boot_id"`
}

// FindProcess returns the identity of the process that now has pid.
func FindProcess(pid int) (Process, error) {
	start, _, err := processStat(pid)
	if err != nil {
		return Process{}, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return Process{Pid: pid, Start: start, BootID: strings.TrimSpace(string(boot))}, err
}

// Alive reports whether the process still runs. A process that waits to be reaped does not.
func (p Process) Alive() bool {
	now, err := FindProcess(p.Pid)
	if err != nil || now != p {
		return false
	}
	_, state, err := processStat(p.Pid)
	return err == nil && state != "Z" && state != "X"
}

// processStat reads start time and state. The name in the second field may hold spaces and
// brackets, so fields are counted from its end.
func processStat(pid int) (start uint64, state string, err error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, "", err
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 20 {
		return 0, "", fmt.Errorf("process %d: stat has %d fields", pid, len(fields))
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	return start, fields[0], err
}

// WriteProcess writes the identity of the container's shim into dir.
func WriteProcess(dir string, p Process) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, pidFile), 0o600, b)
}

func readProcess(dir string) (Process, error) {
	var p Process
	err := readJSON(filepath.Join(dir, pidFile), &p)
	return p, err
}

// exitRoom is reserved on disk for the exit record from the start, in bytes, so that a full disk
// cannot lose it.
const (
	exitRoom     = 1024
	exitTaskRoom = 192 // for each task
)

// ReserveExit reserves disk space for the exit record of the worker in dir, which has the given
// number of tasks.
func ReserveExit(dir string, tasks int) error {
	room := []byte(strings.Repeat(" ", exitRoom+exitTaskRoom*tasks))
	if err := writeFile(filepath.Join(dir, exitFile+".tmp"), 0o600, nil, room); err != nil {
		return fmt.Errorf("reserve disk space for the exit record: %w", err)
	}
	return nil
}

func exitPath(dir string) string { return filepath.Join(dir, exitFile) }

// WriteExit writes the exit record into the space that ReserveExit made, syncs it and renames it.
func WriteExit(dir string, e Exit) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, exitFile)
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("write exit record: %w", err)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err != nil {
		return fmt.Errorf("write exit record: %w", err)
	}
	return nil
}

// ReadExit reads the exit record of the container in dir. The error is os.ErrNotExist if there is
// none.
func ReadExit(dir string) (*Exit, error) {
	b, err := os.ReadFile(filepath.Join(dir, exitFile))
	if err != nil {
		return nil, err
	}
	var e Exit
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, fmt.Errorf("exit record is damaged: %w", err)
	}
	return &e, nil
}

// SocketAddress returns the address of the shim's socket in dir. It goes by an open descriptor of
// dir, because the path of a socket may have 107 bytes only.
func SocketAddress(dir *os.File) string { return socketAddress(dir, socketFile) }

func socketAddress(dir *os.File, name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
}

// ListenSocket opens the shim's socket in dir, for root alone.
func ListenSocket(dir string) (net.Listener, error) {
	l, err := listenIn(dir, socketFile, nil)
	if err != nil {
		return nil, fmt.Errorf("listen for the node daemon: %w", err)
	}
	return l, nil
}

// listenIn opens a socket in dir that only this process's user may connect to, or the one that is
// named. It gets its name once it takes connections: a daemon that finds one that refuses them takes
// its shim for dead. One of an earlier shim is replaced.
func listenIn(dir, name string, user *User) (net.Listener, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	fresh := socketAddress(d, name+".new")
	if err := removeFile(fresh); err != nil {
		return nil, err
	}
	private := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { // the file takes the socket's mode
		var err error
		return errors.Join(c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }), err)
	}}
	l, err := private.Listen(context.Background(), "unix", fresh)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // the address is invalid once d is closed
	if user != nil && os.Geteuid() == 0 {
		err = os.Chown(fresh, int(user.UID), int(user.GID))
	}
	if err == nil {
		err = os.Rename(fresh, socketAddress(d, name))
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// RemoveSocket deletes a socket that an earlier shim left in dir.
func RemoveSocket(dir string) error { return removeFile(filepath.Join(dir, socketFile)) }

// RemoveProcess deletes the shim's identity: from then on there is no container in dir.
func RemoveProcess(dir string) error { return removeFile(filepath.Join(dir, pidFile)) }
