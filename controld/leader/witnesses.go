package leader

import (
	"context"
	"slices"
	"time"

	"github.com/rota-hpc/rota/controld/api/clock"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/witness"
)

// lookAtWitnesses is how often a leader checks whether witnesses must be chosen or nodes are lost.
// Short leases, as in tests, make it check more often.
const lookAtWitnesses = time.Second

// tellOfWitnessesEvery is the time between two messages that lost jobs wait for witnesses.
const tellOfWitnessesEvery = time.Minute

// keepWitnesses chooses witnesses of outages, notes which of them nodes have, and declares nodes lost on
// which nothing can run any more.
func (l *Leader) keepWitnesses(ctx context.Context) error {
	var chosen, told time.Time
	for {
		v := l.Replica.View()
		if !v.Recovery().Holds() {
			if next := witnessesOver(v, time.Since(chosen)); next != nil {
				chosen = time.Now()
				if err := l.proposeQuietly(ctx, *next); err != nil {
					return err
				}
			}
			if note := storedOver(v, l.Touch.Stored()); len(note.Nodes) > 0 {
				if err := l.proposeQuietly(ctx, note); err != nil {
					return err
				}
			}
			if err := l.declareLost(ctx, &told); err != nil {
				return err
			}
		}
		lease := time.Duration(v.Config().LeaseMS) * time.Millisecond
		if !pause(ctx, max(min(lookAtWitnesses, lease/20), time.Millisecond)) {
			return context.Cause(ctx)
		}
	}
}

// proposeQuietly makes a proposal that the next round repeats if it is refused. Its error says that
// this controller leads no more.
func (l *Leader) proposeQuietly(ctx context.Context, c fsm.Command) error {
	_, err := l.Replica.Propose(ctx, c)
	if err != nil && (lostLead(err) || ctx.Err() != nil) {
		return err
	}
	if err != nil {
		l.Log.Debug("refused", "command", string(c.Kind()), "error", err)
	}
	return nil
}

// settleWitnesses is how long the choice stays although nodes have come: those that are installed together
// register one after the other.
const settleWitnesses = 10 * time.Second

// domainLabel is the node label of the failure domain: the part of the cluster that fails as a
// whole.
const domainLabel = "rack"

// witnessesOver returns the choice of witnesses that is to replace the present one, nil if that stays. since is
// how long ago this leader chose.
func witnessesOver(v *state.View, since time.Duration) *fsm.ChooseWitnesses {
	c := v.Config()
	silence, hold, margin := witness.Spans(c.LeaseMS, c.MarginMS, c.NodeDownMS)
	nodes := make([]witness.Candidate, 0, len(v.Nodes()))
	for _, n := range v.Nodes() {
		nodes = append(nodes, witness.Candidate{Name: n.Name, Domain: n.Labels[domainLabel], Up: !longDown(v, n)})
	}
	now := v.Chosen().Newest()
	members := witness.Choose(nodes, now, witness.Most)
	if members == nil {
		return nil
	}
	if now != nil && slices.Equal(now.Members, members) && now.Silence == silence && now.Hold == hold &&
		now.Margin == margin {
		return nil
	}
	if now != nil && since < min(settleWitnesses, time.Duration(hold)*time.Millisecond) {
		return nil
	}
	return &fsm.ChooseWitnesses{Set: witness.Set{Number: v.Chosen().Last + 1, Members: members, Silence: silence,
		Hold: hold, Margin: margin}}
}

// replaceAfter is how many leases a node is down before another one is a witness in its place.
const replaceAfter = 6

// longDown reports whether a node is down for good, as far as one can tell.
func longDown(v *state.View, n *model.Node) bool {
	return n.State == model.NodeDown && v.At()-n.Since.At > replaceAfter*model.Instant(v.Config().LeaseMS)
}

// storedOver returns the witness sets stored by nodes that the log lacks.
func storedOver(v *state.View, stored map[string]uint64) fsm.NoteWitnesses {
	var note fsm.NoteWitnesses
	for _, n := range v.Nodes() {
		if number := stored[n.Name]; number > n.Witnesses && number <= v.Chosen().Last {
			note.Nodes = append(note.Nodes, fsm.StoredWitnesses{Node: n.Name, BootID: n.BootID, Number: number})
		}
	}
	return note
}

// lostNodes returns the nodes that are down with workers whose leases are over, and that were not declared
// lost.
func lostNodes(v *state.View, now model.Instant) []*model.Node {
	var lost []*model.Node
	for i, n := range v.Nodes() {
		if n.State == model.NodeDown && v.HeldByWitnesses(n) && now >= v.LostAt(n) && v.RunsWorkers(i) {
			lost = append(lost, n)
		}
	}
	return lost
}

// declareLost declares nodes lost that no witness can have told to go on. A node that has not
// accepted the generation of a recovered or restored cluster may have witnesses unknown to this
// cluster. Only an operator can say that such a node is dead.
func (l *Leader) declareLost(ctx context.Context, told *time.Time) error {
	v := l.Replica.View()
	var wait []string
	for _, n := range lostNodes(v, l.Replica.Now(v)) {
		now := clock.Boot().Milliseconds()
		if !v.Recovery().Accepts(n.Name) || !l.Touch.MayStart(now, n.Witnesses, v.Chosen()) {
			wait = append(wait, n.Name)
			continue
		}
		c := fsm.DeclareLost{Node: n.Name, BootID: n.BootID, Newest: v.Chosen().Last}
		if err := l.proposeQuietly(ctx, c); err != nil {
			return err
		}
		l.Log.Info("the jobs of a node that is down have ended, because its lease is over", "node", n.Name)
	}
	if len(wait) > 0 && time.Since(*told) > tellOfWitnessesEvery {
		*told = time.Now()
		l.Log.Warn("jobs of nodes that are down do not start again yet, because they may still run: too few witnesses have "+
			"been in touch with this controller for long enough", "nodes", wait, "out of touch",
			l.Touch.Missing(clock.Boot().Milliseconds(), 0, v.Chosen()), "way out", "rota node confirm-dead")
	}
	return nil
}
