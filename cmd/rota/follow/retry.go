package follow

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/controld/api"
)

// retryFor is how long a command that follows a job retries while no controller answers. It is the
// default lease: the job runs for that long without a controller.
const retryFor = 10 * time.Minute

// Retry lets a command that has been answered once ask again while no controller is reachable.
type Retry struct {
	Env      *command.Env
	Quiet    bool      // another Retry prints the message
	What     string    // printed with the message, such as that the job continues
	heard    time.Time // time of the last answer; zero before the first
	reported bool
}

// Answered records that a controller has answered.
func (p *Retry) Answered() { p.heard, p.reported = p.Env.Now(), false }

// ShouldRetry waits a moment and reports whether to ask again after err.
func (p *Retry) ShouldRetry(ctx context.Context, err error) bool {
	if p.heard.IsZero() || !isAway(err) || p.Env.Now().Sub(p.heard) > retryFor {
		return false
	}
	if !p.Quiet && !p.reported {
		p.reported = true
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

// isAway reports whether no controller, or no leader, was reachable.
func isAway(err error) bool {
	var unreachable *api.UnreachableError
	var problem *api.Problem
	return errors.As(err, &unreachable) || errors.As(err, &problem) && problem.Code == api.CodeNoLeader || nodeAway(err)
}

// nodeAway reports whether an error says that the node of an output does not answer.
func nodeAway(err error) bool {
	var problem *api.Problem
	return errors.As(err, &problem) && problem.Status == http.StatusBadGateway
}

// Repeat has the next ShouldRetry print its message again.
func (p *Retry) Repeat() { p.reported = false }
