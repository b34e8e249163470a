package shim

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// TestErrorsNeverShowASecret notices a secret's value in an error message, which goes to the log,
// the history and the screen of its reader.
func TestErrorsNeverShowASecret(t *testing.T) {
	const value = "hunter2"
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	good := file("good", value)
	for source, want := range map[string]string{
		file("nul", value+"\x00"): "it contains a NUL byte", file("long", strings.Repeat(value, 10_000)): "larger than",
		filepath.Join(dir, "none"): "no such file or directory", dir: "not a regular file",
		filepath.Join(good, "x"): "not a directory", "/proc/self/environ": "not a regular file",
	} {
		list := []container.Secret{{Name: "ok", Source: good}, {Name: "key", Source: source}}
		values, err := readSecrets(list, myself)
		if err == nil || values != nil {
			t.Errorf("%s is read", source)
			continue
		}
		says := err.Error()
		if strings.Contains(says, value) || strings.Contains(says, fmt.Sprintf("%x", value)) ||
			!strings.HasPrefix(says, "secret key: "+source+" cannot be read with the rights of the job's user: ") ||
			!strings.Contains(says, want) || strings.Count(says, source) != 1 || !container.IsFinal(err) {
			t.Errorf("%s: %v, final %v", source, err, container.IsFinal(err))
		}
	}
	list := []container.Secret{{Name: "key", Source: good, Target: filepath.Join(dir, "missing", "key")}}
	values, err := readSecrets(list, myself)
	must(t, err)
	err = placeSecrets(os.Getpid(), list, values, myself)
	if err == nil || strings.Contains(err.Error(), value) || !strings.HasPrefix(err.Error(), "secret key: write it") {
		t.Errorf("placed where there is no directory: %v", err)
	}
}

// TestSecretsMayHaveTheirFullSize notices a secret that is cut off, or refused one byte too early.
func TestSecretsMayHaveTheirFullSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	for size, want := range map[int]bool{0: true, 64 << 10: true, 64<<10 + 1: false} {
		must(t, os.WriteFile(path, bytes.Repeat([]byte("k"), size), 0o600))
		values, err := readSecrets([]container.Secret{{Name: "k", Source: path}}, myself)
		if (err == nil) != want || want && len(values[0]) != size {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// TestAPipeIsNoSecret notices a shim that waits for a writer.
func TestAPipeIsNoSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	must(t, unix.Mkfifo(path, 0o600))
	done := make(chan error, 1)
	go func() {
		_, err := readSecrets([]container.Secret{{Name: "k", Source: path}}, myself)
		done <- err
	}()
	select {
	case err := <-done:
		if !container.IsFinal(err) || !errors.Is(err, container.ErrNotRegular) {
			t.Errorf("got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the shim waits")
	}
}

// TestSecretsAreReadWithTheUsersRights notices a secret that only root may read.
func TestSecretsAreReadWithTheUsersRights(t *testing.T) {
	path := filepath.Join(reachable(t), "key")
	must(t, os.WriteFile(path, []byte("root's"), 0o600))
	_, err := readSecrets([]container.Secret{{Name: "k", Source: path}}, other)
	if !errors.Is(err, os.ErrPermission) || !container.IsFinal(err) {
		t.Errorf("got %v", err)
	}
	must(t, os.Chown(path, int(other.UID), 0))
	if values, err := readSecrets([]container.Secret{{Name: "k", Source: path}}, other); err != nil ||
		string(values[0]) != "root's" {
		t.Errorf("the user's own: %q, %v", values, err)
	}
}

// TestPlacedSecretsAreTheUsersAlone notices a secret in the container that others may read or that
// root owns, and several that are mixed up.
func TestPlacedSecretsAreTheUsersAlone(t *testing.T) {
	dir := t.TempDir()
	list := []container.Secret{{Name: "a", Target: filepath.Join(dir, "a")}, {Name: "b", Target: filepath.Join(dir, "b")}}
	owner := myself
	if os.Geteuid() == 0 {
		owner = other
	}
	must(t, placeSecrets(os.Getpid(), list, [][]byte{[]byte("of a"), []byte("of b")}, owner))
	for _, s := range list {
		var st unix.Stat_t
		must(t, unix.Stat(s.Target, &st))
		if b, err := os.ReadFile(s.Target); err != nil || string(b) != "of "+s.Name || st.Mode&0o7777 != 0o400 ||
			st.Uid != owner.UID || st.Gid != owner.GID {
			t.Errorf("%s holds %q of %d:%d with mode %o, %v", s.Name, b, st.Uid, st.Gid, st.Mode, err)
		}
	}
}

// TestSecretsStayInTheContainer notices a secret that is written over a file, through a link, or
// out of the container.
func TestSecretsStayInTheContainer(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	must(t, errors.Join(os.MkdirAll(root+"/run", 0o755), os.Mkdir(dir+"/out", 0o755), os.Mkdir(root+"/out", 0o755),
		os.WriteFile(root+"/run/there", []byte("old"), 0o600), os.Symlink("run", root+"/link"),
		os.Symlink("there", root+"/run/leaf"), os.Symlink("new", root+"/run/dangling")))
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	before := descriptors(t)
	for target, want := range map[string]error{
		"/run/key": nil, "/run/there": unix.EEXIST, "/run/leaf": unix.EEXIST, "/run/dangling": unix.EEXIST,
		"/link/key": unix.ELOOP, "/none/key": unix.ENOENT,
	} {
		if err := placeSecret(fd, target, []byte("new"), myself); !errors.Is(err, want) {
			t.Errorf("%s: %v", target, err)
		}
	}
	if now := descriptors(t); now > before {
		t.Errorf("%d descriptors, before %d", now, before)
	}
	if b, _ := os.ReadFile(root + "/run/there"); string(b) != "old" {
		t.Errorf("a file was written over: %q", b)
	}
	if _, err := os.Lstat(root + "/run/new"); err == nil {
		t.Error("a link was followed")
	}
	up, err := unix.Openat2(fd, "../out", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	must(t, err) // without bounds this leads out
	unix.Close(up)
	if err := placeSecret(fd, "/run/../../out/key", []byte("new"), myself); err != nil {
		t.Errorf("a path upwards: %v", err)
	}
	if _, err := os.Lstat(dir + "/out/key"); err == nil {
		t.Error("the secret is out of the container")
	}
}

// TestASecretThatIsNotWrittenIsAnError notices a job that runs with half a secret.
func TestASecretThatIsNotWrittenIsAnError(t *testing.T) {
	dir := reachable(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4k"); err != nil {
		t.Skipf("no tmpfs can be mounted here: %v", err)
	}
	defer func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) }()
	list := []container.Secret{{Name: "k", Target: dir + "/k"}}
	if err := placeSecrets(os.Getpid(), list, [][]byte{make([]byte, 32<<10)}, myself); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("got %v", err)
	}
}
