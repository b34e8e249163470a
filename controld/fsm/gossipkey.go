package fsm

import (
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/trust"
)

// KindRotateGossipKey is the kind of [RotateGossipKey].
var KindRotateGossipKey = newKind("rotate-gossip-key/1")

// RotateGossipKey begins to replace the key of the gossip. Members accept the new key from now on. The
// leader goes on with [AdvanceGossipKey].
type RotateGossipKey struct {
	Text      string `json:"text"`                // random; the key is derived of it
	Authority string `json:"authority,omitempty"` // and of the key of the authority with this fingerprint
}

// Kind implements Command.
func (RotateGossipKey) Kind() Kind { return KindRotateGossipKey }

// apply puts the new key behind the one in use.
func (c RotateGossipKey) apply(m *Machine) (any, error) {
	if len(c.Text) == 0 || len(c.Text) > trust.MaxKeyText || len(c.Authority) > trust.MaxKeyText {
		return nil, trust.ErrKeyText
	}
	t := *m.v.Trust()
	if err := installGossipKey(&t, c, m.s.At()); err != nil {
		return nil, err
	}
	m.s.SetTrust(&t)
	return nil, nil
}

// installGossipKey puts a new key behind the one in use.
func installGossipKey(t *trust.Trust, c RotateGossipKey, at model.Instant) error {
	now := t.Gossip
	if now == nil {
		now = &trust.GossipKeys{Keys: []trust.GossipKey{{}}}
	}
	if now.Phase != trust.GossipDone {
		return trust.ErrKeyChange
	}
	next := trust.GossipKey{Number: now.Newest() + 1, Text: c.Text, Authority: c.Authority}
	t.Gossip = &trust.GossipKeys{Keys: append(slices.Clone(now.Keys), next), Phase: trust.GossipInstalled, Since: at}
	return nil
}

// KindAdvanceGossipKey is the kind of [AdvanceGossipKey].
var KindAdvanceGossipKey = newKind("advance-gossip-key/1")

// AdvanceGossipKey moves the change of the gossip key on by one phase. First members begin to send
// with the new key, and later they drop the old one.
type AdvanceGossipKey struct {
	Number int64             `json:"number"` // of the new key
	Phase  trust.GossipPhase `json:"phase"`  // that is over
}

// Kind implements Command.
func (AdvanceGossipKey) Kind() Kind { return KindAdvanceGossipKey }

// apply turns the two keys round, or drops the second.
func (c AdvanceGossipKey) apply(m *Machine) (any, error) {
	t := *m.v.Trust()
	now := t.Gossip
	if now == nil || now.Phase != c.Phase || now.Phase == trust.GossipDone || now.Newest() != c.Number {
		return nil, trust.ErrKeyPhase
	}
	next := &trust.GossipKeys{Since: m.s.At()}
	if c.Phase == trust.GossipInstalled {
		next.Keys, next.Phase = []trust.GossipKey{now.Keys[1], now.Keys[0]}, trust.GossipUsed
	} else {
		next.Keys = now.Keys[:1:1]
	}
	t.Gossip = next
	m.s.SetTrust(&t)
	return nil, nil
}
