package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rota-hpc/rota/controld/api/pki"
)

// Where daemons of this machine listen for its users. On a machine with both, the node daemon has
// DefaultSocket, and the packages have the controller listen at ControllerSocket. Commands try that
// first: a node vouches for ordinary users only.
const (
	DefaultSocket    = "/run/rota/rota.sock"
	ControllerSocket = "/run/rota/controld.sock"
)

// devAddrFile is what `rota dev` leaves in its directory for the commands started beside it.
const devAddrFile = ".rota/addr"

// DefaultAddr is the address that a command uses by default: ROTA_ADDR, or else the two sockets if
// they exist. Otherwise it is the cluster that `rota dev` runs in the working directory or in one
// above it. If nothing is found it is DefaultSocket again, so that the error names it.
func DefaultAddr(getenv func(string) string) string {
	if addr := getenv("ROTA_ADDR"); addr != "" {
		return addr
	}
	if there := socketsThere(ControllerSocket, DefaultSocket); there != "" {
		return there
	}
	if addr := devAddr(); addr != "" {
		return addr
	}
	return "unix:" + DefaultSocket
}

// devAddr is the address of the cluster that `rota dev` runs in the working directory, or else in
// the nearest directory above it. It is "" if there is none. A file of another user's is passed
// over: it could lead jobs anywhere.
func devAddr() string {
	dir, err := os.Getwd()
	for err == nil {
		if addr := readOwn(filepath.Join(dir, filepath.FromSlash(devAddrFile))); addr != "" {
			return addr
		}
		if filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	return ""
}

// readOwn returns the text of a file that belongs to root or to this process's user, "" of any other.
func readOwn(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || s.Uid != 0 && int(s.Uid) != os.Geteuid() {
		return ""
	}
	b, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// socketsThere is the address of the sockets among paths that exist.
func socketsThere(paths ...string) string {
	var there []string
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			there = append(there, "unix:"+path)
		}
	}
	return strings.Join(there, ",")
}

// Options change how a client connects. The zero value is what commands use.
type Options struct {
	// Wrap, if set, is put around the transport of every address, to sign requests.
	Wrap func(http.RoundTripper) http.RoundTripper
	// TLS, if set, says how https addresses are connected to; addresses without a scheme are https
	// then.
	TLS *tls.Config
	// Any4xx makes a daemon send a request that one controller refuses to the next one too. A fault
	// in the records of one controller must not keep a daemon from the others.
	Any4xx bool
	// Token, if set, is shown with every request. It goes to no other machine without TLS.
	Token *BearerToken
	// Header is added to every request.
	Header http.Header
	// RetryFor is how long a request that is safe to repeat is repeated while controllers answer
	// but have no leader. Default 10 s.
	RetryFor time.Duration
	// Unreachable is how long it is repeated while no controller accepts a connection. Default 2 s.
	Unreachable time.Duration
	// Answer is how long a controller may take to answer, beyond what it was asked to wait. Default
	// 10 s.
	Answer time.Duration
	// Warn, if set, is called with each warning of an answer.
	Warn func(text string)
	// RunAs, if set, is called with the user as which submitted jobs run, if that is not the caller.
	RunAs func(user string)
}

// WithToken returns options with an API token. Its fingerprint says which controllers are believed.
func (o Options) WithToken(t BearerToken) Options {
	o.Token = &t
	if len(t.Fingerprint) == sha256.Size {
		o.TLS = pki.PinnedClient([sha256.Size]byte(t.Fingerprint))
	}
	return o
}

// Client talks to the controllers of one cluster. It may be used from several goroutines.
type Client struct {
	opts      Options
	endpoints []*endpoint
	next      atomic.Uint32 // the endpoint that answered last

	cluster atomic.Pointer[string] // id of the cluster that answered first
}

// endpoint is one address with its connections.
type endpoint struct {
	addr string // as written
	base string // http://host:port
	http *http.Client
}

// UnreachableError says that no controller could be reached at any address.
type UnreachableError struct {
	Addrs []string
	Err   error // of the last attempt
}

// Error implements error.
func (e *UnreachableError) Error() string {
	cause := e.Err
	var u *url.Error
	if errors.As(cause, &u) { // method and URL are noise in a message
		cause = u.Err
	}
	return fmt.Sprintf("no controller reachable at %s: %v", strings.Join(e.Addrs, ", "), cause)
}

