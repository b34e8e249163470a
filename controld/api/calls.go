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
	IDs     []model.JobID
	Refs    []string // jobs by name as well: 123_4, 123_[4-9], 123.train
	User    string
	Account string
	Queue   string
	Name    string
	Class   string
	States  []string // letters or long names
	All     bool     // ended jobs too, as long as the state has them; the history has the rest
	Spec    bool     // with the job's specification
	Steps   bool     // with the steps of its attempts that have ended
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
	setTrue(v, "steps", f.Steps)
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

// get returns what GET answers as a T, a zero one with an error.
func get[T any](ctx context.Context, c *Client, path string, query url.Values, read Read) (*T, Answer, error) {
	q := call{method: http.MethodGet, path: path, query: query}
	read.into(&q)
	out := new(T)
	a, err := c.do(ctx, q, out)
	return out, a, err
}

// post sends in and returns the answer as a T, a zero one with an error.
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

// Submit submits one job and returns its id. With a key it may be repeated without submitting
// twice; NewKey makes one.
func (c *Client) Submit(ctx context.Context, key string, job *jobspec.Job) (model.JobID, error) {
	ids, err := c.SubmitAll(ctx, key, []*jobspec.Job{job})
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// SubmitAll submits up to 10,000 jobs, all or none, and returns their ids in order.
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

// warn passes the warnings of an answer on.
func (c *Client) warn(texts []string) {
	for _, text := range texts {
		if c.opts.Warn != nil {
			c.opts.Warn(text)
		}
	}
}

// Plan asks whether a job would start now, without submitting it.
func (c *Client) Plan(ctx context.Context, job *jobspec.Job) (*PlanResponse, error) {
	return post[PlanResponse](ctx, c, call{path: "/v1/plan", repeat: true}, PlanRequest{Job: job})
}

// Job returns one job with its specification; a finished one comes from the history when the state
// has it no more.
func (c *Client) Job(ctx context.Context, id model.JobID, read Read) (*Job, Answer, error) {
	return c.JobBy(ctx, idText(id), read)
}

// JobBy is Job for a job by name as well: 123_4 or 123.train.
func (c *Client) JobBy(ctx context.Context, ref string, read Read) (*Job, Answer, error) {
	return get[Job](ctx, c, refPath(ref, ""), nil, read)
}

// refPath is the path of a job by name.
func refPath(ref, rest string) string { return "/v1/jobs/" + url.PathEscape(ref) + rest }

// Control applies a verb to a job by name, or to several tasks of an array: 123_[4-9]. Only
// cancelling is repeated when its outcome is unknown: the first request may still be under way, and
// take effect after what was done since.
func (c *Client) Control(ctx context.Context, ref string, verb model.Verb, reason string) (*ControlResponse, error) {
	q := call{path: refPath(ref, "/"+string(verb)), repeat: verb == model.VerbCancel}
	return post[ControlResponse](ctx, c, q, ControlRequest{Reason: reason})
}

// StepsBy lists the steps that wait or run of a job, named as by [Client.JobBy].
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

// Signal sends a signal to the processes of a job, named as by [Client.JobBy], or to those of all tasks of an
// array that run. It is not repeated when its outcome is unknown.
func (c *Client) Signal(ctx context.Context, ref string, req SignalRequest) (*ControlResponse, error) {
	return post[ControlResponse](ctx, c, call{path: refPath(ref, "/signal")}, req)
}

// WhyBy returns why a job, named as by [Client.JobBy], waits.
func (c *Client) WhyBy(ctx context.Context, ref string) (*Why, Answer, error) {
	return get[Why](ctx, c, refPath(ref, "/why"), nil, Read{})
}

// SeriesBy returns what a job, named as by [Client.JobBy], has reported of a metric, "" for the one
// that it names itself.
func (c *Client) SeriesBy(ctx context.Context, ref, metric string) (*Series, Answer, error) {
	q := url.Values{}
	if metric != "" {
		q.Set("metric", metric)
	}
	return get[Series](ctx, c, refPath(ref, "/series"), q, Read{})
}

// UsageBy returns what an attempt of a job, named as by [Client.JobBy], has used by now; 0: the last.
func (c *Client) UsageBy(ctx context.Context, ref string, attempt int) (*JobUsage, Answer, error) {
	q := url.Values{}
	if attempt != 0 {
		q.Set("attempt", strconv.Itoa(attempt))
	}
	return get[JobUsage](ctx, c, refPath(ref, "/usage"), q, Read{})
}

// Update changes the time limit, priority, name or comment of a job that has not ended. It is not
// repeated when its outcome is unknown, as Control is not.
func (c *Client) Update(ctx context.Context, ref string, change UpdateRequest) (*ControlResponse, error) {
	return post[ControlResponse](ctx, c, call{path: refPath(ref, "/update")}, change)
}

// Prune cancels all tasks of an array but the best by a metric.
func (c *Client) Prune(ctx context.Context, ref string, req PruneRequest) (*PruneResponse, error) {
	return post[PruneResponse](ctx, c, call{path: refPath(ref, "/prune")}, req)
}

// Jobs returns one page of the jobs that match.
func (c *Client) Jobs(ctx context.Context, f JobFilter, read Read) (*List[Job], Answer, error) {
	return get[List[Job]](ctx, c, "/v1/jobs", f.values(), read)
}

// Cancel stops a job: a pending one at once, a running one with its kill signal and timeout.
func (c *Client) Cancel(ctx context.Context, id model.JobID, reason string) error {
	_, err := c.Control(ctx, idText(id), model.VerbCancel, reason)
	return err
}

// CancelMany cancels every live job that matches the request, of those that the caller may cancel.
func (c *Client) CancelMany(ctx context.Context, req CancelRequest) (*ControlResponse, error) {
	return post[ControlResponse](ctx, c, call{path: "/v1/jobs/cancel", repeat: true}, req)
}

// LogOptions select a part of a job's output.
type LogOptions struct {
	Attempt int    // 0: the last one
	Worker  int    // index in the gang
	Task    string // name; "" with a single task
	Stream  string // stdout (default), stderr, or both in the order in which they were written
	Follow  bool   // until the job ends, across attempts
	Tail    int    // only the last n lines; 0: all
}

// Logs streams a job's output. The caller closes it; ending ctx ends it too.
func (c *Client) Logs(ctx context.Context, id model.JobID, o LogOptions) (io.ReadCloser, error) {
	v := url.Values{}
	setAll(v, "task", o.Task, "stream", o.Stream)
	setTrue(v, "follow", o.Follow)
	for name, n := range map[string]int{"attempt": o.Attempt, "worker": o.Worker, "tail": o.Tail} {
		if n != 0 {
			v.Set(name, strconv.Itoa(n))
		}
	}
	q := call{method: http.MethodGet, path: refPath(idText(id), "/logs"), query: v, repeat: true, stream: true}
	resp, err := c.roundTrip(ctx, q)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// SetNode drains a node or resumes it; verb is drain or resume.
func (c *Client) SetNode(ctx context.Context, name, verb, reason string) error {
	q := call{path: nodePath(name, "/"+verb)}
	_, err := post[Node](ctx, c, q, NodeRequest{Reason: reason})
	return err
}

// ConfirmDead says that nothing runs any more on nodes that are down, all of them or none.
func (c *Client) ConfirmDead(ctx context.Context, req ConfirmDeadRequest) (*ConfirmedDead, error) {
	return post[ConfirmedDead](ctx, c, call{path: "/v1/nodes/confirm-dead"}, req)
}

// KeptFolders lists the checkpoint folders on a node whose jobs or attempts the controllers do not know.
func (c *Client) KeptFolders(ctx context.Context, node string) (*KeptFolders, error) {
	list, _, err := get[KeptFolders](ctx, c, nodePath(node, "/kept"), nil, Read{})
	return list, err
}

// DropKeptFolders has a node remove such folders, and lists those that it keeps still.
func (c *Client) DropKeptFolders(ctx context.Context, node string, ids []string) (*KeptFolders, error) {
	return post[KeptFolders](ctx, c, call{path: nodePath(node, "/kept/drop")}, DropFolders{IDs: ids})
}

// RemoveController takes the vote of a controller that is gone for good.
func (c *Client) RemoveController(ctx context.Context, name string) error {
	_, err := post[Cluster](ctx, c, call{path: "/v1/controllers/" + url.PathEscape(name) + "/remove"}, nil)
	return err
}

// Nodes lists the nodes.
func (c *Client) Nodes(ctx context.Context, read Read) (*NodeList, Answer, error) {
	return get[NodeList](ctx, c, "/v1/nodes", nil, read)
}

// Events lists what happened after an index, oldest first; it waits up to wait for something to
// happen.
func (c *Client) Events(ctx context.Context, after uint64, wait time.Duration) (*List[Event], Answer, error) {
	return get[List[Event]](ctx, c, "/v1/events", nil, Read{After: after, Wait: wait})
}

// HistoryFilter selects finished jobs; all that is set must match.
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
	Limit   int       // of one page; the server's default is 1,000 and its maximum 10,000
	Page    string
}

// History returns one page of finished jobs, the last to end first.
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

// Shares lists what each account holds.
func (c *Client) Shares(ctx context.Context, read Read) (*List[Share], Answer, error) {
	return get[List[Share]](ctx, c, "/v1/shares", nil, read)
}

// ExplainShare lists what each account holds, with how the share of one comes about.
func (c *Client) ExplainShare(ctx context.Context, account string) (*List[Share], Answer, error) {
	return get[List[Share]](ctx, c, "/v1/shares", url.Values{"explain": {account}}, Read{})
}

// Priorities lists the jobs that wait, in the order in which the scheduler comes to them.
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

// Check checks every invariant on the live state.
func (c *Client) Check(ctx context.Context) (*Check, Answer, error) {
	return get[Check](ctx, c, "/v1/check", nil, Read{})
}

func nodePath(node, rest string) string { return "/v1/nodes/" + url.PathEscape(node) + rest }

// Register sends a node's inventory to the controllers. Called by node daemons.
func (c *Client) Register(ctx context.Context, node string, req RegisterRequest) (*RegisterResponse, error) {
	return post[RegisterResponse](ctx, c, call{path: nodePath(node, "/register"), repeat: true}, req)
}

// Allocs fetches what should exist on a node once the index is above after, or wait has passed.
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

// Report sends what changed on a node to the controllers; reports may be repeated. Called by node
// daemons.
func (c *Client) Report(ctx context.Context, node string, req ReportRequest) (*ReportResponse, error) {
	return post[ReportResponse](ctx, c, call{path: nodePath(node, "/report"), repeat: true}, req)
}

// Generation asks a controller for the generation of its cluster. Called by node daemons.
func (c *Client) Generation(ctx context.Context, node, bootID string) (*Generation, error) {
	answer, _, err := get[Generation](ctx, c, nodePath(node, "/generation"), url.Values{"boot_id": {bootID}}, Read{})
	return answer, err
}

// AcceptGeneration says that a node follows a generation, and what it knows of attempts. Called by node
// daemons.
func (c *Client) AcceptGeneration(ctx context.Context, node string, req AcceptGeneration) (*Generation, error) {
	return post[Generation](ctx, c, call{path: nodePath(node, "/generation"), repeat: true}, req)
}

// MayCopyCheckpoint asks whether node may send the folder of a worker, job.attempt.worker, to the node
// of that name. Called by node daemons.
func (c *Client) MayCopyCheckpoint(ctx context.Context, node, bootID, id, to string) (*CheckpointCopy, error) {
	v := url.Values{"boot_id": {bootID}, "for": {to}}
	answer, _, err := get[CheckpointCopy](ctx, c, nodePath(node, "/checkpoints/"+url.PathEscape(id)), v, Read{})
	return answer, err
}

// DropCheckpoints asks which of the folders that a node keeps are not needed any more. Called by node
// daemons.
func (c *Client) DropCheckpoints(ctx context.Context, node string, req KeptCheckpoints) (*DroppedCheckpoints, error) {
	return post[DroppedCheckpoints](ctx, c, call{path: nodePath(node, "/checkpoints"), repeat: true}, req)
}

// CreateToken makes an API token.
func (c *Client) CreateToken(ctx context.Context, req TokenRequest) (*CreatedToken, error) {
	return post[CreatedToken](ctx, c, call{path: "/v1/tokens"}, req)
}

// Tokens lists API tokens, those of one user if one is named.
func (c *Client) Tokens(ctx context.Context, user string) (*List[APIToken], Answer, error) {
	v := url.Values{}
	if user != "" {
		v.Set("user", user)
	}
	return get[List[APIToken]](ctx, c, "/v1/tokens", v, Read{})
}

// RevokeToken has an API token refused from now on.
func (c *Client) RevokeToken(ctx context.Context, id string) (*APIToken, error) {
	return post[APIToken](ctx, c, call{path: "/v1/tokens/" + url.PathEscape(id) + "/revoke", repeat: true}, nil)
}

// AuditFilter selects entries of the audit log; all that is set must match.
type AuditFilter struct {
	User   string
	Job    model.JobID
	Denied bool      // refusals only
	Since  time.Time // at or after
	Until  time.Time // before
	Limit  int       // the server's default is 1,000 and its maximum 10,000
}

// Audit lists entries of the audit logs of all controllers, the last first.
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
