package exchange

import (
	"cmp"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/server/access"
)

// userRequests counts the waiting and following requests of each user. Each of them keeps a
// connection, a goroutine, and a condition that is tested after every change of the state. Other
// requests are not counted, so that a user with too many can cancel jobs all the same.
type userRequests struct {
	mu    sync.Mutex
	by    map[uint32]int
	reads map[uint32]*rate.Limiter // of users that have read lately
}

// Of users that read.
const (
	readBurst = 10   // seconds' worth of reads that may come at once
	readers   = 1000 // of how many users is known when they have read

	atOnce = 50 * time.Millisecond // what is answered within that has not waited
)

// mayRead reports whether a user may read, which is so many times in a second, and takes one of these if
// it is now.
func (u *userRequests) mayRead(uid uint32, most int, now bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	l := u.reads[uid]
	if l == nil || l.Burst() != most*readBurst {
		if u.reads == nil || len(u.reads) >= readers { // they begin anew
			u.reads = map[uint32]*rate.Limiter{}
		}
		l = rate.NewLimiter(rate.Limit(most), most*readBurst)
		u.reads[uid] = l
	}
	if !now {
		return l.Tokens() >= 1
	}
	return l.Allow()
}

// begin counts a request of a user, and returns how many the user has now.
func (u *userRequests) begin(uid uint32) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.by == nil {
		u.by = map[uint32]int{}
	}
	u.by[uid]++
	return u.by[uid]
}

func (u *userRequests) end(uid uint32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.by[uid]--; u.by[uid] == 0 {
		delete(u.by, uid)
	}
}

// begin counts a request that waits or follows for its user, and takes one that only reads from those
// of the second. Its error says that the user has too many. Members of the cluster, operators and admins
// are not bound. end ends what was begun.
func (x *Exchange) begin() (end func(), err error) {
	q := x.Request.URL.Query()
	if x.Caller == nil || x.Caller.Machine {
		return func() {}, nil
	}
	waits := q.Get("wait") != "" || q.Get("follow") != "" || api.AsksForStream(x.Request)
	if err := x.takeRead(!waits); err != nil {
		return func() {}, err
	}
	if !waits {
		return func() {}, x.checkProcessor()
	}
	uid := x.Caller.User.UID
	n := x.s.requests.begin(uid)
	cfg, begun := x.Config(), time.Now()
	end = func() {
		x.s.requests.end(uid)
		if time.Since(begun) < atOnce { // it has not waited
			_ = x.takeRead(true)
		}
	}
	most := cmp.Or(cfg.MaxRequests, cluster.DefaultMaxRequests)
	if n <= most || x.s.rolesOf(x.Caller, cfg)&access.Operator != 0 {
		return end, nil
	}
	end()
	return func() {}, &api.Problem{Status: http.StatusTooManyRequests, Code: api.CodeLimit,
		Detail: fmt.Sprintf("user %s has %d waiting or following requests in progress; at most %d are allowed",
			x.Caller.User.User, n-1, most),
		Hint: "end some of them, or wait for several jobs with one command; the limit is max_requests in the cluster's " +
			"configuration"}
}

// takeRead counts a request that only reads, now if it does not wait, and refuses it if there were
// too many. It never refuses a request that changes something.
func (x *Exchange) takeRead(now bool) error {
	if x.Request.Method != http.MethodGet || x.Caller.Role == string(pki.Controller) { // another one has counted it
		return nil
	}
	cfg := x.Config()
	most := cmp.Or(cfg.MaxReads, cluster.DefaultMaxReads)
	if x.s.rolesOf(x.Caller, cfg)&access.Operator != 0 || x.s.requests.mayRead(x.Caller.User.UID, most, now) {
		return nil
	}
	return &api.Problem{Status: http.StatusTooManyRequests, Code: api.CodeLimit,
		Detail: fmt.Sprintf("user %s has sent more than %d requests a second", x.Caller.User.User, most),
		Hint: "wait for a change (rota wait; wait= and after= of the API), or read many jobs with one command; the limit " +
			"is max_reads in the cluster's configuration"}
}

// limited runs the request within the limits of its user.
func (x *Exchange) limited() (any, error) {
	end, err := x.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	return x.run()
}
