package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// eachCall makes every call of the client once.
var eachCall = []struct {
	name   string
	call   func(context.Context, *Client) error
	want   string // method, path and query
	key    string // idempotency key
	body   string // of a POST, or a part of it
	answer string // ""; any object
	again  bool   // repeated when its outcome is unknown
}{
	{"submit", func(ctx context.Context, c *Client) error {
		_, err := c.Submit(ctx, "k", &jobspec.Job{Name: "x"})
		return err
	}, "POST /v1/jobs", "k", `{"jobs":[{`, `{"ids":[5]}`, true},
	{"submit without a key", func(ctx context.Context, c *Client) error {
		_, err := c.Submit(ctx, "", &jobspec.Job{})
		return err
	}, "POST /v1/jobs", "", `{"jobs":[{`, `{"ids":[5]}`, false},
	{"plan", func(ctx context.Context, c *Client) error { _, err := c.Plan(ctx, &jobspec.Job{}); return err },
		"POST /v1/plan", "", `{"job":{`, "", true},
	{"job", func(ctx context.Context, c *Client) error { _, _, err := c.Job(ctx, 7, Read{}); return err },
		"GET /v1/jobs/7", "", "", "", true},
	{"job by name", func(ctx context.Context, c *Client) error { _, _, err := c.JobBy(ctx, "7/x y", Read{}); return err },
		"GET /v1/jobs/7%2Fx%20y", "", "", "", true},
	{"why", func(ctx context.Context, c *Client) error { _, _, err := c.WhyBy(ctx, "7_3"); return err },
		"GET /v1/jobs/7_3/why", "", "", "", true},
	{"cancel", func(ctx context.Context, c *Client) error { return c.Cancel(ctx, 7, "bad") },
		"POST /v1/jobs/7/cancel", "", `{"reason":"bad"}`, "", true},
	{"hold", func(ctx context.Context, c *Client) error {
		return errorOf(c.Control(ctx, "7_[1-2]", model.VerbHold, ""))
	}, "POST /v1/jobs/7_%5B1-2%5D/hold", "", "{}", "", false},
	{"cancel by name", func(ctx context.Context, c *Client) error {
		return errorOf(c.Control(ctx, "7_[1-2]", model.VerbCancel, ""))
	}, "POST /v1/jobs/7_%5B1-2%5D/cancel", "", "{}", "", true},
	{"cancel many", func(ctx context.Context, c *Client) error {
		return errorOf(c.CancelMany(ctx, CancelRequest{User: "ada"}))
	}, "POST /v1/jobs/cancel", "", `{"user":"ada"}`, "", true},
	{"update", func(ctx context.Context, c *Client) error {
		return errorOf(c.Update(ctx, "7", UpdateRequest{TimeLimit: new(jobspec.Seconds)}))
	}, "POST /v1/jobs/7/update", "", `{"time_limit":0}`, "", false},
	{"add time", func(ctx context.Context, c *Client) error {
		return errorOf(c.Update(ctx, "7", UpdateRequest{AddTime: new(jobspec.Seconds)}))
	}, "POST /v1/jobs/7/update", "", `{"add_time":0}`, "", false},
	{"prune", func(ctx context.Context, c *Client) error { _, err := c.Prune(ctx, "7", PruneRequest{}); return err },
		"POST /v1/jobs/7/prune", "", "{", "", false},
	{"all jobs", func(ctx context.Context, c *Client) error { _, _, err := c.Jobs(ctx, JobFilter{}, Read{}); return err },
		"GET /v1/jobs", "", "", "", true},
	{"some jobs", func(ctx context.Context, c *Client) error {
		f := JobFilter{IDs: []model.JobID{1, 2}, Refs: []string{"3.x"}, User: "u", Account: "a", Queue: "q", Name: "n",
			Class: "te", States: []string{"R", "PD"}, All: true, Spec: true, Limit: 9, Fields: []string{"id", "name"},
			Delta: true, Page: "p"}
		_, _, err := c.Jobs(ctx, f, Read{After: 8, Wait: 2 * time.Second, Consistent: true})
		return err
	}, "GET /v1/jobs?account=a&after=8&all=true&class=te&consistent=true&delta=true&fields=id%2Cname&id=1&id=2&id=3.x&" +
		"limit=9&name=n&page=p&queue=q&spec=true&state=R&state=PD&user=u&wait=2s", "", "", "", true},
	{"whatever comes", func(ctx context.Context, c *Client) error {
		_, _, err := c.Nodes(ctx, Read{Wait: time.Second})
		return err
	}, "GET /v1/nodes?after=0&wait=1s", "", "", "", true},
	{"what is newer", func(ctx context.Context, c *Client) error {
		_, _, err := c.Shares(ctx, Read{After: 3})
		return err
	}, "GET /v1/shares?after=3&wait=0s", "", "", "", true},
	{"logs", func(ctx context.Context, c *Client) error {
		body, err := c.Logs(ctx, 7, LogOptions{Attempt: 2, Worker: 3, Task: "t", Stream: "stderr", Follow: true, Tail: 4})
		if err == nil {
			err = body.Close()
		}
		return err
	}, "GET /v1/jobs/7/logs?attempt=2&follow=true&stream=stderr&tail=4&task=t&worker=3", "", "", "", true},
	{"all logs", func(ctx context.Context, c *Client) error {
		body, err := c.Logs(ctx, 7, LogOptions{})
		if err == nil {
			err = body.Close()
		}
		return err
	}, "GET /v1/jobs/7/logs", "", "", "", true},
	{"stream of jobs", func(ctx context.Context, c *Client) error {
		body, _, err := c.StreamJobs(ctx, JobFilter{User: "u", Limit: 3, Page: "p"}, Read{Consistent: true})
		if err == nil {
			err = body.Close()
		}
		return err
	}, "GET /v1/jobs?consistent=true&stream=true&user=u", "", "", "", true},
	{"drain", func(ctx context.Context, c *Client) error { return c.SetNode(ctx, "n/1", "drain", "fan") },
		"POST /v1/nodes/n%2F1/drain", "", `{"reason":"fan"}`, "", false},
	{"confirm dead", func(ctx context.Context, c *Client) error {
		_, err := c.ConfirmDead(ctx, ConfirmDeadRequest{Nodes: []string{"n1", "n2"}, Reason: "burnt"})
		return err
	}, "POST /v1/nodes/confirm-dead", "", `{"nodes":["n1","n2"],"reason":"burnt"}`, "", false},
	{"remove a controller", func(ctx context.Context, c *Client) error { return c.RemoveController(ctx, "c/1") },
		"POST /v1/controllers/c%2F1/remove", "", "null", "", false},
	{"events", func(ctx context.Context, c *Client) error { _, _, err := c.Events(ctx, 5, time.Second); return err },
		"GET /v1/events?after=5&wait=1s", "", "", "", true},
	{"history", func(ctx context.Context, c *Client) error {
		at := time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.FixedZone("", 3600))
		_, _, err := c.History(ctx, HistoryFilter{IDs: []model.JobID{1}, Refs: []string{"2.x"}, User: "u", Account: "a",
			Name: "n", States: []string{"F"}, Since: at, Until: at.Add(time.Hour), Limit: 9, Page: "p"}, Read{})
		return err
	}, "GET /v1/history?account=a&id=1&id=2.x&limit=9&name=n&page=p&since=2026-01-02T02%3A04%3A05.006Z&state=F&" +
		"until=2026-01-02T03%3A04%3A05.006Z&user=u", "", "", "", true},
	{"all history", func(ctx context.Context, c *Client) error {
		_, _, err := c.History(ctx, HistoryFilter{}, Read{})
		return err
	}, "GET /v1/history", "", "", "", true},
	{"configuration", func(ctx context.Context, c *Client) error { _, _, err := c.Config(ctx, Read{}); return err },
		"GET /v1/config", "", "", "", true},
	{"cluster", func(ctx context.Context, c *Client) error { _, _, err := c.Cluster(ctx); return err },
		"GET /v1/cluster", "", "", "", true},
	{"check", func(ctx context.Context, c *Client) error { _, _, err := c.Check(ctx); return err },
		"GET /v1/check", "", "", "", true},
	{"register", func(ctx context.Context, c *Client) error {
		_, err := c.Register(ctx, "n/1", RegisterRequest{})
		return err
	}, "POST /v1/nodes/n%2F1/register", "", "{", "", true},
	{"allocations", func(ctx context.Context, c *Client) error {
		_, err := c.Allocs(ctx, "n1", "b 1", 4, time.Second, Echo{})
		return err
	}, "GET /v1/nodes/n1/allocs?after=4&boot_id=b+1&wait=1s", "", "", "", true},
	{"make a token", func(ctx context.Context, c *Client) error {
		return errorOf(c.CreateToken(ctx, TokenRequest{Name: "ci", Days: 1}))
	}, "POST /v1/tokens", "", `{"name":"ci","days":1}`, "", false},
	{"all tokens", func(ctx context.Context, c *Client) error { return errorOf2(c.Tokens(ctx, "")) },
		"GET /v1/tokens", "", "", "", true},
	{"one user's tokens", func(ctx context.Context, c *Client) error { return errorOf2(c.Tokens(ctx, "ada")) },
		"GET /v1/tokens?user=ada", "", "", "", true},
	{"revoke a token", func(ctx context.Context, c *Client) error { return errorOf(c.RevokeToken(ctx, "a/b")) },
		"POST /v1/tokens/a%2Fb/revoke", "", "null", "", true},
	{"a token for a machine", func(ctx context.Context, c *Client) error {
		return errorOf(c.CreateJoinToken(ctx, "node"))
	}, "POST /v1/join-tokens", "", `{"role":"node"}`, "", false},
	{"revoke a member", func(ctx context.Context, c *Client) error { return errorOf(c.Revoke(ctx, "node", "n/1")) },
		"POST /v1/members/node/n%2F1/revoke", "", "{}", "", false},
	{"renew a certificate", func(ctx context.Context, c *Client) error {
		return errorOf(c.RenewCertificate(ctx, []byte("csr")))
	}, "POST /v1/certificate", "", `{"request":"csr"}`, "", true},
	{"the whole audit log", func(ctx context.Context, c *Client) error { return errorOf2(c.Audit(ctx, AuditFilter{})) },
		"GET /v1/audit", "", "", "", true},
	{"a part of the audit log", func(ctx context.Context, c *Client) error {
		at := time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.FixedZone("", 3600))
		return errorOf2(c.Audit(ctx, AuditFilter{User: "u", Job: 1, Denied: true, Since: at, Until: at.Add(time.Hour),
			Limit: 1}))
	}, "GET /v1/audit?denied=true&job=1&limit=1&since=2026-01-02T02%3A04%3A05.006Z&until=2026-01-02T03%3A04%3A05.006Z&" +
		"user=u", "", "", "", true},
	{"the least of everything", func(ctx context.Context, c *Client) error {
		return errorOf2(c.Jobs(ctx, JobFilter{Limit: 1}, Read{After: 1}))
	}, "GET /v1/jobs?after=1&limit=1&wait=0s", "", "", "", true},
	{"the first logs", func(ctx context.Context, c *Client) error {
		body, err := c.Logs(ctx, 7, LogOptions{Worker: 1, Tail: 1})
		if err == nil {
			err = body.Close()
		}
		return err
	}, "GET /v1/jobs/7/logs?tail=1&worker=1", "", "", "", true},
	{"report", func(ctx context.Context, c *Client) error {
		_, err := c.Report(ctx, "n1", ReportRequest{BootID: "b"})
		return err
	}, "POST /v1/nodes/n1/report", "", `"boot_id":"b"`, "", true},
}

