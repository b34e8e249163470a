package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const testUID, testGID, testGroup = 23456, 23457, 24000

var testUser = User{UID: testUID, GID: testGID, GIDs: []uint32{testGroup}}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// openTempDir returns a directory of the test that every user can reach.
func openTempDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		check(t, os.Chmod(d, 0o755))
	}
	return dir
}

// TestTheRightsOfAUser notices the planted bug "a job gets group root" on the daemon's side: a group
// of root's that stays, a group of the user's that is missing, and rights that a thread keeps.
func TestTheRightsOfAUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("taking on a user's rights needs root")
	}
	dir := openTempDir(t)
	for name, c := range map[string]struct {
		gid  int
		mode os.FileMode
		want bool
	}{"root's group": {0, 0o640, false}, "own group": {testGID, 0o640, true}, "second group": {testGroup, 0o640, true},
		"other group": {testGroup + 1, 0o640, false}, "all": {0, 0o604, true}} {
		path := filepath.Join(dir, name)
		check(t, os.WriteFile(path, nil, 0o600))
		check(t, os.Chown(path, 0, c.gid))
		check(t, os.Chmod(path, c.mode))
		f, err := OpenAs(path, &testUser)
		if (err == nil) != c.want {
			t.Errorf("a file for %s: %v", name, err)
		}
		if err == nil {
			if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Error("a shim inherits what is read")
			}
			f.Close()
		}
		f, err = OpenAs(path, nil)
		check(t, err)
		f.Close()
	}
	check(t, os.Mkdir(dir+"/open", 0o777))
	check(t, os.Chmod(dir+"/open", 0o777))
	_, err := AsUser(testUser, func() (struct{}, error) { return struct{}{}, os.WriteFile(dir+"/open/made", nil, 0o600) })
	check(t, err)
	var st unix.Stat_t
	check(t, unix.Stat(dir+"/open/made", &st))
	if st.Uid != testUID || st.Gid != testGID {
		t.Errorf("what the user makes is %d:%d's", st.Uid, st.Gid)
	}
	for range 50 { // no goroutine gets the thread of a user
		check(t, os.WriteFile(dir+"/roots", nil, 0o600))
		check(t, os.Remove(dir+"/roots"))
	}
	none := User{UID: testUID, GID: testGID}
	if f, err := OpenAs(filepath.Join(dir, "second group"), &none); err == nil {
		f.Close()
		t.Error("a user without a second group has one")
	}
}

// TestOpenBeneath notices a link that leads root out of a job's directory, one into /proc, and a
// pipe that is waited for.
func TestOpenBeneath(t *testing.T) {
	dir := openTempDir(t)
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	check(t, os.MkdirAll(in+"/sub", 0o755))
	for _, path := range []string{in + "/file", in + "/sub/file", out} {
		check(t, os.WriteFile(path, []byte("text"), 0o644))
	}
	check(t, os.WriteFile(in+"/roots", nil, 0o600))
	check(t, os.Symlink("sub/file", in+"/good"))
	check(t, os.Symlink("../out", in+"/up"))
	check(t, os.Symlink(in+"/file", in+"/absolute"))
	check(t, os.Symlink("/proc/self/maps", in+"/proc"))
	check(t, unix.Mkfifo(in+"/fifo", 0o666))
	check(t, os.Chmod(in+"/fifo", 0o666))
	user := User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	if os.Geteuid() == 0 {
		user = testUser
	}
	for path, want := range map[string]bool{"file": true, "sub/file": true, "good": true, "sub/../file": true,
		"up": false, "../out": false, "absolute": false, out: false, "proc": false, "fifo": false, "sub": false,
		"none": false, "roots": user.UID != testUID} {
		f, err := OpenBeneath(in, path, user)
		if (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
		if err == nil {
			if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("%s: a shim inherits it", path)
			}
			f.Close()
		}
	}
	if _, err := OpenBeneath(in+"/none", "file", user); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is missing: %v", err)
	}
}

