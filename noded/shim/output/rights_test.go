package output

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/jobspec/lossy"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/shim/shimtest"
)

// logsOf opens logs as the shim does, without anything to scan.
func logsOf(t *testing.T, dir string, cfg container.LogFiles, u container.User, policies ...container.Policy) (*Logs,
	error) {
	t.Helper()
	s, err := NewScanner(t.TempDir(), container.Settings{Policies: policies})
	check(t, err)
	return Open(dir, cfg, u, s.Task(""), nil)
}

// TestALogPathIsOpenedAsTheUser notices the planted bug "a log path is opened as root": by a path
// where the user may not write, by links, by the directories that are made, and by the rotation.
func TestALogPathIsOpenedAsTheUser(t *testing.T) {
	needsRoot(t)
	base := openTempDir(t)
	own := filepath.Join(base, "own")
	check(t, os.Mkdir(own, 0o755))
	check(t, os.Chown(own, shimtest.UID, shimtest.GID))
	check(t, os.WriteFile(base+"/roots", []byte("root's\n"), 0o600))
	check(t, os.Symlink(base+"/roots", own+"/link"))
	check(t, os.Symlink(base+"/made", own+"/dangling"))
	check(t, unix.Mkfifo(own+"/fifo", 0o666))
	check(t, os.Chmod(own+"/fifo", 0o666))
	for _, c := range []struct{ stdout, stderr, says string }{
		{base + "/out", "", "permission denied"},
		{own + "/ok", base + "/err", "permission denied"}, // each stream
		{"", base + "/err", "permission denied"},
		{base + "/new/out", "", "permission denied"},
		{own + "/link", "", "permission denied"},
		{own + "/dangling", "", "permission denied"},
		{own + "/fifo", "", "no such device"}, // it would block: it has no reader
		{own, "", "is a directory"},
		{"/dev/null", "", "it is not a regular file"},
		{"/proc/self/oom_score_adj", "", "denied|not a regular file"},
	} {
		_, err := logsOf(t, t.TempDir(), container.LogFiles{Stdout: c.stdout, Stderr: c.stderr}, testUser)
		if err == nil || !slices.ContainsFunc(strings.Split(c.says, "|"),
			func(s string) bool { return strings.Contains(err.Error(), s) }) {
			t.Fatalf("%+v: %v", c, err) // as root the next would wait for ever
		}
	}
	if b, err := os.ReadFile(base + "/roots"); err != nil || string(b) != "root's\n" {
		t.Errorf("root's file holds %q, %v", b, err)
	}
	for _, path := range []string{"/out", "/err", "/new", "/made"} {
		if _, err := os.Lstat(base + path); err == nil {
			t.Errorf("root made %s", path)
		}
	}
	l, err := logsOf(t, t.TempDir(), container.LogFiles{Stdout: own + "/a/b/out", Join: true, MaxSize: 100, Keep: 1},
		testUser)
	check(t, err)
	for range 2 { // the second part has the file renamed
		_, err := l.Stdout.Write([]byte(strings.Repeat("x", 80)))
		check(t, err)
		time.Sleep(20 * time.Millisecond)
	}
	l.CloseContainerEnds()
	l.AwaitRest(time.Second)
	for path, mode := range map[string]uint32{"/a": unix.S_IFDIR | 0o755, "/a/b": unix.S_IFDIR | 0o755,
		"/a/b/out": unix.S_IFREG | 0o644, "/a/b/out.1": unix.S_IFREG | 0o644} {
		var st unix.Stat_t
		if err := unix.Stat(own+path, &st); err != nil || st.Uid != shimtest.UID || st.Gid != shimtest.GID ||
			st.Mode != mode {
			t.Errorf("%s is %d:%d's with mode %o, %v", path, st.Uid, st.Gid, st.Mode, err)
		}
	}
}

// TestTheRotationHasTheUsersRights notices renames as root in a directory that the user has lost.
func TestTheRotationHasTheUsersRights(t *testing.T) {
	needsRoot(t)
	base := openTempDir(t)
	check(t, os.WriteFile(base+"/out", nil, 0o666))
	check(t, os.Chmod(base+"/out", 0o666))
	if err := asUser(testUser, nil).rename(base+"/out", base+"/out.1"); !os.IsPermission(err) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(base + "/out"); err != nil {
		t.Error(err)
	}
	f, err := asUser(testUser, nil).open(base+"/out", os.O_WRONLY|os.O_APPEND)
	check(t, err)
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Error("a container inherits its log")
	}
	check(t, f.Close())
}