func errorOf[T any](_ T, err error) error          { return err }
func errorOf2[A, B any](_ A, _ B, err error) error { return err }

// TestEachCallAsksForItsRoute makes each call, and makes it again where the first answer says that
// its outcome is unknown. Requests that must not be carried out twice are not repeated.
func TestEachCallAsksForItsRoute(t *testing.T) {
	for _, c := range eachCall {
		t.Run(c.name, func(t *testing.T) {
			var got, key, kind, body string
			answer := func(w http.ResponseWriter, r *http.Request) {
				b, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				got, key, kind, body = r.Method+" "+r.RequestURI, r.Header.Get(HeaderIdempotencyKey),
					r.Header.Get("Content-Type"), string(b)
				if c.answer == "" {
					io.WriteString(w, "{}")
				}
				io.WriteString(w, c.answer)
			}
			addr, n := answers(t, answer)
			if err := c.call(t.Context(), dialTest(t, addr, Options{})); err != nil || n.Load() != 1 {
				t.Fatalf("%v after %d requests", err, n.Load())
			}
			if got != c.want || key != c.key || !strings.Contains(body, c.body) || (c.body == "") != (body == "") {
				t.Errorf("asks for %s with the key %q and the body %s,\nwant       %s", got, key, body, c.want)
			}
			if (kind == "application/json") != (body != "") {
				t.Errorf("content type %q", kind)
			}
			addr, n = answers(t, problem(503, CodeUncertain), answer)
			err := c.call(t.Context(), dialTest(t, addr, Options{}))
			if again := err == nil && n.Load() == 2; again != c.again || !again && n.Load() != 1 {
				t.Errorf("when its outcome is unknown: %v after %d requests", err, n.Load())
			}
			addr, _ = answers(t, problem(404, CodeNotFound))
			var p *Problem
			if err := c.call(t.Context(), dialTest(t, addr, Options{})); !errors.As(err, &p) || p.Code != CodeNotFound {
				t.Errorf("a refusal: %v", err)
			}
		})
	}
}