// TestBootTimeCountsSleep notices a clock that stands still while the machine is suspended. In a name
// space for time of its own, the two clocks differ as after a suspension.
func TestBootTimeCountsSleep(t *testing.T) {
	if os.Getenv("ROTA_TEST_BOOTTIME") != "" {
		fmt.Printf("boot time %d\n", BootTime()/int64(time.Second))
		return
	}
	self, err := os.Executable()
	check(t, err)
	cmd := exec.Command("unshare", "--time", "--boottime", "1000000", "--fork", self, "-test.run",
		"^TestBootTimeCountsSleep$")
	cmd.Env = append(os.Environ(), "ROTA_TEST_BOOTTIME=1")
	out, err := cmd.CombinedOutput()
	if err != nil && !strings.Contains(string(out), "boot time") {
		t.Skipf("no name space for time can be made here: %v, %s", err, out)
	}
	var seconds int64
	_, rest, _ := strings.Cut(string(out), "boot time ")
	_, err = fmt.Sscanf(rest, "%d", &seconds)
	check(t, err)
	var now unix.Timespec
	check(t, unix.ClockGettime(unix.CLOCK_BOOTTIME, &now))
	if off := seconds - now.Sec - 1_000_000; off < -60 || off > 60 {
		t.Errorf("it is off by %d s", off)
	}
}

// TestWhichProcessItIs notices a process that is taken for another one: of the same number, before a
// reboot (the node's boot id), or after it has ended.
func TestWhichProcessItIs(t *testing.T) {
	p, err := FindProcess(os.Getpid())
	check(t, err)
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	check(t, err)
	if p.Pid != os.Getpid() || p.BootID != strings.TrimSpace(string(boot)) || p.Start == 0 || !p.Alive() {
		t.Errorf("this process is %+v", p)
	}
	for name, edit := range map[string]func(*Process){"before a reboot": func(p *Process) { p.BootID = "other" },
		"without a boot id": func(p *Process) { p.BootID = "" }, "started later": func(p *Process) { p.Start++ },
		"another": func(p *Process) { p.Pid = 1 }, "none": func(p *Process) { p.Pid = 1 << 23 }} {
		other := p
		edit(&other)
		if other.Alive() {
			t.Errorf("a process %s is alive", name)
		}
	}
	cmd := exec.Command("/bin/sleep", "100")
	check(t, cmd.Start())
	child, err := FindProcess(cmd.Process.Pid)
	check(t, err)
	if !child.Alive() {
		t.Error("a child that runs is dead")
	}
	check(t, cmd.Process.Kill())
	for deadline := time.Now().Add(10 * time.Second); child.Alive(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a child that waits to be reaped is alive")
		}
	}
	_ = cmd.Wait() // it was killed
	if child.Alive() {
		t.Error("a child that was reaped is alive")
	}
	dir := t.TempDir()
	check(t, WriteProcess(dir, p))
	if got, err := readProcess(dir); err != nil || got != p {
		t.Errorf("read back: %+v, %v", got, err)
	}
	check(t, RemoveProcess(dir))
	check(t, RemoveProcess(dir))
	if _, err := readProcess(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed: %v", err)
	}
}

