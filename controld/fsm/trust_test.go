package fsm

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/trust"
)

func TestTheIdOfTheClusterIsEnteredOnce(t *testing.T) {
	w := newWorld(t)
	w.must(FoundCluster{Cluster: "abc"})
	if _, err := w.apply(FoundCluster{Cluster: "def"}); !errors.Is(err, trust.ErrFounded) {
		t.Errorf("a second id: %v", err)
	}
	if got := w.s.View().Trust().Cluster; got != "abc" {
		t.Errorf("the cluster is %q", got)
	}
}

// TestAJoinTokenLetsOneMachineJoin: a token that is used twice, has expired, is for another role or
// was never made is refused.
func TestAJoinTokenLetsOneMachineJoin(t *testing.T) {
	w := newWorld(t)
	w.must(CreateJoinToken{Digest: "d1", Role: "node", By: "ann"})
	w.must(CreateJoinToken{Digest: "d2", Role: "node", By: "ann"})
	use := UseJoinToken{Digest: "d1", Role: "node", Name: "n1", Key: "k1"}
	for what, c := range map[string]struct {
		use  UseJoinToken
		want error
	}{
		"unknown":      {UseJoinToken{Digest: "d3", Role: "node", Name: "n1", Key: "k1"}, trust.ErrNoToken},
		"another role": {UseJoinToken{Digest: "d1", Role: "controller", Name: "n1", Key: "k1"}, trust.ErrTokenRole},
	} {
		if _, err := w.apply(c.use); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	w.must(use)
	w.must(use) // the answer was lost
	other := use
	other.Key = "k2"
	if _, err := w.apply(other); !errors.Is(err, trust.ErrTokenUsed) {
		t.Errorf("another machine with a used token: %v", err)
	}
	w.at += trust.JoinTokenMS
	if _, err := w.apply(UseJoinToken{Digest: "d2", Role: "node", Name: "n2", Key: "k2"}); !errors.Is(err,
		trust.ErrTokenExpired) {
		t.Errorf("after 24 hours: %v", err)
	}
	w.must(CreateJoinToken{Digest: "d4", Role: "login", By: "ann"})
	if n := len(w.s.View().Trust().Tokens); n != 1 {
		t.Errorf("%d tokens are kept, those that expired too", n)
	}
	for i := range trust.MaxJoinTokens - 1 {
		w.must(CreateJoinToken{Digest: string(rune('a'+i%26)) + string(rune('0'+i/26)), Role: "node"})
	}
	var limit *model.LimitError
	if _, err := w.apply(CreateJoinToken{Digest: "more", Role: "node"}); !errors.As(err, &limit) {
		t.Errorf("more than %d tokens: %v", trust.MaxJoinTokens, err)
	}
}

func TestRevocationsRaiseTheGeneration(t *testing.T) {
	w := newWorld(t)
	before := w.s.View()
	w.must(RevokeCertificates{Role: "node", Name: "n1"})
	w.must(RevokeCertificates{Role: "node", Name: "n1"})
	w.must(RevokeCertificates{Role: "login", Name: "n1"})
	now := w.s.View().Trust()
	if a, b, c := now.Generation("node", "n1"), now.Generation("login", "n1"), now.Generation("node", "n2"); a != 2 ||
		b != 1 || c != 0 {
		t.Errorf("generations %d, %d, %d", a, b, c)
	}
	if before.Trust().Generation("node", "n1") != 0 {
		t.Error("an earlier view has changed")
	}
	var snapshot bytes.Buffer
	if err := w.s.View().WriteSnapshot(&snapshot); err != nil {
		t.Fatal(err)
	}
	again, err := ReadSnapshot(&snapshot)
	if err != nil || !reflect.DeepEqual(again.View().Trust(), now) {
		t.Errorf("after a restart: %+v, %v", again, err)
	}
}

// TestTheKeyOfTheGossipChangesInThreeSteps notices a key that is used before it is installed, or
// dropped before the next one is used. It also notices a second change beside the first.
func TestTheKeyOfTheGossipChangesInThreeSteps(t *testing.T) {
	w := newWorld(t)
	is := func(phase trust.GossipPhase, numbers ...int64) {
		t.Helper()
		g := w.s.View().Trust().Gossip
		var got []int64
		for _, k := range g.Keys {
			got = append(got, k.Number)
			if (k.Number == 0) != (k.Text == "") {
				t.Errorf("key %d is made of %q", k.Number, k.Text)
			}
		}
		if g.Phase != phase || !slices.Equal(got, numbers) {
			t.Errorf("phase %q with keys %v instead of %q with %v", g.Phase, got, phase, numbers)
		}
	}
	refuse := func(c Command, want error) {
		t.Helper()
		if _, err := w.apply(c); !errors.Is(err, want) {
			t.Errorf("%+v: %v, want %v", c, err, want)
		}
	}
	refuse(AdvanceGossipKey{}, trust.ErrKeyPhase)
	refuse(RotateGossipKey{}, trust.ErrKeyText)
	refuse(RotateGossipKey{Text: strings.Repeat("x", 65)}, trust.ErrKeyText)
	w.must(RotateGossipKey{Text: "one"})
	is(trust.GossipInstalled, 0, 1)
	refuse(RotateGossipKey{Text: "two"}, trust.ErrKeyChange)
	refuse(AdvanceGossipKey{Number: 1, Phase: trust.GossipUsed}, trust.ErrKeyPhase)
	refuse(AdvanceGossipKey{Number: 2, Phase: trust.GossipInstalled}, trust.ErrKeyPhase)
	w.must(AdvanceGossipKey{Number: 1, Phase: trust.GossipInstalled})
	is(trust.GossipUsed, 1, 0)
	refuse(RotateGossipKey{Text: "two"}, trust.ErrKeyChange)
	refuse(AdvanceGossipKey{Number: 1, Phase: trust.GossipInstalled}, trust.ErrKeyPhase)
	w.must(AdvanceGossipKey{Number: 1, Phase: trust.GossipUsed})
	is(trust.GossipDone, 1)
	refuse(AdvanceGossipKey{Number: 1, Phase: trust.GossipDone}, trust.ErrKeyPhase)
	w.must(RotateGossipKey{Text: "two"})
	is(trust.GossipInstalled, 1, 2)
}

// TestTheAuthorityIsReplacedInThreeSteps notices an authority that issues certificates before it is trusted, and an
// old one that is dropped too early. It notices a second replacement beside the first, and a key of the gossip
// that stays derived from the old authority's key.
func TestTheAuthorityIsReplacedInThreeSteps(t *testing.T) {
	w := newWorld(t)
	refuse := func(c Command, want error) {
		t.Helper()
		before := w.s.View().Trust()
		if _, err := w.apply(c); !errors.Is(err, want) {
			t.Errorf("%+v: %v, want %v", c, err, want)
		}
		if w.s.View().Trust() != before {
			t.Errorf("%+v was refused and has changed the state", c)
		}
	}
	is := func(number int64, succession string, phase trust.AuthorityPhase) {
		t.Helper()
		if a := w.s.View().Trust().Authority; a.Number != number || a.Succession != succession || a.Phase != phase ||
			a.Since != w.s.View().At() {
			t.Errorf("%+v instead of %d of %q in phase %q", a, number, succession, phase)
		}
	}
	refuse(AdvanceAuthority{}, trust.ErrAuthorityPhase)
	refuse(ReplaceAuthority{}, trust.ErrSuccession)
	refuse(ReplaceAuthority{Succession: strings.Repeat("x", trust.MaxSuccession+1)}, trust.ErrSuccession)
	w.must(ReplaceAuthority{Succession: "lost"})
	is(1, "lost", trust.AuthorityTrusted)
	w.must(ReplaceAuthority{Succession: "one"}) // nothing was issued
	is(2, "one", trust.AuthorityTrusted)
	gossip := RotateGossipKey{Text: "text", Authority: "one"}
	refuse(AdvanceAuthority{Number: 1, Phase: trust.AuthorityTrusted}, trust.ErrAuthorityPhase)
	refuse(AdvanceAuthority{Number: 3, Phase: trust.AuthorityTrusted}, trust.ErrAuthorityPhase)
	refuse(AdvanceAuthority{Number: 2, Phase: trust.AuthorityIssues, Gossip: gossip}, trust.ErrAuthorityPhase)
	w.at++
	w.must(AdvanceAuthority{Number: 2, Phase: trust.AuthorityTrusted})
	is(2, "one", trust.AuthorityIssues)
	refuse(ReplaceAuthority{Succession: "two"}, trust.ErrAuthority)
	refuse(AdvanceAuthority{Number: 2, Phase: trust.AuthorityTrusted}, trust.ErrAuthorityPhase)
	last := AdvanceAuthority{Number: 2, Phase: trust.AuthorityIssues, Gossip: gossip}
	refuse(AdvanceAuthority{Number: 2, Phase: trust.AuthorityIssues}, trust.ErrKeyText)
	w.must(RotateGossipKey{Text: "old", Authority: "old"})
	refuse(last, trust.ErrKeyChange)
	w.must(AdvanceGossipKey{Number: 1, Phase: trust.GossipInstalled})
	w.must(AdvanceGossipKey{Number: 1, Phase: trust.GossipUsed})
	w.at++
	w.must(last)
	is(2, "one", trust.AuthorityDone)
	g := w.s.View().Trust().Gossip
	want := []trust.GossipKey{{Number: 1, Text: "old", Authority: "old"}, {Number: 2, Text: "text", Authority: "one"}}
	if g.Phase != trust.GossipInstalled || !slices.Equal(g.Keys, want) {
		t.Errorf("the key of the gossip is not replaced: %+v", g)
	}
	refuse(last, trust.ErrAuthorityPhase)
	refuse(AdvanceAuthority{Number: 2, Phase: trust.AuthorityDone, Gossip: gossip}, trust.ErrAuthorityPhase)
	w.must(ReplaceAuthority{Succession: "two"})
	is(3, "two", trust.AuthorityTrusted)
}
