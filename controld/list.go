package controld

import (
	"bytes"
	"encoding/json"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
)

// listGather is how long a long poll for a list waits for more changes once there is one.
const listGather = 200 * time.Millisecond

// listing is what a list of jobs is asked for.
type listing struct {
	filter jobFilter
	limit  int
	page   cluster.JobID // jobs after this one
	spec   bool
	delta  bool
	fields []field // nil: all of them
}

// field is one member of api.Job, by its name in JSON.
type field struct {
	key   string // "name": with the quotes and the colon
	index int
}

func (x *exchange) listing() (listing, error) {
	var l listing
	var err error
	if l.filter, err = x.jobFilter(); err != nil {
		return l, err
	}
	if l.limit, err = x.limit(); err != nil {
		return l, err
	}
	page, err := x.number("page", 0)
	if err != nil {
		return l, err
	}
	l.page = cluster.JobID(page)
	if l.spec, err = x.flag("spec"); err != nil {
		return l, err
	}
	if l.delta, err = x.flag("delta"); err != nil {
		return l, err
	}
	if l.delta && l.filter.user == "" {
		return l, invalid("parameter delta: say whose jobs with user; changes are remembered for each user")
	}
	l.fields, err = fieldsOf(splitAll(x.query["fields"]))
	return l, err
}

// fieldsOf finds the members of a job by their names.
func fieldsOf(names []string) ([]field, error) {
	var fields []field
	t := reflect.TypeFor[api.Job]()
	for _, name := range names {
		i := slices.IndexFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool {
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			return tag == name
		})
		if i < 0 {
			return nil, invalid("parameter fields: a job has no %q; GET /openapi.json lists what it has", name)
		}
		fields = append(fields, field{key: strconv.Quote(name) + ":", index: i})
	}
	return fields, nil
}

// listJobs answers GET /v1/jobs, in order of id.
func listJobs(x *exchange) (any, error) {
	l, err := x.listing()
	if err != nil {
		return nil, err
	}
	jobs, delta := x.candidates(&l)
	if l.fields != nil {
		return x.listFields(&l, jobs, delta)
	}
	list := newList[api.Job]("JobList", x.view)
	list.Delta = delta
	now := wallNow()
	for j := range jobs {
		if !x.takes(&l, j, delta) {
			continue
		}
		if len(list.Items) == l.limit {
			list.Next = strconv.FormatInt(int64(list.Items[l.limit-1].ID), 10)
			break
		}
		item := x.present(j, now)
		if l.spec {
			item.Spec = x.specOf(j)
		}
		list.Items = append(list.Items, item)
	}
	return list, nil
}

// takes reports whether a job belongs into a list. One of changes has the ended jobs too, so that who keeps a list learns of the end.
func (x *exchange) takes(l *listing, j *cluster.Job, delta bool) bool {
	f := l.filter
	f.all = f.all || delta
	return j.ID > l.page && f.selects(j)
}

// candidates yields the jobs that may belong into a list, ascending by id, and says whether they are only those that have changed since the
// index that was asked for.
func (x *exchange) candidates(l *listing) (iter.Seq[*cluster.Job], bool) {
	f := &l.filter
	switch {
	case len(f.refs) > 0:
		var ids []cluster.JobID
		for _, r := range f.refs {
			ids = append(ids, r.ids()...)
		}
		slices.Sort(ids)
		return x.byID(slices.Compact(ids)), false
	case f.user == "":
		return x.view.JobsAfter(l.page), false
	case l.delta && x.after > 0:
		if ids, known := x.d.machine.feeds.since(f.user, x.after); known {
			return x.byID(ids), true
		}
	}
	return x.byID(x.d.machine.feeds.jobs(f.user)), false
}

func (x *exchange) byID(ids []cluster.JobID) iter.Seq[*cluster.Job] {
	return func(yield func(*cluster.Job) bool) {
		for _, id := range ids {
			j := x.view.Job(id)
			if j == nil {
				continue
			}
			if !yield(j) {
				return
			}
		}
	}
}

// listReady reports whether a long poll for a list has news. A user's list waits for changes of that user's jobs alone.
func listReady(x *exchange, v *cluster.View) bool {
	if user := x.query.Get("user"); user != "" {
		return x.d.machine.feeds.changedAfter(user, x.after)
	}
	return v.Index() > x.after
}

// listFields is a list whose items have some fields only. It is written as it is made: a hundred thousand rows of a table are a tenth of what
// whole jobs are.
func (x *exchange) listFields(l *listing, jobs iter.Seq[*cluster.Job], delta bool) (any, error) {
	list := newList[json.RawMessage]("JobList", x.view)
	list.Delta = delta
	now := wallNow()
	var last cluster.JobID
	w := rowWriter{fields: l.fields}
	for j := range jobs {
		if !x.takes(l, j, delta) {
			continue
		}
		if len(list.Items) == l.limit {
			list.Next = strconv.FormatInt(int64(last), 10)
			break
		}
		item := x.present(j, now)
		row, err := w.row(&item)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, row)
		last = j.ID
	}
	return list, nil
}

// rowWriter encodes some fields of jobs.
type rowWriter struct {
	fields []field
	buf    bytes.Buffer
}

func (w *rowWriter) row(j *api.Job) (json.RawMessage, error) {
	w.buf.Reset()
	v := reflect.ValueOf(j).Elem()
	enc := json.NewEncoder(&w.buf)
	for i, f := range w.fields {
		if i == 0 {
			w.buf.WriteByte('{')
		} else {
			w.buf.WriteByte(',')
		}
		w.buf.WriteString(f.key)
		if err := enc.Encode(v.Field(f.index).Addr().Interface()); err != nil {
			return nil, err
		}
		w.buf.Truncate(w.buf.Len() - 1) // the line's end
	}
	w.buf.WriteByte('}')
	return bytes.Clone(w.buf.Bytes()), nil
}
