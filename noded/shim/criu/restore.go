package criu

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/opencontainers/runc/libcontainer"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/shim/keyring"
)

// ConfigPath returns the path of the file with options for CRIU that libcontainer cannot pass on.
// It exists during a restore. CRIU would read /etc/criu/runc.conf instead if no file were named.
// state is libcontainer's directory for the container.
func ConfigPath(state string) string { return filepath.Join(state, "criu.conf") }

// Restore has CRIU make the processes of a container and leave them stopped. The first of them is a
// child of the calling thread, which must outlive it.
//
// It gives the thread a session keyring and a mount namespace of its own. libcontainer mounts over the
// root directory of all containers for a moment. No other process may see that, and it must not stay
// behind if this process is killed.
func Restore(c *libcontainer.Container, first *libcontainer.Process, state string, r *container.Restore) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("keep mounts to the mount namespace: %w", err)
	}
	if keyring.Allowed() { // a restored process has the session keyring of CRIU
		if err := keyring.Join(); err != nil {
			return fmt.Errorf("make a session keyring: %w", err)
		}
	}
	env, err := environment(state, r.Criu)
	if err != nil {
		return err
	}
	for name, value := range env {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	config := ConfigPath(state)
	if err := os.WriteFile(config, []byte("leave-stopped\n"), 0o600); err != nil {
		return err
	}
	defer os.Remove(config)
	work := filepath.Join(state, "restore")
	defer os.RemoveAll(work)
	err = c.Restore(first, &libcontainer.CriuOpts{ImagesDirectory: r.Dir, WorkDirectory: work, FileLocks: true,
		ManageCgroupsMode: "ignore"})
	if err != nil {
		return fmt.Errorf("CRIU cannot restore it from %s: %s", r.Dir, complaint(filepath.Join(work, "restore.log"), err))
	}
	return nil
}
