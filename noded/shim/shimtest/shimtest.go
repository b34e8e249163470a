// Package shimtest has what the tests of the shim and its rooms share: a user that owns nothing, and
// directories that it can reach.
package shimtest

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/rota-hpc/rota/noded/container"
)

// The numbers of [User]. No account of a machine has them.
const (
	UID   = 23456
	GID   = 23457
	Group = 24000 // a further group
)

// User is a user of jobs.
var User = container.User{UID: UID, GID: GID, GIDs: []uint32{Group}}

// Self returns the user of this process.
func Self() container.User {
	return container.User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
}

// Check ends a test that has met an error.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// NeedsRoot skips a test for other users than root.
func NeedsRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// OpenTempDir returns a directory of the test that every user can reach and that only root can write.
func OpenTempDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		Check(t, os.Chmod(d, 0o755))
	}
	return dir
}

// OpenFiles returns how many descriptors this process has.
func OpenFiles(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	Check(t, err)
	return len(list)
}

// Pair returns two ends of a connection.
func Pair(t testing.TB) (ours, theirs net.Conn) {
	t.Helper()
	ours, file, err := container.SocketPair()
	Check(t, err)
	theirs, err = net.FileConn(file)
	Check(t, errors.Join(err, file.Close()))
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}
