package shim

import (
	"cmp"
	"errors"
	"time"

	"github.com/rota-hpc/rota/noded/container"
)

// # A disk that hangs
//
// The supervisor's loop writes to the disk: notices, the state of libcontainer, the exit record. A disk, or
// a container, that hangs may hold it up. That must keep neither a kill nor the end of a lease from being
// carried out:
//   - Writes that can wait happen beside the loop, or for a bounded time ([bounded]).
//   - Each write to a socket has a deadline (sendPatience).
//   - A kill that the loop does not carry out in time is done without it. forceEnd kills the
//     processes of the worker by their cgroup, which needs neither a disk nor the loop.

const (
	// noticePatience is how long the signal at the end of a lease waits for the notice that explains it
	noticePatience = 250 * time.Millisecond
	// tidyPatience is how long the loop waits until the files and mounts of a task that has ended are removed
	tidyPatience = 5 * time.Second
	// loopPatience is how long the loop may take to carry out a kill before it is done without the loop
	loopPatience = time.Second
	// sendPatience is how long the loop waits for a daemon, or for rota-init, that does not read
	sendPatience = time.Second
)

var errTooLong = errors.New("it takes too long, and continues in the background")

// bounded does something that may hang. After the given time it goes on by itself.
func bounded(patience time.Duration, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errTooLong
	}
}

// writeNotice writes a notice. Tests have it hang.
var writeNotice = container.WriteNotice

// leaseGrace returns the time between signal and kill at the end of the lease.
func (sup *supervisor) leaseGrace() time.Duration {
	return cmp.Or(time.Duration(sup.settings.LeaseGrace)*time.Millisecond, defaultLeaseGrace)
}

// forceEnd kills the worker after a time, in which the loop should have ended it.
func (sup *supervisor) forceEnd(after time.Duration) {
	time.AfterFunc(after, func() {
		if !sup.allEnded.Load() {
			container.KillProcesses(sup.settings.Cgroup)
		}
	})
}

// trimBeside keeps the progress files from filling the disk, and tells of processes that were killed for
// memory, beside the loop.
func (sup *supervisor) trimBeside() {
	if !sup.trimming.CompareAndSwap(false, true) {
		return // the last time hangs
	}
	var running []*task
	for _, t := range sup.tasks {
		if t.State == container.Running {
			running = append(running, t)
		}
	}
	go func() {
		defer sup.trimming.Store(false)
		sup.trimProgress()
		for _, t := range running {
			t.tellKills(sup.io)
		}
	}()
}
