package fsm

import "github.com/rota-hpc/rota/controld/model/trust"

// KindReplaceAuthority is the kind of [ReplaceAuthority].
var KindReplaceAuthority = newKind("replace-authority/1")

// ReplaceAuthority begins to replace the authority that issues certificates. Members trust the new one
// beside the old one from now on. The leader goes on with [AdvanceAuthority]. As long as the new one has
// issued nothing, another one may take its place: its key may be lost.
type ReplaceAuthority struct {
	Succession string `json:"succession"` // certificates; the new key is on the leader's disk
}

// Kind implements Command.
func (ReplaceAuthority) Kind() Kind { return KindReplaceAuthority }

// apply begins the replacement.
func (c ReplaceAuthority) apply(m *Machine) (any, error) {
	if len(c.Succession) == 0 || len(c.Succession) > trust.MaxSuccession {
		return nil, trust.ErrSuccession
	}
	t := *m.v.Trust()
	var number int64
	if now := t.Authority; now != nil {
		if now.Phase == trust.AuthorityIssues {
			return nil, trust.ErrAuthority
		}
		number = now.Number
	}
	t.Authority = &trust.AuthorityChange{Number: number + 1, Succession: c.Succession, Phase: trust.AuthorityTrusted,
		Since: m.s.At()}
	m.s.SetTrust(&t)
	return nil, nil
}

// KindAdvanceAuthority is the kind of [AdvanceAuthority].
var KindAdvanceAuthority = newKind("advance-authority/1")

// AdvanceAuthority carries the replacement of the authority on by one phase: the new one issues
// certificates, and then the old one is no longer trusted. Then the key of the gossip is replaced too,
// because it was derived of the old authority's key.
type AdvanceAuthority struct {
	Number int64                `json:"number"` // of the replacement
	Phase  trust.AuthorityPhase `json:"phase"`  // that is over
	Gossip RotateGossipKey      `json:"gossip"` // for the last phase
}

// Kind implements Command.
func (AdvanceAuthority) Kind() Kind { return KindAdvanceAuthority }

// apply begins the next phase.
func (c AdvanceAuthority) apply(m *Machine) (any, error) {
	t := *m.v.Trust()
	now := t.Authority
	if now == nil || now.Phase != c.Phase || now.Phase == trust.AuthorityDone || now.Number != c.Number {
		return nil, trust.ErrAuthorityPhase
	}
	next := *now
	next.Since = m.s.At()
	if c.Phase == trust.AuthorityTrusted {
		next.Phase = trust.AuthorityIssues
	} else {
		next.Phase = trust.AuthorityDone
		if len(c.Gossip.Text) == 0 || len(c.Gossip.Text) > trust.MaxKeyText || len(c.Gossip.Authority) > trust.MaxKeyText {
			return nil, trust.ErrKeyText
		}
		if err := installGossipKey(&t, c.Gossip, m.s.At()); err != nil {
			return nil, err
		}
	}
	t.Authority = &next
	m.s.SetTrust(&t)
	return nil, nil
}
