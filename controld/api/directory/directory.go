// Package directory looks up the users and groups of this machine as the C library does (NSS, the name
// service switch). It reads the files of the machine, and asks getent for users of the site's directory,
// such as LDAP through SSSD. So a program that is built without cgo finds the same users as one with it.
package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// User is an account of this machine or of the site's directory.
type User struct {
	Name     string
	UID, GID uint32 // GID is that of the primary group
	Home     string
}

// Group is a Unix group.
type Group struct {
	Name string
	GID  uint32
}

// Errors of a lookup. Others do not occur.
var (
	// ErrUnknown says that neither the files nor the directory know the user or group.
	ErrUnknown = errors.New("unknown")
	// ErrNoAnswer says that the directory gave no answer, so that nothing is known of the user or group.
	ErrNoAnswer = errors.New("the user directory of this machine does not answer")
)

// Limits of a lookup.
const (
	answerWithin = 3 * time.Second // the wait of a caller
	helperFor    = time.Minute     // what a helper process may take; its late answer serves the next caller
	staleFor     = 24 * time.Hour  // for how long an old answer stands in while the directory gives none
	mostHelpers  = 16              // helper processes at once
	mostKept     = 10_000          // answers that are kept for an outage
	mostOutput   = 16 << 20        // bytes of one answer; a group of 100,000 members has 1 MiB
)

// Directory is a directory below a root folder. It is safe for concurrent use.
type Directory struct {
	root string // "/", else of a test
	ask  func(ctx context.Context, database, key string) (string, error)

	mu      sync.Mutex
	asked   map[question]*answer // that are being asked now
	kept    map[question]keptLine
	helpers int
}

// question is one call of getent.
type question struct{ database, key string }

// answer is what a helper process finds out. Its fields are set when done is closed.
type answer struct {
	done chan struct{}
	line string
	err  error
}

// keptLine is a good answer of the directory.
type keptLine struct {
	line string
	at   time.Time
}

// New returns the directory of the machine whose files lie below root.
func New(root string) *Directory {
	return &Directory{root: root, ask: getent, asked: map[question]*answer{}, kept: map[question]keptLine{}}
}

// Machine is the directory of this machine.
var Machine = New("/")

// UserByName returns the user with a name.
func (d *Directory) UserByName(name string) (User, error) {
	if !askable(name) {
		return User{}, fmt.Errorf("user %q: %w", name, ErrUnknown)
	}
	u, err := d.user(name, func(u User) bool { return u.Name == name })
	if err != nil {
		return User{}, fmt.Errorf("user %q: %w", name, err)
	}
	return u, nil
}

// UserByID returns the user with a number. Of several with one number it is the first.
func (d *Directory) UserByID(uid uint32) (User, error) {
	u, err := d.user(number(uid), func(u User) bool { return u.UID == uid })
	if err != nil {
		return User{}, fmt.Errorf("uid %d: %w", uid, err)
	}
	return u, nil
}

// GroupByName returns the group with a name.
func (d *Directory) GroupByName(name string) (Group, error) {
	if !askable(name) {
		return Group{}, fmt.Errorf("group %q: %w", name, ErrUnknown)
	}
	g, err := d.group(name, func(g Group) bool { return g.Name == name })
	if err != nil {
		return Group{}, fmt.Errorf("group %q: %w", name, err)
	}
	return g, nil
}

// GroupByID returns the group with a number.
func (d *Directory) GroupByID(gid uint32) (Group, error) {
	g, err := d.group(number(gid), func(g Group) bool { return g.GID == gid })
	if err != nil {
		return Group{}, fmt.Errorf("gid %d: %w", gid, err)
	}
	return g, nil
}

// GroupsOf returns the numbers of all groups of a user, the primary one first, then the others in
// ascending order.
func (d *Directory) GroupsOf(u User) ([]uint32, error) {
	services, err := d.services("group")
	if err != nil {
		return nil, err
	}
	member, err := d.memberships(u.Name)
	if err != nil {
		return nil, err
	}
	if !onlyFiles(services) {
		line, err := d.line(question{"initgroups", u.Name})
		switch {
		case err == nil:
			member = append(member, groupsIn(u.Name, line)...)
		case !errors.Is(err, ErrUnknown) && !errors.Is(err, errNoHelper):
			return nil, fmt.Errorf("groups of user %q: %w", u.Name, err)
		}
	}
	slices.Sort(member)
	member = slices.DeleteFunc(slices.Compact(member), func(g uint32) bool { return g == u.GID })
	return append([]uint32{u.GID}, member...), nil
}

