package output

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
)

// fileAccess opens and renames files with the rights of an account.
type fileAccess interface {
	open(path string, flags int) (*os.File, error)
	rename(from, to string) error
}

// rootAccess uses the shim's own rights.
type rootAccess struct{}

func (rootAccess) open(path string, flags int) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, flags, 0o640)
}

func (rootAccess) rename(from, to string) error { return os.Rename(from, to) }

// userAccess has the rights of a user, so that no file is written where the user could not write. It makes
// files with the umask of the user's job.
type userAccess struct {
	user  container.User
	umask int
}

func asUser(u container.User, umask *uint32) userAccess {
	if umask == nil {
		return userAccess{u, jobspec.DefaultUmask}
	}
	return userAccess{u, int(*umask)}
}

func (u userAccess) open(path string, flags int) (*os.File, error) {
	f, err := container.AsUser(u.user, func() (*os.File, error) {
		// The thread ends with this function, so that no other one gets its mask.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return nil, fmt.Errorf("take the umask of the job: %w", err)
		}
		unix.Umask(u.umask)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return nil, err
		}
		return os.OpenFile(path, flags|unix.O_NONBLOCK|unix.O_NOCTTY, 0o666)
	})
	if err != nil {
		return nil, err
	}
	if err := container.CheckRegular(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// obeyQuota has disk quotas bind what the calling thread writes, although it is root's: the kernel
// lets threads with CAP_SYS_RESOURCE exceed them. The goroutine must be locked to the thread.
func obeyQuota() {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if unix.Capget(&header, &sets[0]) == nil {
		sets[0].Effective &^= 1 << unix.CAP_SYS_RESOURCE
		_ = unix.Capset(&header, &sets[0]) // if that fails, quotas do not bind, as for root
	}
}

func (u userAccess) rename(from, to string) error {
	_, err := container.AsUser(u.user, func() (struct{}, error) { return struct{}{}, os.Rename(from, to) })
	return err
}
