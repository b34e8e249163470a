package controld

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched"
)

// lead does what only a leader does, until ctx ends with leadership.
func (d *daemon) lead(ctx context.Context) error {
	if ctx.Err() != nil { // it was lost, or the daemon stopped, before anything began
		return nil
	}
	v := d.machine.view.Load()
	d.clock.take(v.At())
	d.contacts.restart(time.Now())
	d.samples.clear()
	d.contests.clear()
	d.young = v.LastJob() == 0
	if err := d.raiseOnce(ctx); err != nil {
		d.log.Debug("cluster version not raised yet", "error", err)
	}
	d.leading.Store(true)
	d.machine.changed.wake() // long polls that only a leader answers look again
	d.log.Info("leading", "term", d.replica.Term(), "index", v.Index())
	defer func() {
		d.leading.Store(false)
		d.clock.stop()
		d.machine.changed.wake()
		d.log.Info("not leading any more", "cause", context.Cause(ctx))
	}()
	for ctx.Err() == nil {
		if err := d.rule(ctx); err != nil && !lostLead(err) && ctx.Err() == nil {
			return err
		}
		d.pause(ctx, 20*time.Millisecond) // a write of unknown outcome does not always mean that leadership is lost
	}
	return nil
}

// rule runs the leader's loops until one of them fails or ctx ends.
func (d *daemon) rule(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.schedule(ctx) })
	g.Go(func() error { return d.watchNodes(ctx) })
	g.Go(func() error { return d.trim(ctx) })
	g.Go(func() error { return d.configure(ctx) })
	g.Go(func() error { return d.admit(ctx) })
	g.Go(func() error { return d.raise(ctx) })
	g.Go(func() error { return d.judge(ctx) })
	return g.Wait()
}

// lostLead reports whether err only says that this controller leads no more.
func lostLead(err error) bool {
	var not *consensus.NotLeaderError
	var unsure *consensus.UncertainError
	return errors.Is(err, context.Canceled) || errors.Is(err, consensus.ErrLeadershipLost) || errors.Is(err, consensus.ErrStopped) ||
		errors.As(err, &not) || errors.As(err, &unsure)
}

// propose stamps a command, has it replicated, and returns what Apply made of it.
func (d *daemon) propose(ctx context.Context, c cluster.Command) (any, uint64, error) {
	stamp := cluster.Stamp{At: d.clock.now(d.machine.view.Load()), Wall: wallNow()}
	entry := cluster.Entry{Stamp: stamp, Command: c}
	buffer := takeBuffer()
	data, err := cluster.AppendEntry((*buffer)[:0], entry)
	if err != nil {
		return nil, 0, fmt.Errorf("encode %s: %w", c.Kind(), err)
	}
	forget := d.machine.prepared.put(data, entry)
	begin := time.Now()
	result, index, err := d.replica.Propose(ctx, data)
	forget()
	if err != nil {
		return nil, 0, err // the log may have the bytes still
	}
	*buffer = data
	giveBuffer(buffer)
	d.metrics.proposed(c.Kind(), time.Since(begin))
	r, ok := result.(applied)
	if !ok {
		return nil, 0, fmt.Errorf("propose %s: the log answered with a %T", c.Kind(), result)
	}
	return r.value, index, r.err
}

// schedule runs one cycle for each change of the state or passing of a deadline, however many changes came together.
func (d *daemon) schedule(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var cycleCache sched.Cache
	for {
		changed := d.machine.changed.wait()
		v := d.machine.view.Load()
		now := d.clock.now(v)
		begin := time.Now()
		plan, next := cycleCache.Cycle(v, now, v.Config().Policy)
		took := time.Since(begin)
		d.metrics.cycled(took)
		if !plan.Empty() {
			if err := d.commit(ctx, plan); err != nil {
				return err
			}
		} else if took > time.Millisecond && !d.pause(ctx, took) {
			return context.Cause(ctx) // a cycle that decided nothing may take half of one processor, not all of it
		}
		timer.Stop()
		if next > 0 {
			timer.Reset(time.Duration(max(next-d.clock.now(v), 0)) * time.Millisecond)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		case <-timer.C:
		}
	}
}

// commit proposes a plan. Actions that no longer hold are refused one by one; the next cycle decides anew.
func (d *daemon) commit(ctx context.Context, plan cluster.CommitPlan) error {
	refused := 0
	for part := range parts(plan, partMost) {
		result, _, err := d.propose(ctx, part.Command(d.machine.view.Load().Config().Version))
		if err != nil {
			return fmt.Errorf("commit plan based on %d: %w", plan.BasedOn, err)
		}
		refusals, _ := result.([]error)
		for i, r := range refusals {
			if r != nil {
				refused++
				d.log.Debug("action refused", "based_on", plan.BasedOn, "action", i, "error", r)
			}
		}
	}
	d.metrics.planned(len(plan.Actions)-refused, refused)
	if refused > 0 && refused == len(plan.Actions) && !d.pause(ctx, 50*time.Millisecond) {
		return context.Cause(ctx) // what is refused whole must not be decided again and again without a break
	}
	return nil
}

// partMost is how many actions and places go into one entry. A place takes at most some 300 bytes, so that is well below what the log takes, which
// what fills a large idle cluster is not.
const partMost = 30_000

// parts divides a plan, in order, into some with at most so many actions and places, or one action.
func parts(plan cluster.CommitPlan, most int) iter.Seq[cluster.CommitPlan] {
	return func(yield func(cluster.CommitPlan) bool) {
		rest, first, size := plan.Actions, 0, 0
		for i, a := range rest {
			n := placesOf(a) + 1
			if size += n; size <= most || i == first {
				continue
			}
			if !yield(cluster.CommitPlan{BasedOn: plan.BasedOn, Actions: rest[first:i]}) {
				return
			}
			first, size = i, n
		}
		yield(cluster.CommitPlan{BasedOn: plan.BasedOn, Actions: rest[first:], Turns: plan.Turns})
	}
}

func placesOf(a cluster.Action) int {
	switch {
	case a.Start != nil:
		return len(a.Start.Places)
	case a.Resize != nil:
		return len(a.Resize.Join) + len(a.Resize.Leave)
	}
	return 0
}

// wantedOver returns the configuration to propose in place of the one there is, nil if they agree. The version is not for a file to say,
// and one that names no policy leaves the one there is.
func wantedOver(want, have *cluster.Config) *cluster.Config {
	if want == nil || want == have || want.NeedsVersion() > have.Version {
		return nil // once the cluster is of that version it is asked again
	}
	next := *want
	next.Version = have.Version
	if next.Policy.Name == "" {
		next.Policy.Name = have.Policy.Name
	}
	if reflect.DeepEqual(next, *have) {
		return nil
	}
	return &next
}

// configure proposes the configuration that this controller was given, whenever the log has another.
func (d *daemon) configure(ctx context.Context) error {
	var seen *cluster.Config
	for {
		changed := d.machine.changed.wait()
		want, have := d.wanted.Load(), d.machine.view.Load().Config()
		if have != seen {
			seen = have
			d.contacts.nudge() // the time after which a silent node is down may be another
		}
		if next := wantedOver(want, have); next != nil {
			if _, _, err := d.propose(ctx, cluster.SetConfig{Config: *next}); err != nil {
				if lostLead(err) || ctx.Err() != nil {
					return err
				}
				d.log.Error("configuration refused", "error", err)
				d.wanted.CompareAndSwap(want, nil)
			}
			continue
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}
