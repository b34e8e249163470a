package leader

import (
	"context"
	"time"

	"github.com/rota-hpc/rota/controld/fsm/state"
)

// tellGenerationEvery is the time between two messages that a generation does not hold yet.
const tellGenerationEvery = 30 * time.Second

// watchGeneration says which nodes a recovered or restored cluster waits for, until its generation holds.
func (l *Leader) watchGeneration(ctx context.Context) error {
	for l.Replica.View().Recovery().Holds() {
		v := l.Replica.View()
		r := v.Recovery()
		var missing []string
		for _, n := range v.Nodes() {
			if !r.Accepts(n.Name) {
				missing = append(missing, n.Name)
			}
		}
		l.Log.Warn("no job starts until a majority of the nodes has accepted the generation of this cluster",
			"generation", r.Generation.String(), "by", r.Means, "nodes", len(v.Nodes()), "missing", missing)
		again, cancel := context.WithTimeout(ctx, tellGenerationEvery)
		_, held, err := l.Replica.Until(ctx, func(v *state.View) bool { return !v.Recovery().Holds() }, again.Done())
		cancel()
		if err != nil {
			return err
		}
		if held {
			l.Log.Info("a majority of the nodes has accepted the generation of this cluster", "generation",
				r.Generation.String())
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}