// Unwrap returns the error of the last attempt.
func (e *UnreachableError) Unwrap() error { return e.Err }

// UncertainError is the error of a request whose answer was lost: it may have been carried out.
// Unwrap returns what the last attempt failed with.
type UncertainError struct{ Err error }

// Error implements error.
func (e *UncertainError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the last attempt.
func (e *UncertainError) Unwrap() error { return e.Err }

// Dial returns a client for addr: http://host:port, host:port, unix:PATH, or several of these with
// commas between. It connects when it is first used; an error says that addr cannot be read.
func Dial(addr string) (*Client, error) { return DialWith(addr, Options{}) }

// DialWith is Dial with options.
func DialWith(addr string, opts Options) (*Client, error) {
	opts.RetryFor = cmp.Or(opts.RetryFor, 10*time.Second)
	opts.Unreachable = cmp.Or(opts.Unreachable, 2*time.Second)
	opts.Answer = cmp.Or(opts.Answer, 10*time.Second)
	c := &Client{opts: opts}
	for _, one := range strings.Split(addr, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		e, err := newEndpoint(one, opts)
		if err != nil {
			return nil, err
		}
		c.endpoints = append(c.endpoints, e)
	}
	if len(c.endpoints) == 0 {
		return nil, fmt.Errorf("address %q names no controller: write http://host:7070 or unix:PATH", addr)
	}
	return c, nil
}

func newEndpoint(addr string, opts Options) (*endpoint, error) {
	dialer := &net.Dialer{Timeout: 3 * time.Second, KeepAlive: 15 * time.Second}
	t := &http.Transport{MaxIdleConns: 256, MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second,
		DisableCompression: true,
		DialContext:        dialer.DialContext}
	if opts.TLS != nil {
		t.DialTLSContext = pki.Dialer(opts.TLS)
	}
	e := &endpoint{addr: addr}
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		path = strings.TrimPrefix(path, "//")
		if path == "" {
			return nil, fmt.Errorf("address %q has no path: write unix:/run/rota/rota.sock", addr)
		}
		e.base = "http://rota"
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}
	} else if err := e.parse(opts); err != nil {
		return nil, err
	}
	e.http = &http.Client{Transport: t}
	if opts.Wrap != nil {
		e.http.Transport = opts.Wrap(t)
	}
	return e, nil
}

