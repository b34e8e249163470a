package consensus

import (
	"errors"
	"fmt"

	"github.com/rota-hpc/rota/consensus/entry"
)

// Errors about a directory, an address or a call. Returned errors wrap these; use errors.Is.
var (
	ErrNotWritable  = errors.New("directory is not writable")
	ErrNewer        = entry.ErrNewer
	ErrLocked       = errors.New("in use by another process")
	ErrCorrupt      = errors.New("corrupt")
	ErrPortInUse    = errors.New("address is already in use")
	ErrBootstrapped = errors.New("already a member of a cluster")
	ErrStopped      = errors.New("consensus has stopped")
	ErrTooLarge     = errors.New("proposal is too large")

	// ErrRolledBack, ErrDiverged and ErrOtherMember are the kinds of a [LogError].
	ErrRolledBack  = errors.New("its disk was rolled back")
	ErrDiverged    = errors.New("it has committed entries that the leader's log lacks")
	ErrOtherMember = errors.New("it belongs to another member")

	// ErrNameTaken refuses to add a member whose name belongs to another log.
	ErrNameTaken = errors.New("a member with this name already has a different log")

	// ErrLeadershipLost is the cause of a context of [Node.Lead] that ended because another member
	// may lead now.
	ErrLeadershipLost = errors.New("leadership lost")
)

// NotLeaderError refuses a call that only the leader can execute. Nothing was proposed; the caller
// should ask Leader.
type NotLeaderError struct {
	Leader Member // zero if no leader is known
}

// Error implements error.
func (e *NotLeaderError) Error() string {
	if e.Leader.Name == "" {
		return "not the leader, and none is known at present"
	}
	return fmt.Sprintf("not the leader; the leader is %s at %s", e.Leader.Name, e.Leader.Addr)
}

// UncertainError says that a proposal was given to the log and may or may not be applied. A caller
// that tries again needs its own means, such as a key, to prevent a second effect.
type UncertainError struct {
	Cause error
}

// Error implements error.
func (e *UncertainError) Error() string {
	return fmt.Sprintf("outcome unknown: the proposal may or may not take effect: %v", e.Cause)
}

// Unwrap returns the cause.
func (e *UncertainError) Unwrap() error { return e.Cause }

// FatalError is delivered by [Node.Failed]: this member can no longer write or read its log and has
// stopped. A quorum of disks has everything acknowledged; the member may start again after the disk
// is repaired.
type FatalError struct {
	Dir string
	Op  string // the failed operation
	Err error
}

// Error implements error.
func (e *FatalError) Error() string {
	return fmt.Sprintf("%s in %s: %v (no acknowledged write is lost; free space or repair the disk, then start again)",
		e.Op, e.Dir, e.Err)
}

// Unwrap returns the disk's error.
func (e *FatalError) Unwrap() error { return e.Err }

// LogError says that a member must no longer use its log. The member has forgotten promises that
// others rely on, or the others have forgotten entries that it knows. The member stops and refuses
// to start with this log again.
type LogError struct {
	Dir  string
	Kind error // ErrRolledBack, ErrDiverged or ErrOtherMember
	Text string
}

// Error implements error.
func (e *LogError) Error() string {
	return fmt.Sprintf("log in %s: %v: %s (%s)", e.Dir, e.Kind, e.Text, logAdvice[e.Kind])
}

// Unwrap returns the kind.
func (e *LogError) Unwrap() error { return e.Kind }

// logAdvice says what to do about an error of each kind.
var logAdvice = map[error]string{
	ErrRolledBack: "acknowledged votes and entries are missing here, so this controller must not use its log. Move this " +
		"directory away and start again; the leader then sends the whole log. If there is no other controller, see " +
		"docs/operating.md",
	ErrDiverged: "nothing was changed here. The disk of another controller was rolled back, and entries that it had " +
		"acknowledged exist only here. Keep a copy of this directory, and follow docs/operating.md",
	ErrOtherMember: "nothing was changed here. If the disk is a copy, move this directory away and start again: the " +
		"leader then sends the whole log. If the controller was renamed, start it with its old name",
}
