package daemon

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"github.com/rota-hpc/rota/controld/api/directory"
	"github.com/urfave/cli/v2"
)

// ActAsOwner makes this process act as the account that a data directory belongs to, if root runs
// it and the directory is not root's. A daemon of that account could not read root's files. It
// stays root where there is no such directory yet. It must be called before anything is written,
// and says on out what it does.
func ActAsOwner(dir string, out io.Writer) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	groups, name := groupsOf(owner.Uid)
	if err := errors.Join(syscall.Setgroups(groups), syscall.Setgid(int(owner.Gid)),
		syscall.Setuid(int(owner.Uid))); err != nil {
		return fmt.Errorf("act as %s, which owns %s: %w", name, dir, err)
	}
	fmt.Fprintf(out, "acting as %s, which owns %s\n", name, dir)
	return nil
}

// groupsOf returns the groups of an account, as far as they are known, and its name or number.
func groupsOf(uid uint32) (gids []int, name string) {
	name = "uid " + strconv.FormatUint(uint64(uid), 10)
	u, err := directory.Machine.UserByID(uid)
	if err != nil {
		return nil, name // an account of another machine, or of none
	}
	list, _ := directory.Machine.GroupsOf(u) // without them it has the group of its data directory
	for _, gid := range list {
		gids = append(gids, int(gid))
	}
	return gids, u.Name
}

// OwnFlags refuses flags that stand before a command: the command has its own, and these would not
// count.
func OwnFlags(c *cli.Context) error {
	for _, outer := range c.Lineage()[1:] {
		if outer.App == nil || outer.Command == nil {
			continue
		}
		if set := outer.LocalFlagNames(); len(set) > 0 {
			return fmt.Errorf("--%s must come after %s: write %s %s --%s ...", set[0], c.Command.Name, c.App.Name,
				c.Command.Name, set[0])
		}
	}
	return nil
}
