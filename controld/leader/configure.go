package leader

import (
	"context"
	"reflect"

	"github.com/rota-hpc/rota/controld/cluster"
)

// wantedOver returns the configuration to propose in place of the present one, nil if they agree. A
// file does not name the version, and if it names no policy the present one stays.
func wantedOver(want, have *cluster.Config) *cluster.Config {
	if want == nil || want == have {
		return nil
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

// configure proposes the configuration that this controller was given, whenever the state has
// another.
func (l *Leader) configure(ctx context.Context) error {
	var seen *cluster.Config
	for {
		changed := l.Replica.Changed()
		want, have := l.wanted.Load(), l.Replica.View().Config()
		if have != seen {
			seen = have
			l.Contacts.Wake() // the time after which a silent node is down may be another
		}
		if next := wantedOver(want, have); next != nil {
			if _, err := l.Replica.Propose(ctx, cluster.SetConfig{Config: *next}); err != nil {
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
