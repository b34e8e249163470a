package fsm

import (
	"fmt"
)

// UnknownKindError says that an entry is of a kind that this version does not know. A replica that
// meets one must stop.
type UnknownKindError struct{ Kind Kind }

// Error implements error.
func (e *UnknownKindError) Error() string {
	return fmt.Sprintf("command kind %q is unknown to this version", e.Kind)
}
