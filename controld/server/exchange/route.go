package exchange

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/openapi"
)

// Answerer says which controllers answer a route.
type Answerer int

// The controllers that answer.
const (
	Here     Answerer = iota // by every controller, from its replica
	OnLeader                 // by the leader; followers pass requests on
)

// Route is one operation of the API: its documentation, and what serves it.
type Route struct {
	openapi.Operation
	Rule  access.Rule // which callers may use it
	Place Answerer
	Past  bool // asks the history too
	// Token is the scope that an API token needs for it; "": see TokenScope
	Token trust.TokenScope
	// InJob is what processes of jobs may use it for; "": see InsideJob
	InJob InJob
	Quiet bool // the audit log has its refusals only
	// Ready returns the condition on which a long poll is answered; nil: the index is above after.
	// Every change of the state evaluates the condition of every waiting long poll. So Ready does
	// costly work once, before it returns the condition.
	Ready  func(*Exchange) func(*state.View) bool
	Gather time.Duration // how long a long poll waits for more once there is news
	// Handle returns the answer's body. A route that writes it by itself returns nil.
	Handle func(*Exchange) (any, error)
}

// Returning returns a route with its handler, and with the answer that the handler returns.
func Returning[Out any](rt Route, handle func(*Exchange) (*Out, error)) Route {
	rt.Out = reflect.TypeFor[Out]()
	rt.Handle = func(x *Exchange) (any, error) { return handle(x) }
	return rt
}

// Taking is returning for a handler that gets the request's body.
func Taking[In, Out any](rt Route, handle func(*Exchange, *In) (*Out, error)) Route {
	rt.In = reflect.TypeFor[In]()
	return Returning(rt, func(x *Exchange) (*Out, error) {
		req := new(In)
		if err := x.Decode(req); err != nil {
			return nil, err
		}
		return handle(x, req)
	})
}

// Get is an operation that reads.
func Get(path, summary string, params ...[]openapi.Param) openapi.Operation {
	return openapi.Operation{Method: "GET", Path: path, Summary: summary, Params: slices.Concat(params...)}
}

// Poll is a get that may wait for news.
func Poll(path, summary string, params ...[]openapi.Param) openapi.Operation {
	o := Get(path, summary, params...)
	o.Poll = true
	return o
}

// Post is an operation that acts, most often with a body.
func Post(path, summary string, params ...[]openapi.Param) openapi.Operation {
	o := Get(path, summary, params...)
	o.Method = "POST"
	return o
}

// InQuery are parameters of the query, of one kind.
func InQuery(kind openapi.Kind, names ...string) []openapi.Param {
	var ps []openapi.Param
	for _, n := range names {
		ps = append(ps, openapi.Param{Name: n, In: "query", Kind: kind})
	}
	return ps
}

// InPath is a variable of the path.
func InPath(name, doc string) []openapi.Param {
	return []openapi.Param{{Name: name, In: "path", Kind: openapi.String, Doc: doc}}
}

// PathID names the job that a route is about.
var PathID = InPath("id", "id of the job: 123, 123_4 for an array task, 123.train for a group")

// PathNode names the node that a route is about.
var PathNode = InPath("name", "name of the node")

// Paging are the parameters of a list in pages.
var Paging = []openapi.Param{
	{Name: "limit", In: "query", Kind: openapi.Integer, Doc: "number of items in a page: 1000 by default, at most 10000"},
	{Name: "page", In: "query", Kind: openapi.Page, Doc: "the value next of the previous page"},
}

// CheckRules returns why the routes cannot be served: each has a rule.
func CheckRules(all []Route) error {
	for i := range all {
		if err := all[i].Rule.Check(); err != nil {
			return fmt.Errorf("route %s %s: %w", all[i].Method, all[i].Path, err)
		}
	}
	return nil
}