// TestTheDaemonsOwnLogs notices daemon's files that others may read or that a path of the user's
// reaches, and settings of the user that apply to them.
func TestTheDaemonsOwnLogs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	l, err := logsOf(t, dir, container.LogFiles{Truncate: true}, self())
	check(t, err)
	_, err = l.Stdout.Write([]byte("out"))
	check(t, err)
	_, err = l.Stderr.Write([]byte("err"))
	check(t, err)
	l.CloseContainerEnds()
	l.AwaitRest(time.Second)
	for name, text := range map[string]string{"stdout": "out", "stderr": "err"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		info, _ := os.Stat(filepath.Join(dir, name))
		if err != nil || string(b) != text || info.Mode().Perm() != 0o640 {
			t.Errorf("%s holds %q, %v, mode %v", name, b, err, info.Mode())
		}
	}
}

// TestHowStreamsAreJoined notices streams that share a file and lose lines, or that are mixed
// although a policy looks at one of them.
func TestHowStreamsAreJoined(t *testing.T) {
	dir := t.TempDir()
	l, err := logsOf(t, dir, container.LogFiles{Join: true}, self())
	check(t, err)
	if l.Stdout != l.Stderr || len(l.readEnds) != 1 {
		t.Error("joined streams have two pipes")
	}
	l.CloseContainerEnds()
	l.AwaitRest(time.Second)
	l, err = logsOf(t, dir, container.LogFiles{Join: true}, self(), container.Policy{Name: "p", Pattern: "x",
		Stream: "stderr"})
	check(t, err)
	if l.Stdout == l.Stderr || len(l.readEnds) != 2 {
		t.Error("streams that a policy separates have one pipe")
	}
	_, err = l.Stdout.Write([]byte("out\n"))
	check(t, err)
	check(t, l.Stdout.Close())
	time.Sleep(20 * time.Millisecond) // the file stays open for the other stream
	_, err = l.Stderr.Write([]byte("err\n"))
	check(t, err)
	check(t, l.Stderr.Close())
	l.AwaitRest(time.Second)
	if b, _ := os.ReadFile(filepath.Join(dir, "stdout")); string(b) != "out\nerr\n" || l.Lost().Bytes != 0 {
		t.Errorf("the file holds %q, %d bytes are lost", b, l.Lost().Bytes)
	}
	if _, err := os.Lstat(filepath.Join(dir, "stderr")); err == nil {
		t.Error("joined streams have two files")
	}
}

// TestRotationKeepsEveryLine notices the planted bug "a log rotation drops lines": the files, oldest
// first, hold exactly what was written, and each is as long as it may be.
func TestRotationKeepsEveryLine(t *testing.T) {
	for _, keep := range []int{0, 1, 3, 9} {
		dir := t.TempDir()
		path := filepath.Join(dir, "out")
		f := &rotatingFile{path: path, max: 100, keep: keep, as: rootAccess{}}
		check(t, f.open(false))
		var all strings.Builder
		for i := range 55 { // 10 bytes each: 10 lines in a file
			line := fmt.Sprintf("line %04d\n", i)
			all.WriteString(line)
			if lost := f.write([]byte(line)); lost.Bytes != 0 {
				t.Errorf("keep %d: %+v of line %d is lost", keep, lost, i)
			}
		}
		var kept string
		for i := keep; i >= 0; i-- {
			name := path
			if i > 0 {
				name = fmt.Sprintf("%s.%d", path, i)
			}
			b, err := os.ReadFile(name)
			if err != nil && i <= min(keep, 5) {
				t.Errorf("keep %d: %v", keep, err)
			}
			if len(b) != 100 && i > 0 && err == nil {
				t.Errorf("keep %d: %s has %d bytes", keep, name, len(b))
			}
			kept += string(b)
		}
		if wanted := min(550, keep*100+50); kept != all.String()[550-wanted:] {
			t.Errorf("keep %d: %d bytes are kept:\n%s", keep, len(kept), kept)
		}
		if files, _ := os.ReadDir(dir); len(files) != min(keep, 5)+1 {
			t.Errorf("keep %d: %d files", keep, len(files))
		}
		f.users = 1
		f.close()
		if _, err := f.file.Write(nil); err == nil {
			t.Errorf("keep %d: the file stays open", keep)
		}
	}
}

