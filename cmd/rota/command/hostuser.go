package command

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/rota-hpc/rota/controld/api/directory"
)

// HostUser is a user of this host, by its number and those of its groups.
type HostUser struct {
	UID  string
	GIDs []string
}

// HostUserOf returns the account of a user of this host.
func HostUserOf(name string) (HostUser, error) {
	u, err := directory.Machine.UserByName(name)
	if err != nil {
		return HostUser{}, err
	}
	groups, _ := directory.Machine.GroupsOf(u) // without them it may be noted of a directory that a group can write to
	h := HostUser{UID: strconv.FormatUint(uint64(u.UID), 10)}
	for _, g := range groups {
		h.GIDs = append(h.GIDs, strconv.FormatUint(uint64(g), 10))
	}
	return h, nil
}

// CanWrite reports whether a user may enter a directory, and make files there, by the modes of it
// and of those above it.
func (u HostUser) CanWrite(dir string) bool {
	const write, enter = 0o2, 0o1
	for need := uint32(write | enter); ; need = enter {
		info, err := os.Stat(dir)
		if err != nil || !u.may(info, need) {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
		dir = filepath.Dir(dir)
	}
}

// may reports whether the mode of a file gives a user the rights, as bits of the others' rights.
func (u HostUser) may(info os.FileInfo, need uint32) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	number := func(id uint32) string { return strconv.FormatUint(uint64(id), 10) }
	mode := s.Mode
	switch {
	case u.UID == "0":
		return true
	case u.UID == number(s.Uid):
		mode >>= 6
	case slices.Contains(u.GIDs, number(s.Gid)):
		mode >>= 3
	}
	return mode&need == need
}
