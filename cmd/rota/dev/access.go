package dev

import (
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// noteNoWrite says so before jobs fail if the user as which root's jobs run cannot write where they
// are submitted from.
func (d *devCluster) noteNoWrite() {
	acc, err := user.Lookup(d.opts.jobsAs)
	if err != nil {
		return // the controllers say so
	}
	groups, _ := acc.GroupIds() // without them it may be noted of a directory that a group can write to
	if w := (account{acc.Uid, append(groups, acc.Gid)}); !w.canWrite(d.opts.from) {
		d.Notef("jobs of root run as %s, which cannot write to %s: they can write to %s, or use \"chmod o+rwx .\"",
			d.opts.jobsAs, d.opts.from, d.path("shared"))
	}
}

// account is a user's number with those of its groups.
type account struct {
	uid  string
	gids []string
}

// canWrite reports whether an account may enter a directory, and make files there, by the modes of it
// and of those above it.
func (a account) canWrite(dir string) bool {
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
func (a account) may(info os.FileInfo, need uint32) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	number := func(id uint32) string { return strconv.FormatUint(uint64(id), 10) }
	mode := s.Mode
	switch {
	case a.uid == "0":
		return true
	case a.uid == number(s.Uid):
		mode >>= 6
	case slices.Contains(a.gids, number(s.Gid)):
		mode >>= 3
	}
	return mode&need == need
}