// TestALogGoesOn notices an older log that is emptied, one whose size is forgotten, and a part that
// is larger than a whole file and is lost.
func TestALogGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	check(t, os.WriteFile(path, []byte("old\n"), 0o600))
	open := func(truncate bool) *rotatingFile {
		f := &rotatingFile{path: path, max: 10, keep: 1, as: rootAccess{}}
		check(t, f.open(truncate))
		return f
	}
	f := open(false)
	f.write([]byte("one\n"))
	if b, _ := os.ReadFile(path); string(b) != "old\none\n" {
		t.Errorf("it holds %q", b)
	}
	f.write([]byte("two\n"))
	b, _ := os.ReadFile(path)
	older, _ := os.ReadFile(path + ".1")
	if string(b) != "two\n" || string(older) != "old\none\n" {
		t.Errorf("it holds %q, and before %q", b, older)
	}
	f = open(true)
	f.write([]byte("a part that is larger than a file\n"))
	b, _ = os.ReadFile(path)
	older, _ = os.ReadFile(path + ".1")
	if string(b) != "a part that is larger than a file\n" || string(older) != "old\none\n" { // the empty one is not kept
		t.Errorf("it holds %q, and before %q", b, older)
	}
}

// stubborn is an access that cannot rename, or not open.
type stubborn struct {
	rootAccess
	noOpen bool
}

func (stubborn) rename(string, string) error { return os.ErrPermission }

func (s stubborn) open(path string, flags int) (*os.File, error) {
	if s.noOpen {
		return nil, os.ErrPermission
	}
	return s.rootAccess.open(path, flags)
}

// TestARotationThatFailsLosesNothing notices an old file that is closed or emptied although no new
// one could be opened.
func TestARotationThatFailsLosesNothing(t *testing.T) {
	for _, keep := range []int{0, 1} {
		path := filepath.Join(t.TempDir(), "out")
		f := &rotatingFile{path: path, max: 5, keep: keep, as: stubborn{}}
		check(t, f.open(false))
		f.as = stubborn{noOpen: keep == 0}
		for _, s := range []string{"one\n", "two\n", "three\n"} {
			if lost := f.write([]byte(s)); lost.Bytes != 0 {
				t.Errorf("keep %d: %+v is lost", keep, lost)
			}
		}
		if b, _ := os.ReadFile(path); string(b) != "one\ntwo\nthree\n" {
			t.Errorf("keep %d: it holds %q", keep, b)
		}
	}
}

// TestAFullDiskIsToldInTheLog notices lost output that is neither counted nor told.
func TestAFullDiskIsToldInTheLog(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	check(t, err)
	path := filepath.Join(t.TempDir(), "out")
	f := &rotatingFile{path: path, max: 1 << 20, as: rootAccess{}, file: full, out: lossy.Writer{To: full}}
	if lost := f.write([]byte("12345")); lost.Bytes != 5 || lost.Errno != int(unix.ENOSPC) {
		t.Errorf("%+v of 5 bytes are lost", lost)
	}
	if lost := f.write([]byte("678")); lost.Bytes != 3 {
		t.Errorf("%+v of 3 bytes are lost", lost)
	}
	check(t, f.open(false)) // now there is room
	if lost := f.write([]byte("rest\n")); lost.Bytes != 0 {
		t.Errorf("%+v is lost", lost)
	}
	f.write([]byte("more\n"))
	b, _ := os.ReadFile(path)
	if string(b) != "[rota: 8 bytes of output lost: no space left on device]\nrest\nmore\n" || f.size != int64(len(b)) {
		t.Errorf("it holds %q, its size is taken for %d", b, f.size)
	}
}

// TestOutputHasTheUmaskOfTheJob notices files and directories whose mode is that of another umask: of this
// process, or of another job. The mask of this process stays.
func TestOutputHasTheUmaskOfTheJob(t *testing.T) {
	needsRoot(t)
	before := unix.Umask(0o027)
	defer unix.Umask(before)
	base := openTempDir(t)
	check(t, os.Chmod(base, 0o777))
	masks := []uint32{0o077, 0o002, 0, 0o022, 0o777}
	for i, umask := range append(masks, 0o022) {
		given := &umask
		if i == len(masks) {
			given = nil
		}
		dir := filepath.Join(base, fmt.Sprint(i))
		f, err := asUser(testUser, given).open(dir+"/out", os.O_WRONLY|os.O_CREATE)
		if umask == 0o777 { // the user has made a directory that it may not enter
			if !os.IsPermission(err) {
				t.Errorf("umask %04o: %v", umask, err)
			}
		} else {
			check(t, err)
			check(t, f.Close())
		}
		for path, mode := range map[string]os.FileMode{dir: os.ModeDir | 0o777, dir + "/out": 0o666} {
			info, err := os.Lstat(path)
			if umask == 0o777 && path != dir {
				continue
			}
			if want := mode &^ os.FileMode(umask); err != nil || info.Mode() != want {
				t.Errorf("umask %04o: %s has mode %v, want %v, %v", umask, path, info.Mode(), want, err)
			}
		}
	}
	if now := unix.Umask(0o027); now != 0o027 {
		t.Errorf("this process has umask %04o now", now)
	}
}
