package jobsteps

import (
	"slices"

	"github.com/rota-hpc/rota/controld/api/stream"
)

// tell sends a frame to the client and to all watchers.
func (s *step) tell(f stream.Frame) {
	s.show(f)
	if s.client != nil {
		s.pending = append(s.pending, f)
	}
}

// Bounds of step.recent, the output that each step keeps in memory for new watchers.
const (
	recentBytes  = 64 << 10
	recentFrames = 128
)

// show sends a frame to all watchers. A watcher never slows the step down: one whose buffer is full
// is disconnected.
func (s *step) show(f stream.Frame) {
	// Keep the newest frames: walk back until a bound is passed, and cut there.
	if f.Kind == stream.Stdout || f.Kind == stream.Stderr {
		s.recent = append(s.recent, f)
		size := 0
		for i := len(s.recent) - 1; i >= 0; i-- {
			if size += len(s.recent[i].Data); size > recentBytes || len(s.recent)-i > recentFrames {
				s.recent = slices.Delete(s.recent, 0, i+1)
				break
			}
		}
	}
	for i := 0; i < len(s.watchers); i++ {
		select {
		case s.watchers[i].out <- f:
			continue
		case <-s.watchers[i].gone:
		default: // it is too slow
			s.watchers[i].close()
		}
		s.watchers = append(s.watchers[:i], s.watchers[i+1:]...)
		i--
	}
}

// acknowledge tells a part's shim which output it may forget: with a client that acknowledges, what
// the client has; with another client, all but the last ackBehind bytes; without any client,
// everything.
func (s *step) acknowledge(p *part) {
	upTo := p.offset
	switch {
	case !s.phase.keeps():
	case s.acks:
		upTo = min(upTo, p.known)
	default:
		upTo -= ackBehind
	}
	if upTo >= p.acked+ackEvery || !s.phase.keeps() {
		p.acked = upTo
		p.write(stream.Number(upTo))
	}
}
