package userfiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/shim/shimtest"
)

// TestNoErrorTellsASecret notices the planted bug "a secret's value in an error message": every way
// in which reading or placing one can fail.
func TestNoErrorTellsASecret(t *testing.T) {
	const value = "hunter2-hunter2"
	base := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(base, name)
		check(t, os.WriteFile(path, []byte(content), 0o400))
		return path
	}
	fifo := base + "/fifo"
	check(t, unix.Mkfifo(fifo, 0o600))
	for _, c := range []struct {
		source, says string
		final        bool
	}{
		{write("large", strings.Repeat(value, secretMax/len(value)+1)), "it is larger than 65536 bytes", true},
		{write("nul", value+"\x00"+value), "it contains a NUL byte", true},
		{write("file", value) + "/below", "not a directory", true},
		{base + "/none", "no such file or directory", true},
		{base, "it is not a regular file", true},
		{fifo, "it is not a regular file", true}, // and it is not waited for
		{"/proc/self/status", "it is not a regular file", true},
	} {
		_, err := ReadSecrets([]container.Secret{{Name: "key", Source: c.source}}, self())
		want := fmt.Sprintf("secret key: the job's user cannot read %s: %s", c.source, c.says)
		if err == nil || err.Error() != want || container.IsFinal(err) != c.final {
			t.Errorf("got %v\nnot %s", err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter") {
			t.Errorf("the error tells the secret: %v", err)
		}
	}
	list := []container.Secret{{Name: "key", Target: base + "/missing/key"}}
	err := PlaceSecrets(os.Getpid(), list, [][]byte{[]byte(value)}, self())
	if err == nil || !strings.Contains(err.Error(), "secret key: write it into the container: no such file") ||
		strings.Contains(err.Error(), "hunter") {
		t.Errorf("placing it: %v", err)
	}
	if err := PlaceSecrets(1<<23, list, nil, self()); err == nil ||
		!strings.Contains(err.Error(), "open the container's root") {
		t.Errorf("a container that is gone: %v", err)
	}
}

// TestSecretsOfTheRightLength notices limits that are one byte off, and values that are cut.
func TestSecretsOfTheRightLength(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	for size, ok := range map[int]bool{0: true, 1: true, secretMax: true, secretMax + 1: false} {
		text := strings.Repeat("k", size)
		check(t, os.RemoveAll(path))
		check(t, os.WriteFile(path, []byte(text), 0o400))
		got, err := ReadSecrets([]container.Secret{{Name: "a", Source: path}, {Name: "b", Source: path}}, self())
		if (err == nil) != ok || ok && (len(got) != 2 || string(got[1]) != text) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// TestSecretsAreReadAsTheUser notices a secret that is read as root: a job would get root's files.
func TestSecretsAreReadAsTheUser(t *testing.T) {
	needsRoot(t)
	path := filepath.Join(openTempDir(t), "key")
	check(t, os.WriteFile(path, []byte("root's"), 0o600))
	list := []container.Secret{{Name: "key", Source: path}}
	if got, err := ReadSecrets(list, testUser); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("got %q, %v", got, err)
	}
	check(t, os.Chown(path, 0, shimtest.Group))
	check(t, os.Chmod(path, 0o640))
	if got, err := ReadSecrets(list, testUser); err != nil || string(got[0]) != "root's" {
		t.Errorf("what its group may read: %q, %v", got, err)
	}
}

// TestASecretIsItsUsersAlone notices a secret that others may read, that follows a link, or that
// replaces a file.
func TestASecretIsItsUsersAlone(t *testing.T) {
	base := t.TempDir()
	check(t, os.MkdirAll(base+"/run/secrets", 0o755))
	check(t, os.Symlink("secrets", base+"/run/link"))
	check(t, os.Symlink(base+"/victim", base+"/run/secrets/out"))
	check(t, os.WriteFile(base+"/run/secrets/there", []byte("old"), 0o644))
	root, err := unix.Open(base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	check(t, err)
	defer func() { _ = unix.Close(root) }()
	owner := self()
	if os.Geteuid() == 0 {
		owner = testUser
	}
	old := unix.Umask(0)
	defer unix.Umask(old)
	before := shimtest.OpenFiles(t)
	check(t, placeSecret(root, "/run/secrets/key", []byte("value"), owner))
	for target, says := range map[string]error{"/run/link/key": unix.ELOOP, "/run/secrets/out": unix.EEXIST,
		"/run/secrets/there": unix.EEXIST, "/none/key": unix.ENOENT} {
		if err := placeSecret(root, target, []byte("value"), owner); !errors.Is(err, says) {
			t.Errorf("%s: %v", target, err)
		}
	}
	if after := shimtest.OpenFiles(t); after != before {
		t.Errorf("%d files are open, %d before", after, before)
	}
	got, err := os.ReadFile(base + "/run/secrets/key")
	var st unix.Stat_t
	check(t, unix.Stat(base+"/run/secrets/key", &st))
	if err != nil || string(got) != "value" || st.Uid != owner.UID || st.Gid != owner.GID || st.Mode&0o7777 != 0o400 {
		t.Errorf("%q, %v, of %d:%d, mode %o", got, err, st.Uid, st.Gid, st.Mode)
	}
	if _, err := os.Lstat(base + "/victim"); err == nil {
		t.Error("a link was followed")
	}
}
