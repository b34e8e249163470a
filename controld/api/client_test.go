package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rota-hpc/rota/jobspec"
)

// answers serves each answer in turn, the last for ever, and counts requests.
func answers(t *testing.T, each ...http.HandlerFunc) (string, *atomic.Int32) {
	t.Helper()
	var n atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := int(n.Add(1)) - 1
		each[min(i, len(each)-1)](w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, &n
}

func problem(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"type":"t","title":"t","status":%d,"code":%q,"detail":"d"}`, status, code)
	}
}

func submitted(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(HeaderIndex, "7")
	io.WriteString(w, `{"ids":[5]}`)
}

func cut(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }

func dialTest(t *testing.T, addr string, o Options) *Client {
	t.Helper()
	c, err := DialWith(addr, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestAKeyedSubmissionIsRepeatedUntilItIsAnswered(t *testing.T) {
	for what, first := range map[string]http.HandlerFunc{
		"no leader": problem(503, CodeNoLeader), "uncertain": problem(503, CodeUncertain), "cut off": cut,
	} {
		addr, n := answers(t, first, submitted)
		id, err := dialTest(t, addr, Options{}).Submit(t.Context(), "k", &jobspec.Job{})
		if err != nil || id != 5 || n.Load() < 2 {
			t.Errorf("%s: %d, %v after %d requests", what, id, err, n.Load())
		}
	}
}

func TestWithoutAKeyNothingUncertainIsRepeated(t *testing.T) {
	addr, n := answers(t, problem(503, CodeUncertain), submitted)
	var p *Problem
	if _, err := dialTest(t, addr, Options{}).Submit(t.Context(), "", &jobspec.Job{}); !errors.As(err, &p) ||
		p.Code != CodeUncertain || n.Load() != 1 {
		t.Errorf("%v after %d requests", err, n.Load())
	}
	addr, n = answers(t, cut, submitted)
	if _, err := dialTest(t, addr, Options{}).Submit(t.Context(), "", &jobspec.Job{}); err == nil || n.Load() != 1 {
		t.Errorf("%v after %d requests", err, n.Load())
	}
	addr, n = answers(t, problem(503, CodeNoLeader), submitted)
	if _, err := dialTest(t, addr, Options{}).Submit(t.Context(), "", &jobspec.Job{}); err != nil || n.Load() != 2 {
		t.Errorf("nothing was done, so it may be repeated: %v after %d requests", err, n.Load())
	}
}

// TestALostAnswerIsToldFromARefusal notices a request that may have been carried out but is
// reported as refused, and the reverse. A request that may have been carried out must not be
// repeated unknowingly.
func TestALostAnswerIsToldFromARefusal(t *testing.T) {
	noID := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"ids":[]}`) }
	html := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }
	half := func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"ids":`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	for _, c := range []struct {
		what string
		each []http.HandlerFunc
		want bool
	}{
		{"cut off", []http.HandlerFunc{cut}, true},
		{"cut off within the answer", []http.HandlerFunc{half}, true},
		{"cut off within the answer, then no leader", []http.HandlerFunc{half, problem(503, CodeNoLeader)}, true},
		{"cut off within the answer, then refused", []http.HandlerFunc{half, problem(422, CodeInvalidJob)}, false},
		{"not JSON", []http.HandlerFunc{html}, true},
		{"without an id", []http.HandlerFunc{noID}, true},
		{"a new leader", []http.HandlerFunc{problem(503, CodeUncertain)}, true},
		{"too long", []http.HandlerFunc{problem(504, CodeTimeout)}, true},
		{"cut off, then no leader", []http.HandlerFunc{cut, problem(503, CodeNoLeader)}, true},
		{"cut off, then busy", []http.HandlerFunc{cut, problem(503, CodeBusy)}, true},
		{"cut off, then not known", []http.HandlerFunc{cut, problem(401, CodeUnauthorised)}, true},
		{"cut off, then refused", []http.HandlerFunc{cut, problem(422, CodeInvalidJob)}, false},
		{"no leader", []http.HandlerFunc{problem(503, CodeNoLeader)}, false},
		{"busy", []http.HandlerFunc{problem(503, CodeBusy)}, false},
		{"refused", []http.HandlerFunc{problem(422, CodeInvalidJob)}, false},
		{"not known", []http.HandlerFunc{problem(401, CodeUnauthorised)}, false},
	} {
		addr, _ := answers(t, c.each...)
		o := Options{RetryFor: 30 * time.Millisecond, Unreachable: 30 * time.Millisecond}
		_, err := dialTest(t, addr, o).Submit(t.Context(), "k", &jobspec.Job{})
		var lost *UncertainError
		if err == nil || errors.As(err, &lost) != c.want {
			t.Errorf("%s: %v, may have been carried out: %v", c.what, err, !c.want)
		}
		if c.want && lost.Unwrap() == nil {
			t.Errorf("%s: the cause is lost", c.what)
		}
	}
	var lost *UncertainError
	if _, err := dialTest(t, "127.0.0.1:1", Options{Unreachable: time.Nanosecond}).Submit(t.Context(), "k",
		&jobspec.Job{}); err == nil || errors.As(err, &lost) {
		t.Errorf("no connection: %v", err)
	}
	addr, _ := answers(t, cut)
	if _, _, err := dialTest(t, addr, Options{RetryFor: time.Nanosecond}).Nodes(t.Context(), Read{}); err == nil ||
		errors.As(err, &lost) {
		t.Errorf("a read changes nothing: %v", err)
	}
}

func TestTheNextAddressIsTried(t *testing.T) {
	good, _ := answers(t, submitted)
	c := dialTest(t, "127.0.0.1:1,unix:/nowhere/s, "+good, Options{})
	if id, err := c.Submit(t.Context(), "", &jobspec.Job{}); err != nil || id != 5 {
		t.Errorf("%d, %v", id, err)
	}
	if got := strings.Join(c.Addrs(), " "); got != "127.0.0.1:1 unix:/nowhere/s "+good {
		t.Errorf("addresses %s", got)
	}
}

func TestASilentAddressDoesNotUseUpTheTimeOfTheOthers(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, and no process answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	good, _ := answers(t, submitted)
	c := dialTest(t, silent.Addr().String()+","+good, Options{Answer: 50 * time.Millisecond, RetryFor: time.Millisecond})
	if id, err := c.Submit(t.Context(), "k", &jobspec.Job{}); err != nil || id != 5 {
		t.Errorf("%d, %v", id, err)
	}
}

func TestNobodyThere(t *testing.T) {
	c := dialTest(t, "127.0.0.1:1,unix:/nowhere/s", Options{Unreachable: 50 * time.Millisecond})
	_, _, err := c.Nodes(t.Context(), Read{})
	var u *UnreachableError
	if !errors.As(err, &u) || len(u.Addrs) != 2 || !strings.Contains(err.Error(), "/nowhere/s") {
		t.Errorf("got %v", err)
	}
}

func TestGivingUp(t *testing.T) {
	addr, n := answers(t, problem(503, CodeNoLeader))
	c := dialTest(t, addr, Options{RetryFor: 100 * time.Millisecond})
	var p *Problem
	if _, _, err := c.Nodes(t.Context(), Read{}); !errors.As(err, &p) || p.Code != CodeNoLeader || n.Load() < 2 {
		t.Errorf("%v after %d requests", err, n.Load())
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // enough for the first answer, also on a busy machine
	defer cancel()
	if _, _, err := dialTest(t, addr, Options{}).Nodes(ctx, Read{}); !errors.As(err, &p) || p.Code != CodeNoLeader {
		t.Errorf("at the caller's deadline: %v", err)
	}
	hangs := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	addr, _ = answers(t, problem(503, CodeNoLeader), hangs)
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, _, err := dialTest(t, addr, Options{}).Nodes(ctx, Read{}); !errors.As(err, &p) || p.Code != CodeNoLeader {
		t.Errorf("at the caller's deadline, while the next answer is waited for: %v", err)
	}
	addr, n = answers(t, problem(404, CodeNotFound))
	if _, _, err := dialTest(t, addr, Options{}).Job(t.Context(), 1, Read{}); !errors.As(err, &p) || n.Load() != 1 {
		t.Errorf("a refusal is not repeated: %v after %d", err, n.Load())
	}
}

func TestAnswersThatAreNotOurs(t *testing.T) {
	addr, _ := answers(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "proxy says no",
			http.StatusBadGateway)
	})
	var p *Problem
	if _, _, err := dialTest(t, addr, Options{}).Nodes(t.Context(), Read{}); !errors.As(err, &p) ||
		!strings.Contains(p.Detail, "proxy says no") {
		t.Errorf("got %v", err)
	}
	addr, _ = answers(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") })
	if _, _, err := dialTest(t, addr, Options{}).Nodes(t.Context(), Read{}); err == nil ||
		!strings.Contains(err.Error(), "/v1/nodes") {
		t.Errorf("got %v", err)
	}
}

func TestAddresses(t *testing.T) {
	for addr, ok := range map[string]bool{
		"http://h:7070": true, "h:7070": true, "unix:/run/s": true, "unix:///run/s": true, "http://[::1]:7070,h:1": true,
		"": false, ",": false, "unix:": false, "https://h:7070": false, "h": false, "http://h": false, "ftp://h:1": false,
	} {
		if _, err := Dial(addr); (err == nil) != ok {
			t.Errorf("%q: %v", addr, err)
		}
	}
}

// TestBothSocketsOfAMachineAreTried notices a command that fails because the node daemon of a
// controller's machine is stopped.
func TestBothSocketsOfAMachineAreTried(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, want := range []string{"", "unix:" + b, "unix:" + a + ",unix:" + b} {
		if got := socketsThere(a, b); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		for _, path := range []string{b, a} {
			if _, err := os.Stat(path); err != nil {
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
	}
}

func TestDefaultAddr(t *testing.T) {
	if socketsThere(ControllerSocket, DefaultSocket) != "" {
		t.Skip("a daemon runs on this machine: its socket comes first")
	}
	none := func(string) string { return "" }
	t.Chdir(t.TempDir())
	if got := DefaultAddr(none); got != "unix:"+DefaultSocket {
		t.Errorf("nothing set: %q", got)
	}
	if err := os.Mkdir(".rota", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(".rota", "addr"), []byte(" \n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := DefaultAddr(none); got != "unix:"+DefaultSocket {
		t.Errorf("beside a cluster that has not begun to listen: %q", got)
	}
	if err := os.WriteFile(filepath.Join(".rota", "addr"), []byte("unix:/x/s\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := DefaultAddr(none); got != "unix:/x/s" {
		t.Errorf("beside a cluster of rota dev: %q", got)
	}
	if err := os.MkdirAll("a/b", 0o755); err != nil {
		t.Fatal(err)
	}
	top, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("a/b")
	if got := DefaultAddr(none); got != "unix:/x/s" {
		t.Errorf("below it: %q", got)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(filepath.Join(top, ".rota", "addr"), 12345, 0); err != nil {
			t.Fatal(err)
		}
		if got := DefaultAddr(none); got != "unix:"+DefaultSocket {
			t.Errorf("below that of another user: %q", got)
		}
	}
	if got := DefaultAddr(func(string) string { return "http://h:1" }); got != "http://h:1" {
		t.Errorf("ROTA_ADDR: %q", got)
	}
}

func TestTime(t *testing.T) {
	at := At(1_700_000_000_123)
	b, err := at.MarshalJSON()
	if err != nil || string(b) != `"2023-11-14T22:13:20.123Z"` {
		t.Errorf("%s, %v", b, err)
	}
	var back Time
	if err := back.UnmarshalJSON(b); err != nil || !back.Equal(at.Time) {
		t.Errorf("%v, %v", back, err)
	}
	if At(0) != nil {
		t.Error("no time has a value")
	}
	local := Time{at.In(time.FixedZone("", 7200))} // a time is shown in UTC wherever it was taken
	for _, write := range []func() ([]byte, error){local.MarshalText, at.MarshalText} {
		if b, err := write(); err != nil || string(b) != "2023-11-14T22:13:20.123Z" {
			t.Errorf("%s, %v", b, err)
		}
	}
	if b, err := local.MarshalJSON(); err != nil || string(b) != `"2023-11-14T22:13:20.123Z"` {
		t.Errorf("%s, %v", b, err)
	}
	for _, bad := range []string{"", `"`, "5", "17", `""`, `"yesterday"`, "2023-11-14T22:13:20Z"} {
		before := back
		if err := back.UnmarshalJSON([]byte(bad)); err == nil || back != before {
			t.Errorf("%s: %v, %v", bad, back, err)
		}
	}
	if err := back.UnmarshalText([]byte("2023-11-14T23:13:20.123+01:00")); err != nil || !back.Equal(at.Time) {
		t.Errorf("%v, %v", back, err)
	}
}

