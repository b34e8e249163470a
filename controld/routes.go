package controld

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/cluster"
)

// access says who may use a route.
type access int

const (
	users    access = iota // everyone of whom it is known who they are
	machines               // controllers and nodes, also on behalf of root, but not on behalf of their users
	anyone                 // no identity is needed: health and metrics
)

// place says where a route is answered.
type place int

const (
	here     place = iota // by every controller, from its replica
	onLeader              // by the leader; followers pass it on
)

// route is one operation of the API: what serves it and what documents it.
type route struct {
	method, path string
	summary      string
	access       access
	place        place
	params       []param
	in, out      reflect.Type // of the bodies; nil for none
	alsoIn       reflect.Type // another form that the request body may have
	media        string       // of the answer; "" is JSON
	poll         bool         // takes after, wait and consistent
	past         bool         // asks the history too
	// ready returns what says whether a long poll may answer; nil: when the index is above after. What it returns is asked at every change of the
	// state, for each long poll there is, so whatever can be found out once it finds out before.
	ready  func(*exchange) func(*cluster.View) bool
	gather time.Duration // how long a long poll waits for more once there is news
	// handle returns the answer's body. A route that writes it by itself returns nil.
	handle func(*exchange) (any, error)
}

// param is a parameter in the path or the query.
type param struct {
	name, in, kind, doc string // in: path or query; kind: string, integer, boolean or array
}

// exchange is one request being answered.
type exchange struct {
	d      *daemon
	w      http.ResponseWriter
	r      *http.Request
	caller identity.Caller
	query  url.Values
	after  uint64
	view   *cluster.View // what the answer is made from
	sent   bool          // the handler has written the answer
}

func (x *exchange) ctx() context.Context { return x.r.Context() }

// headerForwarded marks a request that a follower passed on, so that it is passed on once only.
const headerForwarded = "Rota-Forwarded"

// Limits of a read.
const (
	maxWait   = 60 * time.Second
	maxList   = 10_000 // items of one page
	usualList = 1000   // of a page whose limit is not said
	maxEvents = 1000   // items of one answer
)

// handler serves every route.
func (d *daemon) handler() http.Handler {
	mux := http.NewServeMux()
	routes := d.routes()
	for i := range routes {
		mux.Handle(routes[i].method+" "+routes[i].path, d.answer(&routes[i]))
	}
	mux.HandleFunc("/", d.unknownRoute)
	return mux
}

func (d *daemon) unknownRoute(w http.ResponseWriter, r *http.Request) {
	if _, err := d.guard.Caller(w, r); err != nil {
		writeProblem(w, problemOf(err))
		return
	}
	writeProblem(w, &api.Problem{Status: http.StatusNotFound, Code: api.CodeNotFound,
		Detail: fmt.Sprintf("there is no %s %s", r.Method, r.URL.Path), Hint: "GET /openapi.json lists what there is"})
}

// answer serves one route: who, where, when, and then what.
func (d *daemon) answer(rt *route) http.Handler {
	label := rt.method + " " + rt.path
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		x := &exchange{d: d, w: w, r: r}
		if r.ContentLength == 0 {
			x.patient()
		}
		if rt.access != anyone {
			caller, err := d.guard.Caller(w, r)
			if err != nil {
				writeProblem(w, problemOf(err))
				return
			}
			x.caller = caller
		}
		body, err := x.run(rt)
		switch {
		case err != nil && !x.sent:
			x.headers()
			writeProblem(w, problemOf(err))
		case err == nil && !x.sent:
			x.headers()
			x.write(rt, body)
		}
		d.metrics.served(label, err, time.Since(begin))
	})
}

func (x *exchange) run(rt *route) (any, error) {
	if rt.access == machines && !x.caller.ForItself() {
		return nil, denied("only controllers and nodes of the cluster may use %s", rt.path)
	}
	if x.r.URL.RawQuery != "" {
		q, err := url.ParseQuery(x.r.URL.RawQuery)
		if err != nil {
			return nil, invalid("query: %v", err)
		}
		x.query = q
		if err := rt.checkQuery(q); err != nil {
			return nil, err
		}
	}
	if rt.place == onLeader && !x.d.leading.Load() {
		return nil, x.forward()
	}
	if rt.poll {
		if !x.d.leading.Load() && (!x.d.fresh.Load() || rt.past && x.d.missesRecords()) {
			return nil, x.forward()
		}
		if consistent, err := x.flag("consistent"); err != nil {
			return nil, err
		} else if consistent {
			if !x.d.leading.Load() {
				return nil, x.forward()
			}
			if err := x.d.replica.Verify(x.ctx()); err != nil {
				return nil, err
			}
		}
		if err := x.await(rt); err != nil {
			return nil, err
		}
	}
	if x.view == nil {
		x.view = x.d.machine.view.Load()
	}
	return rt.handle(x)
}

// checkQuery refuses a parameter that the route does not have: a misspelt filter must not select everything.
func (rt *route) checkQuery(q url.Values) error {
	for name := range q {
		if !rt.has(name) {
			return invalid("unknown parameter %q", name)
		}
	}
	return nil
}