// TestABundleIsItsUsersAndRoots notices files of a bundle that other users may read, such as a
// script, and ones that the job may change.
func TestABundleIsItsUsersAndRoots(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "1.1.0")
	owner, root := testUser, User{}
	if os.Geteuid() != 0 {
		owner = User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
		root = owner
	}
	b := Bundle{Settings: Settings{ID: ID{Job: 1, Attempt: 1}, User: owner, Tasks: []Task{{Name: "a"}, {Name: "b"}}},
		Limits: 7, Tasks: []TaskBundle{{Config: "c", Plan: "p", Script: "echo a"}, {Script: "echo b"}}}
	old := unix.Umask(0)
	defer unix.Umask(old)
	for range 2 { // it may be written again
		check(t, WriteBundle(dir, b))
	}
	type file struct {
		owner User
		mode  uint32
		text  string
	}
	for name, want := range map[string]file{
		"shim.json": {root, 0o600, ""}, "limits.json": {root, 0o600, "7"}, "tasks/0/config.json": {root, 0o600, `"c"`},
		"tasks/0/run/launch.json": {owner, 0o400, `"p"`}, "tasks/0/run/script": {owner, 0o500, "echo a"},
		"tasks/1/run/script": {owner, 0o500, "echo b"}, "tasks/0/progress/progress.jsonl": {owner, 0o644, ""},
		"tasks/0/run/init": {root, 0o644, ""},
	} {
		path := filepath.Join(dir, name)
		var st unix.Stat_t
		check(t, unix.Stat(path, &st))
		text, err := os.ReadFile(path)
		if err != nil || st.Uid != want.owner.UID || st.Gid != want.owner.GID || st.Mode&0o7777 != want.mode ||
			name != "shim.json" && string(text) != want.text {
			t.Errorf("%s holds %q of %d:%d with mode %o, %v", name, text, st.Uid, st.Gid, st.Mode&0o7777, err)
		}
	}
	for _, name := range []string{"tasks/0/run", "tasks/0/run/secrets", "shm"} { // the job must not add to them
		var st unix.Stat_t
		check(t, unix.Stat(filepath.Join(dir, name), &st))
		if st.Uid != root.UID || st.Gid != root.GID || st.Mode&0o7777 != 0o755 {
			t.Errorf("%s is %d:%d's with mode %o", name, st.Uid, st.Gid, st.Mode&0o7777)
		}
	}
	got, err := ReadSettings(dir)
	if err != nil || got.User.UID != owner.UID || len(got.Tasks) != 2 {
		t.Errorf("settings %+v, %v", got, err)
	}
	if _, err := ReadSettings(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without settings: %v", err)
	}
	n := Notice{Reason: "preempt", Deadline: "soon", Attempt: 1, Signal: "SIGTERM"}
	check(t, WriteNotice(dir, n))
	for i := range 2 { // each task hears of it
		raw, err := os.ReadFile(filepath.Join(RunDir(TaskDir(dir, i)), "notice.json"))
		check(t, err)
		var read Notice
		if err := json.Unmarshal(raw, &read); err != nil || read != n {
			t.Errorf("task %d reads %s", i, raw)
		}
		if left, _ := filepath.Glob(RunDir(TaskDir(dir, i)) + "/*.tmp"); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

// TestTheExitRecordHasItsSpace notices a record that a full disk could lose, and one that is read half.
func TestTheExitRecordHasItsSpace(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadExit(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a record: %v", err)
	}
	const tasks = 16
	check(t, ReserveExit(dir, tasks))
	if _, err := ReadExit(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reserved: %v", err)
	}
	info, err := os.Stat(filepath.Join(dir, "exit.json.tmp"))
	check(t, err)
	long := Exit{Code: 255, Signal: 64, OOM: true, Lease: true, UserMS: 1 << 60, SystemMS: 1 << 60, PeakMem: 1 << 60,
		Ended: 1 << 60, LogLost: 1 << 60, Extern: Spent{UserMS: 1 << 60, SystemMS: 1 << 60, PeakMem: 1 << 60},
		Why: strings.Repeat("w", 128)}
	for range tasks {
		long.Tasks = append(long.Tasks, TaskExit{Name: strings.Repeat("n", 64), Begun: true, Code: 255, Signal: 64,
			OOM: true})
	}
	raw, err := json.Marshal(long)
	check(t, err)
	if int64(len(raw)) > info.Size() {
		t.Errorf("a record of %d bytes has space for %d", len(raw), info.Size())
	}
	check(t, WriteExit(dir, Exit{Code: 3}))
	if now, err := os.Stat(filepath.Join(dir, "exit.json")); err != nil || now.Size() != info.Size() {
		t.Errorf("it is not in the space that was reserved: %v, %v", now, err)
	}
	got, err := ReadExit(dir)
	if err != nil || got.Code != 3 {
		t.Errorf("read %+v, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "exit.json.tmp")); err == nil {
		t.Error("the space is still there")
	}
	check(t, os.WriteFile(filepath.Join(dir, "exit.json"), []byte(`{"code":3`), 0o600))
	if _, err := ReadExit(dir); err == nil || !strings.Contains(err.Error(), "exit record is damaged") {
		t.Errorf("half a record: %v", err)
	}
	if err := WriteExit(filepath.Join(dir, "none"), Exit{}); err == nil || !strings.Contains(err.Error(),
		"write exit record") {
		t.Errorf("without a directory: %v", err)
	}
	if err := ReserveExit(filepath.Join(dir, "none"), 1); err == nil {
		t.Error("space is reserved in no directory")
	}
}

// TestNoCgroupIsAllOfThem notices settings without a cgroup that have every process of the machine
// killed.
func TestNoCgroupIsAllOfThem(t *testing.T) {
	for _, cgroup := range []string{"", "/"} {
		if dirs := cgroupDirs(cgroup); len(dirs) > 0 {
			t.Errorf("%q: %v", cgroup, dirs)
		}
	}
}

// TestDeadlinesOnTheBootClock notices a lease that is off, or one without end that ends.
func TestDeadlinesOnTheBootClock(t *testing.T) {
	if got := bootDeadline(time.Time{}); got != 0 {
		t.Errorf("no deadline is %d", got)
	}
	for _, d := range []time.Duration{time.Minute, -time.Minute} {
		if off := bootDeadline(time.Now().Add(d)) - BootTime() - int64(d); off < -int64(time.Second) ||
			off > int64(time.Second) {
			t.Errorf("in %v: off by %v", d, time.Duration(off))
		}
	}
}

// TestSharedMemoryRunsNoPrograms notices a mount in which set-uid programs or devices work, and an
// unmount that follows a link.
func TestSharedMemoryRunsNoPrograms(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	check(t, os.Mkdir(ShmDir(dir), 0o755))
	check(t, UnmountShm(dir)) // nothing is mounted
	for _, size := range []int64{64 << 20, 0} {
		check(t, MountShm(dir, size))
		var fs unix.Statfs_t
		check(t, unix.Statfs(ShmDir(dir), &fs))
		if flags := fs.Flags & (unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC); fs.Type != unix.TMPFS_MAGIC ||
			flags != unix.ST_NOSUID|unix.ST_NODEV|unix.ST_NOEXEC {
			t.Errorf("type %x, flags %x", fs.Type, fs.Flags)
		}
		if got := int64(fs.Blocks) * fs.Bsize; got != max(size, 1<<20) {
			t.Errorf("%d bytes, not %d", got, size)
		}
		info, err := os.Stat(ShmDir(dir))
		if err != nil || info.Mode() != os.ModeDir|os.ModeSticky|0o777 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
	}
	other := t.TempDir()
	check(t, os.Symlink(ShmDir(dir), ShmDir(other)))
	check(t, UnmountShm(other))
	mounts := func() int {
		b, err := os.ReadFile("/proc/self/mounts")
		check(t, err)
		return strings.Count(string(b), " "+ShmDir(dir)+" ")
	}
	if n := mounts(); n != 1 {
		t.Errorf("%d mounts, although a link leads there", n)
	}
	check(t, UnmountShm(dir))
	if n := mounts(); n != 0 {
		t.Errorf("%d mounts are left", n)
	}
}

// TestTheCopyOfTheShimIsSealed notices a copy in memory that a job could change through a descriptor,
// as in CVE-2019-5736.
func TestTheCopyOfTheShimIsSealed(t *testing.T) {
	f, err := sealedCopy("/bin/true")
	check(t, err)
	defer f.Close()
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil || seals != unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE {
		t.Errorf("seals %x, %v", seals, err)
	}
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("it can be written")
	}
	if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Error("shims inherit it")
	}
	if info, err := f.Stat(); err != nil || info.Mode().Perm() != 0o511 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if f, err := sealedCopy("/none"); err == nil {
		f.Close()
		t.Error("nothing was copied")
	}
}

