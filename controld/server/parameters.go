package server

import (
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/server/jobref"
	"github.com/rota-hpc/rota/controld/server/openapi"
	"github.com/rota-hpc/rota/controld/server/problem"
	"github.com/rota-hpc/rota/jobspec/duration"
)

// checkQuery refuses a parameter that the route does not have, because a misspelt filter must not
// select everything. It also refuses a value of the wrong kind. Handlers may rely on both.
func (rt *route) checkQuery(q url.Values) error {
	for name := range q {
		if !slices.ContainsFunc(rt.Query(), func(p openapi.Param) bool { return p.Name == name }) {
			return problem.Invalid("unknown parameter %q", name)
		}
	}
	for _, p := range rt.Query() {
		check, s := kinds[p.Kind], q.Get(p.Name)
		if s == "" || check.valid == nil {
			continue
		}
		if p.Name == "limit" && s == "0" {
			return problem.Invalid("parameter limit=0: ask for at least one")
		}
		if !check.valid(s) {
			return problem.Invalid("parameter %s=%q: write %s", p.Name, s, check.write)
		}
	}
	return nil
}

// kinds are the kinds of parameters that are checked: what is valid, and what to write instead.
var kinds = map[openapi.Kind]struct {
	valid func(string) bool
	write string
}{
	openapi.Boolean:  {func(s string) bool { _, err := strconv.ParseBool(s); return err == nil }, "true or false"},
	openapi.Integer:  {isNumber, "a whole number from 0"},
	openapi.Page:     {isNumber, "a whole number from 0"},
	openapi.Duration: {func(s string) bool { _, ok := duration.Parse(s); return ok }, "a duration such as 60s"},
	openapi.Instant: {func(s string) bool { return new(api.Time).UnmarshalText([]byte(s)) == nil },
		"a time such as 2026-01-31T08:00:00Z"},
}

func isNumber(s string) bool {
	n, err := strconv.ParseInt(s, 10, 64)
	return err == nil && n >= 0
}

// flag returns a parameter of the query, false if it is missing.
func (x *exchange) flag(name string) bool {
	b, _ := strconv.ParseBool(x.query.Get(name)) // checkQuery has refused what it cannot read; so below
	return b
}

// number returns a whole number from 0 of the query, the default if it is missing.
func (x *exchange) number(name string, absent int64) int64 {
	if n, err := strconv.ParseInt(x.query.Get(name), 10, 64); err == nil {
		return n
	}
	return absent
}

// duration returns a duration of the query, 0 if it is missing.
func (x *exchange) duration(name string) time.Duration {
	ns, _ := duration.Parse(x.query.Get(name))
	return time.Duration(ns)
}

// limit returns how many items a page may have.
func (x *exchange) limit() int { return int(min(x.number("limit", defaultList), maxList)) }

// instant returns a time of the query, 0 if it is missing.
func (x *exchange) instant(name string) model.UnixMS {
	var t api.Time
	if t.UnmarshalText([]byte(x.query.Get(name))) != nil {
		return 0
	}
	return model.UnixMS(t.UnixMilli())
}

// finder finds jobs by name in the view that this request is answered from. Private jobs of others
// are not found.
func (x *exchange) finder() *jobref.Finder {
	if x.view == nil {
		x.view = x.s.Replica.View()
	}
	f := &jobref.Finder{Replica: x.s.Replica, View: x.view, History: x.s.History}
	if private := x.config().Private; slices.Contains(private, cluster.PrivateJobs) {
		f.Hides = func(j *model.Job) bool { return !partJobs.Allows(x.rolesTo(j), private) }
	}
	return f
}

// jobRef returns the job, or jobs, that {id} of the path names.
func (x *exchange) jobRef() (*jobref.Ref, error) {
	return x.finder().Resolve(x.ctx(), x.r.PathValue("id"))
}

// jobID returns the id of the one job that {id} of the path names.
func (x *exchange) jobID() (model.JobID, error) {
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