// loopback reports whether a host is this machine, whatever the network does.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (e *endpoint) parse(opts Options) error {
	s, secure := e.addr, opts.TLS != nil
	if !strings.Contains(s, "://") {
		s = map[bool]string{false: "http://", true: "https://"}[secure] + s
	}
	u, err := url.Parse(s)
	if err != nil {
		return fmt.Errorf("address %q: %w", e.addr, err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Port() == "" {
		return fmt.Errorf("address %q is not a controller's: write unix:PATH or https://host:7070", e.addr)
	}
	if u.Scheme == "https" && !secure {
		return fmt.Errorf("address %s needs a token by which to know the cluster (--token or ROTA_TOKEN), or use the "+
			"socket of a daemon of this machine: unix:%s", e.addr, DefaultSocket)
	}
	if u.Scheme == "http" && opts.Token != nil && !loopback(u.Hostname()) {
		return fmt.Errorf("address %s has no TLS, and the API token would be readable on the way: write https://%s", e.addr,
			u.Host)
	}
	e.base = u.Scheme + "://" + u.Host
	return nil
}

// Addrs lists the addresses that are tried, as they were written.
func (c *Client) Addrs() []string {
	addrs := make([]string, len(c.endpoints))
	for i, e := range c.endpoints {
		addrs[i] = e.addr
	}
	return addrs
}

// Close drops idle connections.
func (c *Client) Close() {
	for _, e := range c.endpoints {
		e.http.CloseIdleConnections()
	}
}

// NewKey returns a random idempotency key.
func NewKey() string {
	b := make([]byte, 16)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// call is one request, as often as it is tried.
type call struct {
	method string
	path   string
	query  url.Values
	body   []byte
	key    string
	wait   time.Duration // how long the server may hold the answer back
	repeat bool          // safe to send again when its outcome is unknown
	stream bool          // the body is read by the caller

	upgrade bool // to a stream of frames, which the caller gets as the body, see [Client.Stream]
}

// roundTrip sends the call until it is answered, on the next address each time. Each is tried
// before it gives up: one that is silent may take all the time there is. The error is an
// [UncertainError] if the answer to an attempt was lost that may have changed something.
func (c *Client) roundTrip(ctx context.Context, q call) (*http.Response, error) {
	resp, lost, err := c.tryAll(ctx, &q)
	if err != nil && lost {
		err = &UncertainError{err}
	}
	return resp, err
}

// tryAll sends the call until it is answered, or until no attempt is left. lost says that it may
// have changed something without an answer that says so.
func (c *Client) tryAll(ctx context.Context, q *call) (resp *http.Response, lost bool, err error) {
	begin := time.Now()
	backoff := 5 * time.Millisecond
	var refused *Problem // of the first controller that refused the caller
	var answered error   // with the last answer, which says more than that the caller's time is over
	for n := 0; ; n++ {
		at := int(c.next.Load()) % len(c.endpoints)
		resp, err := c.endpoints[at].send(ctx, q, c.opts)
		if err == nil {
			if err = c.checkCluster(resp.Header, c.endpoints[at].addr); err == nil {
				return resp, false, nil
			}
			resp.Body.Close()
		}
		lost = q.method != http.MethodGet && mayBeDone(lost, err)
		refused = cmp.Or(refused, refusalOf(err))
		if p := (*Problem)(nil); errors.As(err, &p) {
			answered = err
		}
		if ctx.Err() != nil {
			if cause := context.Cause(ctx); answered == nil || !errors.Is(cause, context.DeadlineExceeded) {
				return nil, lost, c.lastError(cause, err)
			}
			return nil, lost, answered
		}
		budget, again := c.mayRepeat(q, err)
		if !again && c.othersMay(err) && n+1 < len(c.endpoints) {
			again = true
		}
		if !again || n+1 >= len(c.endpoints) && time.Since(begin)-q.wait > budget {
			if refused != nil { // it says more than that another controller is down
				return nil, lost, refused
			}
			return nil, lost, c.lastError(nil, err)
		}
		c.next.CompareAndSwap(uint32(at), uint32((at+1)%len(c.endpoints)))
		if (n+1)%len(c.endpoints) != 0 {
			continue
		}
		if cause := pause(ctx, backoff); cause != nil {
			return nil, lost, c.lastError(cause, err)
		}
		backoff = min(2*backoff, 100*time.Millisecond)
	}
}

// mayBeDone reports whether a request may have been carried out after an attempt failed with err;
// before says whether that was so before the attempt. A refusal settles it, unless the controller
// did not know the caller: it did not look whether the request had been carried out.
func mayBeDone(before bool, err error) bool {
	var p *Problem
	switch {
	case !errors.As(err, &p):
		return before || !pki.NotSent(err)
	case p.Status >= 500:
		return before || p.Code != CodeNoLeader && p.Code != CodeBusy && p.Code != CodeUnsettled
	}
	return before && p.Code == CodeUnauthorised
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// mayRepeat says whether the call may be sent again after err, and for how long since the first
// attempt.
func (c *Client) mayRepeat(q *call, err error) (time.Duration, bool) {
	var p *Problem
	if errors.As(err, &p) {
		switch p.Code {
		case CodeNoLeader, CodeBusy, CodeUnsettled: // nothing was done
			return c.opts.RetryFor, true
		case CodeUncertain:
			return c.opts.RetryFor, q.repeat
		}
		return 0, false
	}
	if pki.NotSent(err) {
		return c.opts.Unreachable, true
	}
	return c.opts.RetryFor, q.repeat
}

// othersMay reports whether another controller may accept a request that this one refused. A
// controller that does not know the caller may be the only such one, and has changed nothing.
func (c *Client) othersMay(err error) bool {
	var p *Problem
	return errors.As(err, &p) && (p.Code == CodeUnauthorised || p.Code == CodeGeneration ||
		c.opts.Any4xx && p.Status >= 400 && p.Status < 500)
}

// refusalOf returns the refusal of a caller, nil for other errors.
func refusalOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) && p.Status >= 400 && p.Status < 500 {
		return p
	}
	return nil
}

// checkCluster refuses an answer of another cluster than the one that has answered before.
func (c *Client) checkCluster(h http.Header, addr string) error {
	id := h.Get(HeaderCluster)
	if id == "" || c.cluster.CompareAndSwap(nil, &id) {
		return nil
	}
	if first := *c.cluster.Load(); first != id {
		return fmt.Errorf("the controller at %s is of cluster %s, and the others are of cluster %s: the address list names "+
			"two clusters", addr, id, first)
	}
	return nil
}

func (c *Client) lastError(cause, err error) error {
	var p *Problem
	if errors.As(err, &p) {
		return err
	}
	if cause != nil && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return &UnreachableError{Addrs: c.Addrs(), Err: err}
}

// send makes one attempt. Its error is a *Problem, or what the connection failed with.
func (e *endpoint) send(ctx context.Context, q *call, opts Options) (*http.Response, error) {
	u := e.base + q.path
	if len(q.query) > 0 {
		u += "?" + q.query.Encode()
	}
	cancel := context.CancelFunc(func() {})
	if !q.stream {
		// A controller that hangs must not hang its clients: the next one is tried.
		ctx, cancel = context.WithTimeout(ctx, q.wait+opts.Answer)
	}
	var body io.Reader
	if q.body != nil {
		body = bytes.NewReader(q.body)
	}
	req, err := http.NewRequestWithContext(ctx, q.method, u, body)
	if err != nil {
		cancel()
		return nil, err
	}
	for k, v := range opts.Header {
		req.Header[k] = v
	}
	if opts.Token != nil {
		ShowBearer(req.Header, *opts.Token)
	}
	if q.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if q.key != "" {
		req.Header.Set(HeaderIdempotencyKey, q.key)
	}
	if q.upgrade {
		askForStream(req.Header)
	}
	resp, err := e.http.Do(req)
	if err != nil {
		cancel()
		return nil, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		cancel() // the attempt is over, and the connection is the caller's
		return resp, nil
	}
	resp.Body = &cancelBody{resp.Body, cancel}
	if resp.StatusCode >= 400 {
		defer resp.Body.Close()
		return nil, readProblem(resp)
	}
	return resp, nil
}

// cancelBody ends the attempt's context when the body has been read.
type cancelBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b *cancelBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel()
	return err
}

