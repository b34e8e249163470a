package members

import (
	"net/http"
	"sync"

	"golang.org/x/time/rate"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/serve"
	"github.com/rota-hpc/rota/controld/server/exchange"
)

// Limits of wrong secrets at one controller. A right secret is never limited, so that hundreds of
// machines can join at once. The numbers are guesses: a person that mistypes stays far below them.
const (
	strangerRate  = 1    // wrong secrets in a second from one network
	strangerBurst = 10   // at once from one network
	strangersRate = 20   // in a second from all networks
	strangersMost = 100  // at once from all networks
	strangersKept = 1000 // networks whose rate is known
)

// strangers limits callers without an identity that show a wrong secret.
type strangers struct {
	mu  sync.Mutex
	all *rate.Limiter
	by  map[string]*rate.Limiter
}

// mayFail counts a wrong secret from an address, and reports whether it is within the limits.
func (s *strangers) mayFail(addr string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = rate.NewLimiter(strangersRate, strangersMost)
	}
	network := serve.NetworkOf(addr)
	l := s.by[network]
	if l == nil {
		if s.by == nil || len(s.by) >= strangersKept { // all begin anew; the limit of all still holds
			s.by = map[string]*rate.Limiter{}
		}
		l = rate.NewLimiter(strangerRate, strangerBurst)
		s.by[network] = l
	}
	return l.Allow() && s.all.Allow()
}

// wrongSecret counts a wrong secret of this request. Its error says that there were too many.
func (h *Handlers) wrongSecret(x *exchange.Exchange) error {
	if h.strangers.mayFail(x.Request.RemoteAddr) {
		return nil
	}
	return &api.Problem{Status: http.StatusTooManyRequests, Code: api.CodeLimit,
		Detail: "this network has sent too many join tokens with wrong secrets", Hint: "wait a minute, and copy the whole " +
			"token that `rota cluster join-token` printed"}
}