// TestAnswersSayHowOldTheyAre reads the headers of an answer.
func TestAnswersSayHowOldTheyAre(t *testing.T) {
	for stale, want := range map[string]time.Duration{"": 0, "0": time.Second, "1": time.Second, "12": 12 * time.Second,
		"x": 0} {
		addr, _ := answers(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(HeaderIndex, "41")
			if stale != "" {
				w.Header().Set(HeaderStale, stale)
			}
			io.WriteString(w, `{"items":[{"name":"n1"}]}`)
		})
		list, a, err := dialTest(t, addr, Options{}).Nodes(t.Context(), Read{})
		if err != nil || a != (Answer{Index: 41, Stale: want}) || len(list.Items) != 1 || list.Items[0].Name != "n1" {
			t.Errorf("%q: %+v, %+v, %v", stale, list, a, err)
		}
	}
}

// TestAnswersThatAreCutOff has a controller end in the middle of an answer: what is safe to repeat
// is repeated a few times, and nothing else is.
func TestAnswersThatAreCutOff(t *testing.T) {
	half := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, `{"ids":[5`)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	var u *UnreachableError
	addr, n := answers(t, half)
	_, err := dialTest(t, addr, Options{}).Submit(t.Context(), "k", &jobspec.Job{})
	if !errors.As(err, &u) || n.Load() != 4 {
		t.Errorf("with a key: %v after %d requests", err, n.Load())
	}
	addr, n = answers(t, half)
	_, err = dialTest(t, addr, Options{}).Submit(t.Context(), "", &jobspec.Job{})
	if !errors.As(err, &u) || n.Load() != 1 {
		t.Errorf("without a key: %v after %d requests", err, n.Load())
	}
	addr, n = answers(t, half, submitted)
	if _, err := dialTest(t, addr, Options{}).Submit(t.Context(), "k", &jobspec.Job{}); err != nil || n.Load() != 2 {
		t.Errorf("then a whole one: %v after %d requests", err, n.Load())
	}
}