func (rt *route) has(name string) bool {
	if rt.poll && (name == "after" || name == "wait" || name == "consistent") {
		return true
	}
	for _, p := range rt.params {
		if p.in == "query" && p.name == name {
			return true
		}
	}
	return false
}

// await holds a long poll back until there is news, the wait is over, or the daemon stops.
func (x *exchange) await(rt *route) error {
	after, err := x.number("after", 0)
	if err != nil {
		return err
	}
	wait, err := x.duration("wait")
	if err != nil {
		return err
	}
	x.after = uint64(after)
	x.view = x.d.machine.view.Load()
	if wait <= 0 {
		return nil
	}
	ready := func(v *cluster.View) bool { return v.Index() > x.after }
	if rt.ready != nil {
		ready = rt.ready(x)
	}
	give := make(chan struct{})
	defer time.AfterFunc(min(wait, maxWait), func() { close(give) }).Stop()
	come := false
	x.view, come, err = x.d.until(x.ctx(), ready, give)
	if come && rt.gather > 0 {
		x.gather(rt.gather, give)
	}
	return err
}

// gather lets more come together before a list is answered: where one job changes, others do.
func (x *exchange) gather(most time.Duration, give <-chan struct{}) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-give:
	case <-x.d.stopping:
	case <-x.ctx().Done():
	}
	x.view = x.d.machine.view.Load()
}

// headers says which state answered, and how old it may be.
func (x *exchange) headers() {
	v := x.view
	if v == nil {
		v = x.d.machine.view.Load()
	}
	h := x.w.Header()
	h.Set(api.HeaderIndex, strconv.FormatUint(v.Index(), 10))
	if stale, ok := x.d.stale(); ok {
		h.Set(api.HeaderStale, strconv.FormatInt(int64(stale/time.Second), 10))
	}
}

// stale returns for how long no leader was heard of, and false while there is one.
func (d *daemon) stale() (time.Duration, bool) {
	if d.leading.Load() {
		return 0, false
	}
	if _, ok := d.replica.Leader(); ok {
		return 0, false
	}
	last := d.replica.LastContact()
	if last.IsZero() {
		return time.Second, true
	}
	return max(time.Since(last), time.Second), true
}

func (x *exchange) write(rt *route, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		writeProblem(x.w, problemOf(fmt.Errorf("encode the answer: %w", err)))
		return
	}
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)+1))
	x.w.Write(append(b, '\n')) // the client may be gone
}

// body reads the request's body, of maxBody bytes at most. Memory is taken as the bytes come, whatever length the client announced.
func (x *exchange) body() ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(max(0, min(x.r.ContentLength, announcedMost))) + bytes.MinRead)
	if _, err := b.ReadFrom(http.MaxBytesReader(x.w, x.r.Body, maxBody)); err != nil {
		return nil, bodyError(err)
	}
	x.patient()
	return b.Bytes(), nil
}

// announcedMost is how many bytes a body gets at once because its client announced them.
const announcedMost = 64 << 10

func bodyError(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return &api.Problem{Status: http.StatusRequestEntityTooLarge, Code: api.CodeTooLarge,
			Detail: fmt.Sprintf("the request is larger than %d MiB", maxBody>>20), Hint: "send it in several requests"}
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return invalid("read the request: %v", err)
}

// patient ends the time within which a request must have come: from now on it is the client that waits, for as long as it likes.
func (x *exchange) patient() {
	_ = http.NewResponseController(x.w).SetReadDeadline(time.Time{}) // an error means that the connection is gone
}

// decode reads a JSON body strictly: an unknown field is refused by name, so that a misspelt one is not ignored.
func (x *exchange) decode(into any) error {
	b, err := x.body()
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil
	}
	return decodeStrict(b, into)
}

func decodeStrict(b []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return invalid("the request is not what this route takes: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); err != io.EOF {
		return invalid("the request has something after its end, at byte %d", dec.InputOffset())
	}
	return nil
}

// flag, number and duration read a parameter of the query; a missing one is false, the default, or 0.
func (x *exchange) flag(name string) (bool, error) {
	s := x.query.Get(name)
	if s == "" {
		return false, nil
	}
	b, err := strconv.ParseBool(s)
	if err != nil {
		return false, invalid("parameter %s=%q: write true or false", name, s)
	}
	return b, nil
}

func (x *exchange) number(name string, absent int64) (int64, error) {
	s := x.query.Get(name)
	if s == "" {
		return absent, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, invalid("parameter %s=%q: write a whole number from 0", name, s)
	}
	return n, nil
}

func (x *exchange) duration(name string) (time.Duration, error) {
	s := x.query.Get(name)
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, invalid("parameter %s=%q: write a duration such as 60s", name, s)
	}
	return d, nil
}

// admin reports whether the caller may act on everyone's jobs.
func (x *exchange) admin() bool {
	c := x.caller
	return c.Machine || c.User.UID == 0 || x.d.operators[c.User.User]
}
