// Package cuda has NVIDIA's driver move the CUDA state of running processes from their GPUs to host
// memory, and back. A process whose state was moved holds no memory of a GPU, and waits in its next
// CUDA call. The driver can do so from version 570 on.
//
// A driver can hang, so a short-lived child process makes the calls (child.go, serve.go). It loads
// libcuda.so.1 when it is asked first: a machine without GPUs needs no library.
package cuda

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

const (
	// defaultPatience is how long one call may take: the longest copies the memory of one process.
	defaultPatience = 2 * time.Minute
	// lockWithin is how long a process may take to end the work that its GPUs have begun.
	lockWithin = 10 * time.Second
)

// Driver moves the state of processes. One call may be in progress at a time.
type Driver struct {
	Command  []string      // a program that calls [Serve] with its standard streams
	Patience time.Duration // for one call of the driver; 0: 2 min

	killed *child // may still hang within the driver
}

// StuckError means that some processes are left without their CUDA state: they cannot go on.
type StuckError struct{ Err error }

// Error implements error.
func (e *StuckError) Error() string {
	return "the GPU memory of processes was not restored: " + e.Err.Error()
}

// Unwrap returns why.
func (e *StuckError) Unwrap() error { return e.Err }

// errNothing means that the processes hold no state that the driver could move.
var errNothing = errors.New("the driver has no CUDA state for its processes")

// Suspend moves the state of these processes to host memory, and returns when all of it is there.
// Processes without CUDA state are left alone; if all are without, that is an error. All or
// nothing: if one process cannot be moved, those that were are restored, and the error says why. If
// that fails too it is a [StuckError]. When ctx ends, work in progress is abandoned, and nothing is
// restored.
//
// The processes must run: each one moves its own state, in a thread of the driver.
func (d *Driver) Suspend(ctx context.Context, pids []int) error {
	s := &session{driver: d, ctx: ctx}
	defer s.end()
	list, err := s.find(pids)
	switch {
	case err != nil:
		return err
	case len(list) == 0:
		return errNothing
	}
	err = errors.Join(s.each(list, stateRunning, callLock), ctx.Err())
	if err == nil {
		err = s.each(list, stateLocked, callCheckpoint)
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	if back := s.restore(pids); back != nil {
		return &StuckError{errors.Join(err, back)}
	}
	return err
}

// Resume moves the state of these processes back to the GPUs where it was, and lets them make CUDA
// calls again. Processes whose state was not moved are left alone. Any error is a [StuckError],
// unless ctx has ended. The processes must run.
func (d *Driver) Resume(ctx context.Context, pids []int) error {
	s := &session{driver: d, ctx: ctx}
	defer s.end()
	err := s.restore(pids)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return &StuckError{err}
}

// The driver's names of the states of a process (CUprocessState).
const (
	stateRunning      = 0
	stateLocked       = 1 // its CUDA calls wait
	stateCheckpointed = 2 // its memory is on the host; the following states occur after a failure, and on the way
)

// process is a process that the driver knows.
type process struct{ pid, state int }

// find returns those that have CUDA state.
func (s *session) find(pids []int) ([]*process, error) {
	var list []*process
	for _, pid := range pids {
		r, err := s.call(request{Call: callState, PID: pid})
		switch {
		case err == nil && r.None:
		case err != nil && s.ctx.Err() == nil && gone(pid):
		case err != nil:
			return nil, err
		case r.State < stateRunning || r.State > stateCheckpointed:
			return nil, fmt.Errorf("process %d has failed in the driver, or the change is still in progress (state %d)", pid,
				r.State)
		default:
			list = append(list, &process{pid, r.State})
		}
	}
	return list, nil
}

// each makes a call for the processes that are in a state, one after the other. It leaves out those
// that end meanwhile.
func (s *session) each(list []*process, in int, what call) error {
	for _, p := range list {
		if p.state != in {
			continue
		}
		if _, err := s.call(request{Call: what, PID: p.pid, WithinMS: lockWithin.Milliseconds()}); err != nil {
			if s.ctx.Err() == nil && gone(p.pid) {
				continue
			}
			return err
		}
		p.state = after[what]
	}
	return nil
}

// after is the state in which a process is after a call.
var after = map[call]int{
	callLock: stateLocked, callCheckpoint: stateCheckpointed, callRestore: stateLocked, callUnlock: stateRunning,
}

// restore has all processes run that were moved or locked. A process that cannot does not hold up
// the others.
func (s *session) restore(pids []int) error {
	var errs []error
	for _, pid := range pids {
		list, err := s.find([]int{pid})
		if err == nil {
			err = s.each(list, stateCheckpointed, callRestore)
		}
		if err == nil {
			err = s.each(list, stateLocked, callUnlock)
		}
		errs = append(errs, err)
		if errors.As(err, new(*HungError)) || s.ctx.Err() != nil {
			break // others would only take as long
		}
	}
	return errors.Join(errs...)
}

// session is one use of the driver, by one child at a time.
type session struct {
	driver *Driver
	ctx    context.Context
	child  *child
}

func (s *session) call(q request) (response, error) {
	if s.child == nil {
		c, err := s.driver.start(s.ctx)
		if err != nil {
			return response{}, err
		}
		s.child = c
	}
	r, err := s.child.call(s.ctx, q, cmp.Or(s.driver.Patience, defaultPatience))
	if err != nil {
		s.driver.kill(s.child)
		s.child = nil
		return response{}, err
	}
	if r.Error != "" {
		return response{}, fmt.Errorf("%s process %d: %s", q.Call, q.PID, r.Error)
	}
	return r, nil
}

func (s *session) end() {
	if s.child != nil {
		s.driver.kill(s.child)
	}
}

// gone reports whether a process has ended, be it that its parent has not taken note yet.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return len(rest) > 0 && (rest[0] == 'Z' || rest[0] == 'X')
}
