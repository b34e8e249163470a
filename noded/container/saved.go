package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// savedFile is written last into an image: one without it is not whole.
const savedFile = "rota.json"

// Saved says what an image of a container is.
type Saved struct {
	Criu   string           `json:"criu"` // its version
	Kernel string           `json:"kernel"`
	Arch   string           `json:"arch"`
	Files  map[string]int64 `json:"files"` // sizes in bytes, by name
}

// Bytes returns the size of the image.
func (s Saved) Bytes() int64 {
	var sum int64
	for _, n := range s.Files {
		sum += n
	}
	return sum
}

// PartOfImage returns where an image is written before it is whole.
func PartOfImage(dir string) string { return dir + ".part" }

// FinishImage makes the image at dir of what CRIU has written into [PartOfImage], and returns when it is
// on disk.
func FinishImage(dir string, criu Criu) error {
	part := PartOfImage(dir)
	entries, err := os.ReadDir(part)
	if err != nil {
		return err
	}
	s := Saved{Criu: criu.Version, Kernel: kernelRelease(), Arch: runtime.GOARCH, Files: map[string]int64{}}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return err
		}
		s.Files[e.Name()] = info.Size()
	}
	if err := writeJSON(filepath.Join(part, savedFile), 0o600, nil, s); err != nil {
		return err
	}
	for _, e := range entries {
		if err := SyncPath(filepath.Join(part, e.Name())); err != nil {
			return fmt.Errorf("write the image to disk: %w", err)
		}
	}
	if err := SyncPath(part); err != nil {
		return fmt.Errorf("write the image to disk: %w", err)
	}
	if err := os.Rename(part, dir); err != nil {
		return err
	}
	return SyncPath(filepath.Dir(dir))
}

// CheckPrivate returns an error if others than this process's user can write in a directory. A
// process that is restored from an image has the rights that the image says.
func CheckPrivate(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &os.PathError{Op: "lstat", Path: dir, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("%s must be a directory in which only user %d can write", dir, os.Geteuid())
	}
	return nil
}

// SyncPath returns when a file, or the names in a directory, are on the disk.
func SyncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// ReadSaved reads what the image in dir is. It is an error if the image is not whole, or is of
// another kind of processor. So is an image that another user than that of this process could have
// written.
func ReadSaved(dir string) (Saved, error) {
	var s Saved
	if err := CheckPrivate(dir); err != nil {
		return s, fmt.Errorf("image %s is incomplete: %w", dir, err)
	}
	if err := readJSON(filepath.Join(dir, savedFile), &s); err != nil {
		return s, fmt.Errorf("image %s is incomplete: %w", dir, err)
	}
	for name, size := range s.Files {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			return s, fmt.Errorf("image %s is incomplete: %w", dir, err)
		}
		if !info.Mode().IsRegular() || info.Size() != size {
			return s, fmt.Errorf("image %s is incomplete: %s has %d bytes instead of %d", dir, name, info.Size(), size)
		}
	}
	if s.Arch != runtime.GOARCH {
		return s, fmt.Errorf("image %s was saved on machine %s, but this machine is %s", dir, s.Arch, runtime.GOARCH)
	}
	return s, nil
}
