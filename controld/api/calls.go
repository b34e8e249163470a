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

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// Read says how fresh an answer must be. The zero value accepts the controller's current state.
type Read struct {
	After      uint64        // wait for an index above this, until Wait has passed
	Wait       time.Duration // at most 60 s
	Consistent bool          // the answer includes everything acknowledged before the request
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

// JobFilter selects jobs that match all set fields. Without States and All, it selects unfinished
// jobs.
type JobFilter struct {
	IDs     []model.JobID
	Refs    []string // by id or name: 123_4, 123_[4-9], 123.train
	User    string
	Account string
	Queue   string
	Name    string
	Class   string
	States  []string // letters or long names
	All     bool     // include ended jobs that are still in the state; the history has the others
	Spec    bool     // with the job's specification
	Steps   bool     // include the ended steps of attempts
	Start   bool     // with estimates of when waiting jobs start, which takes seconds on a full cluster
	Limit   int      // jobs in one page; the server's default is 1,000 and its maximum 10,000
	Fields  []string // JSON names of the fields to fill in; empty: all fields. Other fields stay zero
	// with User and Read.After: only jobs that changed or ended since, if List.Delta is set
	Delta bool
	Page  string // List.Next of the previous page
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
	setTrue(v, "steps", f.Steps)
	setTrue(v, "start", f.Start)
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

func idText(id model.JobID) string { return strconv.FormatInt(int64(id), 10) }

// get returns the decoded answer to a GET request, or zero and an error.
func get[T any](ctx context.Context, c *Client, path string, query url.Values, read Read) (*T, Answer, error) {
	q := call{method: http.MethodGet, path: path, query: query}
	read.into(&q)
	out := new(T)
	a, err := c.do(ctx, q, out)
	return out, a, err
}

// post sends in and returns the decoded answer, or zero and an error.
func post[T any](ctx context.Context, c *Client, q call, in any) (*T, error) {
	out := new(T)
	body, err := json.Marshal(in)
	if err != nil {
		return out, fmt.Errorf("encode the request: %w", err)
	}
	q.method, q.body = http.MethodPost, body
	_, err = c.do(ctx, q, out)
	return out, err
}

// Submit submits one job and returns its id. With a key (see NewKey), the call can be repeated
// without a second submission.
func (c *Client) Submit(ctx context.Context, key string, job *jobspec.Job) (model.JobID, error) {
	ids, err := c.SubmitAll(ctx, key, []*jobspec.Job{job})
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// SubmitAll submits up to 10,000 jobs, all or none, and returns their ids in the order of the jobs.
func (c *Client) SubmitAll(ctx context.Context, key string, jobs []*jobspec.Job) ([]model.JobID, error) {
	q := call{path: "/v1/jobs", key: key, repeat: key != ""}
	resp, err := post[SubmitResponse](ctx, c, q, SubmitRequest{Jobs: jobs})
	if err != nil {
		return nil, err
	}
	if len(resp.IDs) != len(jobs) {
		return nil, &UncertainError{fmt.Errorf("submitted %d jobs, but the answer has %d ids", len(jobs), len(resp.IDs))}
	}
	c.warn(resp.Warnings)
	if resp.RunAs != "" && c.opts.RunAs != nil {
		c.opts.RunAs(resp.RunAs)
	}
	return resp.IDs, nil
}

// warn passes on the warnings of an answer.
func (c *Client) warn(texts []string) {
	for _, text := range texts {
		if c.opts.Warn != nil {
			c.opts.Warn(text)
		}
	}
}

// Plan returns whether a job would start now, without submitting it.
func (c *Client) Plan(ctx context.Context, job *jobspec.Job) (*PlanResponse, error) {
	return post[PlanResponse](ctx, c, call{path: "/v1/plan", repeat: true}, PlanRequest{Job: job})
}

// Job returns a job with its specification; an ended job that left the state comes from the
// history.
func (c *Client) Job(ctx context.Context, id model.JobID, read Read) (*Job, Answer, error) {
	return c.JobBy(ctx, idText(id), read)
}

// JobBy is Job for a job given by id or name: 123_4 or 123.train.
func (c *Client) JobBy(ctx context.Context, ref string, read Read) (*Job, Answer, error) {
	return get[Job](ctx, c, refPath(ref, ""), nil, read)
}

// refPath returns the API path of a job given by id or name.
func refPath(ref, rest string) string { return "/v1/jobs/" + url.PathEscape(ref) + rest }

// Control applies a verb to a job given by id or name, or to several tasks of an array: 123_[4-9].
// If the outcome is unknown, only cancel is repeated: the first request may still take effect,
// after later requests.
func (c *Client) Control(ctx context.Context, ref string, verb model.Verb, reason string) (*ControlResponse, error) {
	q := call{path: refPath(ref, "/"+string(verb)), repeat: verb == model.VerbCancel}
	return post[ControlResponse](ctx, c, q, ControlRequest{Reason: reason})
}

// StepsBy lists the waiting and running steps of a job, named as in [Client.JobBy].
func (c *Client) StepsBy(ctx context.Context, ref string) (*StepList, error) {
	list, _, err := get[StepList](ctx, c, refPath(ref, "/steps"), nil, Read{})
	return list, err
}

// SignalStep sends a signal to all tasks of a step of a job.
func (c *Client) SignalStep(ctx context.Context, ref string, step int, signal string) error {
	q := call{path: refPath(ref, fmt.Sprintf("/steps/%d/signal", step))}
	_, err := post[struct{}](ctx, c, q, StepSignal{Signal: signal})
	return err
}

// Signal sends a signal to the processes of a job, named as in [Client.JobBy], or of all running
// tasks of an array. It is not repeated if the outcome is unknown.
func (c *Client) Signal(ctx context.Context, ref string, req SignalRequest) (*ControlResponse, error) {
	return post[ControlResponse](ctx, c, call{path: refPath(ref, "/signal")}, req)
}

// WhyBy explains why a job waits, named as in [Client.JobBy].
func (c *Client) WhyBy(ctx context.Context, ref string) (*Why, Answer, error) {
	return get[Why](ctx, c, refPath(ref, "/why"), nil, Read{})
}

// SeriesBy returns the reported values of a job's metric; "" means the metric that the job's
// progress block names.
func (c *Client) SeriesBy(ctx context.Context, ref, metric string) (*Series, Answer, error) {
	q := url.Values{}
	if metric != "" {
		q.Set("metric", metric)
	}
	return get[Series](ctx, c, refPath(ref, "/series"), q, Read{})
}

// UsageBy returns the usage of a job's attempt so far; attempt 0 means the last one.
func (c *Client) UsageBy(ctx context.Context, ref string, attempt int) (*JobUsage, Answer, error) {
	q := url.Values{}
	if attempt != 0 {
		q.Set("attempt", strconv.Itoa(attempt))
	}
	return get[JobUsage](ctx, c, refPath(ref, "/usage"), q, Read{})
}

// Update changes the time limit, priority, name or comment of an unfinished job. Like Control, it
// is not repeated if the outcome is unknown.
func (c *Client) Update(ctx context.Context, ref string, change UpdateRequest) (*ControlResponse, error) {
	return post[ControlResponse](ctx, c, call{path: refPath(ref, "/update")}, change)
}

// Prune cancels all tasks of an array except the best by a metric.
func (c *Client) Prune(ctx context.Context, ref string, req PruneRequest) (*PruneResponse, error) {
	return post[PruneResponse](ctx, c, call{path: refPath(ref, "/prune")}, req)
}

// Jobs returns one page of matching jobs.
func (c *Client) Jobs(ctx context.Context, f JobFilter, read Read) (*List[Job], Answer, error) {
	return get[List[Job]](ctx, c, "/v1/jobs", f.values(), read)
}

// Cancel stops a job: a pending one at once, a running one with its kill signal and timeout.
func (c *Client) Cancel(ctx context.Context, id model.JobID, reason string) error {
	_, err := c.Control(ctx, idText(id), model.VerbCancel, reason)
	return err
}

// CancelMany cancels every unfinished job that matches the request and that the caller may cancel.
func (c *Client) CancelMany(ctx context.Context, req CancelRequest) (*ControlResponse, error) {
	return post[ControlResponse](ctx, c, call{path: "/v1/jobs/cancel", repeat: true}, req)
}

// LogOptions select a part of a job's output.
type LogOptions struct {
	Attempt int    // 0: the last attempt
	Worker  int    // index in the gang
	Task    string // name of the task; "" for a single task
	Stream  string // stdout (default), stderr, or both in the order in which they were written
	Follow  bool   // continue until the job ends, across attempts
	Tail    int    // only the last n lines; 0: all lines
}

// HeaderLogStart is the header that says how many bytes of the output the tail leaves out.
const HeaderLogStart = "Rota-Log-Start"

// LogStream is a job's output.
type LogStream struct {
	io.ReadCloser
	// Start is how many bytes come before the first one that is sent; -1: unknown.
	Start int64
}

// Logs streams a job's output. The caller closes the stream; the end of ctx also ends it.
func (c *Client) Logs(ctx context.Context, id model.JobID, o LogOptions) (*LogStream, error) {
	v := url.Values{}
	setAll(v, "task", o.Task, "stream", o.Stream)
	setTrue(v, "follow", o.Follow)
	for name, n := range map[string]int{"attempt": o.Attempt, "worker": o.Worker, "tail": o.Tail} {
		if n != 0 {
			v.Set(name, strconv.Itoa(n))
		}
	}
	q := call{method: http.MethodGet, path: refPath(idText(id), "/logs"), query: v, repeat: true, stream: true}
	resp, err := c.roundTrip(ctx, q) //nolint:bodyclose // the caller closes the stream
	if err != nil {
		return nil, err
	}
	start := int64(0)
	if o.Tail != 0 {
		if start, err = strconv.ParseInt(resp.Header.Get(HeaderLogStart), 10, 64); err != nil || start < 0 {
			start = -1
		}
	}
	return &LogStream{ReadCloser: resp.Body, Start: start}, nil
}

// SetNode drains a node or resumes it; verb is drain or resume.
func (c *Client) SetNode(ctx context.Context, name, verb, reason string) error {
	q := call{path: nodePath(name, "/"+verb)}
	_, err := post[Node](ctx, c, q, NodeRequest{Reason: reason})
	return err
}

// ConfirmDead confirms that nothing runs any more on nodes that are down; it does so for all given
// nodes or none.
func (c *Client) ConfirmDead(ctx context.Context, req ConfirmDeadRequest) (*ConfirmedDead, error) {
	return post[ConfirmedDead](ctx, c, call{path: "/v1/nodes/confirm-dead"}, req)
}

// KeptFolders lists a node's checkpoint folders whose jobs or attempts the controllers do not know.
func (c *Client) KeptFolders(ctx context.Context, node string) (*KeptFolders, error) {
	list, _, err := get[KeptFolders](ctx, c, nodePath(node, "/kept"), nil, Read{})
	return list, err
}

// DropKeptFolders makes a node remove such folders, and lists the remaining ones.
func (c *Client) DropKeptFolders(ctx context.Context, node string, ids []string) (*KeptFolders, error) {
	return post[KeptFolders](ctx, c, call{path: nodePath(node, "/kept/drop")}, DropFolders{IDs: ids})
}

// RemoveController removes the vote of a controller that is gone for good.
func (c *Client) RemoveController(ctx context.Context, name string) error {
	_, err := post[Cluster](ctx, c, call{path: "/v1/controllers/" + url.PathEscape(name) + "/remove"}, nil)
	return err
}

// Nodes lists the nodes.
func (c *Client) Nodes(ctx context.Context, read Read) (*NodeList, Answer, error) {
	return get[NodeList](ctx, c, "/v1/nodes", nil, read)
}

// Events lists events after an index, oldest first; it waits up to wait for a new event.
func (c *Client) Events(ctx context.Context, after uint64, wait time.Duration) (*List[Event], Answer, error) {
	return get[List[Event]](ctx, c, "/v1/events", nil, Read{After: after, Wait: wait})
}

// HistoryFilter selects ended jobs that match all set fields.
type HistoryFilter struct {
	IDs     []model.JobID
	Refs    []string // as JobFilter's
	User    string
	Account string
	Name    string
	States  []string  // letters or long names
	Since   time.Time // ended at or after
	Until   time.Time // ended before
	Steps   bool      // with the steps of their attempts
	Fields  []string  // as JobFilter's
	Limit   int       // jobs in one page; the server's default is 1,000 and its maximum 10,000
	Page    string
}

// History returns one page of ended jobs, newest end first.
func (c *Client) History(ctx context.Context, f HistoryFilter, read Read) (*List[Job], Answer, error) {
	v := JobFilter{IDs: f.IDs, Refs: f.Refs, User: f.User, Account: f.Account, Name: f.Name, States: f.States,
		Limit: f.Limit, Page: f.Page, Steps: f.Steps, Fields: f.Fields}.values()
	if !f.Since.IsZero() {
		v.Set("since", f.Since.UTC().Format(timeLayout))
	}
	if !f.Until.IsZero() {
		v.Set("until", f.Until.UTC().Format(timeLayout))
	}
	return get[List[Job]](ctx, c, "/v1/history", v, read)
}

// Shares lists the shares of all accounts.
func (c *Client) Shares(ctx context.Context, read Read) (*List[Share], Answer, error) {
	return get[List[Share]](ctx, c, "/v1/shares", nil, read)
}

// ExplainShare is Shares with an explanation of one account's share.
func (c *Client) ExplainShare(ctx context.Context, account string) (*List[Share], Answer, error) {
	return get[List[Share]](ctx, c, "/v1/shares", url.Values{"explain": {account}}, Read{})
}

// Priorities lists the waiting jobs in scheduling order.
func (c *Client) Priorities(ctx context.Context) (*List[Priority], Answer, error) {
	return get[List[Priority]](ctx, c, "/v1/priorities", nil, Read{})
}

// Config returns the replicated configuration.
func (c *Client) Config(ctx context.Context, read Read) (*cluster.Config, Answer, error) {
	return get[cluster.Config](ctx, c, "/v1/config", nil, read)
}

// Cluster returns the controllers.
func (c *Client) Cluster(ctx context.Context) (*Cluster, Answer, error) {
	return get[Cluster](ctx, c, "/v1/cluster", nil, Read{})
}

// Check verifies every invariant of the live state.
func (c *Client) Check(ctx context.Context) (*Check, Answer, error) {
	return get[Check](ctx, c, "/v1/check", nil, Read{})
}

func nodePath(node, rest string) string { return "/v1/nodes/" + url.PathEscape(node) + rest }

// Register sends a node's inventory to the controllers. Called by node daemons.
func (c *Client) Register(ctx context.Context, node string, req RegisterRequest) (*RegisterResponse, error) {
	return post[RegisterResponse](ctx, c, call{path: nodePath(node, "/register"), repeat: true}, req)
}

// Allocs returns what should exist on a node, once the index is above after or wait has passed.
// Called by node daemons.
func (c *Client) Allocs(ctx context.Context, node, bootID string, after uint64,
	wait time.Duration, echo Echo) (*NodeAllocs, error) {
	v := url.Values{"boot_id": {bootID}}
	if echo != (Echo{}) {
		v.Set("sent", echo.Sent)
		v.Set("witnesses", echo.Witnesses)
	}
	allocs, _, err := get[NodeAllocs](ctx, c, nodePath(node, "/allocs"), v, Read{After: after, Wait: wait})
	return allocs, err
}

// Report sends changes on a node to the controllers; it is safe to repeat reports. Called by node
// daemons.
func (c *Client) Report(ctx context.Context, node string, req ReportRequest) (*ReportResponse, error) {
	return post[ReportResponse](ctx, c, call{path: nodePath(node, "/report"), repeat: true}, req)
}

// Generation asks a controller for the generation of its cluster. Called by node daemons.
func (c *Client) Generation(ctx context.Context, node, bootID string) (*Generation, error) {
	answer, _, err := get[Generation](ctx, c, nodePath(node, "/generation"), url.Values{"boot_id": {bootID}}, Read{})
	return answer, err
}

// AcceptGeneration reports that a node follows a generation, and which attempts it knows. Called by
// node daemons.
func (c *Client) AcceptGeneration(ctx context.Context, node string, req AcceptGeneration) (*Generation, error) {
	return post[Generation](ctx, c, call{path: nodePath(node, "/generation"), repeat: true}, req)
}

// MayCopyCheckpoint asks whether node may send a worker's folder (job.attempt.worker) to the named
// node. Called by node daemons.
func (c *Client) MayCopyCheckpoint(ctx context.Context, node, bootID, id, to string) (*CheckpointCopy, error) {
	v := url.Values{"boot_id": {bootID}, "for": {to}}
	answer, _, err := get[CheckpointCopy](ctx, c, nodePath(node, "/checkpoints/"+url.PathEscape(id)), v, Read{})
	return answer, err
}

// DropCheckpoints asks which of a node's kept folders are no longer needed. Called by node daemons.
func (c *Client) DropCheckpoints(ctx context.Context, node string, req KeptCheckpoints) (*DroppedCheckpoints, error) {
	return post[DroppedCheckpoints](ctx, c, call{path: nodePath(node, "/checkpoints"), repeat: true}, req)
}

// CreateToken makes an API token.
func (c *Client) CreateToken(ctx context.Context, req TokenRequest) (*CreatedToken, error) {
	return post[CreatedToken](ctx, c, call{path: "/v1/tokens"}, req)
}

// Tokens lists the API tokens of one user, or of all users if user is "".
func (c *Client) Tokens(ctx context.Context, user string) (*List[APIToken], Answer, error) {
	v := url.Values{}
	if user != "" {
		v.Set("user", user)
	}
	return get[List[APIToken]](ctx, c, "/v1/tokens", v, Read{})
}

// RevokeToken revokes an API token from now on.
func (c *Client) RevokeToken(ctx context.Context, id string) (*APIToken, error) {
	return post[APIToken](ctx, c, call{path: "/v1/tokens/" + url.PathEscape(id) + "/revoke", repeat: true}, nil)
}

// AuditFilter selects entries of the audit log that match all set fields.
type AuditFilter struct {
	User   string
	Job    model.JobID
	Denied bool      // refusals only
	Since  time.Time // at or after
	Until  time.Time // before
	Limit  int       // the server's default is 1,000 and its maximum 10,000
}

// Audit lists entries of all controllers' audit logs, newest first.
func (c *Client) Audit(ctx context.Context, f AuditFilter) (*AuditList, Answer, error) {
	v := url.Values{}
	set := func(name, value string, is bool) {
		if is {
			v.Set(name, value)
		}
	}
	set("user", f.User, f.User != "")
	set("job", strconv.FormatInt(int64(f.Job), 10), f.Job != 0)
	set("denied", "true", f.Denied)
	set("since", f.Since.UTC().Format(timeLayout), !f.Since.IsZero())
	set("until", f.Until.UTC().Format(timeLayout), !f.Until.IsZero())
	set("limit", strconv.Itoa(f.Limit), f.Limit != 0)
	return get[AuditList](ctx, c, "/v1/audit", v, Read{})
}
