package identity

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api/directory"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// Groups looks Unix groups up on this machine and remembers them for a minute, as [Users] does. It
// may be used from several goroutines.
type Groups struct {
	Directory *directory.Directory // nil: of this machine

	mu    sync.Mutex
	known map[string]knownGroup
	names map[uint32]groupName
}

// groupName is what is remembered of a group by its number.
type groupName struct {
	name  string
	until time.Time
}

type knownGroup struct {
	gid   uint32
	ok    bool
	until time.Time
}

// Listed reports whether a list of users and groups has a user, by name or by one of its groups. A
// group is written as its name or its number. One that this machine does not know has no members.
func (g *Groups) Listed(id model.Identity, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		group, isGroup := strings.CutPrefix(name, cluster.GroupMark)
		if !isGroup {
			return name == id.User
		}
		gid, ok := g.gid(group)
		return ok && (gid == id.GID || slices.Contains(id.GIDs, gid))
	})
}

// gid returns the number of a group, which may be written as its name.
func (g *Groups) gid(name string) (uint32, bool) {
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(n), true
	}
	now := time.Now()
	g.mu.Lock()
	k, ok := g.known[name]
	g.mu.Unlock()
	if ok && now.Before(k.until) {
		return k.gid, k.ok
	}
	k = g.lookup(name, now)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known == nil || len(g.known) >= usersKept {
		g.known = map[string]knownGroup{}
	}
	g.known[name] = k
	return k.gid, k.ok
}

func (g *Groups) directory() *directory.Directory { return cmp.Or(g.Directory, directory.Machine) }

func (g *Groups) lookup(name string, now time.Time) knownGroup {
	found, err := g.directory().GroupByName(name)
	if err != nil && !errors.Is(err, directory.ErrUnknown) {
		return knownGroup{until: now.Add(usersFailed)}
	}
	return knownGroup{gid: found.GID, ok: err == nil, until: now.Add(usersFor)}
}

// Name returns the name of a group, "" if this machine knows none with this number.
func (g *Groups) Name(gid uint32) string {
	now := time.Now()
	g.mu.Lock()
	k, ok := g.names[gid]
	g.mu.Unlock()
	if ok && now.Before(k.until) {
		return k.name
	}
	k = g.lookupName(gid, now)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.names == nil || len(g.names) >= usersKept {
		g.names = map[uint32]groupName{}
	}
	g.names[gid] = k
	return k.name
}

func (g *Groups) lookupName(gid uint32, now time.Time) groupName {
	found, err := g.directory().GroupByID(gid)
	if err != nil && !errors.Is(err, directory.ErrUnknown) {
		return groupName{until: now.Add(usersFailed)}
	}
	return groupName{name: found.Name, until: now.Add(usersFor)}
}
