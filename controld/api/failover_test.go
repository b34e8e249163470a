package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/jobspec"
)

// controller answers one request, without a network.
type controller func(*http.Request) (*http.Response, error)

// answering is a controller that is up.
func answering(f http.HandlerFunc) controller {
	return func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		f(w, r)
		return w.Result(), nil
	}
}

// down accepts no connection.
func down(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
}

// hanging accepts a request and never answers it.
func hanging(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// holding holds an answer back for a while.
func holding(d time.Duration, then controller) controller {
	return func(r *http.Request) (*http.Response, error) {
		if err := pause(r.Context(), d); err != nil {
			return nil, err
		}
		return then(r)
	}
}

// inTurn answers each request in another way, from the last on always the same.
func inTurn(each ...controller) controller {
	return func(r *http.Request) (*http.Response, error) {
		now := each[0]
		each = each[min(1, len(each)-1):]
		return now(r)
	}
}

// refusing answers with a problem that names the controller.
func refusing(status int, code string) controller {
	return answering(func(w http.ResponseWriter, r *http.Request) {
		WriteProblem(w, status, code, "by "+r.URL.Hostname())
	})
}

// stage has controllers c1, c2, … and notes which was asked when, and which answers were never closed.
type stage struct {
	begin    time.Time
	asked    []string // c1 5ms
	requests []*http.Request
	open     int
}

// tracked is the body of an answer.
type tracked struct {
	io.ReadCloser
	s *stage
}

// Close implements io.Closer.
func (b *tracked) Close() error {
	b.s.open--
	return b.ReadCloser.Close()
}

// play returns a client of these controllers.
func play(t *testing.T, o Options, each ...controller) (*Client, *stage) {
	t.Helper()
	s := &stage{begin: time.Now()}
	var addrs []string
	for i := range each {
		addrs = append(addrs, fmt.Sprintf("c%d:1", i+1))
	}
	o.Wrap = func(http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			var i int
			if _, err := fmt.Sscanf(r.URL.Host, "c%d:1", &i); err != nil {
				t.Errorf("a request to %s", r.URL)
			}
			s.asked = append(s.asked, fmt.Sprintf("c%d %v", i, time.Since(s.begin)))
			s.requests = append(s.requests, r)
			resp, err := each[i-1](r)
			if err == nil {
				s.open++
				resp.Body = &tracked{resp.Body, s}
			}
			return resp, err
		})
	}
	return dialTest(t, strings.Join(addrs, ", "), o), s
}

// order lists the controllers that were asked, without the times.
func (s *stage) order() string {
	var names []string
	for _, a := range s.asked {
		name, _, _ := strings.Cut(a, " ")
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// outcome names an error by what a caller distinguishes.
func outcomeOf(err error) string {
	var p *Problem
	var u *UnreachableError
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &p):
		return p.Code + " " + p.Detail
	case errors.As(err, &u):
		return "unreachable"
	}
	return err.Error()
}

var (
	ready    = answering(submitted)
	noLeader = refusing(503, CodeNoLeader)
)

// The calls of these stories.
func read(c *Client, ctx context.Context) error { return errorOf2(c.Nodes(ctx, Read{})) }
func submit(c *Client, ctx context.Context) error {
	return errorOf(c.Submit(ctx, "", &jobspec.Job{}))
}
func submitKeyed(c *Client, ctx context.Context) error {
	return errorOf(c.Submit(ctx, "k", &jobspec.Job{}))
}
func poll(c *Client, ctx context.Context) error {
	return errorOf(c.Allocs(ctx, "n1", "b", 4, 3*time.Second, Echo{}))
}

