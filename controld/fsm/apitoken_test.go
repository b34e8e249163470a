package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/trust"
)

// testToken is a command that makes a token of alice for a day.
func testToken(id string) CreateAPIToken {
	return CreateAPIToken{ID: id, Digest: strings.Repeat("ab", 32), User: alice, By: alice.User,
		Scope: trust.ScopeSubmit, LifeMS: trust.DayMS}
}

// TestAPITokens: what cannot be a token is refused, tokens that have expired leave the state, and
// the others are in its snapshot.
func TestAPITokens(t *testing.T) {
	w := newWorld(t)
	w.must(testToken("b"))
	for what, change := range map[string]func(*CreateAPIToken){
		"an id that is in use":     func(c *CreateAPIToken) { c.ID = "b" },
		"no id":                    func(c *CreateAPIToken) { c.ID = "" },
		"the secret, not a digest": func(c *CreateAPIToken) { c.Digest = "my secret" },
		"an unknown scope":         func(c *CreateAPIToken) { c.Scope = "root" },
		"no scope":                 func(c *CreateAPIToken) { c.Scope = "" },
		"no user":                  func(c *CreateAPIToken) { c.User = model.Identity{} },
		"no end":                   func(c *CreateAPIToken) { c.LifeMS = 0 },
		"valid in the past":        func(c *CreateAPIToken) { c.LifeMS = -1 },
		"366 days":                 func(c *CreateAPIToken) { c.LifeMS = 366 * trust.DayMS },
	} {
		c := testToken("a")
		change(&c)
		if _, err := w.apply(c); !errors.Is(err, trust.ErrBadToken) {
			t.Errorf("%s: %v", what, err)
		}
	}
	before := w.s.View()
	w.must(testToken("a"))
	if _, err := w.apply(RevokeAPIToken{ID: "c"}); !errors.Is(err, trust.ErrNoAPIToken) {
		t.Errorf("a token is revoked that there is not: %v", err)
	}
	w.must(RevokeAPIToken{ID: "b"})
	v := w.s.View()
	if v.APIToken("a").Revoked != nil || v.APIToken("b").Revoked == nil || before.APIToken("b").Revoked != nil {
		t.Errorf("tokens %+v", v.APITokens())
	}
	var snapshot bytes.Buffer
	if err := v.WriteSnapshot(&snapshot); err != nil {
		t.Fatal(err)
	}
	again, err := ReadSnapshot(bytes.NewReader(snapshot.Bytes()))
	if err != nil || !reflect.DeepEqual(again.View().APITokens(), v.APITokens()) {
		t.Errorf("after a restart: %v", err)
	}
	broken := bytes.Replace(snapshot.Bytes(), []byte(`"scope":"submit"`), []byte(`"scope":"root"`), 1)
	if _, err := ReadSnapshot(bytes.NewReader(broken)); !errors.Is(err, model.ErrSnapshot) {
		t.Errorf("a snapshot with a token of an unknown scope is read: %v", err)
	}
	w.at += trust.DayMS
	w.must(testToken("d"))
	if v := w.s.View(); len(v.APITokens()) != 1 || v.APIToken("a") != nil {
		t.Errorf("a token that has expired is kept: %+v", v.APITokens())
	}
}

// TestATokenThatEndsNowMakesRoom: it does not count against what a user may have.
func TestATokenThatEndsNowMakesRoom(t *testing.T) {
	w := newWorld(t)
	for i := range trust.MaxAPITokensUser {
		c := testToken(fmt.Sprintf("t%05d", i))
		c.LifeMS = 5000
		w.must(c)
	}
	var limit *model.LimitError
	w.at += 4999
	if _, err := w.apply(testToken("more")); !errors.As(err, &limit) {
		t.Errorf("a millisecond before: %v", err)
	}
	w.at++
	w.must(testToken("more"))
}

// TestAPITokensAreBounded: by user and in all.
func TestAPITokensAreBounded(t *testing.T) {
	w := newWorld(t)
	var limit *model.LimitError
	for i := range trust.MaxAPITokens {
		c := testToken(fmt.Sprintf("t%05d", i))
		c.User.UID = uint32(i / trust.MaxAPITokensUser)
		w.must(c)
		if i == trust.MaxAPITokensUser-1 {
			c.ID = "more"
			if _, err := w.apply(c); !errors.As(err, &limit) {
				t.Fatalf("one user has more than %d: %v", trust.MaxAPITokensUser, err)
			}
		}
	}
	c := testToken("more")
	c.User.UID = 1 << 30
	if _, err := w.apply(c); !errors.As(err, &limit) {
		t.Errorf("more than %d in all: %v", trust.MaxAPITokens, err)
	}
	w.must(RevokeAPIToken{ID: "t00007"})
	w.must(c)
	if n := len(w.s.View().APITokens()); n != trust.MaxAPITokens {
		t.Errorf("%d tokens: that which was revoked makes room", n)
	}
	if err := w.s.Check(); err != nil {
		t.Error(err)
	}
}
