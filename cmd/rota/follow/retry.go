package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/controld/api"
)

// retryFor is how long whoever follows something bears that no controller answers: a job goes on for as long without word from them, unless
// the cluster's leases are others.
const retryFor = 10 * time.Minute

// Retry is what a command has that follows something and has been answered: it asks again while the controllers are away.
type Retry struct {
	Env   *command.Env
	Quiet bool      // somebody else says that they are away
	What  string    // what goes on meanwhile, "" if nothing is to be said of it
	heard time.Time // when a controller answered last; zero before
	told  bool
}

// Answered notes that a controller has answered.
func (p *Retry) Answered() { p.heard, p.told = p.Env.Now(), false }

// ShouldRetry reports whether to ask again after err, once some time has passed.
func (p *Retry) ShouldRetry(ctx context.Context, err error) bool {
	if p.heard.IsZero() || !isAway(err) || p.Env.Now().Sub(p.heard) > retryFor {
		return false
	}
	if !p.Quiet && !p.told {
		p.told = true
		what := ""
		if p.What != "" {
			what = p.What + "; "
		}
		fmt.Fprintf(p.Env.Stderr, "rota: %v\n  %sretrying for %.0f minutes\n", err, what, retryFor.Minutes())
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

// Repeat has it say again that no controller answers.
func (p *Retry) Repeat() { p.told = false }