// maxProblem bounds what is read of an error's body.
const maxProblem = 4 << 20

func readProblem(resp *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err != nil {
		return fmt.Errorf("read the answer %s: %w", resp.Status, err)
	}
	p := &Problem{}
	if json.Unmarshal(b, p) != nil || p.Code == "" {
		text := strings.TrimSpace(string(b[:min(len(b), 200)]))
		return &Problem{Title: http.StatusText(resp.StatusCode), Status: resp.StatusCode, Code: CodeInternal,
			Detail: fmt.Sprintf("the server answered %s: %s", resp.Status, text)}
	}
	return p
}

// do makes a call and decodes its answer into out. It returns the state's index that answered.
func (c *Client) do(ctx context.Context, q call, out any) (Answer, error) {
	if q.method == http.MethodGet {
		q.repeat = true
	}
	for attempt := 0; ; attempt++ {
		resp, err := c.roundTrip(ctx, q)
		if err != nil {
			if attempt > 0 && mayBeDone(true, err) {
				err = q.answerLost(err)
			}
			return Answer{}, err
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil { // cut off in the middle: the controller is gone
			if q.repeat && attempt < 3 && ctx.Err() == nil {
				continue
			}
			return Answer{}, q.answerLost(&UnreachableError{Addrs: c.Addrs(), Err: err})
		}
		if err := json.Unmarshal(b, out); err != nil {
			return Answer{}, q.answerLost(fmt.Errorf("%s %s: the answer cannot be read: %w", q.method, q.path, err))
		}
		return answerOf(resp.Header), nil
	}
}

// answerLost marks the error of an answer that did not come whole.
func (q *call) answerLost(err error) error {
	if q.method == http.MethodGet {
		return err
	}
	return &UncertainError{err}
}

// Answer is what the headers of an answer say.
type Answer struct {
	Index uint64
	Stale time.Duration // since a leader was last heard of; 0 with quorum
}

func answerOf(h http.Header) Answer {
	var a Answer
	a.Index, _ = strconv.ParseUint(h.Get(HeaderIndex), 10, 64)
	if s, err := strconv.ParseInt(h.Get(HeaderStale), 10, 64); err == nil {
		a.Stale = time.Duration(max(s, 1)) * time.Second
	}
	return a
}
