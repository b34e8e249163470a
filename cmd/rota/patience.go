package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rota-hpc/rota/controld/api"
)

// absence is how long whoever follows something bears that no controller answers: a job goes on for as long without word from them, unless
// the cluster's leases are others.
const absence = 10 * time.Minute

// patience is what a command has that follows something and has been answered: it asks again while the controllers are away.
type patience struct {
	world *world
	quiet bool      // somebody else says that they are away
	what  string    // what goes on meanwhile, "" if nothing is to be said of it
	heard time.Time // when a controller answered last; zero before
	told  bool
}

// answered notes that a controller has answered.
func (p *patience) answered() { p.heard, p.told = p.world.now(), false }

// bears reports whether to ask again after err, once some time has passed.
func (p *patience) bears(ctx context.Context, err error) bool {
	if p.heard.IsZero() || !isAway(err) || p.world.now().Sub(p.heard) > absence {
		return false
	}
	if !p.quiet && !p.told {
		p.told = true
		what := ""
		if p.what != "" {
			what = p.what + "; "
		}
		fmt.Fprintf(p.world.stderr, "rota: %v\n  %sasking again for %.0f minutes\n", err, what, absence.Minutes())
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(250 * time.Millisecond):
		return true
	}
}

// isAway reports whether an error is that no controller could be reached, or none that leads.
func isAway(err error) bool {
	var unreachable *api.UnreachableError
	var problem *api.Problem
	return errors.As(err, &unreachable) || errors.As(err, &problem) && (problem.Code == api.CodeNoLeader || problem.Code == api.CodeNotLeader)
}
