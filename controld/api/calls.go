package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// Read says how fresh an answer must be. The zero value takes what the controller has.
type Read struct {
	After      uint64        // answer only when the index is above this, or Wait has passed
	Wait       time.Duration // at most 60 s are honoured
	Consistent bool          // the answer reflects everything acknowledged before the request
}

func (r Read) into(q *call) {
	if q.query == nil {
		q.query = url.Values{}
	}
	if r.After > 0 || r.Wait > 0 {
		q.query.Set("after", strconv.FormatUint(r.After, 10))
		q.query.Set("wait", r.Wait.String())
		q.wait = r.Wait
	}
	if r.Consistent {
		q.query.Set("consistent", "true")
	}
}

// JobFilter selects jobs; all that is set must match. Without States and All only jobs that have
// not ended are listed.
type JobFilter struct {
	IDs     []cluster.JobID
	Refs    []string // jobs by name as well: 123_4, 123_[4-9], 123.train
	User    string
	Account string
	Queue   string
	Name    string
	Class   string
	States  []string // letters or long names
	All     bool     // ended jobs too, as long as the state has them; the history has the rest
	Spec    bool     // with the job's specification
	Limit   int      // of one page; the server's default is 1,000 and its maximum 10,000
	Fields  []string // by their names in JSON; the others stay zero. None: all
	// with User and Read.After: only what has changed since, what has ended included, if List.Delta
	// says so
	Delta bool
	Page  string // List.Next of the page before
}

func (f JobFilter) values() url.Values {
	v := url.Values{}
	setAll(v, "user", f.User, "account", f.Account, "queue", f.Queue, "name", f.Name, "class", f.Class, "page", f.Page)
	for _, id := range f.IDs {
		v.Add("id", idText(id))
	}
	for _, ref := range f.Refs {
		v.Add("id", ref)
	}
	for _, s := range f.States {
		v.Add("state", s)
	}
	setTrue(v, "all", f.All)
	setTrue(v, "spec", f.Spec)
	setTrue(v, "delta", f.Delta)
	if len(f.Fields) > 0 {
		v.Set("fields", strings.Join(f.Fields, ","))
	}
	if f.Limit > 0 {
		v.Set("limit", strconv.Itoa(f.Limit))
	}
	return v
}

func setAll(v url.Values, pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
}

func setTrue(v url.Values, name string, on bool) {
	if on {
		v.Set(name, "true")
	}
}

func idText(id cluster.JobID) string { return strconv.FormatInt(int64(id), 10) }

func jobPath(id cluster.JobID, rest string) string { return "/v1/jobs/" + idText(id) + rest }

func (c *Client) get(ctx context.Context, path string, query url.Values, read Read, out any) (Answer, error) {
	q := call{method: http.MethodGet, path: path, query: query}
	read.into(&q)
	return c.do(ctx, q, out)
}

func (c *Client) post(ctx context.Context, q call, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	q.method, q.body = http.MethodPost, body
	_, err = c.do(ctx, q, out)
	return err
}

