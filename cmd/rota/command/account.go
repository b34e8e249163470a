package command

import (
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// Account is a user's number with those of its groups.
type Account struct {
	UID  string
	GIDs []string
}

// AccountOf returns the account of a user of this host.
func AccountOf(name string) (Account, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return Account{}, err
	}
	groups, _ := u.GroupIds() // without them it may be noted of a directory that a group can write to
	return Account{u.Uid, append(groups, u.Gid)}, nil
}

// CanWrite reports whether an account may enter a directory, and make files there, by the modes of it
// and of those above it.
func (a Account) CanWrite(dir string) bool {
	const write, enter = 0o2, 0o1
	for need := uint32(write | enter); ; need = enter {
		info, err := os.Stat(dir)
		if err != nil || !a.may(info, need) {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
		dir = filepath.Dir(dir)
	}
}

// may reports whether the mode of a file gives an account the rights, as bits of the others' rights.
func (a Account) may(info os.FileInfo, need uint32) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	number := func(id uint32) string { return strconv.FormatUint(uint64(id), 10) }
	mode := s.Mode
	switch {
	case a.UID == "0":
		return true
	case a.UID == number(s.Uid):
		mode >>= 6
	case slices.Contains(a.GIDs, number(s.Gid)):
		mode >>= 3
	}
	return mode&need == need
}