// TestASubmissionGetsItsIDs refuses an answer with another number of ids.
func TestASubmissionGetsItsIDs(t *testing.T) {
	addr, _ := answers(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"ids":[5,6]}`) })
	c := dialTest(t, addr, Options{})
	if ids, err := c.SubmitAll(t.Context(), "", make([]*jobspec.Job, 2)); err != nil || fmt.Sprint(ids) != "[5 6]" {
		t.Errorf("%d, %v", ids, err)
	}
	if ids, err := c.SubmitAll(t.Context(), "", make([]*jobspec.Job, 3)); err == nil {
		t.Errorf("three jobs got the ids %d", ids)
	}
}

// TestEachJobOfAStream reads a list of jobs as it comes, whole and cut off.
func TestEachJobOfAStream(t *testing.T) {
	long := strings.Repeat("n", 1<<17)
	const begin, end = `{"apiVersion":"v1","items":[` + "\n", "]}\n"
	enough := errors.New("enough")
	for _, c := range []struct {
		name, body string
		want       string // names, by spaces
		fails      bool
	}{
		{"none", begin + "\n" + end, "", false},
		{"two", begin + `{"id":1,"name":"a"},` + "\n" + `{"id":2,"name":"b"}` + "\n" + end, "1a 2b", false},
		{"what one leaves out is not the last one's", begin + `{"id":1,"name":"a"},` + "\n" + `{"id":2}` + "\n" + end,
			"1a 2", false},
		{"a long one", begin + `{"id":1,"name":"` + long + `"},` + "\n" + `{"id":2,"name":"b"}` + "\n" + end,
			"1" + long + " 2b", false},
		{"cut off at once", `{"apiV`, "", true},
		{"cut off before the end", begin + `{"id":1,"name":"a"},` + "\n", "1a", true},
		{"cut off in a job", begin + `{"id":1,"name":"a"},` + "\n" + `{"id":2,`, "1a", true},
		{"no job", begin + `{"id":"x"}` + "\n" + end, "", true},
		{"one after which it is enough", begin + `{"id":9,"name":"z"},` + "\n" + `{"id":2}` + "\n" + end, "9z", true},
	} {
		addr, _ := answers(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(HeaderIndex, "3")
			io.WriteString(w, c.body)
		})
		var got []string
		a, err := dialTest(t, addr, Options{}).EachJob(t.Context(), JobFilter{}, Read{}, func(j *Job) error {
			got = append(got, fmt.Sprint(j.ID, j.Name))
			if j.ID == 9 {
				return enough
			}
			return nil
		})
		joined := strings.ReplaceAll(strings.Join(got, ","), " ", "")
		if strings.ReplaceAll(joined, ",", " ") != c.want || (err != nil) != c.fails || a.Index != 3 {
			t.Errorf("%s: jobs %.80s, %+v, %v", c.name, joined, a, err)
		}
		if u := (*UnreachableError)(nil); strings.HasPrefix(c.name, "cut") && !errors.As(err, &u) {
			t.Errorf("%s: %v", c.name, err)
		}
		if strings.HasSuffix(c.name, "enough") && !errors.Is(err, enough) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestRepeatsBecomeRare counts how often a cluster without a leader is asked in a while: each address
// once, and then after ever longer breaks.
func TestRepeatsBecomeRare(t *testing.T) {
	for _, addresses := range []int{1, 2} {
		var addrs []string
		var counts []func() int32
		for range addresses {
			addr, n := answers(t, problem(503, CodeNoLeader))
			addrs, counts = append(addrs, addr), append(counts, n.Load)
		}
		c := dialTest(t, strings.Join(addrs, ","), Options{RetryFor: 300 * time.Millisecond})
		id, err := c.Submit(t.Context(), "", &jobspec.Job{})
		var p *Problem
		if !errors.As(err, &p) || p.Code != CodeNoLeader || id != 0 {
			t.Errorf("job %d, %v", id, err)
		}
		for i, count := range counts {
			if n := count(); n < 2 || n > 9 { // after 5, 10, 20, 40, 80, 160 and 250 ms
				t.Errorf("address %d of %d was asked %d times", i, addresses, n)
			}
		}
	}
}

// TestAControllerThatComesUpIsWaitedFor has no process listen at first.
func TestAControllerThatComesUpIsWaitedFor(t *testing.T) {
	for _, wait := range []time.Duration{time.Millisecond, 20 * time.Second} {
		first := true
		addr, _ := answers(t, submitted)
		wrap := func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if first {
					first = false
					time.Sleep(5 * time.Millisecond)
					return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
				}
				return next.RoundTrip(r)
			})
		}
		c := dialTest(t, addr, Options{Unreachable: wait, Wrap: wrap})
		if _, err := c.Submit(t.Context(), "", &jobspec.Job{}); (err == nil) != (wait > time.Second) {
			t.Errorf("waited for up to %v: %v", wait, err)
		}
	}
}

// roundTrip is a transport made of a function.
type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
