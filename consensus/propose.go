package consensus

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rota-hpc/rota/consensus/entry"
)

// How long a group collects proposals. Proposals that arrive while an entry is in flight go
// together into the next entry. So a lone caller waits for one fsync, and many callers share one.
const (
	groupYields = 2
	groupWait   = time.Millisecond
)

// States of a proposal.
const (
	waiting int32 = iota
	sent
	withdrawn
	answered
)

// proposal is one call of Propose. The goroutine that changes state from waiting decides the
// proposal's fate.
type proposal struct {
	data   []byte
	state  atomic.Int32
	done   chan struct{} // closed after the fields below are set
	result any
	index  uint64
	err    error
}

// finish answers a proposal that was sent, unless it has been answered.
func (p *proposal) finish(result any, index uint64, err error) {
	if p.state.CompareAndSwap(sent, answered) {
		p.result, p.index, p.err = result, index, err
		close(p.done)
	}
}

// batch is a group whose entry is in flight.
type batch struct {
	data  []byte // bytes of the entry
	group []*proposal

	waiting atomic.Int64 // proposals that waited for the next entry when the first proposal of this group was answered
}

// answer answers proposals of the group, from the given index on. They have been applied, so they
// need not wait for later ones.
func (f *batch) answer(from int, results []any, index uint64) {
	for i, r := range results {
		f.group[from+i].finish(r, index, nil)
	}
}

// Propose appends data to the log, and returns the result of the machine's Apply and the index of
// the entry. The caller must not change the bytes during the call, and never after an error,
// because the log may still hold them. Errors: *[NotLeaderError] (nothing was proposed),
// *[UncertainError] (it may take effect or not), ErrTooLarge, ErrStopped. If ctx ends before data
// was sent, the error is the cause of ctx.
func (n *Node) Propose(ctx context.Context, data []byte) (any, uint64, error) {
	if len(data) > entry.ProposalMax {
		return nil, 0, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), entry.ProposalMax)
	}
	if !n.IsLeader() {
		return nil, 0, n.refusal()
	}
	p := &proposal{data: data, done: make(chan struct{})}
	select {
	case n.proposals <- p:
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	case <-n.stopping:
		return nil, 0, n.stopError()
	case <-n.stopped:
		return nil, 0, n.stopError()
	}
	return n.await(ctx, p)
}

// refusal returns the error for a proposal to a member that is not the leader.
func (n *Node) refusal() error {
	select {
	case <-n.stopped:
		return n.stopError()
	case <-n.stopping:
		return n.stopError()
	default:
		return n.notLeader()
	}
}

// await waits for p, or withdraws it.
func (n *Node) await(ctx context.Context, p *proposal) (any, uint64, error) {
	var cause error
	select {
	case <-p.done:
		return p.result, p.index, p.err
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-n.stopped:
		cause = n.stopError()
	}
	if p.state.CompareAndSwap(waiting, withdrawn) {
		return nil, 0, cause
	}
	select {
	case <-p.done: // the answer came at the same moment
		return p.result, p.index, p.err
	default:
		return nil, 0, &UncertainError{Cause: cause}
	}
}

// sendProposals packs waiting proposals into entries, with one entry in flight at a time.
func (n *Node) sendProposals() {
	callers := 0 // callers of the last entry and proposals that waited when its first proposal was answered
	var entries entry.Packer
	for {
		select {
		case p := <-n.proposals:
			if group := n.collectGroup(p, callers*3/4); len(group) > 0 {
				f := &batch{data: entries.Encode(contents(group)), group: group}
				n.inFlight.Store(f)
				n.complete(f, n.raft.Apply(f.data, 0))
				callers = len(group) + int(f.waiting.Load())
			}
		case <-n.stopped:
			return
		}
	}
}

