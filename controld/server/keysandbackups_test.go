package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/backup"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/peers"
)

// keyed is a small controller with an authority.
func keyed(t *testing.T) *site {
	t.Helper()
	s := small(t)
	dir := filepath.Join(t.TempDir(), "tls")
	if _, err := pki.Init(dir, "c1"); err != nil {
		t.Fatal(err)
	}
	credential, err := pki.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.Credential = credential
	return s
}

// TestABackupForRoot is whole, says what it is of, and leaves nothing behind on the controller.
func TestABackupForRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root gets a backup")
	}
	s := keyed(t)
	s.DataDir = t.TempDir()
	s.fresh.Store(true)
	job := s.submitAt("kept")
	var about subject
	var failure error
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	served := &http.Server{ConnContext: identity.ConnContext, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			x := s.of(named("root", 0), "")
			x.r, x.w = r, w
			_, failure = writeBackup(x)
			if about = x.about; failure != nil && !x.sent {
				w.WriteHeader(http.StatusTeapot)
			}
		})}
	go func() { _ = served.Serve(listener) }()
	t.Cleanup(func() { served.Close() })
	dial := func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", listener.Addr().String())
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	file := filepath.Join(t.TempDir(), "backup")
	ask := func(body string) error {
		t.Helper()
		resp, err := client.Post("http://c1/v1/backup", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if left, _ := os.ReadDir(s.DataDir); len(left) > 0 {
			t.Errorf("%s leaves %v", body, left)
		}
		if failure == nil && resp.Header.Get("Content-Type") != "application/octet-stream" {
			t.Errorf("the answer is %v", resp.Header)
		}
		return failure
	}
	const passphrase = "correct horse battery"
	for _, keys := range []bool{false, true} {
		body := fmt.Sprintf(`{"with_keys":%t,"passphrase":%q}`, keys, passphrase)
		if err := ask(body); err != nil {
			t.Fatal(err)
		}
		parts, has := "", false
		m, sealed, err := backup.Read(file, backup.Uses{
			State: func(r io.Reader) error {
				text, err := io.ReadAll(r)
				has = strings.Contains(string(text), `"kept"`)
				parts += "state "
				return err
			},
			History: func(r io.Reader) error {
				text, err := io.ReadAll(r)
				parts += fmt.Sprintf("history %t", len(text) > 0)
				return err
			}})
		v := s.Replica.View()
		if err != nil || parts != "state history true" || !has || m.Controller != "c1" || m.Index != v.Index() ||
			m.LastSeq != v.LastSeq() || m.DataFormat != state.DataFormat || m.Version != api.Build() ||
			m.Cluster != v.Trust().Cluster || m.Name != v.Config().ClusterName || m.Generation != "0" || m.Keys != keys ||
			time.Since(m.Saved) > time.Minute || (about.object == "keys") != keys {
			t.Errorf("with keys %t: %+v, %q, has job %d: %t, %v, about %q", keys, m, parts, job, has, err, about.object)
		}
		if !keys {
			continue
		}
		opened, err := backup.Unseal(sealed, m.Cluster, passphrase)
		own, err2 := s.Credential.Files()
		if err != nil || err2 != nil || len(opened.Files) != len(own) || len(own) == 0 {
			t.Errorf("%d keys of %d, %v, %v", len(opened.Files), len(own), err, err2)
		}
	}
	refused := func(what, body, code, says string) {
		t.Helper()
		if err := ask(body); codeOf(err) != code || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("keys under a short passphrase", `{"with_keys":true,"passphrase":"short"}`, api.CodeInvalid, "keys: ")
	refused("an odd word", `{"with":true}`, api.CodeInvalid, "with")
	s.backups.mu.Lock()
	refused("while another one is written", `{}`, api.CodeWrongState, "another backup")
	s.backups.mu.Unlock()
	s.fresh.Store(false)
	refused("while the controller has just started", `{}`, api.CodeNoLeader, "just started")
	s.fresh.Store(true)
	dir := s.DataDir
	s.DataDir = filepath.Join(dir, "none")
	if err := ask(`{}`); err == nil || !strings.Contains(err.Error(), "room for the backup") {
		t.Errorf("without room: %v", err)
	}
	s.DataDir = dir
	if err := ask(`{}`); err != nil {
		t.Errorf("after all that: %v", err)
	}
	x := s.of(named("root", 0), "")
	if wantCode(t, x.localRoot(), api.CodeDenied); x.sent {
		t.Error("a request over the network gets a backup")
	}
	mine := errors.New("full")
	if err := writeFile(filepath.Join(dir, "x"), func(io.Writer) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("a part that is not written: %v", err)
	}
	if err := writeFile(filepath.Join(dir, "x"), func(io.Writer) error { return nil }); err == nil {
		t.Error("a file that is there already is written over")
	}
}

// TestAMachineJoins with the secret of a token for its role, once, and a stranger learns and leaves nothing.
func TestAMachineJoins(t *testing.T) {
	s := keyed(t)
	s.Gossip = "g:1"
	boot(t, s.Server, "up", "b")
	token := func(role string) string {
		t.Helper()
		made, err := createJoinToken(s.of(named("adm", 5), ""), &api.JoinTokenRequest{Role: role})
		if err != nil || made.Role != role || made.ExpiresIn < 86_300 || made.ExpiresIn > 86_400 {
			t.Fatalf("%+v, %v", made, err)
		}
		read, err := pki.ParseToken(made.Token)
		if err != nil {
			t.Fatal(err)
		}
		return read.Secret()
	}
	request := func() string {
		r, err := pki.NewRequest()
		if err != nil {
			t.Fatal(err)
		}
		return string(r.PEM)
	}
	node, login, mine := token("node"), token("login"), request()
	if tokens := s.Replica.View().Trust().Tokens; len(tokens) != 2 || tokens[0].By != "adm" || tokens[0].Role != "node" {
		t.Errorf("the log has %+v", tokens)
	}
	for _, c := range []struct {
		name string
		req  api.JoinRequest
		code string
		says string
	}{
		{"no role", api.JoinRequest{Secret: node, Role: "x", Name: "n1", Request: mine}, api.CodeInvalid, "not a role"},
		{"no name", api.JoinRequest{Secret: node, Role: "node", Name: "a b", Request: mine}, api.CodeInvalid, "'s name"},
		{"a wrong secret", api.JoinRequest{Secret: "x", Role: "node", Name: "n1", Request: mine}, "", "not known"},
		{"no request", api.JoinRequest{Secret: node, Role: "node", Name: "n1", Request: "x"}, api.CodeInvalid, ""},
		{"another role", api.JoinRequest{Secret: login, Role: "node", Name: "n1", Request: mine}, "", "another role"},
		{"a taken name", api.JoinRequest{Secret: node, Role: "node", Name: "up", Request: mine}, api.CodeWrongState, "is up"},
		{"good", api.JoinRequest{Secret: node, Role: "node", Name: "n1", Request: mine}, "ok", ""},
		{"again", api.JoinRequest{Secret: node, Role: "node", Name: "n1", Request: mine}, "ok", ""},
		{"another machine", api.JoinRequest{Secret: node, Role: "node", Name: "n1", Request: request()}, "", "used already"},
		{"another name", api.JoinRequest{Secret: node, Role: "node", Name: "n2", Request: mine}, "", "used already"},
		{"a login node", api.JoinRequest{Secret: login, Role: "login", Name: "l1", Request: mine}, "ok", ""},
	} {
		before := s.Replica.View().Index()
		x := s.of(nil, "")
		grant, err := join(x, &c.req)
		moved := s.Replica.View().Index() > before
		if (err == nil) != (c.code == "ok") || moved != (err == nil) ||
			err != nil && !strings.Contains(err.Error(), c.says) || c.code != "ok" && c.code != "" && codeOf(err) != c.code {
			t.Errorf("%s: %v, an entry %t", c.name, err, moved)
		}
		if err == nil && (grant.Cert == "" || !slices.Contains(grant.Seeds, "g:1") || x.about.object != c.req.Role+"/"+
			c.req.Name) {
			t.Errorf("%s: %+v, about %q", c.name, grant, x.about.object)
		}
	}
	wrong := api.JoinRequest{Secret: "x", Role: "node", Name: "n1"}
	for range strangerBurst {
		_, _ = join(s.of(nil, ""), &wrong)
	}
	if _, err := join(s.of(nil, ""), &wrong); codeOf(err) != api.CodeLimit {
		t.Errorf("after too many wrong secrets: %v", err)
	}
	again := api.JoinRequest{Secret: node, Role: "node", Name: "n1", Request: mine}
	if _, err := join(s.of(nil, ""), &again); err != nil {
		t.Errorf("a right secret after too many wrong ones: %v", err)
	}
	s.Peers = &peers.Peers{}
	s.strangers = strangers{}
	s.Replica.StopLeading()
	for _, secret := range []string{node, "x"} { // the leader may know a token that this one does not
		again.Secret = secret
		if _, err := join(s.of(nil, ""), &again); codeOf(err) != api.CodeNoLeader {
			t.Errorf("a follower decides on secret %q: %v", secret, err)
		}
	}
	s.Replica.StartLeading()
	renew := s.of(&identity.Caller{Machine: true, Role: "node", From: "n1"}, "")
	if got, err := renewCertificate(renew, &api.CertificateRequest{Request: mine}); err != nil || got.Cert == "" {
		t.Errorf("a new certificate: %+v, %v", got, err)
	}
	if _, err := renewCertificate(renew, &api.CertificateRequest{Request: "x"}); codeOf(err) != api.CodeInvalid {
		t.Errorf("a request that is none: %v", err)
	}
	s.Credential = nil
	if _, err := join(s.of(nil, ""), &again); codeOf(err) != api.CodeWrongState {
		t.Errorf("without an authority: %v", err)
	}
}

// TestAnAuthorityIsReplaced step by step: none is left out, and none is begun twice.
func TestAnAuthorityIsReplaced(t *testing.T) {
	s := keyed(t)
	var controllers, machines []string
	s.Lacking = func(context.Context, *state.View) ([]string, []string) { return controllers, machines }
	admin := func() *exchange { return s.of(named("adm", 5), "") }
	if got, err := getAuthority(admin()); err != nil || got.Index != s.Replica.View().Index() ||
		fmt.Sprint(got.Trusted) != fmt.Sprint(s.Credential.Trusted()) {
		t.Errorf("%+v, %v", got, err)
	}
	if got := admin().presentAuthority(); got != nil {
		t.Errorf("no replacement goes on, and it is shown as %+v", got)
	}
	if _, err := finishAuthority(admin()); codeOf(err) != api.CodeWrongState {
		t.Errorf("finished before it was begun: %v", err)
	}
	old := s.Credential.Anchor()
	got, err := replaceAuthority(admin())
	change := s.Replica.View().Trust().Authority
	if err != nil || got.Number != 1 || got.Phase != string(trust.AuthorityTrusted) || change.Number != 1 ||
		!s.Credential.HasKeyOf(change.Succession) {
		t.Fatalf("%+v, %v, the log has %+v", got, err, change)
	}
	if _, err := replaceAuthority(admin()); err == nil { // this controller does not follow the log yet
		t.Error("it is begun again before this controller trusts the new authority")
	}
	if _, err := rotateGossipKey(admin()); err == nil {
		t.Error("the key of the gossip is changed before this controller follows the log")
	}
	if err := s.Credential.Succeed(change.Succession, pki.StageTrusted); err != nil {
		t.Fatal(err)
	}
	if _, err := finishAuthority(admin()); codeOf(err) != api.CodeWrongState {
		t.Errorf("finished before it issues: %v", err)
	}
	next := pki.NameOfNext(change.Succession)
	for name, c := range map[string]struct {
		from, authority string
		key             bool
		code            string
	}{"a controller": {"c1", next, true, ""}, "of the old one": {"c1", old, true, ""}, "of none": {"c1", "x", false, ""},
		"one that takes no part": {"c7", next, false, api.CodeWrongState}} {
		x := s.of(&identity.Caller{Machine: true, Role: "controller", From: c.from}, "")
		x.r.URL.RawQuery = "authority=" + strings.ReplaceAll(c.authority, "+", "%2B")
		key, err := internalAuthorityKey(x)
		text, _ := key.(string)
		if codeOf(err) != c.code || (text != "") != c.key {
			t.Errorf("%s gets a key of %d bytes, %v", name, len(text), err)
		}
	}
	s.do(fsm.AdvanceAuthority{Number: 1, Phase: trust.AuthorityTrusted})
	if _, err := replaceAuthority(admin()); err == nil || !strings.Contains(err.Error(), trust.ErrAuthority.Error()) {
		t.Errorf("begun again while it issues: %v", err)
	}
	for i := range 23 {
		machines = append(machines, fmt.Sprintf("node/n%02d", i))
	}
	controllers = []string{"controller/c2"}
	shown := admin().presentAuthority()
	if shown.Number != 1 || shown.Phase != "issues" || len(shown.Lacking) != 20 || shown.Lacking[0] != "controller/c2" ||
		shown.More != 4 {
		t.Errorf("it is shown as %+v", shown)
	}
	_, err = finishAuthority(admin())
	if codeOf(err) != api.CodeWrongState || !strings.Contains(err.Error(), "controller/c2") {
		t.Errorf("finished while a controller has no certificate: %v", err)
	}
	controllers = nil
	done, err := finishAuthority(admin())
	if a := s.Replica.View().Trust(); err != nil || done.Number != 1 || done.More != 3 || len(done.Lacking) != 20 ||
		a.Authority.Phase != trust.AuthorityDone || a.Gossip == nil || a.Gossip.Keys[len(a.Gossip.Keys)-1].Authority != next {
		t.Errorf("%+v, %v, the log has %+v", done, err, a.Authority)
	}
	if got := admin().presentAuthority(); got != nil {
		t.Errorf("it is over, and shown as %+v", got)
	}
	if key := presentGossipKey(s.Replica.View().Trust()); key.Number != 1 || key.Phase != string(trust.GossipInstalled) {
		t.Errorf("the key of the gossip is %+v", key)
	}
	if key := presentGossipKey(&trust.Trust{}); *key != (api.GossipKey{}) {
		t.Errorf("the first key is %+v", key)
	}
	if named, more := first(machines[:20]); len(named) != 20 || more != 0 {
		t.Errorf("of 20 %d are named, and %d more", len(named), more)
	}
	if named, more := first(machines[:21]); len(named) != 20 || more != 1 {
		t.Errorf("of 21 %d are named, and %d more", len(named), more)
	}
	s.Credential = nil
	for what, err := range map[string]error{"shown": func() error { _, err := getAuthority(admin()); return err }(),
		"replaced": func() error { _, err := replaceAuthority(admin()); return err }(),
		"rotated":  func() error { _, err := rotateGossipKey(admin()); return err }()} {
		if codeOf(err) != api.CodeWrongState {
			t.Errorf("without an authority it is %s: %v", what, err)
		}
	}
}

// TestAnAuthorityOfARestoredState: this controller trusts two authorities, and the log has lost the second.
func TestAnAuthorityOfARestoredState(t *testing.T) {
	s := keyed(t)
	s.Lacking = func(context.Context, *state.View) ([]string, []string) { return nil, nil }
	succession, err := s.Credential.NewSuccessor()
	if err != nil {
		t.Fatal(err)
	}
	admin := func() *exchange { return s.of(named("adm", 5), "") }
	if admin().takesUp() {
		t.Error("a key without its authority is taken up")
	}
	if err := s.Credential.Succeed(succession, pki.StageTrusted); err != nil {
		t.Fatal(err)
	}
	if !admin().takesUp() || admin().inStep() != nil {
		t.Errorf("the second authority is not taken up: %v", admin().inStep())
	}
	if _, err := replaceAuthority(admin()); err != nil {
		t.Fatal(err)
	}
	if a := s.Replica.View().Trust().Authority; a.Succession != succession || a.Phase != trust.AuthorityTrusted {
		t.Errorf("another one is begun instead: %+v", a)
	}
	if admin().takesUp() || admin().inStep() != nil {
		t.Errorf("while the log names it, it is taken up, or is out of step: %v", admin().inStep())
	}
}

// TestAStreamThroughAController passes on both ways, and ends with either side and with the daemon.
func TestAStreamThroughAController(t *testing.T) {
	s := newSite(t)
	alive, stop := context.WithCancel(t.Context())
	s.alive = alive
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := s.request("/v1/jobs/{id}/exec", fmt.Sprint(s.gang), "", "")
		x.w = w
		r.SetPathValue("id", fmt.Sprint(s.gang))
		x.r = r
		if _, err := x.rt.handle(x); err != nil && !x.sent {
			w.WriteHeader(http.StatusTeapot)
			io.WriteString(w, err.Error())
		}
	}))
	t.Cleanup(front.Close)
	s.answers(http.StatusSwitchingProtocols, "")
	begin := func() (net.Conn, *bufio.Reader) {
		t.Helper()
		c, err := net.Dial("tcp", strings.TrimPrefix(front.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(patience))
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: rota-stream\r\n"+
			"Content-Length: 2\r\n\r\n{}")
		r := bufio.NewReader(c)
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get(api.HeaderIndex) == "" {
			t.Fatalf("%+v, %v", resp, err)
		}
		return c, r
	}
	say := func(c net.Conn, r *bufio.Reader, text string) {
		t.Helper()
		fmt.Fprintln(c, text)
		if got, err := r.ReadString('\n'); err != nil || got != "node heard "+text+"\n" {
			t.Errorf("%q came back, %v", got, err)
		}
	}
	c, r := begin()
	say(c, r, "hello")
	if got, _ := s.audit.take(); len(got) != 1 || got[0].Status != 200 {
		t.Errorf("while the stream goes on the audit log has %+v", got)
	}
	fmt.Fprintln(c, "end")
	if text, err := io.ReadAll(r); err != nil || len(text) > 0 {
		t.Errorf("after the node has ended it: %q, %v", text, err)
	}
	c, r = begin()
	say(c, r, "again")
	stop()
	if text, err := io.ReadAll(r); err != nil || len(text) > 0 {
		t.Errorf("after the daemon has ended: %q, %v", text, err)
	}
}
