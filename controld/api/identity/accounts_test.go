package identity

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/user"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/controld/api/directory"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
	"github.com/rota-hpc/rota/controld/model"
)

// noSuchID is the number of no user and no group of this machine.
const noSuchID = 4_000_000_123

// TestAnAccountIsRememberedForAMinute changes what is remembered and waits until the machine is asked
// again: after a minute, and after five seconds where it knew nothing.
func TestAnAccountIsRememberedForAMinute(t *testing.T) {
	before := errors.New("what was remembered")
	for _, c := range []struct {
		uid     uint32
		known   bool
		seconds int
	}{{0, true, 60}, {noSuchID, false, 5}} {
		synctest.Test(t, func(t *testing.T) {
			var u Users
			first, err := u.ByUID(c.uid)
			if (err == nil) != c.known || first.UID != c.uid || c.known != (first.User == "root") {
				t.Fatalf("uid %d: %+v, %v", c.uid, first, err)
			}
			k := u.known[c.uid]
			k.id.User, k.err = "before", before
			u.known[c.uid] = k
			time.Sleep(time.Duration(c.seconds)*time.Second - 1)
			if got, err := u.ByUID(c.uid); got.User != "before" || !errors.Is(err, before) {
				t.Errorf("uid %d just before its time is over: %+v, %v", c.uid, got, err)
			}
			time.Sleep(time.Nanosecond)
			if got, err := u.ByUID(c.uid); got.User != first.User || errors.Is(err, before) || (err == nil) != c.known {
				t.Errorf("uid %d after its time: %+v, %v", c.uid, got, err)
			}
		})
	}
}

// TestAGroupIsRememberedForAMinute does the same with groups, by name and by number.
func TestAGroupIsRememberedForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Groups
		for _, unknown := range []string{"", "no-such-group-here"} {
			if n, ok := g.gid(unknown); ok || n != 0 {
				t.Errorf("group %q: %d", unknown, n)
			}
		}
		if n, ok := g.gid("root"); !ok || n != 0 {
			t.Fatalf("root's group: %d, %t", n, ok)
		}
		if root, none := g.Name(0), g.Name(noSuchID); root != "root" || none != "" {
			t.Fatalf("names %q and %q", root, none)
		}
		g.known["root"] = knownGroup{7, true, g.known["root"].until}
		g.known["no-such-group-here"] = knownGroup{8, true, g.known["no-such-group-here"].until}
		g.names[0] = groupName{"before", g.names[0].until}
		g.names[noSuchID] = groupName{"before", g.names[noSuchID].until}
		time.Sleep(time.Minute - 1)
		n, _ := g.gid("root")
		none, _ := g.gid("no-such-group-here")
		if got := fmt.Sprintln(n, none, g.Name(0), g.Name(noSuchID)); got != "7 8 before before\n" {
			t.Errorf("just before their time is over: %s", got)
		}
		time.Sleep(time.Nanosecond)
		n, _ = g.gid("root")
		_, known := g.gid("no-such-group-here")
		if got := fmt.Sprintln(n, known, g.Name(0), g.Name(noSuchID) == ""); got != "0 false root true\n" {
			t.Errorf("after their time: %s", got)
		}
	})
}

// withoutFiles runs f while this process can open nothing: neither a file nor a socket.
func withoutFiles(t *testing.T, f func()) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
	}()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	f()
}