// collectGroup claims first and all other waiting proposals, within the limits. Callers often
// propose again right after an answer. A group with fewer than enough proposals waits a moment for
// them; otherwise entries of one or two proposals would alternate with entries of many.
func (n *Node) collectGroup(first *proposal, enough int) []*proposal {
	var group []*proposal
	var late <-chan time.Time
	size := 0
	for p := first; p != nil; {
		if p.state.CompareAndSwap(waiting, sent) {
			group = append(group, p)
			size += len(p.data)
		}
		if len(group) == entry.GroupCountMax || size >= entry.GroupBytesMax {
			return group
		}
		if p = n.waitingProposal(); p == nil && len(group) < enough {
			if late == nil {
				late = time.After(groupWait)
			}
			p = n.nextProposal(late)
		}
	}
	return group
}

// nextProposal waits for a proposal until late, then returns nil.
func (n *Node) nextProposal(late <-chan time.Time) *proposal {
	select {
	case p := <-n.proposals:
		return p
	case <-late:
	case <-n.stopped:
	}
	return nil
}

// waitingProposal returns a waiting proposal, or nil. Before it returns nil, it yields to other
// goroutines a few times, because callers with a fresh answer may be about to propose again.
func (n *Node) waitingProposal() *proposal {
	for yields := 0; ; yields++ {
		select {
		case p := <-n.proposals:
			return p
		default:
		}
		if yields == groupYields {
			return nil
		}
		runtime.Gosched()
	}
}

// contents returns the bytes of the proposals.
func contents(group []*proposal) [][]byte {
	data := make([][]byte, len(group))
	for i, p := range group {
		data[i] = p.data
	}
	return data
}

// complete waits for an entry, and answers the proposals of the group that have no answer yet.
func (n *Node) complete(f *batch, future raft.ApplyFuture) {
	err := n.waitApplied(future)
	n.inFlight.Store(nil)
	if err == nil {
		f.answer(0, future.Response().([]any), future.Index())
		return
	}
	for _, p := range f.group {
		p.finish(nil, 0, err)
	}
}

// inFlightBatch returns the group of entry l if this node proposed it and still waits for it.
func (n *Node) inFlightBatch(l *raft.Log) *batch {
	f := n.inFlight.Load()
	if f == nil || len(l.Data) != len(f.data) || &l.Data[0] != &f.data[0] {
		return nil
	}
	f.waiting.Store(int64(len(n.proposals)))
	return f
}

// waitApplied waits for an entry. If the node stops meanwhile, the result is unknown.
func (n *Node) waitApplied(future raft.ApplyFuture) error {
	done := answerOf(future)
	err, stopped := receive(context.Background(), n, done)
	if stopped != nil {
		select {
		case err = <-done: // the answer came at the same moment
		default:
			err = raft.ErrRaftShutdown
		}
	}
	if errors.Is(err, raft.ErrRaftShutdown) { // this error says nothing about the entry
		return &UncertainError{Cause: n.stopError()}
	}
	return n.translate(err)
}

// drain waits until no proposal is waiting or in flight, at most drainTimeout. A barrier comes
// after all of them.
func (n *Node) drain() {
	if !n.IsLeader() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	for len(n.proposals) > 0 && ctx.Err() == nil {
		if _, err := n.Barrier(ctx); err != nil {
			return
		}
	}
	if _, err := n.Barrier(ctx); err != nil {
		n.log.Warn("cannot wait for the proposals in flight", "error", err)
	}
}

// Barrier waits until every earlier entry has been applied here, and returns the index of the last
// one. Only the leader can call it.
func (n *Node) Barrier(ctx context.Context) (uint64, error) {
	future := make(chan raft.Future, 1)
	go func() { future <- n.raft.Barrier(0) }()
	f, err := receive(ctx, n, future)
	if err != nil {
		return 0, err
	}
	if err := n.wait(ctx, f); err != nil {
		return 0, fmt.Errorf("barrier: %w", err)
	}
	return n.Applied(), nil
}

// pause waits for d, and returns whether ctx is still valid.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
