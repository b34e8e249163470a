package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api/stream"
)

// Stream sends a request that is answered by a stream of frames, kept alive. The stream ends with ctx.
// Like other requests it is tried at one controller after the other, and repeated while nothing was
// done.
func (c *Client) Stream(ctx context.Context, path string, request any) (*stream.Conn, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	resp, err := c.roundTrip(ctx, call{method: http.MethodPost, path: path, body: body, upgrade: true})
	if err != nil {
		return nil, err
	}
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		resp.Body.Close()
		return nil, fmt.Errorf("POST %s: the server answered %s instead of opening a stream", path, resp.Status)
	}
	s := stream.New(conn)
	s.KeepAlive(ctx)
	return s, nil
}

// askForStream sets the headers of a request for a stream.
func askForStream(h http.Header) {
	h.Set("Connection", "Upgrade")
	h.Set("Upgrade", stream.Protocol)
}

// AsksForStream reports whether a request is for a stream.
func AsksForStream(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), stream.Protocol) &&
		strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade")
}

// RequestStream has a request ask for a stream: what a daemon passes on to another one.
func RequestStream(r *http.Request) { askForStream(r.Header) }

// AcceptStream answers a request with a stream, kept alive, that ends with ctx. A client of this machine
// may be silent for as long as it likes: it may be stopped. The request's body must have been read.
// Headers that are set go with the answer. If the request does not ask for a stream, it is refused and
// the result is nil.
func AcceptStream(ctx context.Context, w http.ResponseWriter, r *http.Request) (*stream.Conn, error) {
	if !AsksForStream(r) {
		w.Header().Set("Upgrade", stream.Protocol)
		WriteProblem(w, http.StatusUpgradeRequired, CodeInvalid,
			"this answer is a stream: send the headers Connection: Upgrade and Upgrade: "+stream.Protocol)
		return nil, errors.New("the request does not ask for a stream")
	}
	conn, err := hijack(w)
	if err != nil {
		return nil, err
	}
	s := stream.New(conn)
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && at.Network() == "unix" {
		s.Announce(ctx)
	} else {
		s.KeepAlive(ctx)
	}
	return s, nil
}

// PassStream connects the stream that another daemon has answered with to the client of a request.
// It passes data on in both directions, until one end closes it or ctx ends. Unread data at one end
// holds the other end back.
func PassStream(ctx context.Context, w http.ResponseWriter, resp *http.Response) error {
	behind, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		return fmt.Errorf("the other daemon answered %s without a stream", resp.Status)
	}
	defer behind.Close()
	for _, name := range []string{HeaderIndex, HeaderCluster} {
		if v := resp.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	front, err := hijack(w)
	if err != nil {
		return err
	}
	JoinStreams(ctx, front, behind)
	return nil
}

// JoinStreams copies between two connections in both directions until one of them or ctx ends, and
// closes both.
func JoinStreams(ctx context.Context, a, b io.ReadWriteCloser) {
	end := func() {
		a.Close()
		b.Close()
	}
	defer context.AfterFunc(ctx, end)()
	var both sync.WaitGroup
	pass := func(to io.Writer, from io.Reader) {
		defer end()
		_, _ = io.Copy(to, from) // its reader hears that the connection has ended
	}
	both.Go(func() { pass(a, b) })
	both.Go(func() { pass(b, a) })
	both.Wait()
}

// hijacked is a connection taken from the server, which may have read some of what came over it.
type hijacked struct {
	net.Conn
	rest *bufio.Reader
}

// Read implements io.Reader.
func (h hijacked) Read(b []byte) (int, error) { return h.rest.Read(b) }

// hijack takes the connection of a request, and answers that it is a stream from now on.
func hijack(w http.ResponseWriter) (io.ReadWriteCloser, error) {
	header := w.Header().Clone()
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("this connection cannot carry a stream: %w", err)
	}
	askForStream(header)
	header.Del("Content-Length")
	var head strings.Builder
	head.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	err = errors.Join(conn.SetDeadline(time.Time{}), header.Write(&head))
	head.WriteString("\r\n")
	if err == nil {
		_, err = io.WriteString(conn, head.String())
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return hijacked{conn, buffered.Reader}, nil
}
