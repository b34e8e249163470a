package container

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// finalError is an error that stays if the operation is repeated.
type finalError struct{ err error }

// Final marks an error that stays if the operation is repeated, here or elsewhere: what the job
// asks for does not exist for its user.
func Final(err error) error { return &finalError{err} }

// Error implements error.
func (e *finalError) Error() string { return e.err.Error() }

// Unwrap returns the marked error.
func (e *finalError) Unwrap() error { return e.err }

// IsFinal reports whether an error, or one that it wraps, was marked with Final.
func IsFinal(err error) bool {
	var f *finalError
	return errors.As(err, &f)
}

// FinalAt marks an error about a path as final if it would be the same on every machine: the user
// may not reach the path, or it is missing from its directory. If the directory is missing as well,
// this machine may have lost a file system. Other errors may be the file system's fault.
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