// TestHowLongACallIsRepeated plays a cluster in trouble, and checks when the client asks and when
// it gives up. Breaks grow up to a tenth of a second, and it gives up at most one break after its
// time.
func TestHowLongACallIsRepeated(t *testing.T) {
	const ms = time.Millisecond
	breaks := []time.Duration{0, 5 * ms, 15 * ms, 35 * ms, 75 * ms, 155 * ms, 255 * ms, 355 * ms, 455 * ms}
	for _, c := range []struct {
		name    string
		options Options
		call    func(*Client, context.Context) error
		cluster []controller
		times   int // requests
		after   time.Duration
		want    string
	}{
		{"no leader for long", Options{}, submit, []controller{noLeader}, 105, 10_055 * ms, "no-leader by c1"},
		{"no leader for as long as the caller says", Options{RetryFor: 254 * ms}, submit, []controller{noLeader},
			7, 255 * ms, "no-leader by c1"},
		{"its last moment counts", Options{RetryFor: 255 * ms}, submit, []controller{noLeader}, 8, 355 * ms,
			"no-leader by c1"},
		{"both without a leader", Options{RetryFor: 100 * ms}, submit, []controller{noLeader, noLeader}, 11, 155 * ms,
			"no-leader by c1"},
		{"no time at all", Options{RetryFor: 1}, submit, []controller{holding(ms, noLeader), holding(ms, noLeader)},
			2, 2 * ms, "no-leader by c2"},
		{"all are down", Options{}, submit, []controller{down, down}, 49, 2055 * ms, "unreachable"},
		{"down for as long as the caller says", Options{Unreachable: 30 * ms}, submit, []controller{down}, 4, 35 * ms,
			"unreachable"},
		{"all are busy", Options{RetryFor: 10 * ms}, submit, []controller{refusing(503, CodeBusy)}, 3, 15 * ms, "busy by c1"},
		{"it may have been done", Options{RetryFor: 10 * ms}, submitKeyed, []controller{refusing(503, CodeUncertain)}, 3,
			15 * ms, "uncertain by c1"},
		{"it may have been done, and must not be done twice", Options{}, submit,
			[]controller{refusing(503, CodeUncertain)}, 1, 0, "uncertain by c1"},
		{"a leader that loses its office during a long poll", Options{RetryFor: 100 * ms}, poll,
			[]controller{holding(3*time.Second, noLeader)}, 2, 6005 * ms, "no-leader by c1"},
		{"no leader, and the other is down", Options{}, submit, []controller{noLeader, down}, 50, 2055 * ms, "unreachable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, s := play(t, c.options, c.cluster...)
				if err := c.call(client, t.Context()); outcomeOf(err) != c.want {
					t.Errorf("the caller hears: %v", err)
				}
				if after := time.Since(s.begin); after != c.after {
					t.Errorf("it gives up after %v, not %v", after, c.after)
				}
				if len(s.asked) != c.times {
					t.Errorf("asked %d times: %q", len(s.asked), s.asked)
				}
				if c.after == 10_055*ms {
					for i, at := range breaks {
						if want := fmt.Sprintf("c1 %v", at); s.asked[i] != want {
							t.Errorf("request %d was %s, not %s", i, s.asked[i], want)
						}
					}
				}
				if s.open != 0 {
					t.Errorf("%d answers were not closed", s.open)
				}
			})
		})
	}
}

// TestAClusterThatRecovers has the first seconds of trouble pass, with the options that commands
// use: the caller notices nothing.
func TestAClusterThatRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, cluster := range map[string][]controller{
			"a controller that starts":      {inTurn(down, down, down, down, ready)},
			"an election":                   {inTurn(noLeader, noLeader, noLeader, ready), noLeader},
			"one that hangs":                {hanging, ready},
			"one that hangs, then comes up": {inTurn(hanging, ready)},
		} {
			client, s := play(t, Options{}, cluster...)
			if err := submitKeyed(client, t.Context()); err != nil {
				t.Errorf("%s: %v after %q", name, err, s.asked)
			}
		}
	})
}

// TestAControllerThatHangs is asked for ten seconds, beyond what it was asked to hold back.
func TestAControllerThatHangs(t *testing.T) {
	for _, c := range []struct {
		name    string
		options Options
		call    func(*Client, context.Context) error
		want    string
		asked   string
	}{
		{"what may be repeated goes to the next", Options{}, read, "done", "c1 0s, c2 10s"},
		{"after as long as the caller says", Options{Answer: time.Second}, read, "done", "c1 0s, c2 1s"},
		{"a long poll may take longer", Options{}, poll, "done", "c1 0s, c2 13s"},
		{"what must not be done twice does not", Options{}, submit, "unreachable", "c1 0s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, s := play(t, c.options, hanging, ready)
			if err := c.call(client, t.Context()); outcomeOf(err) != c.want || strings.Join(s.asked, ", ") != c.asked {
				t.Errorf("%s: %v after %q", c.name, err, s.asked)
			}
		})
	}
}

