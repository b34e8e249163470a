package doctor

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
)

// firstUser is the lowest user id of an ordinary user.
const firstUser = 1000

// noUser is the user id of nobody; ids from there on do not count as ordinary users.
const noUser = 65534

// account is a user of this machine.
type account struct {
	Name string `json:"name"`
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
}

// userList is the output of rota doctor --users.
type userList struct {
	Host   string    `json:"host"`
	Digest string    `json:"digest"` // equal on machines with the same ordinary users
	Items  []account `json:"items"`
}

// accounts returns the users that this machine knows, sorted by user id. It runs getent, which
// includes directory services, and otherwise reads /etc/passwd.
func (in *inspection) accounts(ctx context.Context) []account {
	text, err := in.output(ctx, "getent", "passwd")
	if err != nil {
		text, _ = in.read("/etc/passwd") // without a readable file there are no users
	}
	return parseUsers(string(text))
}

func parseUsers(text string) []account {
	var list []account
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 4 {
			continue
		}
		uid, err1 := strconv.Atoi(f[2])
		gid, err2 := strconv.Atoi(f[3])
		if err1 == nil && err2 == nil {
			list = append(list, account{f[0], uid, gid})
		}
	}
	slices.SortFunc(list, func(a, b account) int { return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Name, b.Name)) })
	return list
}

// ordinary returns the users with ids from firstUser to noUser, without system accounts.
func ordinary(all []account) []account {
	return slices.DeleteFunc(slices.Clone(all), func(a account) bool { return a.UID < firstUser || a.UID >= noUser })
}

// digest returns a short hash of a list of users.
func digest(users []account) string {
	h := sha256.New()
	for _, a := range users {
		fmt.Fprintf(h, "%s:%d:%d\n", a.Name, a.UID, a.GID)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// printUsers prints the ordinary users of this machine and their digest.
func (in *inspection) printUsers(ctx context.Context, env *command.Env, asJSON bool) error {
	list := ordinary(in.accounts(ctx))
	host, err := in.hostname()
	if err != nil {
		return err
	}
	if asJSON {
		return table.PrintJSON(env.Stdout, userList{host, digest(list), list})
	}
	t := table.New("USER", ">UID", ">GID")
	for _, a := range list {
		t.Add(a.Name, strconv.Itoa(a.UID), strconv.Itoa(a.GID))
	}
	if err := t.Print(env.Stdout, env.Screen(), table.AsTable, true); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "digest %s of %s\n", digest(list), show.Count(len(list), "user", "users"))
	return err
}

// users compares this machine's users with the users of the cluster's jobs. A job runs under its
// user's number, so a number must mean the same user on every machine.
func (in *inspection) users(ctx context.Context) []finding {
	const name = "numbers"
	all := in.accounts(ctx)
	list := ordinary(all)
	found := one(note, "digest", "", "%s, digest %s: compare it with that of other machines by "+
		"rota doctor --users", show.Count(len(list), "ordinary user", "ordinary users"), digest(list))
	names, uids := map[int][]string{}, map[string]int{}
	for _, a := range all {
		names[a.UID] = append(names[a.UID], a.Name)
		uids[a.Name] = a.UID
	}
	for _, uid := range slices.Sorted(maps.Keys(names)) {
		if several := unique(names[uid]); len(several) > 1 && uid >= firstUser && uid < noUser {
			found = append(found, one(warn, name, "give each user a number of its own", "number %d is all of %s here: each may "+
				"change the jobs of the others", uid, strings.Join(several, ", "))...)
		}
	}
	if len(in.cluster.jobs) == 0 {
		return found
	}
	pairs := map[string]int{}
	for _, j := range in.cluster.jobs {
		pairs[j.User] = int(j.UID)
	}
	different := 0
	for _, user := range slices.Sorted(maps.Keys(pairs)) {
		uid := pairs[user]
		own, known := uids[user]
		switch {
		case known && own != uid:
			found = append(found, one(bad, name, "give the user the same number on all machines", "user %s has number %d "+
				"here, but its jobs have %d", user, own, uid)...)
			different++
		case !known && len(names[uid]) > 0:
			found = append(found, one(bad, name, "give each user the same number on all machines", "number %d is user %s "+
				"here, but jobs with this number belong to user %s", uid, strings.Join(names[uid], ", "), user)...)
			different++
		case !known && in.forNode():
			found = append(found, one(warn, name, "create the user here with this number, or connect this machine to the "+
				"directory service", "user %s (%d) has jobs in the cluster, but is unknown on this machine", user, uid)...)
			different++
		}
	}
	if different == 0 {
		found = append(found, fine(name, "%s the same number here",
			show.Count(len(pairs), "user with jobs has", "users with jobs have"))...)
	}
	return found
}
