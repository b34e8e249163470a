// Package policy says what a scheduling policy is. [Phases] is the phases that it adds to a cycle,
// and [Answers] is how it explains its decisions to users. The phases that are the same under every
// policy are [Expire] and those of package introspect.
package policy

import (
	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/queue"
)

// Phases is a scheduling policy at work in one cycle. The cycle calls the phases in this order, each
// once at most: see controld/sched/cycle.go.
type Phases interface {
	Shrink()  // takes workers from elastic jobs for jobs that wait, before anything starts
	Serve()   // starts jobs that fit, in order, and reserves room for blocked queue heads
	Resize()  // changes the sizes of jobs after the starts of this cycle
	Preempt() // asks running jobs to leave for jobs that still wait
	Grow()    // gives running jobs the room that is left
	Answers() *Answers
}

// Idle is a policy whose phases do nothing and that answers nothing. A policy embeds it and writes
// the methods that it needs.
type Idle struct{}

// Shrink does nothing.
func (Idle) Shrink() {}

// Serve does nothing.
func (Idle) Serve() {}

// Resize does nothing.
func (Idle) Resize() {}

// Preempt does nothing.
func (Idle) Preempt() {}

// Grow does nothing.
func (Idle) Grow() {}

// Answers says nothing.
func (Idle) Answers() *Answers { return &Answers{} }

// ServeOnly is a policy whose only phase is a function that starts jobs.
func ServeOnly(serve func()) Phases { return serveOnly{serve: serve} }

type serveOnly struct {
	Idle
	serve func()
}

// Serve calls the function.
func (p serveOnly) Serve() { p.serve() }

// Answers are a policy's explanations of its decisions, for users and for the phases of sharing.
// Nothing that the policy itself decides depends on them. A function that is nil has nothing to
// say.
type Answers struct {
	// causes for which running jobs are asked to leave; of te, reclaim and order those that the
	// policy knows
	Causes []model.Cause

	// whether the room that the policy keeps free for jobs to come is free in a copy of the room; nil:
	// the policy keeps none
	Keeps func(*fit.Room) bool

	Order *queue.Order // how jobs are ordered; nil: by class, priority and age
	// the order of jobs in which accounts come first whatever their jobs are; nil: that of Order
	Compare func(a, b *model.Job) int
	Terms   func(*model.Job) queue.Terms // the terms of a job's place; nil: those of the hooks of Order
	// the limit that keeps a job from starting, the zero reason if none does
	Limit  func(*model.Job) model.Reason
	Reason func(*model.Job) (model.Reason, bool) // a reason of the policy's own; false if it has none
	Advice func(*model.Job) string               // further advice to the user, "" if none
	// Spares returns which of the policy's own rules spares a running job from leaving, for a cause, for
	// a job that waits; "" if none does.
	Spares func(waiting *model.Job, running *estimate.LiveAttempt, by model.Cause) string
}
