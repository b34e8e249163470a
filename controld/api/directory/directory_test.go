package directory

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// site returns a directory whose files have root and adm, and whose service has other lines.
func site(t *testing.T, nsswitch string, lines map[string]string) *Directory {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"nsswitch.conf": nsswitch,
		"passwd": "# comment:x:9:9::/:\nroot:x:0:0:root:/root:/bin/bash\nbroken:x:one:2:::\n" +
			"ada:x:1000:1000::/home/ada:\n",
		"group": "root:x:0:\nwheel:x:10:ada,eva\nshort:x\nada:x:1000:\n",
	} {
		if err := os.WriteFile(filepath.Join(root, "etc", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d := New(root)
	d.ask = func(_ context.Context, database, key string) (string, error) {
		line, ok := lines[database+" "+key]
		if !ok {
			return "", ErrUnknown
		}
		return line, nil
	}
	return d
}

const remote = "passwd: files remote\ngroup: files [NOTFOUND=continue] remote\n"

var people = map[string]string{
	"passwd eva": "eva:*:5001:5000:Eva:/home/eva:/bin/bash", "passwd 5001": "eva:*:5001:5000:Eva:/home/eva:/bin/bash",
	"group 5000": "vision:*:5000:", "group vision": "vision:*:5000:",
	"initgroups eva": "eva                  5000 5007 10 5003",
	"passwd lying":   "root:x:0:0::/root:", "passwd 5002": "root:x:0:0::/root:", "passwd cut": "cut:x:",
}

// TestUsersOfTheSite is a table of users and groups: of the files, of the directory, of neither.
func TestUsersOfTheSite(t *testing.T) {
	d := site(t, remote, people)
	eva := User{Name: "eva", UID: 5001, GID: 5000, Home: "/home/eva"}
	for name, want := range map[string]User{
		"root": {Name: "root", Home: "/root"}, "ada": {"ada", 1000, 1000, "/home/ada"}, "eva": eva,
		"nobody-here": {}, "": {}, "5001": {}, "-h": {}, "broken": {}, "# comment": {}, "lying": {}, "cut": {}, "a:b": {},
	} {
		got, err := d.UserByName(name)
		if want.Name == "" && !errors.Is(err, ErrUnknown) || want.Name != "" && (err != nil || got != want) {
			t.Errorf("user %q: %+v, %v", name, got, err)
		}
	}
	for uid, want := range map[uint32]string{0: "root", 1000: "ada", 5001: "eva", 5002: "", 9: "", 4_000_000_000: ""} {
		if got, err := d.UserByID(uid); got.Name != want && err == nil || (err == nil) != (want != "") {
			t.Errorf("uid %d: %+v, %v", uid, got, err)
		}
	}
	for name, want := range map[string]int{"root": 0, "wheel": 10, "vision": 5000, "short": -1, "5000": -1} {
		if got, err := d.GroupByName(name); (err == nil) != (want >= 0) || err == nil && int(got.GID) != want {
			t.Errorf("group %q: %+v, %v", name, got, err)
		}
	}
	for gid, want := range map[uint32]string{0: "root", 5000: "vision", 5009: ""} {
		if got, err := d.GroupByID(gid); (err == nil) != (want != "") || err == nil && got.Name != want {
			t.Errorf("gid %d: %+v, %v", gid, got, err)
		}
	}
	if got, err := d.GroupsOf(eva); err != nil || fmt.Sprint(got) != "[5000 10 5003 5007]" {
		t.Errorf("groups of eva: %v, %v", got, err)
	}
	ada, _ := d.UserByName("ada")
	if got, err := d.GroupsOf(ada); err != nil || fmt.Sprint(got) != "[1000 10]" {
		t.Errorf("groups of ada, unknown to the directory: %v, %v", got, err)
	}
}

// TestWhereUsersAreLookedUp: nsswitch.conf says whether the directory is asked at all, and before the
// files. A machine without getent has its files.
func TestWhereUsersAreLookedUp(t *testing.T) {
	for nsswitch, want := range map[string]string{
		"": "root 0", "passwd: files\n": "root 0", "passwd: files remote # here\n": "root 0",
		"passwd: remote files\n": "root 1", "# passwd: remote\npasswd: compat\n": "root 0", "passwd:\n": "root 0",
	} {
		asked := 0
		d := site(t, nsswitch, nil)
		d.ask = func(context.Context, string, string) (string, error) { asked++; return "root:x:0:0::/r:", nil }
		u, err := d.UserByID(0)
		if got := fmt.Sprint(u.Name, " ", asked); got != want || err != nil {
			t.Errorf("%q: %s, %v, want %s", nsswitch, got, err, want)
		}
	}
	d := site(t, "passwd: remote files\ngroup: remote\n", nil)
	d.ask = func(context.Context, string, string) (string, error) { return "", errNoHelper }
	if u, err := d.UserByName("ada"); err != nil || u.UID != 1000 {
		t.Errorf("without getent: %+v, %v", u, err)
	}
	if _, err := d.UserByName("eva"); !errors.Is(err, ErrUnknown) {
		t.Errorf("without getent, a user of the directory: %v", err)
	}
}

// TestADirectoryThatIsDown: a slow server holds a caller up for three seconds and no process is started
// twice for one question. Its late answer counts. While it gives none, its last answer does, for a day. A
// user that it no longer knows is unknown at once.
func TestADirectoryThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := site(t, remote, people)
		down, asked := false, 0
		real := d.ask
		d.ask = func(ctx context.Context, database, key string) (string, error) {
			asked++
			if down {
				select {
				case <-ctx.Done():
					return "", fmt.Errorf("%w: killed", ErrNoAnswer)
				case <-time.After(10 * time.Second):
				}
			}
			return real(ctx, database, key)
		}
		down = true
		began := time.Now()
		if _, err := d.UserByID(5001); !errors.Is(err, ErrNoAnswer) || time.Since(began) != answerWithin {
			t.Errorf("a slow directory: %v after %v", err, time.Since(began))
		}
		time.Sleep(6 * time.Second)
		if u, err := d.UserByID(5001); err != nil || u.Name != "eva" || asked != 1 {
			t.Errorf("its late answer: %+v, %v, asked %d times", u, err, asked)
		}
		if u, err := d.UserByID(5001); err != nil || u.Name != "eva" {
			t.Errorf("the answer of before: %+v, %v", u, err)
		}
		time.Sleep(helperFor + staleFor)
		if _, err := d.UserByID(5001); !errors.Is(err, ErrNoAnswer) {
			t.Errorf("an answer of yesterday: %v", err)
		}
		time.Sleep(helperFor)
		down = false
		if _, err := d.UserByID(5001); err != nil {
			t.Errorf("the directory is back: %v", err)
		}
		delete(people, "passwd 5001")
		defer func() { people["passwd 5001"] = people["passwd eva"] }()
		if _, err := d.UserByID(5001); !errors.Is(err, ErrUnknown) {
			t.Errorf("a removed user: %v", err)
		}
		down = true
		if _, err := d.UserByID(5001); !errors.Is(err, ErrNoAnswer) {
			t.Errorf("a removed user, and the directory is down: %v", err)
		}
		var last error
		for uid := range uint32(mostHelpers + 1) {
			go d.UserByID(6000 + uid)
		}
		synctest.Wait()
		if _, last = d.UserByID(7000); last == nil || !strings.Contains(last.Error(), "16 lookups") {
			t.Errorf("more lookups than helpers: %v", last)
		}
		time.Sleep(2 * helperFor)
	})
}