// TestAShimHasASessionOfItsOwn notices a shim that gets the signals of the daemon's terminal, or its
// directory.
func TestAShimHasASessionOfItsOwn(t *testing.T) {
	p := &pool{cfg: Config{ShimPath: "/bin/cat"}}
	cmd := p.command(os.Stdin)
	if cmd.SysProcAttr == nil || !cmd.SysProcAttr.Setsid || cmd.Dir != "/" || len(cmd.ExtraFiles) != 1 {
		t.Errorf("got %+v", cmd)
	}
}

// TestWhatAnImageShows notices directories of the image that take the place of those of the system,
// and links in it that root follows.
func TestWhatAnImageShows(t *testing.T) {
	base := t.TempDir()
	image, victim := filepath.Join(base, "image"), filepath.Join(base, "victim")
	for _, d := range append([]string{"usr", "home/x"}, rootDirs...) {
		check(t, os.MkdirAll(filepath.Join(image, d), 0o755))
	}
	check(t, os.Mkdir(victim, 0o755))
	check(t, os.Symlink("usr/bin", image+"/bin"))
	check(t, os.Symlink(victim, image+"/out"))
	check(t, os.WriteFile(image+"/file", nil, 0o644))
	root, err := PrepareImageRoot(base+"/root", image, []string{"/home/x", "/new/deep"})
	check(t, err)
	want := []Bind{{image + "/home", "/home"}, {image + "/usr", "/usr"}}
	if fmt.Sprint(root.Binds) != fmt.Sprint(want) {
		t.Errorf("binds %v", root.Binds)
	}
	if to, err := os.Readlink(base + "/root/bin"); err != nil || to != "usr/bin" {
		t.Errorf("bin leads to %q, %v", to, err)
	}
	if info, err := os.Stat(base + "/root/tmp"); err != nil || info.Mode() != os.ModeDir|os.ModeSticky|0o777 {
		t.Errorf("tmp has mode %v, %v", info.Mode(), err)
	}
	if !isDir(base + "/root/new/deep") {
		t.Error("a target has no mount point")
	}
	if _, err := os.Lstat(base + "/root/file"); err == nil {
		t.Error("a plain file is shown")
	}
	for target, says := range map[string]string{"/out/made": "/out is a symbolic link in the image",
		"/bin": "/bin is a symbolic link", "/home/none": "it does not exist in " + image + "/home"} {
		_, err := PrepareImageRoot(base+"/root", image, []string{target})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", target, err)
		}
	}
	if left, _ := os.ReadDir(victim); len(left) > 0 {
		t.Errorf("root made %v where a link led", left)
	}
	check(t, os.MkdirAll(base+"/empty/proc", 0o755))
	if _, err := PrepareImageRoot(base+"/r2", base+"/empty", nil); !IsFinal(err) {
		t.Errorf("an image with nothing in it: %v", err)
	}
	if _, err := PrepareImageRoot(base+"/r2", base+"/missing", nil); !IsFinal(err) {
		t.Errorf("no image: %v", err)
	}
}

