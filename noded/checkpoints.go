package noded

import (
	"github.com/rota-hpc/rota/noded/container"
)

// isHere reports whether a folder is that of a worker here, or one that such a worker may begin with.
func (a *Agent) isHere(id container.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for other, w := range a.workers {
		if other.Job == id.Job && other.Worker == id.Worker && (other.Attempt == id.Attempt || !w.Entry.Started) &&
			(w.Exists() || w.busy || w.Desired != nil) {
			return true
		}
	}
	return false
}

// runsStill reports whether an attempt of this worker has processes here, so that its folder may change,
// or that is not known yet.
func (a *Agent) runsStill(id container.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.desiredKnown {
		return true // this daemon has just started
	}
	for other, w := range a.workers {
		if other.Job == id.Job && other.Worker == id.Worker && (w.Exists() || w.busy) {
			return true
		}
	}
	return false
}