// user looks a user up: in the files, then in the directory. An answer that is not for the question is
// none.
func (d *Directory) user(key string, is func(User) bool) (User, error) {
	line, err := d.find("passwd", key, func(line string) bool {
		u, ok := parseUser(line)
		return ok && is(u)
	})
	u, _ := parseUser(line)
	return u, err
}

// group looks a group up like user does.
func (d *Directory) group(key string, is func(Group) bool) (Group, error) {
	line, err := d.find("group", key, func(line string) bool {
		g, ok := parseGroup(line)
		return ok && is(g)
	})
	g, _ := parseGroup(line)
	return g, err
}

// find returns the line of a database that is asked for.
func (d *Directory) find(database, key string, is func(line string) bool) (string, error) {
	services, err := d.services(database)
	if err != nil {
		return "", err
	}
	// 1. Files come first nearly everywhere, and reading them starts no process.
	if isFiles(services[0]) {
		line, err := d.inFile(database, is)
		if !errors.Is(err, ErrUnknown) || onlyFiles(services) {
			return line, err
		}
	}
	// 2. The directory. A machine without getent has its files only.
	line, err := d.line(question{database, key})
	if errors.Is(err, errNoHelper) {
		return d.inFile(database, is)
	}
	if err == nil && !is(line) {
		err = ErrUnknown
	}
	return line, err
}

// line returns the answer of the directory, or an old one if it gives none now.
func (d *Directory) line(q question) (string, error) {
	a, err := d.begin(q)
	if err == nil {
		patience := time.NewTimer(answerWithin)
		defer patience.Stop()
		select {
		case <-a.done:
			err = a.err
		case <-patience.C:
			err = fmt.Errorf("%w within %v", ErrNoAnswer, answerWithin)
		}
	}
	if !errors.Is(err, ErrNoAnswer) {
		if err != nil {
			return "", err
		}
		return a.line, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if k, ok := d.kept[q]; ok && time.Since(k.at) < staleFor {
		return k.line, nil
	}
	return "", err
}

// begin starts a helper process for a question, or joins the one that asks it already.
func (d *Directory) begin(q question) (*answer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.asked[q]; a != nil {
		return a, nil
	}
	if d.helpers >= mostHelpers {
		return nil, fmt.Errorf("%w: %d lookups are under way", ErrNoAnswer, d.helpers)
	}
	a := &answer{done: make(chan struct{})}
	d.asked[q] = a
	d.helpers++
	go d.answer(q, a)
	return a, nil
}

// answer asks the directory, and keeps a good answer for the time of an outage.
func (d *Directory) answer(q question, a *answer) {
	ctx, cancel := context.WithTimeout(context.Background(), helperFor)
	defer cancel()
	a.line, a.err = d.ask(ctx, q.database, q.key)
	if errors.Is(a.err, ErrUnknown) && q.database != "initgroups" {
		// The C library says "unknown" as well if the service that knows the user is down.
		if err := d.silentService(q.database); err != nil {
			a.err = err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.asked, q)
	d.helpers--
	switch {
	case a.err == nil && (len(d.kept) < mostKept || d.kept[q].line != ""):
		d.kept[q] = keptLine{a.line, time.Now()}
	case errors.Is(a.err, ErrUnknown):
		delete(d.kept, q) // it was removed
	}
	close(a.done)
}

// askable reports whether getent takes a text for a name. It would take digits for a number.
func askable(name string) bool {
	_, err := strconv.ParseUint(name, 10, 64)
	return name != "" && err != nil && !strings.HasPrefix(name, "-") && !strings.ContainsAny(name, ":\n\x00")
}

func number(id uint32) string { return strconv.FormatUint(uint64(id), 10) }

// groupsIn returns the groups of a line of getent initgroups, which begins with the user's name.
func groupsIn(name, line string) []uint32 { return numbers(strings.TrimPrefix(line, name)) }

// numbers returns the numbers of a text that white space parts.
func numbers(text string) []uint32 {
	var list []uint32
	for f := range strings.FieldsSeq(text) {
		if n, err := strconv.ParseUint(f, 10, 32); err == nil {
			list = append(list, uint32(n))
		}
	}
	return list
}