func TestSignalNumbers(t *testing.T) {
	for name, want := range map[string]int{"SIGUSR1": 10, "SIGTERM": 15, "": 15, "SIGNONE": 15, "usr1": 15} {
		if got := SignalNumber(name); got != want {
			t.Errorf("%s is %d", name, got)
		}
	}
}

// TestALiveContainerIsNotRemoved notices a container whose files are removed while it runs.
func TestALiveContainerIsNotRemoved(t *testing.T) {
	dir := t.TempDir()
	s := &Shims{cfg: Config{Dir: dir}, changes: make(chan ID, 1), links: map[ID]*shimLink{}}
	id := ID{Job: 1, Attempt: 1}
	check(t, os.MkdirAll(s.Path(id)+"/run", 0o755))
	check(t, os.MkdirAll(LogDir(s.Path(id)), 0o755))
	l := newShimLink(id, s.Path(id), Process{}, s.changed)
	s.links[id] = l
	if err := s.Remove(t.Context(), id); !errors.Is(err, ErrLive) {
		t.Errorf("it runs: %v", err)
	}
	if !isDir(s.Path(id) + "/run") {
		t.Error("its files are gone")
	}
	check(t, WriteExit(s.Path(id), Exit{Code: 4}))
	l.markEnded()
	if list, err := s.List(t.Context()); err != nil || len(list) != 1 || list[0].State != Exited ||
		list[0].Exit.Code != 4 {
		t.Errorf("list %+v, %v", list, err)
	}
	check(t, s.Remove(t.Context(), id))
	if left, _ := os.ReadDir(s.Path(id)); len(left) != 1 || left[0].Name() != logDir {
		t.Errorf("left: %v", left)
	}
	if list, _ := s.List(t.Context()); len(list) != 0 {
		t.Errorf("list %+v", list)
	}
	if err := s.Kill(t.Context(), id); !errors.Is(err, ErrUnknown) {
		t.Errorf("it is gone: %v", err)
	}
}
