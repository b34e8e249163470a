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

// Sockets on which this machine's daemons listen for local users. On a machine with both daemons,
// the node daemon has DefaultSocket and the controller has ControllerSocket. Commands try
// ControllerSocket first, because a node can vouch for ordinary users only.
const (
	DefaultSocket    = "/run/rota/rota.sock"
	ControllerSocket = "/run/rota/controld.sock"
)

// devAddrFile is a file that `rota dev` writes to its directory for commands started beside it.
const devAddrFile = ".rota/addr"

// DefaultAddr returns the default address of commands: ROTA_ADDR, otherwise the sockets that exist.
// Without both, it is the cluster that `rota dev` runs in the working directory or above it. If
// nothing is found, it is DefaultSocket, so that the error message names that.
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

// devAddr returns the address of the cluster that `rota dev` runs in the working directory or the
// nearest directory above it. It is "" if there is no such cluster. A file of another user is
// ignored, because it could lead jobs anywhere.
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

// readOwn returns the text of a file that belongs to root or to this process's user, otherwise "".
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

// socketsThere returns an address made of the sockets that exist.
func socketsThere(paths ...string) string {
	var there []string
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			there = append(there, "unix:"+path)
		}
	}
	return strings.Join(there, ",")
}

// Options change how a client connects. The zero value is right for commands.
type Options struct {
	// Wrap, if set, wraps the transport of every address, to sign requests.
	Wrap func(http.RoundTripper) http.RoundTripper
	// TLS, if set, configures https connections; addresses without a scheme are then https.
	TLS *tls.Config
	// Any4xx makes a daemon try the next controller if one refuses a request. A fault in one
	// controller's records must not lock a daemon out of all others.
	Any4xx bool
	// Token, if set, is sent with every request. It is sent to other machines only over TLS.
	Token *BearerToken
	// Header is added to every request.
	Header http.Header
	// RetryFor is how long a repeatable request is repeated while controllers answer but have no
	// leader. Default 10 s.
	RetryFor time.Duration
	// Unreachable is how long a request is repeated while no controller accepts a connection.
	// Default 2 s.
	Unreachable time.Duration
	// Answer is how long a controller may take to answer, beyond the requested wait. Default 10 s.
	Answer time.Duration
	// Warn, if set, is called with each warning of an answer.
	Warn func(text string)
	// RunAs, if set, is called with the user that submitted jobs run as, if that is not the caller.
	RunAs func(user string)
}

// WithToken returns options with an API token. The token's fingerprint determines which controllers
// are trusted.
func (o Options) WithToken(t BearerToken) Options {
	o.Token = &t
	if len(t.Fingerprint) == sha256.Size {
		o.TLS = pki.PinnedClient([sha256.Size]byte(t.Fingerprint))
	}
	return o
}

// Client talks to the controllers of one cluster. It is safe for concurrent use.
type Client struct {
	opts      Options
	endpoints []*endpoint
	next      atomic.Uint32 // the endpoint that answered last

	cluster atomic.Pointer[string] // id of the cluster that answered first
}

// endpoint is one address with its connections.
type endpoint struct {
	addr string // as the user wrote it
	base string // http://host:port
	http *http.Client
}

// UnreachableError says that no controller was reachable at any address.
type UnreachableError struct {
	Addrs []string
	Err   error // error of the last attempt
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

// UncertainError is the error of a request whose answer was lost: the request may have taken
// effect. Err is the error of the last attempt.
type UncertainError struct{ Err error }

// Error implements error.
func (e *UncertainError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the last attempt.
func (e *UncertainError) Unwrap() error { return e.Err }

// Dial returns a client for addr: http://host:port, host:port, unix:PATH, or a comma-separated list
// of these. It connects at the first request; an error means that addr cannot be parsed.
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
		return nil, fmt.Errorf("address %q does not name a controller: write http://host:7070 or unix:PATH", addr)
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

// loopback reports whether a host is certainly this machine.
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
		return fmt.Errorf("address %q is not the address of a controller: write unix:PATH or https://host:7070", e.addr)
	}
	if u.Scheme == "https" && !secure {
		return fmt.Errorf("address %s needs an API token, which also identifies the cluster (--token or ROTA_TOKEN); or "+
			"use the socket of a daemon on this machine: unix:%s", e.addr, DefaultSocket)
	}
	if u.Scheme == "http" && opts.Token != nil && !loopback(u.Hostname()) {
		return fmt.Errorf("address %s has no TLS, so the API token could be read on the network: write https://%s", e.addr,
			u.Host)
	}
	e.base = u.Scheme + "://" + u.Host
	return nil
}

// Addrs returns the addresses in the form in which they were written.
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
	rand.Read(b) // rand.Read never fails
	return hex.EncodeToString(b)
}