// TestACallerThatGoesAway ends a call in each state in which it can be.
func TestACallerThatGoesAway(t *testing.T) {
	enough := errors.New("the user pressed Ctrl-C")
	for name, cluster := range map[string]controller{"hangs": hanging, "is down": down, "has no leader": noLeader} {
		synctest.Test(t, func(t *testing.T) {
			client, s := play(t, Options{RetryFor: time.Hour, Unreachable: time.Hour, Answer: time.Hour}, cluster)
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(enough) })
			want := enough.Error()
			if name == "has no leader" {
				want = "no-leader by c1" // it says why it took so long
			}
			if err := read(client, ctx); outcomeOf(err) != want || time.Since(s.begin) != time.Second {
				t.Errorf("a controller that %s: %v after %v", name, err, time.Since(s.begin))
			}
			late, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			if name != "has no leader" {
				want = "unreachable"
			}
			if err := read(client, late); outcomeOf(err) != want || time.Since(s.begin) != 2*time.Second {
				t.Errorf("at its deadline, a controller that %s: %v after %v", name, err, time.Since(s.begin)-time.Second)
			}
		})
	}
}

// TestTheOutputOfALongJobMayTakeLong reads streams that pause for a day: only what is answered at
// once has a deadline.
func TestTheOutputOfALongJobMayTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(r *http.Request) (*http.Response, error) {
			from, to := io.Pipe()
			go func() {
				if err := pause(r.Context(), 24*time.Hour); err != nil {
					to.CloseWithError(err)
					return
				}
				fmt.Fprint(to, "{\n{\"id\":5}\n]}\n")
				to.Close()
			}()
			return &http.Response{StatusCode: 200, Body: from}, nil
		}
		client, s := play(t, Options{}, slow)
		logs, err := client.Logs(t.Context(), 5, LogOptions{Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(logs); err != nil || !strings.Contains(string(b), "id") {
			t.Errorf("output %q, %v", b, err)
		}
		if err := logs.Close(); err != nil {
			t.Error(err)
		}
		n := 0
		if _, err := client.EachJob(t.Context(), JobFilter{}, Read{}, func(*Job) error { n++; return nil }); err != nil ||
			n != 1 {
			t.Errorf("%d jobs, %v", n, err)
		}
		if err := read(client, t.Context()); err == nil || s.open != 0 {
			t.Errorf("a call that takes a day: %v; %d answers are open", err, s.open)
		}
	})
}

// TestWhoElseIsAsked has the first controller refuse. Another is asked only when that cannot do any
// harm, and the caller hears the refusal rather than that the other is down.
func TestWhoElseIsAsked(t *testing.T) {
	unknown, denied := refusing(401, CodeUnauthorised), refusing(403, CodeDenied)
	for _, c := range []struct {
		name    string
		any     bool
		cluster []controller
		asked   string
		want    string
	}{
		{"one does not know the caller yet", false, []controller{unknown, ready}, "c1 c2", "done"},
		{"none knows the caller", false, []controller{unknown, refusing(401, CodeUnauthorised)}, "c1 c2",
			"unauthorised by c1"},
		{"a single one", false, []controller{unknown}, "c1", "unauthorised by c1"},
		{"the other is down", false, []controller{unknown, down}, "c1 c2 c1", "unauthorised by c1"},
		{"the other refuses in another way", false, []controller{unknown, denied}, "c1 c2", "unauthorised by c1"},
		{"what is forbidden is forbidden everywhere", false, []controller{denied, ready}, "c1", "denied by c1"},
		{"a bug is not carried to the next", false, []controller{refusing(500, CodeInternal), ready}, "c1",
			"internal by c1"},
		{"a daemon that is refused", true, []controller{denied, ready}, "c1 c2", "done"},
		{"a daemon that is refused by all", true, []controller{denied, refusing(404, CodeNotFound)}, "c1 c2",
			"denied by c1"},
		{"a daemon's request that is not understood", true, []controller{refusing(400, CodeInvalid), ready}, "c1 c2",
			"done"},
		{"a daemon's request that is not understood, and the other is down", true,
			[]controller{refusing(400, CodeInvalid), down}, "c1 c2 c1", "invalid by c1"},
		{"a daemon's request that is not understood, and refused in another way", true,
			[]controller{refusing(400, CodeInvalid), denied}, "c1 c2", "invalid by c1"},
		{"a daemon and the last of the refusals", true, []controller{refusing(499, CodeInvalid), ready}, "c1 c2", "done"},
		{"a daemon and a bug", true, []controller{refusing(500, CodeInternal), ready}, "c1", "internal by c1"},
		{"a daemon and a single controller", true, []controller{denied}, "c1", "denied by c1"},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, s := play(t, Options{Any4xx: c.any}, c.cluster...)
			if err := submit(client, t.Context()); outcomeOf(err) != c.want || s.order() != c.asked || s.open != 0 {
				t.Errorf("%s: %v after %s", c.name, err, s.order())
			}
		})
	}
}