// TestAProblemAsItIsSent reads what a program gets that does not use this client.
func TestAProblemAsItIsSent(t *testing.T) {
	w := httptest.NewRecorder()
	WriteProblem(w, 409, CodeWrongState, "job 7 has ended")
	const want = `{"type":"about:blank","title":"Conflict","status":409,"code":"wrong-state","detail":"job 7 has ended"}`
	if got := strings.TrimSpace(w.Body.String()); got != want || w.Code != 409 ||
		w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %v %s", w.Code, w.Header(), got)
	}
}

// TestAVersionNamesItsSource shows what a user copies into a report of a bug.
func TestAVersionNamesItsSource(t *testing.T) {
	defer func(v, c string) { version, commit = v, c }(version, commit)
	for _, c := range []struct {
		version, commit, want string
		pre                   bool
	}{
		{"", "", Release, true}, {"", "abc", Release + "+abc", true}, {"0.1.0~3", "", "0.1.0~3", true},
		{"0.1.0~3", "abc", "0.1.0~3+abc", true}, {"0.1.0", "abc", "0.1.0+abc", false},
	} {
		version, commit = c.version, c.commit
		if got := Build(); got != c.want || PreRelease() != (c.pre && Release == firstRelease) {
			t.Errorf("version %q of commit %q: %q, a pre-release: %t", c.version, c.commit, got, PreRelease())
		}
	}
}

// TestKeysDiffer: one key for two submissions would lose a job.
func TestKeysDiffer(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		key := NewKey()
		if len(key) != 32 || seen[key] || strings.Trim(key, "0123456789abcdef") != "" {
			t.Errorf("key %q", key)
		}
		seen[key] = true
	}
}