// TestADaemonThatCanOpenNothing takes no caller for root, and asks again soon for what it could not
// find out: it has reached its limit of open files.
func TestADaemonThatCanOpenNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	there, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	local, remote := netip.MustParseAddrPort(c.LocalAddr().String()), netip.MustParseAddrPort(c.RemoteAddr().String())
	withoutFiles(t, func() {
		if uid, err := diagOwner(local, remote); !errors.Is(err, syscall.EMFILE) {
			t.Errorf("the kernel cannot be asked, and says uid %d: %v", uid, err)
		}
		if p, err := peerOfConn(there); err == nil || errors.Is(err, ErrNotLocal) {
			t.Errorf("the peer is %+v, %v", p, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var u Users
		var g Groups
		ask := func() string {
			id, err := u.ByUID(1)
			gid, known := g.gid("daemon")
			return fmt.Sprintf("%q %t %d %t %q", id.User, err == nil, gid, known, g.Name(1))
		}
		const none, all = `"" false 0 false ""`, `"daemon" true 1 true "daemon"`
		if ask() != all {
			t.Skip("this machine has no account daemon")
		}
		u, g = Users{}, Groups{}
		withoutFiles(t, func() {
			_, byID := user.LookupGroupId("1")
			_, byName := user.LookupGroup("daemon")
			var unknownID user.UnknownGroupIdError
			var unknown user.UnknownGroupError
			if byID == nil || byName == nil || errors.As(byID, &unknownID) || errors.As(byName, &unknown) {
				t.Skip("the libraries of this machine take a group for unknown when they cannot look")
			}
		})
		withoutFiles(t, func() {
			if got := ask(); got != none {
				t.Errorf("without files it knows %s", got)
			}
		})
		time.Sleep(usersFailed - 1)
		if got := ask(); got != none {
			t.Errorf("shortly after it knows %s", got)
		}
		time.Sleep(time.Nanosecond)
		if got := ask(); got != all {
			t.Errorf("after five seconds it knows %s", got)
		}
	})
}

// TestTheMemoryHasAnEnd asks for more accounts and groups than are kept: a daemon that any user may
// ask does not grow for ever.
func TestTheMemoryHasAnEnd(t *testing.T) {
	later := time.Now().Add(time.Hour)
	u, g := Users{known: map[uint32]knownUser{}}, Groups{known: map[string]knownGroup{}, names: map[uint32]groupName{}}
	for i := range uint32(usersKept - 1) {
		u.known[i+1] = knownUser{until: later}
		g.known[fmt.Sprint("g", i)] = knownGroup{until: later}
		g.names[i+1] = groupName{until: later}
	}
	ask := func(id uint32, name string) string {
		_, _ = u.ByUID(id) // whether they exist is the same here
		_, _ = g.gid(name)
		_ = g.Name(id)
		return fmt.Sprint(len(u.known), " ", len(g.known), " ", len(g.names))
	}
	if got := ask(0, "root"); got != "10000 10000 10000" {
		t.Errorf("as many as are kept: %s", got)
	}
	if got := ask(noSuchID, "no-such-group-here"); got != "1 1 1" {
		t.Errorf("one more: %s", got)
	}
}

// TestUsersOfASilentDirectory: a user of the directory does not become a user that is named by a number
// while the directory is silent, and users of the files need none.
func TestUsersOfASilentDirectory(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(root+"/etc", 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(root+"/etc/"+name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("passwd", "ada:x:1000:1000::/home/ada:/bin/sh\n")
	for nsswitch, want := range map[string]string{"passwd: files\n": "4000000123", "passwd: files ldap\n": ""} {
		write("nsswitch.conf", nsswitch) // nslcd does not run below root
		u := Users{Directory: directory.New(root)}
		if id, err := u.Of(Peer{UID: 1000, GID: 7}); err != nil || id.User != "ada" || id.GID != 7 {
			t.Errorf("%q: ada is %+v, %v", nsswitch, id, err)
		}
		id, err := u.Of(Peer{UID: noSuchID})
		if id.User != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, directory.ErrNoAnswer) {
			t.Errorf("%q: the other user is %+v, %v", nsswitch, id, err)
		}
	}
}

// TestAccountsOfThisMachine finds an account by its name and by its number, each group once.
func TestAccountsOfThisMachine(t *testing.T) {
	var u Users
	byName, err := u.ByName("root")
	if err != nil || byName.UID != 0 || byName.User != "root" || byName.Home == "" || byName.GID != 0 {
		t.Errorf("root is %+v, %v", byName, err)
	}
	if slices.Contains(byName.GIDs, byName.GID) || !slices.IsSorted(byName.GIDs) {
		t.Errorf("root's other groups are %d", byName.GIDs)
	}
	if _, err := u.ByName("no-such-user-here"); !strings.Contains(fmt.Sprint(err), `user "no-such-user-here": unknown`) {
		t.Errorf("a name of no account: %v", err)
	}
	if id, err := u.ByUID(noSuchID); err == nil || id.UID != noSuchID || !strings.Contains(err.Error(), "uid 4000000123") {
		t.Errorf("a number of no account: %+v, %v", id, err)
	}
}

// TestTheKernelsWordOnGroups: what a login is in counts, and not what the group file says; of a caller
// over TCP the kernel says no groups.
func TestTheKernelsWordOnGroups(t *testing.T) {
	later := time.Now().Add(time.Hour)
	u := Users{known: map[uint32]knownUser{
		5: {id: model.Identity{UID: 5, User: "ada", GID: 1, GIDs: []uint32{2, 3}, Home: "/home/ada"}, until: later}},
		named: map[uint32]knownUser{5: {id: model.Identity{UID: 5, User: "ada", Home: "/home/ada"}, until: later}}}
	told := []uint32{11, 9, 10}
	for _, c := range []struct {
		peer  Peer
		want  model.Identity
		fails bool
	}{
		{Peer{UID: 5, GID: 9, GIDs: told}, model.Identity{UID: 5, User: "ada", GID: 9, GIDs: []uint32{10, 11},
			Home: "/home/ada"}, false},
		{Peer{UID: 5, GID: 9}, model.Identity{UID: 5, User: "ada", GID: 9, Home: "/home/ada"}, false},
		{Peer{UID: 5, TCP: true}, model.Identity{UID: 5, User: "ada", GID: 1, GIDs: []uint32{2, 3}, Home: "/home/ada"},
			false},
		{Peer{UID: noSuchID, GID: 9, GIDs: []uint32{4}}, model.Identity{UID: noSuchID, User: "4000000123", GID: 9,
			GIDs: []uint32{4}}, false},
		{Peer{UID: noSuchID, TCP: true}, model.Identity{UID: noSuchID}, true},
	} {
		got, err := u.Of(c.peer)
		if (err != nil) != c.fails || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) {
			t.Errorf("%+v is %+v, %v", c.peer, got, err)
		}
	}
	if !slices.Equal(told, []uint32{11, 9, 10}) {
		t.Errorf("the connection's groups are now %d", told)
	}
}

// TestWhatMembersMayWrite sends a user's headers that are damaged, or left out.
func TestWhatMembersMayWrite(t *testing.T) {
	cluster := pkitest.New(t)
	addr, last := whoAmI(t, &Guard{Credential: cluster.First()}, "tcp")
	rt := transport(t, cluster.Member(pki.Login, "l1"), true)
	full := map[string]string{headerUID: "7", headerGID: "8", headerGIDs: "9,10", headerUser: "ada",
		headerHome: "/home/ada"}
	for _, c := range []struct {
		name, value string
		want        string // the user, or a part of the refusal
	}{
		{"", "", "{UID:7 GID:8 GIDs:[9 10] User:ada Home:/home/ada}"},
		{headerGID, "", "{UID:7 GID:0 GIDs:[9 10] User:ada Home:/home/ada}"},
		{headerGIDs, "", "{UID:7 GID:8 GIDs:[] User:ada Home:/home/ada}"},
		{headerGIDs, ",9,,10,", "{UID:7 GID:8 GIDs:[9 10] User:ada Home:/home/ada}"},
		{headerUID, "4294967295", "{UID:4294967295 GID:8 GIDs:[9 10] User:ada Home:/home/ada}"},
		{headerUID, "ada", `header Rota-Uid: "ada" is not a uid or gid`},
		{headerUID, "-1", `header Rota-Uid: "-1" is not a uid or gid`},
		{headerUID, "4294967296", `header Rota-Uid: "4294967296" is not a uid or gid`},
		{headerGID, "x", `header Rota-Gid: "x" is not a uid or gid`},
		{headerGIDs, "9,x", `header Rota-Gids: "x" is not a uid or gid`},
		{headerUser, "ad\xff", "headers Rota-User, Rota-Home and Rota-Group: not UTF-8"},
		{headerHome, "/home/\xff", "headers Rota-User, Rota-Home and Rota-Group: not UTF-8"},
	} {
		h := http.Header{}
		for name, value := range full {
			h.Set(name, value)
		}
		if c.name != "" {
			h.Set(c.name, c.value)
		}
		code, body := do(t, rt, "https://"+addr, "done", h)
		got := body
		if code == http.StatusOK && body == "done" {
			got = fmt.Sprintf("%+v", last().User)
		}
		if !strings.Contains(got, c.want) || (code == http.StatusOK) != strings.HasPrefix(c.want, "{") {
			t.Errorf("%s %q: %d %s", c.name, c.value, code, got)
		}
	}
	h := http.Header{headerMember: {"controller/c9"}, headerOrigin: {"192.0.2.9"}}
	if code, _ := do(t, rt, "https://"+addr, "", h); code != 200 || last().From != "l1" || last().Origin != "" {
		t.Errorf("a login node that poses as a controller: %d, %+v", code, last())
	}
	PassOn(h, Caller{Role: string(pki.Node), From: "n1", Machine: true})
	NameOrigin(h, "192.0.2.9")
	rt = transport(t, cluster.Member(pki.Controller, "c2"), true)
	if code, _ := do(t, rt, "https://"+addr, "", h); code != 200 || last().From != "n1" || last().Role != "node" ||
		last().Origin != "192.0.2.9" || !last().Machine {
		t.Errorf("a controller passes on: %d, %+v", code, last())
	}
	if Unvouch(h); len(h) != 0 {
		t.Errorf("a proxy passes on %v", h)
	}
}

// TestNoCallerIsGuessed asks for callers where there is none.
func TestNoCallerIsGuessed(t *testing.T) {
	if c, ok := CallerOf(t.Context()); ok || c.Machine || c.Role != "" {
		t.Errorf("of no request: %+v", c)
	}
	want := Caller{Role: "node", From: "n1", Machine: true}
	if c, ok := CallerOf(WithCaller(t.Context(), want)); !ok || c.From != "n1" || !c.Machine {
		t.Errorf("of a node: %+v, %t", c, ok)
	}
	plain, secure := httptest.NewRequest("GET", "/", nil), httptest.NewRequest("GET", "/", nil)
	secure.TLS = &tls.ConnectionState{}
	other := plain.WithContext(ConnContext(t.Context(), strangerConn{}))
	for what, c := range map[string]struct {
		guard *Guard
		r     *http.Request
	}{
		"a connection that was not kept":         {&Guard{Loopback: true}, plain},
		"a machine that is in no cluster":        {&Guard{}, secure},
		"a caller that shows no certificate":     {&Guard{Credential: pkitest.New(t).First()}, secure},
		"a user over TLS without a certificate":  {&Guard{Credential: pkitest.New(t).First(), Loopback: true}, secure},
		"a connection of another kind, rota dev": {&Guard{Loopback: true}, other},
	} {
		if got, err := c.guard.Caller(c.r); !errors.Is(err, ErrUnauthorised) || got.Machine || got.User.User != "" {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
}

// TestAGuardLooksUsersUpWhereItIsTold shares what is remembered with the rest of a daemon.
func TestAGuardLooksUsersUpWhereItIsTold(t *testing.T) {
	uid := uint32(os.Getuid())
	shared := &Users{named: map[uint32]knownUser{
		uid: {id: model.Identity{UID: uid, User: "ada"}, until: time.Now().Add(time.Hour)}}}
	addr, last := whoAmI(t, &Guard{Users: shared}, "unix")
	rt := &http.Transport{Dial: func(string, string) (net.Conn, error) { return net.Dial("unix", addr) }}
	defer rt.CloseIdleConnections()
	if code, _ := do(t, rt, "http://x/", "", nil); code != 200 || last().User.User != "ada" {
		t.Errorf("%d, %+v", code, last())
	}
}

// TestALinkThatSpeaksFirst has the accepting end write before it reads, and be closed by a caller that
// proves nothing.
func TestALinkThatSpeaksFirst(t *testing.T) {
	cluster := pkitest.New(t)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := openLink(cluster.First()).Listen(plain)
	accepted := make(chan net.Conn)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	silent, err := net.Dial("tcp", plain.Addr().String()) // the next connection does not wait for it
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	defer (<-accepted).Close()
	wrote := make(chan error)
	go func() {
		c := <-accepted
		_, err := io.WriteString(c, "welcome")
		wrote <- err
	}()
	there, err := openLink(cluster.Member(pki.Controller, "c2")).Dial(t.Context(), "first", plain.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	b := make([]byte, 7)
	if _, err := io.ReadFull(there, b); err != nil || string(b) != "welcome" || <-wrote != nil {
		t.Errorf("%q, %v", b, err)
	}
	stranger, err := net.Dial("tcp", plain.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	if _, err := io.WriteString(stranger, "GET / HTTP/1.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	c := <-accepted
	for range 2 { // it stays refused
		if n, err := c.Write([]byte("secret")); err == nil || n != 0 {
			t.Errorf("a stranger is written to: %d, %v", n, err)
		}
		if n, err := c.Read(b); err == nil || n != 0 {
			t.Errorf("a stranger is read: %d, %v", n, err)
		}
	}
	// to the end: the connection is closed
	if said, err := io.ReadAll(stranger); strings.Contains(string(said), "secret") {
		t.Errorf("the stranger reads %q, %v", said, err)
	}
	if err := plain.Close(); err != nil {
		t.Fatal(err)
	}
	if c, ok := <-accepted; ok {
		t.Errorf("a listener that is closed accepts %v", c)
	}
}
