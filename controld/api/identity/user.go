package identity

import (
	"fmt"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/cluster"
)

// Users looks accounts up on this machine and remembers them for a minute, since the lookup reads
// files or asks a server. It may be used from several goroutines.
type Users struct {
	mu    sync.Mutex
	known map[uint32]knownUser
}

type knownUser struct {
	id    cluster.Identity
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
func (u *Users) ByUID(uid uint32) (cluster.Identity, error) {
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
func (u *Users) ByName(name string) (cluster.Identity, error) {
	acc, err := user.Lookup(name)
	if err != nil {
		return cluster.Identity{}, fmt.Errorf("account %q: %w", name, err)
	}
	uid, err := strconv.ParseUint(acc.Uid, 10, 32)
	if err != nil {
		return cluster.Identity{}, fmt.Errorf("account %q has uid %q", name, acc.Uid)
	}
	return u.ByUID(uint32(uid))
}

func lookup(uid uint32) (cluster.Identity, error) {
	acc, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return cluster.Identity{UID: uid}, fmt.Errorf("uid %d: %w", uid, err)
	}
	id := cluster.Identity{UID: uid, User: strings.ToValidUTF8(acc.Username, "?"),
		Home: strings.ToValidUTF8(acc.HomeDir, "?")}
	if gid, err := strconv.ParseUint(acc.Gid, 10, 32); err == nil {
		id.GID = uint32(gid)
	}
	groups, err := acc.GroupIds()
	if err != nil {
		return id, fmt.Errorf("groups of %s: %w", acc.Username, err)
	}
	for _, g := range groups {
		if gid, err := strconv.ParseUint(g, 10, 32); err == nil && uint32(gid) != id.GID {
			id.GIDs = append(id.GIDs, uint32(gid))
		}
	}
	slices.Sort(id.GIDs)
	return id, nil
}

// Of returns the account behind a peer. Groups that the kernel told take the place of those in the
// group file, so that a login's own groups (newgrp, sg) count.
func (u *Users) Of(p Peer) (cluster.Identity, error) {
	id, err := u.ByUID(p.UID)
	if err != nil && !p.TCP {
		// An account that only its own login knows, such as one in a container: the kernel's word
		// is enough.
		id, err = cluster.Identity{UID: p.UID, User: strconv.FormatUint(uint64(p.UID), 10)}, nil
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
