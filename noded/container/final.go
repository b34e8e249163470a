package container

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// finalError is one that will not go away by trying again.
type finalError struct{ err error }

// Final marks an error as one that trying again, here or elsewhere, cannot help: what the job asks for is not there for its user.
func Final(err error) error { return &finalError{err} }

// Error implements error.
func (e *finalError) Error() string { return e.err.Error() }

// Unwrap returns what is wrong.
func (e *finalError) Unwrap() error { return e.err }

// IsFinal reports whether an error, or one that it wraps, was marked with Final.
func IsFinal(err error) bool {
	var f *finalError
	return errors.As(err, &f)
}

// FinalAt marks an error about a path as final where every machine would say the same: the user may not reach it, or it is not there although
// the directory that it should be in is. A path that is missing with its directory may be on a file system that this machine has lost, and
// what else goes wrong may be the file system's fault.
func FinalAt(path string, err error) error {
	missing := errors.Is(err, fs.ErrNotExist)
	if missing {
		_, above := os.Lstat(filepath.Dir(path))
		missing = above == nil
	}
	if missing || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOTDIR) {
		return Final(err)
	}
	return err
}
