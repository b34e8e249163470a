package identity

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api/directory"
	"github.com/rota-hpc/rota/controld/model"
)

// Users looks accounts up on this machine and remembers them for a minute, since the lookup reads
// files or asks a server. It may be used from several goroutines.
type Users struct {
	Directory *directory.Directory // nil: of this machine

	mu    sync.Mutex
	known map[uint32]knownUser
	named map[uint32]knownUser // without groups
}

type knownUser struct {
	id    model.Identity
	err   error
	until time.Time
}

// Limits of the memory of Users.
const (
	usersKept   = 10_000
	usersFor    = time.Minute
	usersFailed = 5 * time.Second // an unknown uid may be created at any moment
)

// ByUID returns the account with a uid: its name, home and groups.
func (u *Users) ByUID(uid uint32) (model.Identity, error) { return u.remember(&u.known, uid, u.lookup) }

// remember returns what is remembered of a uid, or looks it up.
func (u *Users) remember(
	in *map[uint32]knownUser, uid uint32, lookup func(uint32) (model.Identity, error),
) (model.Identity, error) {
	u.mu.Lock()
	k, ok := (*in)[uid]
	u.mu.Unlock()
	now := time.Now()
	if ok && now.Before(k.until) {
		return k.id, k.err
	}
	k = knownUser{until: now.Add(usersFor)}
	if k.id, k.err = lookup(uid); k.err != nil {
		k.until = now.Add(usersFailed)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if *in == nil || len(*in) >= usersKept {
		*in = map[uint32]knownUser{}
	}
	(*in)[uid] = k
	return k.id, k.err
}

// ByName returns the account with a name.
func (u *Users) ByName(name string) (model.Identity, error) {
	acc, err := u.directory().UserByName(name)
	if err != nil {
		return model.Identity{}, err
	}
	return u.ByUID(acc.UID)
}

func (u *Users) directory() *directory.Directory { return cmp.Or(u.Directory, directory.Machine) }

// lookup looks up an account with its groups.
func (u *Users) lookup(uid uint32) (model.Identity, error) {
	acc, err := u.directory().UserByID(uid)
	if err != nil {
		return model.Identity{UID: uid}, err
	}
	groups, err := u.directory().GroupsOf(acc)
	if err != nil {
		return model.Identity{UID: uid}, err
	}
	return model.Identity{UID: uid, User: acc.Name, Home: acc.Home, GID: acc.GID, GIDs: groups[1:]}, nil
}

// lookupName looks up the name and home of an account. An account that only its own login knows, such as
// one in a container, goes by its number. An account of a directory that is silent does not: its jobs would
// belong to another user.
func (u *Users) lookupName(uid uint32) (model.Identity, error) {
	acc, err := u.directory().UserByID(uid)
	if errors.Is(err, directory.ErrUnknown) {
		return model.Identity{UID: uid, User: strconv.FormatUint(uint64(uid), 10)}, nil
	}
	return model.Identity{UID: uid, User: acc.Name, Home: acc.Home}, err
}

// Of returns the account behind a peer. The kernel tells the groups of a peer at a unix socket, so that a
// login's own groups (newgrp, sg) count, and an account in the files needs no directory.
func (u *Users) Of(p Peer) (model.Identity, error) {
	if p.TCP {
		return u.ByUID(p.UID)
	}
	id, err := u.remember(&u.named, p.UID, u.lookupName)
	if err != nil {
		return id, err
	}
	id.GID, id.GIDs = p.GID, slices.Clone(p.GIDs)
	id.GIDs = slices.DeleteFunc(id.GIDs, func(g uint32) bool { return g == p.GID })
	slices.Sort(id.GIDs)
	return id, nil
}
