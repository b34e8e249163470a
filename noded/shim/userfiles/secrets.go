package userfiles

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// secretMax is how many bytes a secret may have. Keys and certificates are far shorter.
const secretMax = 64 << 10

// ReadSecrets reads every secret with the rights of u. Messages name the secret and its file, never
// its content.
func ReadSecrets(list []container.Secret, u container.User) ([][]byte, error) {
	if len(list) == 0 {
		return nil, nil
	}
	return container.AsUser(u, func() ([][]byte, error) {
		var values [][]byte
		for _, s := range list {
			value, err := readSecret(s.Source)
			if err != nil {
				err = fmt.Errorf("secret %s: the job's user cannot read %s: %w", s.Name, s.Source,
					err)
				return nil, container.FinalAt(s.Source, err)
			}
			values = append(values, value)
		}
		return values, nil
	})
}

// readSecret runs on a thread that has the user's rights.
func readSecret(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer f.Close()
	if err := container.CheckRegular(f); errors.Is(err, container.ErrNotRegular) {
		return nil, container.Final(err)
	} else if err != nil {
		return nil, withoutPath(err)
	}
	value, err := io.ReadAll(io.LimitReader(f, secretMax+1))
	switch {
	case err != nil:
		return nil, withoutPath(err)
	case len(value) > secretMax:
		return nil, container.Final(fmt.Errorf("it is larger than %d bytes", secretMax))
	case bytes.IndexByte(value, 0) >= 0:
		return nil, container.Final(errors.New("it contains a NUL byte"))
	}
	return value, nil
}

// withoutPath returns an error without the path, which the message has already.
func withoutPath(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// PlaceSecrets writes the secrets into a container, readable by the user alone. pid is the
// container's first process, whose command has not started.
func PlaceSecrets(pid int, list []container.Secret, values [][]byte, u container.User) error {
	if len(list) == 0 {
		return nil
	}
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the container's root: %w", err)
	}
	defer func() { _ = unix.Close(root) }()
	for i, s := range list {
		if err := placeSecret(root, s.Target, values[i], u); err != nil {
			return fmt.Errorf("secret %s: write it into the container: %w", s.Name, err)
		}
	}
	return nil
}

func placeSecret(root int, target string, value []byte, u container.User) error {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS}
	dir, err := unix.Openat2(root, strings.TrimPrefix(filepath.Dir(target), "/"), &how)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }()
	fd, err := unix.Openat(dir, filepath.Base(target),
		unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o400)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), target)
	_, err = f.Write(value)
	if os.Geteuid() == 0 {
		err = errors.Join(err, f.Chown(int(u.UID), int(u.GID)))
	}
	return errors.Join(err, f.Chmod(0o400), f.Close())
}
