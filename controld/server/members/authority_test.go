package members

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/servertest"
)

// TestAnAuthorityIsReplaced step by step: none is left out, and none is begun twice.
func TestAnAuthorityIsReplaced(t *testing.T) {
	s := keyed(t)
	var controllers, machines []string
	s.Lacking = func(context.Context, *state.View) ([]string, []string) { return controllers, machines }
	admin := func() *exchange.Exchange { return s.Of(servertest.Named("adm", 5), "") }
	if got, err := s.getAuthority(admin()); err != nil || got.Index != s.Replica.View().Index() ||
		fmt.Sprint(got.Trusted) != fmt.Sprint(s.Credential.Trusted()) {
		t.Errorf("%+v, %v", got, err)
	}
	if got := s.presentAuthority(admin()); got != nil {
		t.Errorf("no replacement goes on, and it is shown as %+v", got)
	}
	if _, err := s.finishAuthority(admin()); servertest.CodeOf(err) != api.CodeWrongState {
		t.Errorf("finished before it was begun: %v", err)
	}
	old := s.Credential.Anchor()
	got, err := s.replaceAuthority(admin())
	change := s.Replica.View().Trust().Authority
	if err != nil || got.Number != 1 || got.Phase != string(trust.AuthorityTrusted) || change.Number != 1 ||
		!s.Credential.HasKeyOf(change.Succession) {
		t.Fatalf("%+v, %v, the log has %+v", got, err, change)
	}
	if _, err := s.replaceAuthority(admin()); err == nil { // this controller does not follow the log yet
		t.Error("it is begun again before this controller trusts the new authority")
	}
	if _, err := s.rotateGossipKey(admin()); err == nil {
		t.Error("the key of the gossip is changed before this controller follows the log")
	}
	if err := s.Credential.Succeed(change.Succession, pki.StageTrusted); err != nil {
		t.Fatal(err)
	}
	if _, err := s.finishAuthority(admin()); servertest.CodeOf(err) != api.CodeWrongState {
		t.Errorf("finished before it issues: %v", err)
	}
	next := pki.NameOfNext(change.Succession)
	for name, c := range map[string]struct {
		from, authority string
		key             bool
		code            string
	}{"a controller": {"c1", next, true, ""}, "of the old one": {"c1", old, true, ""}, "of none": {"c1", "x", false, ""},
		"one that takes no part": {"c7", next, false, api.CodeWrongState}} {
		x := s.Of(&identity.Caller{Machine: true, Role: "controller", From: c.from}, "")
		x.Request.URL.RawQuery = "authority=" + strings.ReplaceAll(c.authority, "+", "%2B")
		key, err := s.internalAuthorityKey(x)
		text, _ := key.(string)
		if servertest.CodeOf(err) != c.code || (text != "") != c.key {
			t.Errorf("%s gets a key of %d bytes, %v", name, len(text), err)
		}
	}
	s.Do(fsm.AdvanceAuthority{Number: 1, Phase: trust.AuthorityTrusted})
	if _, err := s.replaceAuthority(admin()); err == nil || !strings.Contains(err.Error(), trust.ErrAuthority.Error()) {
		t.Errorf("begun again while it issues: %v", err)
	}
	for i := range 23 {
		machines = append(machines, fmt.Sprintf("node/n%02d", i))
	}
	controllers = []string{"controller/c2"}
	shown := s.presentAuthority(admin())
	if shown.Number != 1 || shown.Phase != "issues" || len(shown.Lacking) != 20 || shown.Lacking[0] != "controller/c2" ||
		shown.More != 4 {
		t.Errorf("it is shown as %+v", shown)
	}
	_, err = s.finishAuthority(admin())
	if servertest.CodeOf(err) != api.CodeWrongState || !strings.Contains(err.Error(), "controller/c2") {
		t.Errorf("finished while a controller has no certificate: %v", err)
	}
	controllers = nil
	done, err := s.finishAuthority(admin())
	if a := s.Replica.View().Trust(); err != nil || done.Number != 1 || done.More != 3 || len(done.Lacking) != 20 ||
		a.Authority.Phase != trust.AuthorityDone || a.Gossip == nil || a.Gossip.Keys[len(a.Gossip.Keys)-1].Authority != next {
		t.Errorf("%+v, %v, the log has %+v", done, err, a.Authority)
	}
	if got := s.presentAuthority(admin()); got != nil {
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
	for what, err := range map[string]error{"shown": func() error { _, err := s.getAuthority(admin()); return err }(),
		"replaced": func() error { _, err := s.replaceAuthority(admin()); return err }(),
		"rotated":  func() error { _, err := s.rotateGossipKey(admin()); return err }()} {
		if servertest.CodeOf(err) != api.CodeWrongState {
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
	admin := func() *exchange.Exchange { return s.Of(servertest.Named("adm", 5), "") }
	if s.takesUp(admin()) {
		t.Error("a key without its authority is taken up")
	}
	if err := s.Credential.Succeed(succession, pki.StageTrusted); err != nil {
		t.Fatal(err)
	}
	if !s.takesUp(admin()) || s.inStep(admin()) != nil {
		t.Errorf("the second authority is not taken up: %v", s.inStep(admin()))
	}
	if _, err := s.replaceAuthority(admin()); err != nil {
		t.Fatal(err)
	}
	if a := s.Replica.View().Trust().Authority; a.Succession != succession || a.Phase != trust.AuthorityTrusted {
		t.Errorf("another one is begun instead: %+v", a)
	}
	if s.takesUp(admin()) || s.inStep(admin()) != nil {
		t.Errorf("while the log names it, it is taken up, or is out of step: %v", s.inStep(admin()))
	}
}
