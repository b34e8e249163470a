package directory

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// services lists where nsswitch.conf has a database looked up, in order. Without the file those are the
// files of the machine.
func (d *Directory) services(database string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(d.root, "etc/nsswitch.conf"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		base, list, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(base) != database {
			continue
		}
		// Actions such as [NOTFOUND=return] are no services.
		s := slices.DeleteFunc(strings.Fields(list), func(s string) bool { return strings.ContainsAny(s, "[]=") })
		if len(s) > 0 {
			return s, nil
		}
	}
	return []string{"files"}, nil
}

func isFiles(service string) bool { return service == "files" || service == "compat" }

func onlyFiles(services []string) bool {
	return !slices.ContainsFunc(services, func(s string) bool { return !isFiles(s) })
}

// inFile returns the first line of a file of the machine that is asked for, or [ErrUnknown].
func (d *Directory) inFile(database string, is func(line string) bool) (string, error) {
	found, ok := "", false
	err := d.eachLine(database, func(line string) bool {
		if ok = is(line); ok {
			found = line
		}
		return !ok
	})
	if err == nil && !ok {
		err = ErrUnknown
	}
	return found, err
}

// memberships returns the groups that the file of groups lists a user in.
func (d *Directory) memberships(name string) (gids []uint32, err error) {
	err = d.eachLine("group", func(line string) bool {
		f := strings.Split(line, ":")
		if g, ok := parseGroup(line); ok && len(f) > 3 && slices.Contains(strings.Split(f[3], ","), name) {
			gids = append(gids, g.GID)
		}
		return true
	})
	return gids, err
}

// eachLine hands over the lines of a file below etc until f returns false. A missing file has none. An
// error wraps [ErrNoAnswer]: nothing is known of a user if the file cannot be read.
func (d *Directory) eachLine(name string, f func(line string) bool) error {
	file, err := os.Open(filepath.Join(d.root, "etc", name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	defer func() { _ = file.Close() }() // it is only read
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, mostOutput)
	for lines.Scan() && f(lines.Text()) {
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNoAnswer, file.Name(), err)
	}
	return nil
}

// parseUser reads a line of passwd(5).
func parseUser(line string) (User, bool) {
	f := strings.Split(strings.TrimRight(line, "\n"), ":")
	if len(f) < 7 {
		return User{}, false
	}
	uid, err1 := strconv.ParseUint(f[2], 10, 32)
	gid, err2 := strconv.ParseUint(f[3], 10, 32)
	u := User{Name: clean(f[0]), UID: uint32(uid), GID: uint32(gid), Home: clean(f[5])}
	return u, err1 == nil && err2 == nil && u.Name != "" && f[0][0] != '#'
}

// parseGroup reads a line of group(5).
func parseGroup(line string) (Group, bool) {
	f := strings.SplitN(strings.TrimRight(line, "\n"), ":", 4)
	if len(f) < 3 {
		return Group{}, false
	}
	gid, err := strconv.ParseUint(f[2], 10, 32)
	return Group{Name: clean(f[0]), GID: uint32(gid)}, err == nil && f[0] != "" && f[0][0] != '#'
}

// clean returns a text of the directory as UTF-8: names of other machines may be in any encoding.
func clean(text string) string { return strings.ToValidUTF8(text, "?") }

// serviceSockets are where the services of nsswitch.conf listen that may know users.
var serviceSockets = map[string]string{
	"sss": "var/lib/sss/pipes/nss", "ldap": "run/nslcd/socket", "winbind": "run/samba/winbindd/pipe",
}

// silentService returns an error if nsswitch.conf has a database looked up at a service that does not
// answer.
func (d *Directory) silentService(database string) error {
	services, err := d.services(database)
	if err != nil {
		return err
	}
	for _, name := range services {
		at := serviceSockets[name]
		if at == "" {
			continue
		}
		c, err := net.DialTimeout("unix", filepath.Join(d.root, at), time.Second)
		if err != nil {
			return fmt.Errorf("%w: service %s of /etc/nsswitch.conf: %w", ErrNoAnswer, name, err)
		}
		_ = c.Close() // nothing was written
	}
	return nil
}
