package member

import (
	"bytes"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/hashicorp/memberlist"
)

// The library calls these methods on its goroutines, sometimes with its lock held, so nothing here
// calls back.

// NodeMeta implements memberlist.Delegate.
func (l *List) NodeMeta(int) []byte { return *l.meta.Load() }

// NotifyMsg implements memberlist.Delegate. No messages are sent this way.
func (l *List) NotifyMsg([]byte) {}

// GetBroadcasts implements memberlist.Delegate.
func (l *List) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate.
func (l *List) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate.
func (l *List) MergeRemoteState([]byte, bool) {}

// NotifyJoin implements memberlist.EventDelegate.
func (l *List) NotifyJoin(n *memberlist.Node) { l.note(n, true, "member joined") }

// NotifyLeave implements memberlist.EventDelegate.
func (l *List) NotifyLeave(n *memberlist.Node) { l.note(n, false, "member left or lost") }

// NotifyUpdate implements memberlist.EventDelegate.
func (l *List) NotifyUpdate(n *memberlist.Node) { l.note(n, true, "member changed") }

// note stores the record of n, and delivers on Changed.
func (l *List) note(n *memberlist.Node, alive bool, what string) {
	if n.Name == l.gossipName() {
		return
	}
	l.log.Debug(what, "member", n.Name, "addr", n.Address())
	p, err := l.decodePeer(n)
	if err != nil {
		l.log.Warn("member ignored", "error", err)
		return
	}
	l.remember(n.Name, p, alive)
	l.tell()
}

// remember writes p down. Addresses that only gossip vouches for are few: each is tried again for a day.
func (l *List) remember(name string, p Peer, alive bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.alive, name)
	if alive {
		l.alive[name] = p
	}
	if _, known := l.seen[p.Addr]; known || len(l.seen) < addressesMax {
		l.seen[p.Addr] = time.Now()
	}
}

// NotifyConflict implements memberlist.ConflictDelegate: two machines use one name, or someone says so.
// It is believed only once the other one has shown a certificate for this name: see [List.Run].
func (l *List) NotifyConflict(existing, other *memberlist.Node) {
	l.log.Warn("gossip reports two addresses for one member", "member", existing.Name, "addr", existing.Address(),
		"other", other.Address())
	if existing.Name != l.gossipName() {
		return
	}
	select {
	case l.twins <- other.Address():
	default: // another one is being looked at
	}
}

// NotifyMerge implements memberlist.MergeDelegate: it refuses members without an identity, and
// those of another cluster.
func (l *List) NotifyMerge(nodes []*memberlist.Node) error {
	for _, n := range nodes {
		if _, err := l.decodePeer(n); err != nil {
			return err
		}
	}
	return nil
}

// NotifyAlive implements memberlist.AliveDelegate. It is called for each message, whatever the library
// makes of it, so that claims about its death do not have a controller forgotten.
func (l *List) NotifyAlive(n *memberlist.Node) error {
	p, err := l.decodePeer(n)
	if err != nil {
		return err
	}
	if n.Name == l.gossipName() && p.Started < l.cfg.Meta.Started && p.Role == Controld {
		return fmt.Errorf("member %q at %s: the message comes from an earlier run of this daemon", n.Name, n.Address())
	}
	if err := l.admit(n.Name); err != nil || p.Role != Controld || n.Name == l.gossipName() {
		return err
	}
	return l.noteController(p)
}

// admit bounds the members that gossip may know.
func (l *List) admit(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.alive[name]; !known && len(l.alive) >= nodesMax {
		return fmt.Errorf("member %q: the gossip already has %d members", name, nodesMax)
	}
	return nil
}

// newBridge lets the library write to slog. Its lines begin with a level in brackets.
func newBridge(to *slog.Logger) *log.Logger { return log.New(bridge{to}, "", 0) }

// bridge is where the library writes.
type bridge struct{ to *slog.Logger }

// Write logs one line. The library's warnings, such as an unanswered probe, are everyday life in a
// cluster. Only its errors are an operator's business.
func (b bridge) Write(line []byte) (int, error) {
	text := bytes.TrimSpace(line)
	write := b.to.Debug
	if rest, ok := bytes.CutPrefix(text, []byte("[ERR] ")); ok {
		text, write = rest, b.to.Warn
	}
	write(string(text))
	return len(line), nil
}
