package bundle

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

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
	// user.UnknownUserIdError.
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
	var unknown user.UnknownUserIdError
	if err != nil && (!errors.As(err, &unknown) || errors.Is(err, ErrUserDatabase)) {
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
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	var unknown user.UnknownUserIdError
	if errors.As(err, &unknown) {
		// The C library says "unknown" as well if the service that knows the user is down.
		return nil, errors.Join(err, silentService("/"))
	}
	if err != nil {
		return nil, err
	}
	all, err := u.GroupIds()
	if err != nil {
		return nil, err
	}
	primary, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("group %q of %s is no number", u.Gid, u.Username)
	}
	gids := []uint32{uint32(primary)}
	for _, g := range all {
		if gid, err := strconv.ParseUint(g, 10, 32); err == nil && uint32(gid) != gids[0] {
			gids = append(gids, uint32(gid))
		}
	}
	return gids, nil
}

// serviceSockets are where the services of nsswitch.conf listen that may know users.
var serviceSockets = map[string]string{
	"sss": "var/lib/sss/pipes/nss", "ldap": "run/nslcd/socket", "winbind": "run/samba/winbindd/pipe",
}

// silentService returns an error if nsswitch.conf below root has users looked up at a service that
// does not answer.
func silentService(root string) error {
	f, err := os.Open(filepath.Join(root, "etc/nsswitch.conf"))
	if err != nil {
		return nil // the C library reads /etc/passwd alone then
	}
	defer func() { _ = f.Close() }() // it is only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		base, services, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(base) != "passwd" {
			continue
		}
		for _, name := range strings.Fields(services) {
			at := serviceSockets[name]
			if at == "" {
				continue
			}
			c, err := net.DialTimeout("unix", filepath.Join(root, at), time.Second)
			if err != nil {
				return fmt.Errorf("%w: service %s of /etc/nsswitch.conf: %w", ErrUserDatabase, name, err)
			}
			_ = c.Close() // nothing was written
		}
	}
	return nil
}
