package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/noded/controllers"
	"github.com/rota-hpc/rota/noded/retry"
)

const (
	pollWait   = 10 * time.Second // of one request for allocations; its answer renews the lease
	pollMargin = 15 * time.Second // beyond pollWait, for a controller that is slow to answer
)

// poll registers the node and then applies the allocations of the controllers until ctx ends. Each
// answer renews the lease of the node's containers.
func (f *Follower) poll(ctx context.Context) error {
	wait := retry.Backoff{}
	registered := false
	for ctx.Err() == nil {
		// 1. Register first, and again whenever the inventory or the notice has changed.
		if !registered || f.GPUs.NeedRegistration() || f.noticeChanged() {
			if err := f.register(ctx); err != nil {
				if errors.Is(err, controllers.ErrNone) {
					wait = retry.Backoff{} // a controller may be found at any moment
				}
				f.LogRetry(ctx, "cannot register with the controllers", err, wait.Sleep(ctx))
				continue
			}
			registered = true
		}
		// 2. Wait for an answer and apply it.
		err := f.pollOnce(ctx)
		if err == nil {
			wait = retry.Backoff{}
			continue
		}
		// 3. Controllers of another generation answer nothing before this node follows theirs.
		if otherGeneration(err) {
			if err = f.followGeneration(ctx); err == nil {
				continue
			}
		}
		if unsettled(err) {
			f.Log.Debug("the controllers are waiting until a majority of the nodes follows their generation")
			wait.Sleep(ctx)
			continue
		}
		// 4. Some errors say that the controllers do not know this node as it is.
		if unknownNode(err) {
			registered = false
		}
		if errors.Is(err, errWentBack) {
			f.Log.Warn("registering again", "reason", err)
			registered = false
			continue
		}
		f.LogRetry(ctx, "the controllers do not answer; containers run until their leases end", err, wait.Sleep(ctx))
	}
	return context.Cause(ctx)
}

// unknownNode reports whether the controllers do not know this node, or know it from before a reboot.
func unknownNode(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && (p.Code == api.CodeNotFound || p.Code == api.CodeWrongState)
}

// LogRetry logs that a request to the controllers failed and is repeated after the time waited. A node
// that knows no controller says so only in detail.
func (f *Follower) LogRetry(ctx context.Context, what string, err error, waited time.Duration) {
	logRetry(ctx, f.Log, what, err, waited)
}

func logRetry(ctx context.Context, log *slog.Logger, what string, err error, waited time.Duration) {
	if errors.Is(err, controllers.ErrNone) {
		log.Debug(what, "err", err)
	} else if ctx.Err() == nil {
		log.Warn(what, "err", err, "waited", waited)
	}
}

// pollOnce asks the controllers once for this node's allocations and applies the answer.
func (f *Follower) pollOnce(ctx context.Context) error {
	after, echo := f.position()
	sent := Now() // the lease counts from here
	ctx, cancel := context.WithTimeout(ctx, pollWait+pollMargin)
	defer cancel()
	answer, err := f.Control.Allocs(ctx, f.Self.Name, f.Self.BootID, after, pollWait, echo)
	if err != nil {
		return err
	}
	if answer.LeaseMS <= 0 {
		return errors.New("the controller could not confirm that it is still the leader")
	}
	if own := f.Lineage.Current(); cmp.Or(answer.Generation, "0") != own.String() {
		return fmt.Errorf("ignoring the answer of a controller of generation %s of the cluster, because this node follows "+
			"%s", answer.Generation, own)
	}
	return f.apply(answer, sent, time.Now())
}

// position returns the index of the last applied answer, and the message about it for the leader.
func (f *Follower) position() (uint64, api.Echo) {
	l, unlock := f.lock()
	defer unlock()
	return f.index, api.Echo{Sent: f.Outage.echo, Witnesses: l.witnesses().Key()}
}

// errWentBack says that the controllers' state is older than one that they confirmed before. It was
// restored, or belongs to a new cluster.
var errWentBack = errors.New("the state of the controllers went back in time")

// apply applies an answer that a quorum of the controllers confirmed.
func (f *Follower) apply(n *api.NodeAllocs, sent Moment, received time.Time) error {
	l, unlock := f.lock()
	defer unlock()
	// 1. The witnesses of the answer are on disk before anything else of it counts.
	if err := l.noteAnswer(n); err != nil {
		return err
	}
	// 2. A leader answers only once it has all that was ever confirmed. So a lower index is no old
	// answer, but the answer of another state.
	if n.Index < f.index {
		err := fmt.Errorf("%w to index %d, after %d", errWentBack, n.Index, f.index)
		l.keepAll(err.Error()+": containers here run until their leases end", false)
		return err
	}
	// 3. The answer counts: its lease begins at the request, and its allocations hold from now on.
	f.index, f.heard = n.Index, received
	f.lease = Lease{sent, time.Duration(n.LeaseMS) * time.Millisecond}
	f.Node.Apply(n, received, f.lease)
	return nil
}

// register puts the node's inventory into the log. Registrations run one after the other, so that
// an older inventory never overwrites a newer one.
func (f *Follower) register(ctx context.Context) error {
	select {
	case f.registering <- struct{}{}:
		defer func() { <-f.registering }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	node := f.Self
	node.GPUs = f.GPUs.ForRegistration()
	node.Notice = f.noticeText()
	if _, err := f.Control.Register(ctx, node.Name, api.RegisterRequest{Node: node}); err != nil {
		f.GPUs.SetUnregistered()
		return err
	}
	f.mu.Lock()
	f.noticed = node.Notice
	f.mu.Unlock()
	f.Log.Info("registered", "node", node.Name, "cores", node.Cores, "gpus", len(node.GPUs))
	return nil
}

// RegisterNow registers the node at once, because the end of a worker, which frees a GPU, is reported
// next.
func (f *Follower) RegisterNow(ctx context.Context) {
	if err := f.register(ctx); err != nil {
		f.LogRetry(ctx, "cannot register an unhealthy GPU; trying again", err, 0)
	}
}
