package member

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/hashicorp/memberlist"
)

// What follows is called by the library on its goroutines, some of it with the library's lock held:
// nothing here calls back.

// NodeMeta implements memberlist.Delegate.
func (l *List) NodeMeta(int) []byte { return l.meta }

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

// note keeps what is to be known about n, and delivers on Changed.
func (l *List) note(n *memberlist.Node, alive bool, what string) {
	if n.Name == l.gossipName() {
		return
	}
	l.log.Debug(what, "member", n.Name, "addr", n.Address())
	p, err := decodePeer(n)
	if err != nil {
		l.log.Warn("member ignored", "error", err)
		return
	}
	l.remember(n.Name, p, alive)
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// remember writes p down. When there are too many addresses, new ones are not kept: they are found
// again through the seeds.
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

// NotifyConflict implements memberlist.ConflictDelegate: two machines use one name. Both hear of
// it; the one that started later gives way, so that a newcomer with a wrong name cannot stop a
// machine at work.
func (l *List) NotifyConflict(existing, other *memberlist.Node) {
	l.log.Error("two machines have the same name and role; rename one", "member", existing.Name,
		"addr", existing.Address(), "other", other.Address())
	if existing.Name != l.gossipName() {
		return
	}
	var m Meta
	if err := json.Unmarshal(other.Meta, &m); err != nil {
		return // NotifyAlive has complained
	}
	order := cmp.Or(cmp.Compare(m.Started, l.cfg.Meta.Started), cmp.Compare(other.Address(), existing.Address()))
	if order < 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conflict = true
	}
}

// inConflict reports whether another machine uses this member's name.
func (l *List) inConflict() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conflict
}

// NotifyMerge implements memberlist.MergeDelegate: members without an identity, and those of another
// cluster, are not joined.
func (l *List) NotifyMerge(nodes []*memberlist.Node) error {
	for _, n := range nodes {
		if err := l.NotifyAlive(n); err != nil {
			return err
		}
	}
	return nil
}

// NotifyAlive implements memberlist.AliveDelegate.
func (l *List) NotifyAlive(n *memberlist.Node) error {
	var m Meta
	if err := json.Unmarshal(n.Meta, &m); err != nil {
		return fmt.Errorf("member %q at %s: identity: %w", n.Name, n.Address(), err)
	}
	if m.Cluster != l.cfg.Meta.Cluster {
		return fmt.Errorf("member %q at %s is of cluster %q, and this one of cluster %q", n.Name, n.Address(), m.Cluster,
			l.cfg.Meta.Cluster)
	}
	return nil
}

// newBridge lets the library write to slog. Its lines begin with a level in brackets.
func newBridge(to *slog.Logger) *log.Logger { return log.New(bridge{to}, "", 0) }

// bridge is where the library writes.
type bridge struct{ to *slog.Logger }

// Write logs one line. What the library warns of, such as an unanswered probe, is everyday life in
// a cluster: only its errors are an operator's business.
func (b bridge) Write(line []byte) (int, error) {
	text := bytes.TrimSpace(line)
	write := b.to.Debug
	if rest, ok := bytes.CutPrefix(text, []byte("[ERR] ")); ok {
		text, write = rest, b.to.Warn
	}
	write(string(text))
	return len(line), nil
}