// TestTheOneThatAnsweredIsAskedFirst saves the next call the way by a controller that is down.
func TestTheOneThatAnsweredIsAskedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, s := play(t, Options{}, down, inTurn(ready, ready, noLeader), ready)
		for range 4 {
			if err := submit(client, t.Context()); err != nil {
				t.Error(err)
			}
		}
		if got := s.order(); got != "c1 c2 c2 c2 c3 c3" {
			t.Errorf("asked %s", got)
		}
	})
}

// TestTwoClustersInOneList refuses an answer of another cluster than the one that has answered
// before: it would mix the jobs of both.
func TestTwoClustersInOneList(t *testing.T) {
	of := func(cluster string) controller {
		return answering(func(w http.ResponseWriter, r *http.Request) {
			if cluster != "" {
				w.Header().Set(HeaderCluster, cluster)
			}
			submitted(w, r)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		client, s := play(t, Options{}, inTurn(of("one"), down), of("two"))
		if err := submit(client, t.Context()); err != nil {
			t.Fatal(err)
		}
		err := submit(client, t.Context())
		for _, says := range []string{"c2:1 belongs to cluster two", "the others to cluster one"} {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%q is missing in: %v", says, err)
			}
		}
		if s.order() != "c1 c1 c2" || s.open != 0 {
			t.Errorf("asked %s, %d answers are open", s.order(), s.open)
		}
		client, s = play(t, Options{}, inTurn(of(""), of("one"), of(""), down), inTurn(of("one"), of("")))
		for range 5 {
			if err := submit(client, t.Context()); err != nil {
				t.Errorf("one cluster: %v after %s", err, s.order())
			}
		}
	})
}

// TestNothingOfAnAnswerIsLeft makes each call and looks for bodies that were not closed and timers
// that still run: a daemon makes calls for months.
func TestNothingOfAnAnswerIsLeft(t *testing.T) {
	for _, c := range eachCall {
		synctest.Test(t, func(t *testing.T) {
			good := answering(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set(HeaderCluster, "one")
				text := c.answer
				if text == "" {
					text = "{}"
				}
				fmt.Fprint(w, text)
			})
			client, s := play(t, Options{}, inTurn(good, refusing(404, CodeNotFound), down, down, good))
			for i := range 3 {
				if err := c.call(t.Context(), client); (err != nil) != (i == 1) {
					t.Errorf("%s: %v", c.name, err)
				}
			}
			if s.open != 0 {
				t.Errorf("%s: %d answers were not closed", c.name, s.open)
			}
			for i, r := range s.requests {
				if r.Context().Err() == nil && r.Context() != t.Context() && hasDeadline(r.Context()) {
					t.Errorf("%s: the timer of request %d still runs", c.name, i)
				}
			}
		})
	}
}

func hasDeadline(ctx context.Context) bool {
	_, ok := ctx.Deadline()
	return ok
}

// TestWhatARequestShows reads the headers that daemons and programs add.
func TestWhatARequestShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token := NewBearerToken(nil)
		client, s := play(t, Options{Header: http.Header{"Rota-On-Behalf": {"ada", "ben"}}, TLS: &tls.Config{},
			Token: &token}, ready)
		if err := submit(client, t.Context()); err != nil {
			t.Fatal(err)
		}
		h := s.requests[0].Header
		if !slices.Equal(h["Rota-On-Behalf"], []string{"ada", "ben"}) || h.Get("Authorization") != "Bearer "+token.Text() ||
			s.requests[0].URL.Scheme != "https" {
			t.Errorf("%s with %v", s.requests[0].URL, h)
		}
	})
}

// TestWhatAnUnreachableClusterIsCalled names every address and the cause, without the route: a user
// does not know it.
func TestWhatAnUnreachableClusterIsCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := play(t, Options{}, down, down)
		err := read(client, t.Context())
		if fmt.Sprint(err) != "no controller reachable at c1:1, c2:1: dial: connection refused" {
			t.Errorf("the user reads: %v", err)
		}
		if op := (*net.OpError)(nil); !errors.As(err, &op) {
			t.Errorf("the cause of %v is lost", err)
		}
	})
}

