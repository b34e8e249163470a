package leader

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// wantedOver returns the proposal for the configuration in this controller's file. It returns nil
// if that file, or an equal one, was proposed last: then later changes by an admin stay. A file
// does not name the cluster version, and if it names no policy the present one stays.
func wantedOver(want *cluster.Config, v *state.View, controller string) *fsm.SetConfig {
	if want == nil {
		return nil
	}
	digest := digestOf(want)
	if v.ConfigVersions().File == digest {
		return nil
	}
	next, have := *want, v.Config()
	next.Version = have.Version
	if next.Policy.Name == "" {
		next.Policy.Name = have.Policy.Name
	}
	return &fsm.SetConfig{Config: next, By: "controller " + controller, Comment: "from its file", File: digest}
}

// digestOf names what a configuration says.
func digestOf(c *cluster.Config) string {
	text, err := json.Marshal(c)
	if err != nil {
		return "unknown"
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// configure proposes the configuration that this controller was given, unless it was proposed last.
func (l *Leader) configure(ctx context.Context) error {
	var seen *cluster.Config
	for {
		changed := l.Replica.Changed()
		v := l.Replica.View()
		want, have := l.wanted.Load(), v.Config()
		if have != seen {
			seen = have
			l.Contacts.Wake() // the time after which a silent node is down may be another
		}
		if next := wantedOver(want, v, l.Name); next != nil {
			err := cluster.MayRun(next.Config.Policy.Name, have.Policy.Name)
			if err == nil {
				_, err = l.Replica.Propose(ctx, *next)
			}
			if err != nil {
				if lostLead(err) || ctx.Err() != nil {
					return err
				}
				l.Log.Error("configuration refused", "error", err)
				l.wanted.CompareAndSwap(want, nil)
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
