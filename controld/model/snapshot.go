package model

import (
	"errors"
)

// ErrSnapshot is what every error about the contents of a snapshot wraps.
var ErrSnapshot = errors.New("the snapshot cannot be used")
