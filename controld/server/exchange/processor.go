package exchange

import (
	"cmp"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/server/access"
)

// processorBurst is for how long a user may save processor time that it has not used.
const processorBurst = 10 * time.Second

// processorTime counts the processor time that the requests of each user take, whatever they ask.
type processorTime struct {
	mu    sync.Mutex
	users map[uint32]*allowance
}

// allowance is how much processor time a user has left; below 0 it has used time of the future.
type allowance struct {
	left time.Duration
	at   time.Time // of left
}

// refill adds what has come since, at a rate in percent of one core.
func (a *allowance) refill(percent int, now time.Time) {
	rate := func(d time.Duration) time.Duration { return d * time.Duration(percent) / 100 }
	a.left = min(a.left+rate(now.Sub(a.at)), rate(processorBurst))
	a.at = now
}

// spend takes time from a user's allowance.
func (p *processorTime) spend(uid uint32, took time.Duration, percent int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.users[uid]
	if a == nil {
		if p.users == nil || len(p.users) >= readers { // all begin anew
			p.users = map[uint32]*allowance{}
		}
		a = &allowance{at: now.Add(-time.Hour)} // it begins full
		p.users[uid] = a
	}
	a.refill(percent, now)
	a.left -= took
}

// wait returns how long a user has to wait until it has an allowance again; 0 if it has one.
func (p *processorTime) wait(uid uint32, percent int, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.users[uid]
	if a == nil {
		return 0
	}
	if a.refill(percent, now); a.left >= 0 {
		return 0
	}
	return -a.left * 100 / time.Duration(percent)
}

// meter counts the processor time of one request. The zero value counts nothing. While it runs its
// goroutine has a thread of the system for itself, so whatever waits for others stops it.
type meter struct {
	on, running bool
	begun, sum  time.Duration
}

func (m *meter) start() {
	if m.on && !m.running {
		runtime.LockOSThread()
		m.begun, m.running = threadTime(), true
	}
}

func (m *meter) stop() {
	if m.running {
		m.sum += threadTime() - m.begun
		m.running = false
		runtime.UnlockOSThread()
	}
}

// threadTime is the processor time that this thread has taken.
func threadTime() time.Duration {
	var used unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &used) != nil { // it has no other errors than bad arguments
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// Idle runs what waits for a client, another machine or the log, outside of the processor time.
func (x *Exchange) Idle(f func()) {
	running := x.meter.running
	x.meter.stop()
	f()
	if running {
		x.meter.start()
	}
}

// metered runs f and charges its processor time to the user of the request. Members of the cluster
// are not charged.
func (x *Exchange) metered(f func() error) error {
	if !x.counts() {
		return f()
	}
	x.meter.on = true
	x.meter.start()
	defer func() {
		x.meter.stop()
		x.s.processor.spend(x.Caller.User.UID, x.meter.sum, x.maxProcessor(), time.Now())
	}()
	return f()
}

// counts reports whether the processor time of a request is charged. Routes without an answer of
// their own pass on what nodes send.
func (x *Exchange) counts() bool { return x.Caller != nil && !x.Caller.Machine && x.Route.Out != nil }

func (x *Exchange) maxProcessor() int {
	return cmp.Or(x.Config().MaxProcessor, cluster.DefaultMaxProcessor)
}

// checkProcessor refuses a request that reads, or tries something out, of a user that has used up
// its processor time. It never refuses a request that changes something. Waiting requests are
// counted apart.
func (x *Exchange) checkProcessor() error {
	if x.Request.Method != http.MethodGet && !x.Route.Quiet || x.Caller.Role == string(pki.Controller) {
		return nil
	}
	percent := x.maxProcessor()
	wait := x.s.processor.wait(x.Caller.User.UID, percent, time.Now())
	if wait == 0 || x.s.rolesOf(x.Caller, x.Config())&access.Operator != 0 {
		return nil
	}
	seconds := int64(wait/time.Second) + 1
	x.Writer.Header().Set("Retry-After", fmt.Sprint(seconds))
	return &api.Problem{Status: http.StatusTooManyRequests, Code: api.CodeLimit,
		Detail: fmt.Sprintf("requests of user %s have used more than %d %% of a processor of this controller for %.0f s",
			x.Caller.User.User, percent, processorBurst.Seconds()),
		Hint: fmt.Sprintf("wait %d s; request less data at a time, or less often. The limit is max_processor in the "+
			"cluster's configuration", seconds)}
}
