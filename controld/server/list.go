package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/controld/replica"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// listGather is how long a long poll for a list waits for more changes once there is one.
const listGather = 200 * time.Millisecond

// listing is the parameters of a list of jobs.
type listing struct {
	filter jobFilter
	limit  int
	page   model.JobID // jobs after this one
	spec   bool
	delta  bool
	steps  bool
	stream bool
	fields []field // nil: all of them
}

// field is one member of api.Job, by its name in JSON.
type field struct {
	key   string // "name": with the quotes and the colon
	index int
}

func (x *exchange) listing() (listing, error) {
	l := listing{limit: x.limit(), page: model.JobID(x.number("page", 0)), spec: x.flag("spec"), delta: x.flag("delta"),
		stream: x.flag("stream"), steps: x.flag("steps")}
	var err error
	if l.filter, err = x.jobFilter(); err != nil {
		return l, err
	}
	if l.delta && l.filter.user == "" {
		return l, problem.Invalid("parameter delta: name the user; changes are remembered for each user")
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
			return nil, problem.Invalid("parameter fields: a job has no %q; GET /openapi.json lists what it has", name)
		}
		if f := (field{key: strconv.Quote(name) + ":", index: i}); !slices.Contains(fields, f) {
			fields = append(fields, f)
		}
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
	rows := x.rows(&l, jobs, delta)
	switch {
	case l.stream:
		return nil, x.stream(&l, rows, delta)
	case l.fields != nil:
		return listFields(x, &l, rows, delta)
	}
	list := newList[api.Job]("JobList", x.view)
	list.Delta = delta
	for item := range rows {
		if len(list.Items) == l.limit {
			list.Next = strconv.FormatInt(int64(list.Items[l.limit-1].ID), 10)
			break
		}
		list.Items = append(list.Items, *item)
	}
	return list, nil
}

// rows yields the items of a list, however many there are. A yielded job is valid until the next
// one.
func (x *exchange) rows(l *listing, jobs iter.Seq[*model.Job], delta bool) iter.Seq[*api.Job] {
	return func(yield func(*api.Job) bool) {
		now := replica.WallNow()
		var item api.Job
		for j := range jobs {
			if !x.belongs(l, j, delta) || !x.mayOn(partJobs, j) {
				continue
			}
			item = x.present(j, now, l.spec, l.steps)
			if !yield(&item) {
				return
			}
		}
	}
}

// stream writes a list of any length as it is made: a first line, a line for each item, a last
// line. Neither side holds the whole list.
func (x *exchange) stream(l *listing, rows iter.Seq[*api.Job], delta bool) error {
	x.headers()
	x.sent = true
	x.w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(idleWriter{x}, 1<<16)
	fmt.Fprintf(out, `{"apiVersion":%q,"kind":"JobList","index":%d,"delta":%t,"items":[`+"\n", api.Version,
		x.view.Index(), delta)
	w := rowWriter{fields: l.fields}
	lead := ""
	for item := range rows {
		row, err := w.row(item)
		if err != nil {
			return err
		}
		_, _ = out.WriteString(lead) // the client may be gone: Flush returns that
		if _, err := out.Write(row); err != nil {
			return nil
		}
		lead = ",\n"
	}
	_, _ = out.WriteString("\n]}\n")
	_ = out.Flush()
	return nil
}

// idleWriter writes to the client of a request, outside of its processor time.
type idleWriter struct{ x *exchange }

// Write implements io.Writer.
func (w idleWriter) Write(b []byte) (n int, err error) {
	w.x.idle(func() { n, err = w.x.w.Write(b) })
	return n, err
}

// belongs reports whether a job belongs into a list. A list of changes has ended jobs too, so that
// a client that keeps a list learns that they ended.
func (x *exchange) belongs(l *listing, j *model.Job, delta bool) bool {
	f := l.filter
	f.all = f.all || delta
	return j.ID > l.page && f.selects(j)
}

// candidates yields the jobs that may belong to a list, ascending by id. True says that these
// are only the jobs that changed since the index in the request.
func (x *exchange) candidates(l *listing) (iter.Seq[*model.Job], bool) {
	f := &l.filter
	switch {
	case len(f.refs) > 0:
		return x.within(f.named), false
	case f.user == "":
		return x.view.JobsAfter(l.page), false
	case l.delta && x.after > 0:
		if ids, known := x.s.Replica.ChangedJobsOf(f.user, x.after); known {
			return x.byID(ids), true
		}
	}
	return x.byID(x.s.Replica.JobsOf(f.user)), false
}

// within yields the jobs in the state whose ids are in ranges.
func (x *exchange) within(ids ranges.Ranges) iter.Seq[*model.Job] {
	return func(yield func(*model.Job) bool) {
		for _, r := range ids {
			for j := range x.view.JobsAfter(model.JobID(r.First - 1)) {
				if int(j.ID) > r.Last {
					break
				}
				if !yield(j) {
					return
				}
			}
		}
	}
}

func (x *exchange) byID(ids []model.JobID) iter.Seq[*model.Job] {
	return func(yield func(*model.Job) bool) {
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

// listReady returns whether a long poll for a list has news. A user's list waits for changes of
// that user's jobs alone.
func listReady(x *exchange) func(*state.View) bool {
	if user := x.query.Get("user"); user != "" {
		return x.s.Replica.WhenJobsOf(user, x.after)
	}
	return func(v *state.View) bool { return v.Index() > x.after }
}

// listFields returns a list whose items have some fields only. The rows of a table take a tenth of
// whole jobs.
func listFields(x *exchange, l *listing, rows iter.Seq[*api.Job], delta bool) (any, error) {
	list := newList[json.RawMessage]("JobList", x.view)
	list.Delta = delta
	var last model.JobID
	w := rowWriter{fields: l.fields}
	for item := range rows {
		if len(list.Items) == l.limit {
			list.Next = strconv.FormatInt(int64(last), 10)
			break
		}
		row, err := w.row(item)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, bytes.Clone(row))
		last = item.ID
	}
	return list, nil
}

// rowWriter encodes jobs, or some fields of them.
type rowWriter struct {
	fields []field // nil: all
	buf    bytes.Buffer
}

// row returns a job's JSON, which is good until the next call.
func (w *rowWriter) row(j *api.Job) ([]byte, error) {
	w.buf.Reset()
	enc := json.NewEncoder(&w.buf)
	if w.fields == nil {
		err := enc.Encode(j)
		return bytes.TrimSuffix(w.buf.Bytes(), []byte("\n")), err
	}
	v := reflect.ValueOf(j).Elem()
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
	return w.buf.Bytes(), nil
}
