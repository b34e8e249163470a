package bundle

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api/directory"
	"github.com/rota-hpc/rota/controld/model"
)

// ErrUserDatabase says that the user database of this machine does not answer. Nothing is known of a
// user then, so a launch waits.
var ErrUserDatabase = errors.New("the user database of this node does not answer")

// noGroup is the group of a process whose user is in no group that this machine knows. Debian calls
// it nogroup; elsewhere the group has the same number.
const noGroup = 65534

// ownersFor is how long groups are remembered: a directory server is asked once for many workers.
const ownersFor = time.Minute

// ownersKept bounds the users that are remembered.
const ownersKept = 10_000

// owners compares the users of jobs with the user database of this machine. A login node vouches for
// the groups of its users, and root there can name any. So a process has the groups alone that this
// machine knows its user in.
type owners struct {
	// groups returns the ids of the groups of a user, the primary one first. Unknown users are a
	// directory.ErrUnknown.
	groups func(uid uint32) ([]uint32, error)
	now    func() time.Time

	mu    sync.Mutex
	known map[uint32]ownerGroups
}

// ownerGroups is a cached answer of the user database about a user.
type ownerGroups struct {
	gids  []uint32 // the primary group first; none for an unknown user
	until time.Time
}

// newOwners asks the user database of this machine.
func newOwners() *owners {
	return &owners{groups: groupsOf, now: time.Now}
}

// narrow returns a user with the groups that this machine knows it in. A user that is not in its
// primary group gets the primary group that this machine has for it. An unknown user keeps a group
// of its own number. An error wraps [ErrUserDatabase].
func (o *owners) narrow(id model.Identity) (model.Identity, error) {
	if o == nil {
		return id, nil
	}
	gids, err := o.of(id.UID)
	if err != nil {
		return id, err
	}
	id.GIDs = slices.DeleteFunc(slices.Clone(id.GIDs), func(g uint32) bool { return !slices.Contains(gids, g) })
	switch {
	case slices.Contains(gids, id.GID), id.GID == id.UID && len(gids) == 0:
	case len(gids) > 0:
		id.GID = gids[0]
		id.GIDs = slices.DeleteFunc(id.GIDs, func(g uint32) bool { return g == id.GID })
	default:
		id.GID = noGroup
	}
	return id, nil
}

// of returns the groups of a user on this machine, none if it is unknown.
func (o *owners) of(uid uint32) ([]uint32, error) {
	now := o.now()
	o.mu.Lock()
	k, ok := o.known[uid]
	o.mu.Unlock()
	if ok && now.Before(k.until) {
		return k.gids, nil
	}
	gids, err := o.groups(uid)
	if err != nil && !errors.Is(err, directory.ErrUnknown) {
		return nil, fmt.Errorf("%w: uid %d: %w", ErrUserDatabase, uid, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil || len(o.known) >= ownersKept {
		o.known = map[uint32]ownerGroups{}
	}
	o.known[uid] = ownerGroups{gids, now.Add(ownersFor)}
	return gids, nil
}

// groupsOf returns the groups of a user, the primary one first.
func groupsOf(uid uint32) ([]uint32, error) {
	u, err := directory.Machine.UserByID(uid)
	if err != nil {
		return nil, err
	}
	return directory.Machine.GroupsOf(u)
}
