package shim

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// other is an account that owns nothing here.
var other = container.User{UID: 23456, GID: 23457, GIDs: []uint32{24000}}

// reachable makes a directory that every account may enter, and skips the test without root.
func reachable(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	dir := t.TempDir()
	for d := dir; strings.HasPrefix(d, os.TempDir()+"/"); d = filepath.Dir(d) {
		must(t, os.Chmod(d, 0o755))
	}
	return dir
}

func noScan(t *testing.T) *taskScanner {
	t.Helper()
	s, err := newOutputScanner(t.TempDir(), container.Settings{})
	must(t, err)
	return s.task("")
}

// TestLogPathsAreOpenedWithTheUsersRights notices a log path that is opened as root: a job could
// write into any file of the machine.
func TestLogPathsAreOpenedWithTheUsersRights(t *testing.T) {
	dir := reachable(t)
	roots := filepath.Join(dir, "roots")
	must(t, os.WriteFile(roots, []byte("root's\n"), 0o600))
	for _, c := range []container.LogFiles{
		{Stdout: filepath.Join(dir, "new")}, {Stderr: filepath.Join(dir, "new")},
		{Stdout: filepath.Join(dir, "folder", "new"), Join: true},
		{Stdout: roots, Join: true}, {Stdout: roots, Join: true, Truncate: true}, {Stderr: roots, Truncate: true},
	} {
		l, err := openLogs(filepath.Join(dir, "daemons"), c, other, noScan(t))
		if !errors.Is(err, os.ErrPermission) {
			t.Errorf("%+v: opened, %v", c, err)
		}
		if err == nil {
			l.closeContainerEnds()
			l.awaitRest(time.Second)
		}
	}
	for _, name := range []string{"new", "folder"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("root made %s where the user may not write", name)
		}
	}
	if b, err := os.ReadFile(roots); err != nil || string(b) != "root's\n" {
		t.Errorf("root's file holds %q, %v", b, err)
	}
}

// TestLogPathsAreRotatedWithTheUsersRights notices a log that root renames: a job could move files
// in directories of others.
func TestLogPathsAreRotatedWithTheUsersRights(t *testing.T) {
	dir := reachable(t)
	path := filepath.Join(dir, "out")
	must(t, os.WriteFile(path, nil, 0o644))
	must(t, os.Chown(path, int(other.UID), int(other.GID)))
	r := &rotatingFile{path: path, max: 10, keep: 2, as: userAccess{other}}
	must(t, r.open(false))
	for range 3 {
		if lost := r.write([]byte("12345678\n")); lost != 0 {
			t.Errorf("%d bytes are lost", lost)
		}
	}
	if _, err := os.Lstat(path + ".1"); err == nil {
		t.Error("root renamed the file")
	}
	if b, _ := os.ReadFile(path); len(b) != 27 {
		t.Errorf("the file has %d bytes", len(b))
	}
}

// TestNewLogsBelongToTheUser notices a log of a job that others own or may write.
func TestNewLogsBelongToTheUser(t *testing.T) {
	dir := reachable(t)
	must(t, os.Chown(dir, int(other.UID), int(other.GID)))
	old := unix.Umask(0)
	defer unix.Umask(old)
	path := filepath.Join(dir, "made", "out")
	f, err := (userAccess{other}).open(path, os.O_WRONLY|os.O_CREATE)
	must(t, err)
	f.Close()
	for name, mode := range map[string]uint32{path: 0o644, filepath.Dir(path): 0o755} {
		var st unix.Stat_t
		must(t, unix.Stat(name, &st))
		if st.Uid != other.UID || st.Gid != other.GID || st.Mode&0o7777 != mode {
			t.Errorf("%s is of %d:%d with mode %o", name, st.Uid, st.Gid, st.Mode)
		}
	}
}

// TestTheDaemonsLogsAreItsOwn notices output of jobs that every account may read or write.
func TestTheDaemonsLogsAreItsOwn(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	path := filepath.Join(t.TempDir(), "log", "stdout")
	f, err := (rootAccess{}).open(path, os.O_WRONLY|os.O_CREATE)
	must(t, err)
	f.Close()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestOnlyRegularFilesAreLogs notices a log path that leads to a pipe or to a file of the kernel:
// writing to a pipe that is not read would block the shim, and the kernel's files show root's process.
func TestOnlyRegularFilesAreLogs(t *testing.T) {
	dir := t.TempDir()
	me := container.User{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	read, unread := filepath.Join(dir, "read"), filepath.Join(dir, "unread")
	must(t, errors.Join(unix.Mkfifo(read, 0o600), unix.Mkfifo(unread, 0o600)))
	reader, err := os.OpenFile(read, os.O_RDONLY|unix.O_NONBLOCK, 0)
	must(t, err)
	defer reader.Close()
	for _, path := range []string{read, "/proc/self/comm", os.DevNull} {
		if _, err := (userAccess{me}).open(path, os.O_WRONLY); !errors.Is(err, container.ErrNotRegular) {
			t.Errorf("%s: %v", path, err)
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := (userAccess{me}).open(unread, os.O_WRONLY)
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, unix.ENXIO) {
			t.Errorf("a pipe without a reader: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the shim waits for a reader")
	}
}

// TestTheDaemonsLogIsNoPlaceOfTheUsers notices a file of the daemon's that is opened with the rights
// of a user, because the other stream goes to the user's path: it would belong to the user.
func TestTheDaemonsLogIsNoPlaceOfTheUsers(t *testing.T) {
	dir := reachable(t)
	must(t, errors.Join(os.Mkdir(dir+"/theirs", 0o755), os.Chown(dir+"/theirs", int(other.UID), int(other.GID))))
	l, err := openLogs(dir+"/daemons", container.LogFiles{Stderr: dir + "/theirs/err"}, other, noScan(t))
	must(t, err)
	l.closeContainerEnds()
	l.awaitRest(time.Second)
	for path, uid := range map[string]uint32{dir + "/daemons/stdout": 0, dir + "/theirs/err": other.UID} {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil || st.Uid != uid {
			t.Errorf("%s is of %d, %v", path, st.Uid, err)
		}
	}
}
