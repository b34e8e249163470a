package exchange

import (
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/rota-hpc/rota/controld/api"
)

// Limits of requests' bodies, in bytes. A body is read only when its caller is known.
const (
	maxBody         = 16 << 20 // of a user, and of a node's report: 10,000 jobs with scripts of 1 KiB
	maxMemberBody   = 64 << 20 // of a controller
	maxStrangerBody = 64 << 10 // on routes that ask for no identity

	// All bodies together, those that are still coming and those that are being worked on. A slow
	// caller, or very many, take no more memory than this.
	maxBodies         = 256 << 20
	maxCallerBodies   = 64 << 20 // of one user, node or controller
	maxStrangerBodies = 1 << 20  // of all callers without an identity together
)

// bodyMemory counts the bytes of bodies, in all and by caller.
type bodyMemory struct {
	mu  sync.Mutex
	all int64
	by  map[string]int64
}

// take counts n bytes more for a caller. It is false if these are too many.
func (m *bodyMemory) take(caller string, n int64) bool {
	most := int64(maxCallerBodies)
	if caller == "" {
		most = maxStrangerBodies
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all+n > maxBodies || m.by[caller]+n > most {
		return false
	}
	if m.by == nil {
		m.by = map[string]int64{}
	}
	m.all += n
	m.by[caller] += n
	return true
}

// release gives n bytes of a caller back.
func (m *bodyMemory) release(caller string, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all -= n
	if m.by[caller] -= n; m.by[caller] == 0 {
		delete(m.by, caller)
	}
}

// bodyLimit is how large the body of this request may be.
func (x *Exchange) bodyLimit() int64 {
	switch c := x.Caller; {
	case c == nil:
		return maxStrangerBody
	case c.Machine && c.Role == "controller":
		return maxMemberBody
	}
	return maxBody
}

// payer is the caller whose share of the memory for bodies this request takes; "" if it is not
// known.
func (x *Exchange) payer() string {
	switch c := x.Caller; {
	case c == nil:
		return ""
	case c.Machine:
		return c.Role + " " + c.From
	default:
		return "uid " + strconv.FormatUint(uint64(c.User.UID), 10)
	}
}

// countedBody counts the bytes of a body as they come.
type countedBody struct {
	io.Reader
	x *Exchange
}

// Read implements io.Reader.
func (b countedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if n == 0 {
		return n, err
	}
	if !b.x.s.bodies.take(b.x.payer(), int64(n)) {
		return 0, errBusy
	}
	b.x.bodyBytes += int64(n)
	return n, err
}

// endBody gives back what the body of this request took.
func (x *Exchange) endBody() {
	if x.bodyBytes > 0 {
		x.s.bodies.release(x.payer(), x.bodyBytes)
		x.bodyBytes = 0
	}
}

var errBusy = &api.Problem{Status: http.StatusServiceUnavailable, Code: api.CodeBusy,
	Detail: "too many large requests are in progress", Hint: "try again, with fewer or smaller requests at a time"}
