package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// threadStatus returns a line of the calling thread's status.
func threadStatus(name string) (string, error) {
	b, err := os.ReadFile("/proc/thread-self/status")
	_, rest, _ := strings.Cut(string(b), "\n"+name+":\t")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.Join(strings.Fields(line), " "), err
}

// TestRightsOfAUserAreTheUsersAlone notices rights that keep a part of root's: group root, root's
// other groups, or its capabilities over files.
func TestRightsOfAUserAreTheUsersAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("taking on a user's rights needs root")
	}
	type rights struct{ UID, GID, Groups, Caps string }
	now := func() (r rights, err error) {
		var errs [4]error
		r.UID, errs[0] = threadStatus("Uid")
		r.GID, errs[1] = threadStatus("Gid")
		r.Groups, errs[2] = threadStatus("Groups")
		r.Caps, errs[3] = threadStatus("CapEff")
		return r, errors.Join(errs[:]...)
	}
	before, err := now()
	if err != nil {
		t.Fatal(err)
	}
	got, err := AsUser(User{UID: 23456, GID: 23457, GIDs: []uint32{24000}}, now)
	if err != nil {
		t.Fatal(err)
	}
	var caps uint64
	if _, err := fmt.Sscanf(got.Caps, "%x", &caps); err != nil {
		t.Fatal(err)
	}
	const overFiles = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_FOWNER | 1<<unix.CAP_CHOWN
	groups := strings.Fields(got.Groups)
	slices.Sort(groups)
	if got.UID != "0 0 0 23456" || got.GID != "0 0 0 23457" || caps&overFiles != 0 ||
		!reflect.DeepEqual(groups, []string{"23457", "24000"}) {
		t.Errorf("rights %+v", got)
	}
	// Threads of this process keep their own.
	for range 20 {
		if after, err := now(); err != nil || after != before {
			t.Errorf("then %+v, %v; before %+v", after, err, before)
		}
	}
}

// TestFilesAreOpenedBelowTheirDirectory notices a link or a path that leads out of the directory,
// and a file that only root may read.
func TestFilesAreOpenedBelowTheirDirectory(t *testing.T) {
	base := t.TempDir()
	for d := base; strings.HasPrefix(d, os.TempDir()+"/"); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(base, "dir")
	if err := errors.Join(os.MkdirAll(dir+"/in", 0o755), os.WriteFile(base+"/outside", nil, 0o644),
		os.WriteFile(dir+"/in/file", []byte("text"), 0o644), os.WriteFile(dir+"/roots", nil, 0o600),
		os.Symlink("in", dir+"/near"), os.Symlink(dir+"/in", dir+"/absolute"), os.Symlink("..", dir+"/up"),
		os.Symlink("/proc/self/fd", dir+"/magic"), unix.Mkfifo(dir+"/pipe", 0o644)); err != nil {
		t.Fatal(err)
	}
	user := User{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	if user.UID == 0 {
		user = User{UID: 23456, GID: 23457}
	}
	for path, want := range map[string]bool{
		"in/file": true, "near/file": true, "absolute/file": false, "up/outside": false, "../outside": false,
		"/etc/passwd": false, "in": false, "pipe": false, "none": false, "magic/0": false,
		"roots": os.Getuid() != 0,
	} {
		f, err := OpenBeneath(dir, path, user)
		if (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
		if err != nil {
			continue
		}
		if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("%s is inherited: %x, %v", path, flags, err)
		}
		f.Close()
	}
}

// TestRightsThatAreNotTakenAreAnError notices a file that is opened as root because the kernel, which
// reports no error for these calls, has not changed the rights.
func TestRightsThatAreNotTakenAreAnError(t *testing.T) {
	id := uint32(os.Getuid()) + 23456
	errs := make(chan error, 3)
	go func() {
		runtime.LockOSThread() // the thread has no capabilities from now on, and ends with this goroutine
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&head, &none[0]); err != nil {
			t.Error(err)
		}
		errs <- setFilesystemID(unix.SYS_SETFSUID, id)
		errs <- setFilesystemID(unix.SYS_SETFSGID, id)
		errs <- User{UID: id, GID: id}.TakeRights()
	}()
	for i := range 3 {
		if err := <-errs; err == nil {
			t.Errorf("call %d says that it has changed the rights", i)
		}
	}
}

// TestAPipeIsNotWaitedFor notices a daemon that waits for the writer of a job's pipe.
func TestAPipeIsNotWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
	me := User{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	done := make(chan error, 2)
	go func() {
		_, err := OpenAs(path, &me)
		done <- err
		_, err = OpenBeneath(filepath.Dir(path), "pipe", me)
		done <- err
	}()
	for range 2 {
		select {
		case err := <-done:
			if !errors.Is(err, ErrNotRegular) {
				t.Errorf("got %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("it waits")
		}
	}
}
