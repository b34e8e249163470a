package shim

import (
	"context"
	"errors"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/shim/criu"
)

// # Save and restore
//
// CRIU saves a worker of one task (save.go): it writes the processes into an image and then ends them.
// Another worker may go on from that image (restore.go). Package criu does the work, in a goroutine of
// its own. The supervisor knows the phase that its worker is in, and which event comes next.

// imagePhase says whether a worker is its processes or an image of them.
type imagePhase int

const (
	// alive: the worker has processes, or will start them. CRIU is not at work.
	alive imagePhase = iota
	// awaited: the worker goes on from an image. Its start was not ordered yet.
	awaited
	// restoring: CRIU makes the processes.
	restoring
	// unrestored: the processes could not be made. The worker ends.
	unrestored
	// saving: CRIU writes the image.
	saving
	// saved: the image is whole, and the processes have ended.
	saved
	// lost: the processes are of no use any more, and there is no whole image.
	lost
)

// imageEvent is an event that may move a worker to another phase.
type imageEvent int

const (
	startOrdered imageEvent = iota
	allRestored             // the processes run
	notRestored
	saveOrdered
	imageWhole
	saveRefused     // CRIU has let the processes go on
	imageUnfinished // CRIU has ended the processes, and the image cannot be finished
	criuHung        // it did not let the processes go, and was killed
)

// imageMoves is the table of phases and events. An event that a row does not have leaves the phase as
// it is.
var imageMoves = map[imagePhase]map[imageEvent]imagePhase{
	alive:     {saveOrdered: saving},
	awaited:   {startOrdered: restoring},
	restoring: {allRestored: alive, notRestored: unrestored},
	saving:    {imageWhole: saved, saveRefused: alive, imageUnfinished: lost, criuHung: lost},
}

// after returns the phase after an event.
func (p imagePhase) after(e imageEvent) imagePhase {
	if next, ok := imageMoves[p][e]; ok {
		return next
	}
	return p
}

// atWork reports whether CRIU is at work. A task that ends meanwhile has perhaps been ended by it.
func (p imagePhase) atWork() bool { return p == restoring || p == saving }

// savedAs returns the event that the outcome of a save is.
func savedAs(err error) imageEvent {
	switch {
	case err == nil:
		return imageWhole
	case errors.Is(err, criu.ErrHangs):
		return criuHung
	case errors.Is(err, criu.ErrUnfinished):
		return imageUnfinished
	}
	return saveRefused
}

// restoredAs returns the event that the outcome of a restore is.
func restoredAs(err error) imageEvent {
	if err != nil {
		return notRestored
	}
	return allRestored
}

// image is what is known of the image of a worker's processes.
type image struct {
	phase  imagePhase
	save   container.Saving   // the last order to save, as the daemon hears of it
	cancel context.CancelFunc // gives a save up
	over   chan error         // gets the outcome of CRIU's work
	why    string             // in unrestored and lost: the reason
	held   *task              // the task, if it ended while CRIU was at work
}

// newImage returns the state of a worker that goes on from an image, or from none.
func newImage(from *container.Restore) image {
	m := image{cancel: func() {}, over: make(chan error, 1)}
	if from != nil {
		m.phase = awaited
	}
	return m
}

// criuEnded handles the outcome of CRIU's work.
func (sup *supervisor) criuEnded(err error) {
	m := &sup.image
	if m.phase == restoring {
		sup.restored(err)
	} else {
		sup.saved(err)
	}
	// Now it is clear whether the task ended by itself.
	if held := m.held; held != nil {
		m.held = nil
		sup.taskEnded(held)
	}
}
