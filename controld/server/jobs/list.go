package jobs

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
	"github.com/rota-hpc/rota/controld/forecast"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/controld/replica"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
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
	start  bool    // with estimates of when waiting jobs start
	fields []field // nil: all of them
}

// field is one member of api.Job, by its name in JSON.
type field struct {
	key   string // "name": with the quotes and the colon
	index int
}

func (h *Handlers) listing(x *exchange.Exchange) (listing, error) {
	l := listing{limit: x.Limit(), page: model.JobID(x.Number("page", 0)), spec: x.Flag("spec"), delta: x.Flag("delta"),
		stream: x.Flag("stream"), steps: x.Flag("steps"), start: x.Flag("start")}
	var err error
	if l.filter, err = h.jobFilter(x); err != nil {
		return l, err
	}
	if l.delta && l.filter.user == "" {
		return l, problem.Invalid("parameter delta: name the user, because changes are kept for each user")
	}
	l.fields, err = fieldsOf(splitAll(x.Query["fields"]))
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
			return nil, problem.Invalid("parameter fields: a job has no field %q; GET /openapi.json lists the fields", name)
		}
		if f := (field{key: strconv.Quote(name) + ":", index: i}); !slices.Contains(fields, f) {
			fields = append(fields, f)
		}
	}
	return fields, nil
}

// listJobs answers GET /v1/jobs, in order of id.
func (h *Handlers) listJobs(x *exchange.Exchange) (any, error) {
	l, err := h.listing(x)
	if err != nil {
		return nil, err
	}
	jobs, delta := h.candidates(x, &l)
	var estimates map[model.JobID]forecast.Estimate
	if l.start {
		if estimates, err = h.starts(x, &l, jobs, delta); err != nil {
			return nil, err
		}
	}
	rows := h.rows(x, &l, jobs, delta, estimates)
	switch {
	case l.stream:
		return nil, streamList(x, &l, rows, delta)
	case l.fields != nil:
		return listFields(x, &l, rows, delta)
	}
	list := exchange.NewList[api.Job]("JobList", x.View)
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
func (h *Handlers) rows(x *exchange.Exchange, l *listing, jobs iter.Seq[*model.Job], delta bool,
	estimates map[model.JobID]forecast.Estimate) iter.Seq[*api.Job] {
	return func(yield func(*api.Job) bool) {
		now := replica.WallNow()
		var item api.Job
		for j := range jobs {
			if !seesJob(x, l, j, delta) {
				continue
			}
			item = h.presentJob(x, j, now, l.spec, l.steps)
			addStart(x, &item, estimates)
			if !yield(&item) {
				return
			}
		}
	}
}

// streamList writes a list of any length as it is made: a first line, a line for each item, a last
// line. Neither side holds the whole list.
func streamList(x *exchange.Exchange, l *listing, rows iter.Seq[*api.Job], delta bool) error {
	x.Headers()
	x.Sent = true
	x.Writer.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(idleWriter{x}, 1<<16)
	fmt.Fprintf(out, `{"apiVersion":%q,"kind":"JobList","index":%d,"delta":%t,"items":[`+"\n", api.Version,
		x.View.Index(), delta)
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
type idleWriter struct{ x *exchange.Exchange }

// Write implements io.Writer.
func (w idleWriter) Write(b []byte) (n int, err error) {
	w.x.Idle(func() { n, err = w.x.Writer.Write(b) })
	return n, err
}

// seesJob reports whether a job belongs into a list and the caller may see it.
func seesJob(x *exchange.Exchange, l *listing, j *model.Job, delta bool) bool {
	return belongs(x, l, j, delta) && x.MayOn(access.PartJobs, j)
}

// belongs reports whether a job belongs into a list. A list of changes has ended jobs too, so that
// a client that keeps a list learns that they ended.
func belongs(x *exchange.Exchange, l *listing, j *model.Job, delta bool) bool {
	f := l.filter
	f.all = f.all || delta
	return j.ID > l.page && f.selects(j)
}

// candidates yields the jobs that may belong to a list, ascending by id. True says that these
// are only the jobs that changed since the index in the request.
func (h *Handlers) candidates(x *exchange.Exchange, l *listing) (iter.Seq[*model.Job], bool) {
	f := &l.filter
	switch {
	case len(f.refs) > 0:
		return within(x, f.named), false
	case f.user == "":
		return x.View.JobsAfter(l.page), false
	case l.delta && x.After > 0:
		if ids, known := h.Replica.ChangedJobsOf(f.user, x.After); known {
			return byID(x, ids), true
		}
	}
	return byID(x, h.Replica.JobsOf(f.user)), false
}

// within yields the jobs in the state whose ids are in ranges.
func within(x *exchange.Exchange, ids ranges.Ranges) iter.Seq[*model.Job] {
	return func(yield func(*model.Job) bool) {
		for _, r := range ids {
			for j := range x.View.JobsAfter(model.JobID(r.First - 1)) {
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

func byID(x *exchange.Exchange, ids []model.JobID) iter.Seq[*model.Job] {
	return func(yield func(*model.Job) bool) {
		for _, id := range ids {
			j := x.View.Job(id)
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
func (h *Handlers) listReady(x *exchange.Exchange) func(*state.View) bool {
	if user := x.Query.Get("user"); user != "" {
		return h.Replica.WhenJobsOf(user, x.After)
	}
	return func(v *state.View) bool { return v.Index() > x.After }
}

// listFields returns a list whose items have some fields only. The rows of a table take a tenth of
// whole jobs.
func listFields(x *exchange.Exchange, l *listing, rows iter.Seq[*api.Job], delta bool) (any, error) {
	list := exchange.NewList[json.RawMessage]("JobList", x.View)
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
