package member

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"
)

// Gossip is a hint. A machine with its key can claim anything, so only records of controllers are
// used. Each is signed with the key of the cluster's authority, together with the controller's name
// and address. Of other members nothing that gossip says is used.

// controllersMax bounds the controllers remembered. All of them were signed.
const controllersMax = 64

// controller is the newest record of a controller.
type controller struct {
	Peer
	heard time.Time
}

// encodeMeta packs the identity, which must fit into one gossip message. addr is where this member's
// gossip is reached.
func (l *List) encodeMeta(addr string) ([]byte, error) {
	m := l.cfg.Meta
	if l.cfg.Name == "" || strings.Contains(l.cfg.Name, "/") || m.Role != Controld && m.Role != Noded {
		return nil, fmt.Errorf("gossip needs a role, and a name without a slash, not %q and %q", l.cfg.Name, m.Role)
	}
	meta, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if m.Role == Controld && l.cfg.Credential != nil {
		signature, err := l.cfg.Credential.SignRecord(signedText(l.gossipName(), addr, meta))
		if err != nil {
			return nil, err
		}
		meta = append(append(meta, 0), signature...)
	}
	if len(meta) > memberlist.MetaMaxSize {
		return nil, fmt.Errorf("%w: %d bytes of names and addresses, at most %d", ErrMetaTooLong, len(meta),
			memberlist.MetaMaxSize)
	}
	return meta, nil
}

// resignTimeout is how long the others may take to hear of a new signature.
const resignTimeout = 5 * time.Second

// Resign signs this member's record again, after a change of the authority.
func (l *List) Resign() error {
	meta, err := l.encodeMeta(l.addr)
	if err != nil {
		return err
	}
	l.meta.Store(&meta)
	return l.list.UpdateNode(resignTimeout)
}

// signedText is the text that a controller signs.
func signedText(name, addr string, meta []byte) []byte {
	return fmt.Appendf(nil, "%s\n%s\n%s", name, addr, meta)
}

// decodePeer reads the record of n, and verifies it where it may be used.
func (l *List) decodePeer(n *memberlist.Node) (Peer, error) {
	meta, signature, _ := bytes.Cut(n.Meta, []byte{0})
	role, name, ok := strings.Cut(n.Name, "/")
	p := Peer{Name: name, Addr: n.Address()}
	if err := json.Unmarshal(meta, &p.Meta); err != nil || !ok || string(p.Role) != role || !ValidName(name) {
		return Peer{}, fmt.Errorf("member %q at %s has an identity that cannot be read", n.Name, n.Address())
	}
	if p.Cluster != l.cfg.Meta.Cluster {
		return Peer{}, fmt.Errorf("member %q at %s belongs to cluster %q, but this machine to cluster %q", n.Name,
			n.Address(),
			p.Cluster, l.cfg.Meta.Cluster)
	}
	if p.Role != Controld || l.cfg.Credential == nil {
		return p, nil
	}
	l.mu.Lock()
	known := l.controllers[name].Peer == p
	l.mu.Unlock()
	if !known {
		if err := l.cfg.Credential.VerifyRecord(signedText(n.Name, p.Addr, meta), signature); err != nil {
			return Peer{}, fmt.Errorf("member %q at %s: %w", n.Name, n.Address(), err)
		}
	}
	return p, nil
}

// errOlder refuses a record of a controller that is older than a known one.
var errOlder = errors.New("the controller has sent a newer record")

// noteController keeps the newest record of a controller.
func (l *List) noteController(p Peer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, known := l.controllers[p.Name]
	switch {
	case known && p.Started < old.Started:
		return fmt.Errorf("member %q at %s: %w", p.Name, p.Addr, errOlder)
	case !known && len(l.controllers) >= controllersMax:
		return fmt.Errorf("member %q: %d controllers are known already", p.Name, controllersMax)
	}
	l.controllers[p.Name] = controller{p, time.Now()}
	if !known || old.Peer != p {
		l.tell()
	}
	return nil
}

// Controllers returns the records that the other controllers have sent in the last day, by name.
// Some of them may be down.
func (l *List) Controllers() []Peer {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.controllers, func(_ string, c controller) bool { return time.Since(c.heard) > forgetAfter })
	peers := make([]Peer, 0, len(l.controllers))
	for _, c := range l.controllers {
		peers = append(peers, c.Peer)
	}
	slices.SortFunc(peers, func(a, b Peer) int { return cmp.Compare(a.Name, b.Name) })
	return peers
}
