package relay

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/problem"
	"github.com/rota-hpc/rota/jobspec"
)

// logRequest selects a part of a job's output.
type logRequest struct {
	id      model.JobID
	attempt int // 0: the last
	worker  int
	task    string // "": the leading one
	stream  string
	tail    int64
	follow  bool
}

// logs answers GET /v1/jobs/{id}/logs by passing on what the node sends. With follow it goes on
// until the job has ended, from attempt to attempt.
func (h *Handlers) logs(x *exchange.Exchange) (any, error) {
	j, err := x.FindJob()
	if err != nil {
		return nil, err
	}
	if j.Children != nil {
		return nil, problem.Invalid("job %d has no output of its own: name one of its members, such as %s", j.ID,
			memberName(j))
	}
	q, err := readLogRequest(x, j)
	if err != nil {
		return nil, err
	}
	ctx, cancel := x.WhileCredentialHolds(x.Context())
	defer cancel()
	x.Request = x.Request.WithContext(ctx)
	a, err := h.firstAttempt(x, j, &q)
	if err != nil {
		return nil, err
	}
	for a != nil {
		if err := h.passLog(x, a, &q); err != nil {
			if x.Sent { // the answer has begun: all that is left is to cut it off
				panic(http.ErrAbortHandler)
			}
			return nil, err
		}
		if !q.follow || q.attempt != 0 {
			break
		}
		q.tail = 0 // a later attempt is passed on whole
		if a, err = h.nextAttempt(x, q.id, a.N); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	if !x.Sent {
		beginLog(x)
	}
	return nil, nil
}

// readLogRequest reads the parameters of a request for output of a job.
func readLogRequest(x *exchange.Exchange, j *model.Job) (logRequest, error) {
	q := logRequest{id: j.ID, stream: cmp.Or(x.Query.Get("stream"), "stdout")}
	if q.stream != "stdout" && q.stream != "stderr" && q.stream != "both" {
		return q, problem.Invalid("parameter stream=%q: write stdout, stderr or both", q.stream)
	}
	if q.task = x.Query.Get("task"); q.task != "" && !slices.Contains(taskNames(j.Spec), q.task) {
		return q, problem.NotFound("job %d has no task %q; it has %s", j.ID, q.task, strings.Join(taskNames(j.Spec), ", "))
	}
	most := j.Workers
	for i := range j.Attempts { // an elastic job has had more
		most = max(most, len(j.Attempts[i].Workers))
	}
	if worker := x.Number("worker", 0); worker >= int64(most) {
		return q, problem.NotFound("job %d has no worker %d: it has %d, from 0", j.ID, worker, j.Workers)
	}
	q.worker, q.attempt = int(x.Number("worker", 0)), int(x.Number("attempt", 0))
	q.tail, q.follow = x.Number("tail", 0), x.Flag("follow")
	return q, nil
}

// memberName is the name of the first member of an array or pipeline job.
func memberName(record *model.Job) string {
	if a := record.Spec.Array; a != nil {
		return fmt.Sprintf("%d_%d", record.ID, a.Index(0))
	}
	return fmt.Sprintf("%d.%s", record.ID, record.Spec.Groups[0].Name)
}

// taskNames lists the tasks of a job's groups, each name once.
func taskNames(spec *jobspec.Job) []string {
	var names []string
	for _, g := range spec.Groups {
		for _, t := range g.Tasks {
			if !slices.Contains(names, t.Name) {
				names = append(names, t.Name)
			}
		}
	}
	return names
}

// firstAttempt returns the attempt to begin with. A job that has not started is waited for when
// following; nil says that it ended without starting.
func (h *Handlers) firstAttempt(x *exchange.Exchange, j *model.Job, q *logRequest) (*model.Attempt, error) {
	if q.attempt != 0 {
		for i := range j.Attempts {
			if j.Attempts[i].N == q.attempt {
				return &j.Attempts[i], nil
			}
		}
		return nil, problem.NotFound("job %d has no attempt %d, or it is no longer kept", j.ID, q.attempt)
	}
	if n := len(j.Attempts); n > 0 && !(q.follow && j.State == model.Pending) {
		return &j.Attempts[n-1], nil
	}
	if j.State.Final() {
		return nil, problem.WrongState("job %d ended without having started: it has no output", j.ID)
	}
	if !q.follow {
		return nil, problem.WrongState("job %d has not started yet: it has no output", j.ID)
	}
	beginLog(x)
	x.Flush()
	return h.nextAttempt(x, j.ID, j.Attempt)
}

// nextAttempt waits for the attempt after n, and returns nil once the job has ended without one.
func (h *Handlers) nextAttempt(x *exchange.Exchange, id model.JobID, n int) (*model.Attempt, error) {
	for {
		changed := h.Replica.Changed()
		j := h.Replica.View().Job(id)
		if j == nil || j.State.Final() && j.Attempt <= n {
			return nil, nil
		}
		for i := range j.Attempts {
			if j.Attempts[i].N > n {
				return &j.Attempts[i], nil
			}
		}
		select {
		case <-changed:
		case <-x.Alive().Done():
			return nil, context.Canceled
		case <-x.Context().Done():
			return nil, context.Cause(x.Context())
		}
	}
}

// passLog copies the log of one worker from its node to the client.
func (h *Handlers) passLog(x *exchange.Exchange, a *model.Attempt, q *logRequest) error {
	if q.worker >= len(a.Workers) {
		return problem.NotFound("attempt %d of job %d has no worker %d", a.N, q.id, q.worker)
	}
	name := a.Workers[q.worker].Node
	n, _ := h.Replica.View().Node(name)
	if n == nil || n.Addr == "" {
		return problem.NotFound("the output of job %d is on node %s, which is no longer in the cluster", q.id, name)
	}
	ctx, cancel := context.WithCancel(x.Context())
	defer cancel()
	defer context.AfterFunc(x.Alive(), cancel)()
	resp, err := h.askNode(x, ctx, n, q.path(a.N))
	if err != nil {
		return &api.Problem{Status: http.StatusBadGateway, Code: api.CodeInternal,
			Detail: fmt.Sprintf("the output of job %d is on node %s, which does not answer: %v", q.id, name, err)}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // what was read of the reason is shown
		status := http.StatusBadGateway
		if resp.StatusCode == http.StatusNotFound {
			status = http.StatusNotFound
		}
		return &api.Problem{Status: status, Code: map[int]string{http.StatusNotFound: api.CodeNotFound,
			http.StatusBadGateway: api.CodeInternal}[status],
			Detail: fmt.Sprintf("node %s: %s", name, refusalText(resp.Status, b))}
	}
	if start := resp.Header.Get(api.HeaderLogStart); start != "" && !x.Sent {
		x.Writer.Header().Set(api.HeaderLogStart, start)
	}
	beginLog(x)
	_, err = io.Copy(promptWriter{x}, resp.Body)
	return err
}

// path is what a node is asked for.
func (q *logRequest) path(attempt int) string {
	v := url.Values{"stream": {q.stream}, "follow": {strconv.FormatBool(q.follow)}}
	if q.tail > 0 {
		v.Set("tail", strconv.FormatInt(q.tail, 10))
	}
	if q.task != "" {
		v.Set("task", q.task)
	}
	return fmt.Sprintf("/v1/logs/%d.%d.%d?%s", q.id, attempt, q.worker, v.Encode())
}

// beginLog sends the head of the answer.
func beginLog(x *exchange.Exchange) {
	if x.Sent {
		return
	}
	x.Headers()
	x.Sent = true
	x.Writer.Header().Set("Content-Type", "application/octet-stream")
	x.Writer.WriteHeader(http.StatusOK)
}

// promptWriter sends the client what is written at once.
type promptWriter struct{ x *exchange.Exchange }

// Write implements io.Writer.
func (w promptWriter) Write(b []byte) (int, error) {
	n, err := w.x.Writer.Write(b)
	if err == nil {
		w.x.Flush()
	}
	return n, err
}
