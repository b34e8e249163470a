package exchange

import (
	"fmt"
	"net/http"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// BodyTimeout is how long a client may take to send the whole of a request.
const BodyTimeout = 2 * time.Minute

// Handler returns the handler of routes.
func (s *Service) Handler(all []Route) http.Handler {
	mux := http.NewServeMux()
	for i := range all {
		mux.Handle(all[i].Method+" "+all[i].Path, s.serve(&all[i]))
	}
	mux.HandleFunc("/", s.unknownRoute)
	return s.refuseBrowsers(mux)
}

func (s *Service) unknownRoute(w http.ResponseWriter, r *http.Request) {
	if _, err := s.callerOf(r); err != nil {
		refuseUnread(w, r, err)
		return
	}
	problem.Write(w, &api.Problem{Status: http.StatusNotFound, Code: api.CodeNotFound,
		Detail: fmt.Sprintf("unknown route %s %s", r.Method, r.URL.Path), Hint: "GET /openapi.json lists all routes"})
}

// refuseUnread answers a request whose body is not read. The connection is closed behind it: without
// that the rest of the body would be waited for.
func refuseUnread(w http.ResponseWriter, r *http.Request, err error) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
	}
	problem.Write(w, problem.Of(err))
}

// answer answers the request, unless its handler does so itself, and returns why it was refused.
func (x *Exchange) answer() error {
	err := x.metered(func() error {
		body, err := x.limited()
		if err == nil && !x.Sent {
			x.Headers()
			x.write(body)
		}
		return err
	})
	if err != nil && !x.Sent {
		x.Headers()
		problem.Write(x.Writer, x.explained(problem.Of(err)))
	}
	return err
}

// serve answers the requests of one route.
func (s *Service) serve(rt *Route) http.Handler {
	label := rt.Method + " " + rt.Path
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		x := New(s, rt, w, r)
		if r.ContentLength == 0 {
			x.endReadDeadline()
		}
		if err := x.identify(); err != nil {
			refuseUnread(w, r, err)
			x.Record(err)
			return
		}
		defer x.endBody()
		err := x.answer()
		x.Record(err)
		s.metrics.served(label, err, time.Since(begin))
	})
}