// TestAServiceThatIsDown: users are not taken for unknown while a service that may know them is down.
func TestAServiceThatIsDown(t *testing.T) {
	root := t.TempDir()
	if err := New(root).silentService("passwd"); err != nil {
		t.Errorf("without nsswitch.conf: %v", err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "etc/nsswitch.conf"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for text, down := range map[string]bool{
		"passwd: files systemd\ngroup: files sss\n": false, "passwd:\tfiles sss\n": true, "passwd: compat ldap\n": true,
		"# passwd: sss\n": false,
	} {
		write(text)
		if err := New(root).silentService("passwd"); (err != nil) != down || down && !errors.Is(err, ErrNoAnswer) {
			t.Errorf("%q: %v", text, err)
		}
	}
	pipes := filepath.Join(root, "var/lib/sss/pipes")
	if err := os.MkdirAll(pipes, 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(pipes, "nss"))
	if err != nil {
		t.Skipf("the test directory is too deep for a socket: %v", err)
	}
	defer l.Close()
	write("passwd: files sss\n")
	if err := New(root).silentService("passwd"); err != nil {
		t.Errorf("the service listens: %v", err)
	}
}

// TestTheMachineItself: getent of this machine is asked as it is.
func TestTheMachineItself(t *testing.T) {
	if _, err := exec.LookPath("getent"); err != nil {
		t.Skip("this machine has no getent")
	}
	for key, want := range map[string]error{"root": nil, "0": nil, "no-such-user-here": ErrUnknown} {
		line, err := getent(t.Context(), "passwd", key)
		if u, ok := parseUser(line); !errors.Is(err, want) || want == nil && (!ok || u.Name != "root") {
			t.Errorf("getent passwd %s: %q, %v", key, line, err)
		}
	}
	if _, err := getent(t.Context(), "no-such-database", "x"); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("a database that getent does not have: %v", err)
	}
	u, err := Machine.UserByID(0)
	if err != nil || u.Name != "root" {
		t.Fatalf("uid 0: %+v, %v", u, err)
	}
	if gids, err := Machine.GroupsOf(u); err != nil || !slices.Contains(gids, 0) {
		t.Errorf("groups of root: %v, %v", gids, err)
	}
}

// TestANameServiceOfTheSite looks users up that only a module of the C library knows (libnss-extrausers), in
// a mount namespace of its own: what the machine has stays as it is.
func TestANameServiceOfTheSite(t *testing.T) {
	const inside = "ROTA_TEST_NAME_SERVICE"
	if dir := os.Getenv(inside); dir != "" {
		lookUpExtraUsers(t, dir)
		return
	}
	modules, _ := filepath.Glob("/usr/lib*/libnss_extrausers.so.2")
	more, _ := filepath.Glob("/usr/lib/*/libnss_extrausers.so.2")
	if len(modules)+len(more) == 0 || os.Getuid() != 0 {
		t.Skip("it takes root and the package libnss-extrausers")
	}
	c := exec.Command(os.Args[0], "-test.run=^TestANameServiceOfTheSite$", "-test.v")
	c.Env = append(os.Environ(), inside+"="+t.TempDir())
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}

// lookUpExtraUsers is the part of the test that has the namespace.
func lookUpExtraUsers(t *testing.T, dir string) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	mount := func(name, text, at string) {
		path := filepath.Join(dir, name)
		must(os.WriteFile(path, []byte(text), 0o644))
		must(syscall.Mount(path, at, "", syscall.MS_BIND, ""))
	}
	must(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	must(syscall.Mount("tmpfs", "/var/lib/extrausers", "tmpfs", 0, ""))
	mount("nsswitch.conf", "passwd: files extrausers\ngroup: files extrausers\n", "/etc/nsswitch.conf")
	members := strings.Repeat("m,", 100_000) + "eva"
	for name, text := range map[string]string{
		"passwd": "eva:x:5001:5000:Eva:/home/eva:/bin/bash\ntwin:x:5001:5000::/home/twin:/bin/bash\n",
		"group":  "vision:x:5000:\nhpcadm:x:5007:eva\nlarge:x:5008:" + members + "\n", "shadow": "",
	} {
		must(os.WriteFile(filepath.Join("/var/lib/extrausers", name), []byte(text), 0o644))
	}
	eva, err := Machine.UserByName("eva")
	if want := (User{"eva", 5001, 5000, "/home/eva"}); err != nil || eva != want {
		t.Errorf("eva: %+v, %v", eva, err)
	}
	if u, err := Machine.UserByID(5001); err != nil || u.Name != "eva" { // of two names the first
		t.Errorf("uid 5001: %+v, %v", u, err)
	}
	if g, err := Machine.GroupsOf(eva); err != nil || fmt.Sprint(g) != "[5000 5007 5008]" {
		t.Errorf("groups of eva: %v, %v", g, err)
	}
	if g, err := Machine.GroupByName("large"); err != nil || g.GID != 5008 { // of 100,000 members
		t.Errorf("group large: %+v, %v", g, err)
	}
	if g, err := Machine.GroupByID(5007); err != nil || g.Name != "hpcadm" {
		t.Errorf("gid 5007: %+v, %v", g, err)
	}
	if root, err := Machine.UserByID(0); err != nil || root.Name != "root" {
		t.Errorf("root: %+v, %v", root, err)
	}
	if _, err := Machine.UserByName("no-such-user"); !errors.Is(err, ErrUnknown) {
		t.Errorf("an unknown user: %v", err)
	}
	must(os.WriteFile("/var/lib/extrausers/passwd", nil, 0o644))
	if _, err := Machine.UserByID(5001); !errors.Is(err, ErrUnknown) {
		t.Errorf("a removed user: %v", err)
	}
}

// FuzzLines: no line of a directory makes a user or group of another name than its first field.
func FuzzLines(f *testing.F) {
	f.Add("eva:*:5001:5000:Eva:/home/eva:/bin/bash")
	f.Add("::::::")
	f.Fuzz(func(t *testing.T, line string) {
		first, _, _ := strings.Cut(line, ":")
		if u, ok := parseUser(line); ok && (u.Name == "" || u.Name != clean(first)) {
			t.Errorf("%q is %+v", line, u)
		}
		if g, ok := parseGroup(line); ok && (g.Name == "" || g.Name != clean(first)) {
			t.Errorf("%q is %+v", line, g)
		}
	})
}
