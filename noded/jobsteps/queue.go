package jobsteps

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/noded/jobsteps/choose"
)

// waiter is a request that waits for room.
type waiter struct {
	req     *api.StepRequest
	name    string
	granted chan grant // gets one value, or is closed when the job ends, or when the request is sent again
}

// grant is the answer to a request: the step's number, and its shares, held from then on.
type grant struct {
	n      int
	shares []choose.Share
	parts  []int // how many of the shares each part of the step has
}

// enter grants a request at once, or queues it if its shares are busy.
func (j *job) enter(req *api.StepRequest) (grant, *waiter, error) {
	w, err := j.m.Local.Worker(j.id)
	if err == nil {
		err = w.Refuse
	}
	if err != nil {
		return grant{}, nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return grant{}, nil, errEnds
	}
	if len(j.steps())+len(j.waiting) >= stepsMost {
		return grant{}, nil, &api.Problem{Status: http.StatusTooManyRequests, Code: api.CodeLimit,
			Detail: fmt.Sprintf("job %d has %d running or waiting steps, the maximum for a job: wait until one ends",
				j.id.Job, stepsMost)}
	}
	shares, parts, err := choose.All(req, j.alloc, j.allHeld())
	// A client that lost its connection sends its request again, with the same key. The new request
	// takes the place of the old one in the queue.
	at := slices.IndexFunc(j.waiting, func(w *waiter) bool { return req.Key != "" && w.req.Key == req.Key })
	if at >= 0 {
		close(j.waiting[at].granted)
		j.waiting = slices.Delete(j.waiting, at, at+1)
	} else {
		at = len(j.waiting)
	}
	if errors.Is(err, choose.Busy) && !req.NoWait {
		w := &waiter{req: req, name: nameOf(req), granted: make(chan grant, 1)}
		j.waiting = slices.Insert(j.waiting, at, w)
		return grant{}, w, nil
	}
	if err != nil {
		return grant{}, nil, err
	}
	return j.grant(req, shares, parts), nil, nil
}

// stepsMost is how many steps of a job may run and wait at the same time.
const stepsMost = 1024

var errEnds = errors.New("Job has finished")

// grant numbers a step and holds its shares until it ends. The caller has the mutex.
func (j *job) grant(req *api.StepRequest, shares []choose.Share, parts []int) grant {
	g := grant{j.next, shares, parts}
	j.next++
	j.numbers[g.n] = &numbered{stage: granted}
	if !req.Overlap {
		j.numbers[g.n].shares = shares
	}
	if req.Key != "" {
		j.keys[req.Key] = g.n
	}
	if len(j.keys) > keysMost { // forget old keys: their clients have long got an answer
		maps.DeleteFunc(j.keys, func(_ string, n int) bool { return n <= g.n-keysMost/2 && j.step(n) == nil })
	}
	return g
}

// keysMost is the number of remembered keys of requests.
const keysMost = 8 * stepsMost

// leave takes back a waiting request. It may have been granted in the same moment: then its shares
// go to the requests behind it.
func (j *job) leave(w *waiter) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waiting = slices.DeleteFunc(j.waiting, func(o *waiter) bool { return o == w })
	select {
	case g, ok := <-w.granted:
		if ok {
			j.giveBack(g.n)
		}
	default:
	}
}

// giveBack gives back the shares of a granted step that does not begin. The caller has the mutex.
func (j *job) giveBack(n int) {
	j.move(n, givenBack)
	maps.DeleteFunc(j.keys, func(_ string, of int) bool { return of == n })
	j.serveWaiting()
}

// freed gives the shares of a step back and serves the waiting requests.
func (j *job) freed(s *step) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.move(s.n, partsEnded)
	j.serveWaiting()
}

// serveWaiting grants every waiting request that fits now, in order. A small request may overtake a
// large one. The caller has the mutex.
func (j *job) serveWaiting() {
	j.waiting = slices.DeleteFunc(j.waiting, func(w *waiter) bool {
		shares, parts, err := choose.All(w.req, j.alloc, j.allHeld())
		if err != nil {
			return false
		}
		w.granted <- j.grant(w.req, shares, parts)
		return true
	})
}