// call is one request with all its attempts.
type call struct {
	method string
	path   string
	query  url.Values
	body   []byte
	key    string
	wait   time.Duration // how long the server may delay the answer
	repeat bool          // safe to repeat if the outcome is unknown
	stream bool          // the caller reads the body

	upgrade bool // the connection becomes a stream of frames, which the caller gets as the body, see [Client.Stream]
}

// roundTrip sends the call until it is answered, each time to the next address. It tries every
// address before it gives up, even if a silent one uses up the time. The error is an
// [UncertainError] if an attempt lost its answer and may have changed something.
func (c *Client) roundTrip(ctx context.Context, q call) (*http.Response, error) {
	resp, lost, err := c.tryAll(ctx, &q)
	if err != nil && lost {
		err = &UncertainError{err}
	}
	return resp, err
}

// tryAll sends the call until it is answered or no attempt is left. lost reports that an attempt
// may have changed something without a clear answer.
func (c *Client) tryAll(ctx context.Context, q *call) (resp *http.Response, lost bool, err error) {
	begin := time.Now()
	backoff := 5 * time.Millisecond
	var refused *Problem // refusal by the first controller that refused the caller
	var answered error   // the last answer, which says more than a timeout
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
			if refused != nil { // a refusal says more than another controller's outage
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

// mayBeDone reports whether a request may have taken effect, after an attempt failed with err;
// before is the same from the earlier attempts. A refusal is a clear "no", unless the controller
// did not know the caller, because it then did not check for an earlier effect.
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

// mayRepeat reports whether the call may be sent again after err, and for how long since the first
// attempt.
func (c *Client) mayRepeat(q *call, err error) (time.Duration, bool) {
	var p *Problem
	if errors.As(err, &p) {
		switch p.Code {
		case CodeNoLeader, CodeBusy, CodeUnsettled: // these codes mean that nothing was done
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
// controller that does not know the caller has changed nothing, and other controllers may know the
// caller.
func (c *Client) othersMay(err error) bool {
	var p *Problem
	return errors.As(err, &p) && (p.Code == CodeUnauthorised || p.Code == CodeGeneration ||
		c.opts.Any4xx && p.Status >= 400 && p.Status < 500)
}

// refusalOf returns the error as a refusal of the caller, or nil.
func refusalOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) && p.Status >= 400 && p.Status < 500 {
		return p
	}
	return nil
}

// checkCluster refuses an answer from another cluster than the first answer's.
func (c *Client) checkCluster(h http.Header, addr string) error {
	id := h.Get(HeaderCluster)
	if id == "" || c.cluster.CompareAndSwap(nil, &id) {
		return nil
	}
	if first := *c.cluster.Load(); first != id {
		return fmt.Errorf("the controller at %s belongs to cluster %s, the others to cluster %s: the list of addresses "+
			"mixes two clusters", addr, id, first)
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

// send makes one attempt. Its error is a *Problem or the error of the connection.
func (e *endpoint) send(ctx context.Context, q *call, opts Options) (*http.Response, error) {
	u := e.base + q.path
	if len(q.query) > 0 {
		u += "?" + q.query.Encode()
	}
	cancel := context.CancelFunc(func() {})
	if !q.stream {
		// a hanging controller must not hang its clients, so the next one is tried
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
		cancel() // the attempt is over, but the connection belongs to the caller now
		return resp, nil
	}
	resp.Body = &cancelBody{resp.Body, cancel}
	if resp.StatusCode >= 400 {
		defer resp.Body.Close()
		return nil, readProblem(resp)
	}
	return resp, nil
}

// cancelBody ends the attempt's context once the body has been read.
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

// maxProblem bounds how much of an error's body is read.
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

// do makes a call and decodes the answer into out. It returns the index of the state that answered.
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
		if err != nil { // the answer was cut off, so the controller has gone
			if q.repeat && attempt < 3 && ctx.Err() == nil {
				continue
			}
			return Answer{}, q.answerLost(&UnreachableError{Addrs: c.Addrs(), Err: err})
		}
		if err := json.Unmarshal(b, out); err != nil {
			return Answer{}, q.answerLost(fmt.Errorf("%s %s: cannot read the answer: %w", q.method, q.path, err))
		}
		return answerOf(resp.Header), nil
	}
}

// answerLost marks the error of an incomplete answer.
func (q *call) answerLost(err error) error {
	if q.method == http.MethodGet {
		return err
	}
	return &UncertainError{err}
}

// Answer is the headers of an answer.
type Answer struct {
	Index uint64
	Stale time.Duration // time since a leader was last heard of; 0 with quorum
}

func answerOf(h http.Header) Answer {
	var a Answer
	a.Index, _ = strconv.ParseUint(h.Get(HeaderIndex), 10, 64)
	if s, err := strconv.ParseInt(h.Get(HeaderStale), 10, 64); err == nil {
		a.Stale = time.Duration(max(s, 1)) * time.Second
	}
	return a
}