// Submit submits one job and returns its id. With a key it may be repeated without submitting
// twice; NewKey makes one.
func (c *Client) Submit(ctx context.Context, key string, job *jobspec.Job) (cluster.JobID, error) {
	ids, err := c.SubmitAll(ctx, key, []*jobspec.Job{job})
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// SubmitAll submits up to 10,000 jobs, all or none, and returns their ids in order.
func (c *Client) SubmitAll(ctx context.Context, key string, jobs []*jobspec.Job) ([]cluster.JobID, error) {
	var resp SubmitResponse
	q := call{path: "/v1/jobs", key: key, repeat: key != ""}
	if err := c.post(ctx, q, SubmitRequest{Jobs: jobs}, &resp); err != nil {
		return nil, err
	}
	if len(resp.IDs) != len(jobs) {
		return nil, fmt.Errorf("submitted %d jobs, but the answer has %d ids", len(jobs), len(resp.IDs))
	}
	return resp.IDs, nil
}

// Plan asks whether a job would start now, without submitting it.
func (c *Client) Plan(ctx context.Context, job *jobspec.Job) (*PlanResponse, error) {
	var resp PlanResponse
	err := c.post(ctx, call{path: "/v1/plan", repeat: true}, PlanRequest{Job: job}, &resp)
	if err != nil {
		return nil, err
	}
	return &resp, nil
}

// Job returns one job with its specification; a finished one comes from the history when the state
// has it no more.
func (c *Client) Job(ctx context.Context, id cluster.JobID, read Read) (*Job, Answer, error) {
	var job Job
	a, err := c.get(ctx, jobPath(id, ""), nil, read, &job)
	if err != nil {
		return nil, a, err
	}
	return &job, a, nil
}

// JobBy is Job for a job by name as well: 123_4 or 123.train.
func (c *Client) JobBy(ctx context.Context, ref string, read Read) (*Job, Answer, error) {
	var job Job
	a, err := c.get(ctx, refPath(ref, ""), nil, read, &job)
	if err != nil {
		return nil, a, err
	}
	return &job, a, nil
}

// refPath is the path of a job by name.
func refPath(ref, rest string) string { return "/v1/jobs/" + url.PathEscape(ref) + rest }

// Control applies a verb to a job by name, or to several tasks of an array: 123_[4-9].
func (c *Client) Control(ctx context.Context, ref string, verb cluster.Verb, reason string) (*ControlResponse, error) {
	var resp ControlResponse
	if err := c.post(ctx, call{path: refPath(ref, "/"+string(verb)), repeat: true}, ControlRequest{Reason: reason},
		&resp); err != nil {
		return nil, err
	}
	return &resp, nil
}

// WhyBy is Why for a job by name as well.
func (c *Client) WhyBy(ctx context.Context, ref string) (*Why, Answer, error) {
	var why Why
	a, err := c.get(ctx, refPath(ref, "/why"), nil, Read{}, &why)
	return &why, a, err
}

// Update changes the time limit, priority or name of a job that has not ended. Adding time is not
// repeated when its outcome is unknown.
func (c *Client) Update(ctx context.Context, ref string, change UpdateRequest) (*ControlResponse, error) {
	var resp ControlResponse
	err := c.post(ctx, call{path: refPath(ref, "/update"), repeat: change.AddTime == nil}, change, &resp)
	return &resp, err
}

// Prune cancels all tasks of an array but the best by a metric.
func (c *Client) Prune(ctx context.Context, ref string, req PruneRequest) (*PruneResponse, error) {
	var resp PruneResponse
	err := c.post(ctx, call{path: refPath(ref, "/prune")}, req, &resp)
	return &resp, err
}

// Jobs returns one page of the jobs that match.
func (c *Client) Jobs(ctx context.Context, f JobFilter, read Read) (*List[Job], Answer, error) {
	var list List[Job]
	a, err := c.get(ctx, "/v1/jobs", f.values(), read, &list)
	return &list, a, err
}

// Cancel stops a job: a pending one at once, a running one with its kill signal and timeout.
func (c *Client) Cancel(ctx context.Context, id cluster.JobID, reason string) error {
	return c.control(ctx, id, cluster.VerbCancel, reason)
}

// Hold keeps a pending job from starting.
func (c *Client) Hold(ctx context.Context, id cluster.JobID, reason string) error {
	return c.control(ctx, id, cluster.VerbHold, reason)
}

// Release ends a hold.
func (c *Client) Release(ctx context.Context, id cluster.JobID, reason string) error {
	return c.control(ctx, id, cluster.VerbRelease, reason)
}

// Requeue stops a running job and makes it pending again.
func (c *Client) Requeue(ctx context.Context, id cluster.JobID, reason string) error {
	return c.control(ctx, id, cluster.VerbRequeue, reason)
}

func (c *Client) control(ctx context.Context, id cluster.JobID, verb cluster.Verb, reason string) error {
	q := call{path: jobPath(id, "/"+string(verb)), repeat: true}
	return c.post(ctx, q, ControlRequest{Reason: reason}, nil)
}

// CancelMany cancels every live job that matches the request, of those that the caller may cancel.
func (c *Client) CancelMany(ctx context.Context, req CancelRequest) (*ControlResponse, error) {
	var resp ControlResponse
	err := c.post(ctx, call{path: "/v1/jobs/cancel", repeat: true}, req, &resp)
	return &resp, err
}

// Why returns why a job waits.
func (c *Client) Why(ctx context.Context, id cluster.JobID) (*Why, Answer, error) {
	var why Why
	a, err := c.get(ctx, jobPath(id, "/why"), nil, Read{}, &why)
	return &why, a, err
}

// LogOptions select a part of a job's output.
type LogOptions struct {
	Attempt int    // 0: the last one
	Worker  int    // index in the gang
	Task    string // name; "" with a single task
	Stream  string // stdout (default) or stderr
	Follow  bool   // until the job ends, across attempts
	Tail    int    // only the last n lines; 0: all
}

// Logs streams a job's output. The caller closes it; ending ctx ends it too.
func (c *Client) Logs(ctx context.Context, id cluster.JobID, o LogOptions) (io.ReadCloser, error) {
	v := url.Values{}
	setAll(v, "task", o.Task, "stream", o.Stream)
	setTrue(v, "follow", o.Follow)
	for name, n := range map[string]int{"attempt": o.Attempt, "worker": o.Worker, "tail": o.Tail} {
		if n != 0 {
			v.Set(name, strconv.Itoa(n))
		}
	}
	q := call{method: http.MethodGet, path: jobPath(id, "/logs"), query: v, repeat: true, stream: true}
	resp, err := c.roundTrip(ctx, q)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// SetNode drains a node or resumes it; verb is drain or resume.
func (c *Client) SetNode(ctx context.Context, name, verb, reason string) error {
	path := "/v1/nodes/" + url.PathEscape(name) + "/" + verb
	return c.post(ctx, call{path: path, repeat: true}, NodeRequest{Reason: reason}, nil)
}

// RemoveController takes the vote of a controller that is gone for good.
func (c *Client) RemoveController(ctx context.Context, name string) error {
	return c.post(ctx, call{path: "/v1/controllers/" + url.PathEscape(name) + "/remove"}, nil, nil)
}

// Nodes lists the nodes.
func (c *Client) Nodes(ctx context.Context, read Read) (*List[Node], Answer, error) {
	var list List[Node]
	a, err := c.get(ctx, "/v1/nodes", nil, read, &list)
	return &list, a, err
}

// Events lists what happened after an index, oldest first; it waits up to wait for something to
// happen.
func (c *Client) Events(ctx context.Context, after uint64, wait time.Duration) (*List[Event], Answer, error) {
	var list List[Event]
	v := url.Values{"after": {strconv.FormatUint(after, 10)}, "wait": {wait.String()}}
	a, err := c.do(ctx, call{method: http.MethodGet, path: "/v1/events", query: v, wait: wait}, &list)
	return &list, a, err
}

// HistoryFilter selects finished jobs; all that is set must match.
type HistoryFilter struct {
	IDs     []cluster.JobID
	Refs    []string // as JobFilter's
	User    string
	Account string
	Name    string
	States  []string  // letters or long names
	Since   time.Time // ended at or after
	Until   time.Time // ended before
	Limit   int       // of one page; the server's default is 1,000 and its maximum 10,000
	Page    string
}

// History returns one page of finished jobs, the last to end first.
func (c *Client) History(ctx context.Context, f HistoryFilter, read Read) (*List[Job], Answer, error) {
	v := JobFilter{IDs: f.IDs, Refs: f.Refs, User: f.User, Account: f.Account, Name: f.Name, States: f.States,
		Limit: f.Limit, Page: f.Page}.values()
	if !f.Since.IsZero() {
		v.Set("since", f.Since.UTC().Format(timeLayout))
	}
	if !f.Until.IsZero() {
		v.Set("until", f.Until.UTC().Format(timeLayout))
	}
	var list List[Job]
	a, err := c.get(ctx, "/v1/history", v, read, &list)
	return &list, a, err
}

// Shares lists what each account holds.
func (c *Client) Shares(ctx context.Context, read Read) (*List[Share], Answer, error) {
	var list List[Share]
	a, err := c.get(ctx, "/v1/shares", nil, read, &list)
	return &list, a, err
}

// Config returns the replicated configuration.
func (c *Client) Config(ctx context.Context, read Read) (*cluster.Config, Answer, error) {
	var cfg cluster.Config
	a, err := c.get(ctx, "/v1/config", nil, read, &cfg)
	return &cfg, a, err
}

// Cluster returns the controllers.
func (c *Client) Cluster(ctx context.Context) (*Cluster, Answer, error) {
	var cl Cluster
	a, err := c.get(ctx, "/v1/cluster", nil, Read{}, &cl)
	return &cl, a, err
}

// Check checks every invariant on the live state.
func (c *Client) Check(ctx context.Context) (*Check, Answer, error) {
	var check Check
	a, err := c.get(ctx, "/v1/check", nil, Read{}, &check)
	return &check, a, err
}

func nodePath(node, rest string) string { return "/v1/nodes/" + url.PathEscape(node) + rest }

// Register sends a node's inventory to the controllers. Called by node daemons.
func (c *Client) Register(ctx context.Context, node string, req RegisterRequest) (*RegisterResponse, error) {
	var resp RegisterResponse
	err := c.post(ctx, call{path: nodePath(node, "/register"), repeat: true}, req, &resp)
	return &resp, err
}

// Allocs fetches what should exist on a node once the index is above after, or wait has passed.
// Called by node daemons.
func (c *Client) Allocs(ctx context.Context, node, bootID string, after uint64,
	wait time.Duration) (*NodeAllocs, error) {
	var allocs NodeAllocs
	v := url.Values{"boot_id": {bootID}}
	_, err := c.get(ctx, nodePath(node, "/allocs"), v, Read{After: after, Wait: wait}, &allocs)
	return &allocs, err
}

// Report sends what changed on a node to the controllers; reports may be repeated. Called by node
// daemons.
func (c *Client) Report(ctx context.Context, node string, req ReportRequest) (*ReportResponse, error) {
	var resp ReportResponse
	err := c.post(ctx, call{path: nodePath(node, "/report"), repeat: true}, req, &resp)
	return &resp, err
}
