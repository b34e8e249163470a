package exchange

import (
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/jobref"
	"github.com/rota-hpc/rota/controld/server/openapi"
	"github.com/rota-hpc/rota/controld/server/problem"
	"github.com/rota-hpc/rota/jobspec/duration"
)

// checkQuery refuses a parameter that the route does not have, because a misspelt filter must not
// select everything. It also refuses a value of the wrong kind. Handlers may rely on both.
func (rt *Route) checkQuery(q url.Values) error {
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
			return problem.Invalid("parameter limit=0: must be at least 1")
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

// Flag returns a parameter of the query, false if it is missing.
func (x *Exchange) Flag(name string) bool {
	b, _ := strconv.ParseBool(x.Query.Get(name)) // checkQuery has refused what it cannot read; so below
	return b
}

// Number returns a whole number from 0 of the query, the default if it is missing.
func (x *Exchange) Number(name string, absent int64) int64 {
	if n, err := strconv.ParseInt(x.Query.Get(name), 10, 64); err == nil {
		return n
	}
	return absent
}

// Duration returns a duration of the query, 0 if it is missing.
func (x *Exchange) Duration(name string) time.Duration {
	ns, _ := duration.Parse(x.Query.Get(name))
	return time.Duration(ns)
}

// Limit returns how many items a page may have.
func (x *Exchange) Limit() int { return int(min(x.Number("limit", defaultList), MaxList)) }

// Instant returns a time of the query, 0 if it is missing.
func (x *Exchange) Instant(name string) model.UnixMS {
	var t api.Time
	if t.UnmarshalText([]byte(x.Query.Get(name))) != nil {
		return 0
	}
	return model.UnixMS(t.UnixMilli())
}

// Finder finds jobs by name in the view that this request is answered from. Private jobs of others
// are not found.
func (x *Exchange) Finder() *jobref.Finder {
	if x.View == nil {
		x.View = x.s.Replica.View()
	}
	f := &jobref.Finder{Replica: x.s.Replica, View: x.View, History: x.s.History}
	if private := x.Config().Private; slices.Contains(private, cluster.PrivateJobs) {
		f.Hides = func(j *model.Job) bool { return !access.PartJobs.Allows(x.RolesTo(j), private) }
	}
	return f
}

// JobRef returns the job, or jobs, that {id} of the path names.
func (x *Exchange) JobRef() (*jobref.Ref, error) {
	return x.Finder().Resolve(x.Context(), x.Request.PathValue("id"))
}

// JobID returns the id of the one job that {id} of the path names.
func (x *Exchange) JobID() (model.JobID, error) {
	r, err := x.JobRef()
	if err != nil {
		return 0, err
	}
	id, single := r.One()
	if !single {
		return 0, problem.Invalid("%q stands for %d jobs: give one", r.Text, r.Members.Len())
	}
	return id, nil
}

// FindJob returns the one job that {id} of the path names, from the state or the history.
func (x *Exchange) FindJob() (*model.Job, error) {
	id, err := x.JobID()
	if err != nil {
		return nil, err
	}
	j, err := x.Finder().Find(x.Context(), id)
	if err == nil && j == nil {
		err = problem.NotFound("unknown job %d", id)
	}
	return j, err
}
