package identity

import (
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
	mu    sync.Mutex
	known map[uint32]knownUser
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
func (u *Users) ByUID(uid uint32) (model.Identity, error) {
	u.mu.Lock()
	k, ok := u.known[uid]
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
	if u.known == nil || len(u.known) >= usersKept {
		u.known = map[uint32]knownUser{}
	}
	u.known[uid] = k
	return k.id, k.err
}

// ByName returns the account with a name.
func (u *Users) ByName(name string) (model.Identity, error) {
	acc, err := directory.Machine.UserByName(name)
	if err != nil {
		return model.Identity{}, err
	}
	return u.ByUID(acc.UID)
}

func lookup(uid uint32) (model.Identity, error) {
	acc, err := directory.Machine.UserByID(uid)
	if err != nil {
		return model.Identity{UID: uid}, err
	}
	groups, err := directory.Machine.GroupsOf(acc)
	if err != nil {
		return model.Identity{UID: uid}, err
	}
	return model.Identity{UID: uid, User: acc.Name, Home: acc.Home, GID: acc.GID, GIDs: groups[1:]}, nil
}

// Of returns the account behind a peer. Groups that the kernel told take the place of those in the
// group file, so that a login's own groups (newgrp, sg) count.
func (u *Users) Of(p Peer) (model.Identity, error) {
	id, err := u.ByUID(p.UID)
	if err != nil && !p.TCP {
		// An account that only its own login knows, such as one in a container: the kernel's word
		// is enough.
		id, err = model.Identity{UID: p.UID, User: strconv.FormatUint(uint64(p.UID), 10)}, nil
	}
	if err != nil {
		return id, err
	}
	if !p.TCP {
		id.GID, id.GIDs = p.GID, slices.Clone(p.GIDs)
		id.GIDs = slices.DeleteFunc(id.GIDs, func(g uint32) bool { return g == p.GID })
		slices.Sort(id.GIDs)
	}
	return id, nil
}
