package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api/directory"
)

// mostCompared is how many users of /etc/passwd are compared with what a directory says of them.
const mostCompared = 50

// keyUnknown is the exit status of getent for a user that the service does not know.
const keyUnknown = 2

// userDirectories compares the files of this machine with what each directory service says of the same users.
// A user that both know, and know differently, is another one on a machine without this entry of the files.
func (in *inspection) userDirectories(ctx context.Context) []finding {
	const name = "directory"
	d := directory.New(in.root)
	services, err := d.Services()
	if err != nil {
		return one(bad, name, "", "where users are looked up is not known: %v", err)
	}
	if err := d.Silent(); err != nil {
		return one(bad, name, "start the service, and look into its log: users of the directory can submit nothing, and "+
			"their jobs do not start", "%v", err)
	}
	local, err := d.Local()
	if err != nil {
		return one(bad, name, "", "/etc/passwd cannot be read: %v", err)
	}
	local = slices.DeleteFunc(local, func(u directory.User) bool { return u.UID < firstUser || u.UID >= noUser })
	local = local[:min(len(local), mostCompared)]
	var found []finding
	for _, service := range services {
		found = append(found, in.compare(ctx, d, service, local)...)
	}
	return found
}

// compare compares users of the files with what one service says of them.
func (in *inspection) compare(
	ctx context.Context, d *directory.Directory, service string, local []directory.User,
) []finding {
	const name = "directory"
	var found []finding
	slowest, same := time.Duration(0), 0
	ask := func(database, key string) (string, error) {
		begin := in.now()
		line, err := in.getent(ctx, service, database, key)
		slowest = max(slowest, in.now().Sub(begin))
		return line, err
	}
	for _, u := range local {
		differs, err := differences(u, d, ask)
		if err != nil {
			return append(found, one(bad, name, "look into the log of the service: users of the directory can submit "+
				"nothing meanwhile", "service %s of /etc/nsswitch.conf does not answer about user %s: %v", service, u.Name,
				err)...)
		}
		if len(differs) == 0 {
			same++
		}
		for _, f := range differs {
			f.Text += " by service " + service
			found = append(found, f)
		}
	}
	if slowest > directory.AnswerWithin {
		found = append(found, one(warn, name, "find out why: Rota takes a directory for silent after "+
			directory.AnswerWithin.String(), "service %s has taken %v for an answer", service,
			slowest.Round(time.Millisecond))...)
	}
	if same == len(local) {
		found = append(found, fine(name, "service %s says nothing else of %s of /etc/passwd", service,
			show.Count(same, "user", "users"))...)
	}
	return found
}

// differences compares a user of the files with the answers of a service, which may know none of it.
func differences(
	u directory.User, d *directory.Directory, ask func(database, key string) (string, error),
) (found []finding, err error) {
	const (
		name  = "directory"
		fix   = "remove the entry from the file, or have both say the same"
		group = "give the user the same groups in both"
	)
	line, err := ask("passwd", strconv.FormatUint(uint64(u.UID), 10))
	if err != nil {
		return nil, err
	}
	if other, ok := directory.ParseUser(line); ok && other.Name != u.Name {
		found = append(found, one(bad, name, "give each user a number of its own", "number %d is user %s in /etc/passwd, "+
			"and user %s", u.UID, u.Name, other.Name)...)
	}
	if line, err = ask("passwd", u.Name); err != nil {
		return nil, err
	}
	other, known := directory.ParseUser(line)
	if !known {
		return found, nil
	}
	if other.UID != u.UID {
		found = append(found, one(bad, name, fix, "user %s has number %d in /etc/passwd, and %d", u.Name, u.UID,
			other.UID)...)
	}
	if other.GID != u.GID {
		found = append(found, one(bad, name, fix, "user %s has primary group %d in /etc/passwd, and %d", u.Name, u.GID,
			other.GID)...)
	}
	if other.Home != u.Home {
		found = append(found, one(warn, name, fix, "user %s has home directory %s in /etc/passwd, and %s", u.Name, u.Home,
			other.Home)...)
	}
	own, err := d.LocalGroups(u.Name)
	if err != nil {
		return nil, err
	}
	if line, err = ask("initgroups", u.Name); err != nil {
		return nil, err
	}
	here, there := groupList(own, u.GID), groupList(directory.ParseGroups(u.Name, line), other.GID)
	if here != there {
		found = append(found, one(warn, name, group, "user %s is in groups %s in /etc/group, and in groups %s", u.Name, here,
			there)...)
	}
	return found, nil
}

// groupList writes numbers of groups, the primary one with them, in order.
func groupList(list []uint32, primary uint32) string {
	all := slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(list), primary))))
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(all), " ", ", "), "[]")
}

// getent asks one service about a user, "" if the service does not know it.
func (in *inspection) getent(ctx context.Context, service, database, key string) (string, error) {
	text, err := in.output(ctx, "getent", "-s", service, database, key)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == keyUnknown {
		return "", nil
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line, cmp.Or(err, ctx.Err())
}
