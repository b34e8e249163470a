package container

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// CheckImageOfRoot returns an error if another user than root can change the top of an image, or
// the targets of mounts there. CRIU names the mounts of a container by their paths inside of it.
// With links of their choice, users could have root restore a mount of another directory.
func CheckImageOfRoot(image string, root Root, targets []string) error {
	real, err := filepath.EvalSymlinks(image)
	if err != nil {
		return FinalAt(image, fmt.Errorf("image %s cannot be read: %w", image, err))
	}
	if real != filepath.Clean(image) {
		return Final(fmt.Errorf("checkpoint.criu: image %s is a link, or lies behind one: write %s", image, real))
	}
	for dir := filepath.Dir(real); ; dir = filepath.Dir(dir) {
		if err := onlyRoot(dir, unix.S_ISVTX); err != nil { // entries of root are safe in a sticky directory
			return err
		}
		if dir == "/" {
			break
		}
	}
	paths := []string{real}
	for _, b := range root.Binds {
		paths = append(paths, b.Source)
	}
	for _, target := range targets {
		for at := filepath.Clean("/" + target); at != "/"; at = filepath.Dir(at) {
			paths = append(paths, filepath.Join(real, at))
		}
	}
	for _, path := range paths {
		if err := onlyRoot(path, 0); err != nil {
			return err
		}
	}
	return nil
}

// onlyRoot returns an error if a path exists that others than root can change. Directories with one of
// the given mode bits may be writable.
func onlyRoot(path string, but uint32) error {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	switch {
	case err == unix.ENOENT || err == unix.ENOTDIR:
		return nil
	case err != nil:
		return fmt.Errorf("image: lstat %s: %w", path, err)
	case st.Uid == 0 && (st.Mode&unix.S_IFMT == unix.S_IFLNK || st.Mode&0o022 == 0 || st.Mode&but != 0):
		return nil
	}
	return Final(fmt.Errorf("checkpoint.criu needs an image that only root can change, because root restores its "+
		"mounts: %s belongs to user %d and has mode %04o; ask an administrator to take over the image, or leave criu out",
		path, st.Uid,
		st.Mode&0o7777))
}
