package server

import (
	"net/url"
	"strconv"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/server/jobref"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// checkQuery refuses a parameter that the route does not have: a misspelt filter must not select
// everything.
func (rt *route) checkQuery(q url.Values) error {
	for name := range q {
		if !rt.has(name) {
			return problem.Invalid("unknown parameter %q", name)
		}
	}
	return nil
}

func (rt *route) has(name string) bool {
	if rt.Poll && (name == "after" || name == "wait" || name == "consistent") {
		return true
	}
	for _, p := range rt.Params {
		if p.In == "query" && p.Name == name {
			return true
		}
	}
	return false
}

// flag returns a parameter of the query, false if it is missing.
func (x *exchange) flag(name string) (bool, error) {
	s := x.query.Get(name)
	if s == "" {
		return false, nil
	}
	b, err := strconv.ParseBool(s)
	if err != nil {
		return false, problem.Invalid("parameter %s=%q: write true or false", name, s)
	}
	return b, nil
}

// number returns a whole number from 0 of the query, the default if it is missing.
func (x *exchange) number(name string, absent int64) (int64, error) {
	s := x.query.Get(name)
	if s == "" {
		return absent, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, problem.Invalid("parameter %s=%q: write a whole number from 0", name, s)
	}
	return n, nil
}

// duration returns a duration of the query, 0 if it is missing.
func (x *exchange) duration(name string) (time.Duration, error) {
	s := x.query.Get(name)
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, problem.Invalid("parameter %s=%q: write a duration such as 60s", name, s)
	}
	return d, nil
}

// limit returns how many items a page may have.
func (x *exchange) limit() (int, error) {
	n, err := x.number("limit", defaultList)
	if err == nil && n == 0 {
		err = problem.Invalid("parameter limit=0: ask for at least one")
	}
	return int(min(n, maxList)), err
}

// instant returns a time of the query, 0 if it is missing.
func (x *exchange) instant(name string) (cluster.UnixMS, error) {
	s := x.query.Get(name)
	if s == "" {
		return 0, nil
	}
	var t api.Time
	if err := t.UnmarshalText([]byte(s)); err != nil {
		return 0, problem.Invalid("parameter %s=%q: write a time such as 2026-01-31T08:00:00Z", name, s)
	}
	return cluster.UnixMS(t.UnixMilli()), nil
}

// finder finds jobs by name in the view that this request is answered from.
func (x *exchange) finder() *jobref.Finder {
	if x.view == nil {
		x.view = x.s.Replica.View()
	}
	return &jobref.Finder{Replica: x.s.Replica, View: x.view, History: x.s.History}
}

// jobRef returns the job, or jobs, that {id} of the path names.
func (x *exchange) jobRef() (*jobref.Ref, error) {
	return x.finder().Resolve(x.ctx(), x.r.PathValue("id"))
}

// jobID returns the id of the one job that {id} of the path names.
func (x *exchange) jobID() (cluster.JobID, error) {
	r, err := x.jobRef()
	if err != nil {
		return 0, err
	}
	id, single := r.One()
	if !single {
		return 0, problem.Invalid("%q names %d jobs: name one", r.Text, r.Members.Len())
	}
	return id, nil
}
