package container

import "errors"

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