// TestErrorsThatAreNotOurs has a proxy answer instead of a controller.
func TestErrorsThatAreNotOurs(t *testing.T) {
	long := strings.Repeat("x", 300)
	for body, want := range map[string]string{
		"  no upstream\n":              "the server answered 502 Bad Gateway: no upstream",
		"":                             "the server answered 502 Bad Gateway: ",
		`{"detail":"no code"}`:         `the server answered 502 Bad Gateway: {"detail":"no code"}`,
		long:                           "the server answered 502 Bad Gateway: " + long[:200],
		`{"code":"busy","detail":"d"}`: "d",
		// longer than what is shown, and read whole
		`{"code":"busy","detail":"d","hint":"` + long + `"}`: "d",
	} {
		synctest.Test(t, func(t *testing.T) {
			client, _ := play(t, Options{RetryFor: 1}, answering(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusBadGateway)
				io.WriteString(w, body)
			}))
			var p *Problem
			err := read(client, t.Context())
			if !errors.As(err, &p) || err.Error() != want {
				t.Fatalf("%.40q: %v", body, err)
			}
			if code := strings.Contains(body, `"code"`); code != (p.Code == CodeBusy) ||
				!code && (p.Code != CodeInternal || p.Status != 502 || p.Title != "Bad Gateway") {
				t.Errorf("%.40q: %+v", body, p)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // the connection ends in the middle of a refusal
		client, s := play(t, Options{RetryFor: 1}, func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 403, Status: "403 Forbidden", Body: io.NopCloser(io.MultiReader(
				strings.NewReader(`{"code":`), brokenReader{}))}, nil
		})
		if err := read(client, t.Context()); err == nil || !strings.Contains(err.Error(), "403 Forbidden") || s.open != 0 {
			t.Errorf("a refusal that is cut off: %v", err)
		}
	})
}

type brokenReader struct{}

// Read implements io.Reader.
func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestWhatAnAddressBecomes reads addresses as users write them.
func TestWhatAnAddressBecomes(t *testing.T) {
	token := NewBearerToken(nil)
	secure := Options{TLS: &tls.Config{}}
	for _, c := range []struct {
		addr    string
		options Options
		want    string // URL of a request, or a part of the refusal
	}{
		{"h:7070", Options{}, "http://h:7070/v1/nodes"},
		{"http://h:7070/", Options{}, "http://h:7070/v1/nodes"},
		{"unix:/run/s", Options{}, "http://rota/v1/nodes"},
		{"h:7070", secure, "https://h:7070/v1/nodes"},
		{"https://h:7070", secure, "https://h:7070/v1/nodes"},
		{"http://h:7070", secure, "http://h:7070/v1/nodes"},
		{"https://h:7070", Options{}, "address https://h:7070 needs an API token, which also identifies the cluster"},
		{"localhost:1", Options{Token: &token}, "http://localhost:1/v1/nodes"},
		{"127.1.2.3:1", Options{Token: &token}, "http://127.1.2.3:1/v1/nodes"},
		{"[::1]:1", Options{Token: &token}, "http://[::1]:1/v1/nodes"},
		{"unix:/run/s", Options{Token: &token}, "http://rota/v1/nodes"},
		{"10.0.0.1:1", Options{Token: &token}, "write https://10.0.0.1:1"},
		{"localhost.example:1", Options{Token: &token}, "write https://localhost.example:1"},
		{"ftp://h:1", Options{}, `"ftp://h:1" is not the address of a controller`},
		{"http://h", Options{}, `"http://h" is not the address of a controller`},
		{"http:///x:1", Options{}, `"http:///x:1" is not the address of a controller`},
		{"http://h:x", Options{}, `address "http://h:x"`},
		{"unix:", Options{}, `"unix:" has no path`},
		{"unix://", Options{}, `"unix://" has no path`},
		{" , ", Options{}, "does not name a controller"},
	} {
		got := ""
		c.options.Wrap = func(http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				got = r.URL.String()
				return answering(submitted)(r)
			})
		}
		client, err := DialWith(c.addr, c.options)
		if err == nil {
			err = read(client, t.Context())
		}
		if got != c.want && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %q, %v", c.addr, got, err)
		}
	}
}
