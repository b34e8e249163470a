package identity

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Headers of a signed request.
const (
	headerTime      = "Rota-Time" // Unix milliseconds
	headerNonce     = "Rota-Nonce"
	headerFrom      = "Rota-From" // name of the machine that signs
	headerSignature = "Rota-Signature"
)

// window is how far the clocks of two machines may differ, and how long a request could be replayed
// if nonces were not kept.
const window = 2 * time.Minute

// minKey is the shortest cluster key that is accepted, in bytes.
const minKey = 16

// Key is the secret that the machines of a cluster share.
type Key []byte

// ReadKey reads a cluster key file. White space around it is dropped. Only its owner and group may
// be able to read it.
func ReadKey(path string) (Key, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("cluster key: %w", err)
	}
	if info.Mode().Perm()&0o007 != 0 {
		return nil, fmt.Errorf("cluster key: %s may be read by every user: chmod 600 %s", path, path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cluster key: %w", err)
	}
	if b = bytes.TrimSpace(b); len(b) < minKey {
		return nil, fmt.Errorf("cluster key: %s has %d bytes, at least %d are needed: openssl rand -hex 32 > %s", path,
			len(b), minKey, path)
	}
	return Key(b), nil
}

// Sum is the key reduced to 32 bytes for another purpose, so that the same secret is never used for
// two things.
func (k Key) Sum(purpose string) []byte {
	if len(k) == 0 {
		return nil
	}
	m := hmac.New(sha256.New, k)
	m.Write([]byte("rota key for " + purpose))
	return m.Sum(nil)
}

// Signer is a transport that signs every request as machine From. Without a key it sends requests
// as they are.
type Signer struct {
	Key  Key
	From string
	Next http.RoundTripper // nil: http.DefaultTransport
}

// RoundTrip implements http.RoundTripper.
func (s *Signer) RoundTrip(r *http.Request) (*http.Response, error) {
	next := s.Next
	if next == nil {
		next = http.DefaultTransport
	}
	if len(s.Key) == 0 {
		return next.RoundTrip(r)
	}
	body, err := takeBody(r)
	if err != nil {
		return nil, fmt.Errorf("sign %s %s: %w", r.Method, r.URL.Path, err)
	}
	var nonce [16]byte
	rand.Read(nonce[:]) // never fails
	signed := r.Clone(r.Context())
	if body != nil {
		signed.Body = io.NopCloser(bytes.NewReader(body))
		signed.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		signed.ContentLength = int64(len(body))
	}
	h := signed.Header
	h.Set(headerTime, strconv.FormatInt(time.Now().UnixMilli(), 10))
	h.Set(headerNonce, hex.EncodeToString(nonce[:]))
	h.Set(headerFrom, s.From)
	h.Set(headerSignature, hex.EncodeToString(signature(s.Key, signed, body)))
	return next.RoundTrip(signed)
}

func takeBody(r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	defer r.Body.Close()
	return io.ReadAll(r.Body)
}

// signature covers everything that decides what a request does: to change any of it takes the key.
func signature(key Key, r *http.Request, body []byte) []byte {
	sum := sha256.Sum256(body)
	m := hmac.New(sha256.New, key)
	write := func(s string) { fmt.Fprintf(m, "%d:%s\n", len(s), s) }
	write(r.Method)
	write(cmp.Or(r.URL.EscapedPath(), "/")) // an empty path is sent as "/"
	write(r.URL.RawQuery)
	write(hex.EncodeToString(sum[:]))
	for _, name := range []string{headerTime, headerNonce, headerFrom, headerUID, headerGID, headerGIDs,
		headerUser, headerHome,
		"Idempotency-Key"} {
		write(strings.Join(r.Header[http.CanonicalHeaderKey(name)], ","))
	}
	return m.Sum(nil)
}

// Reasons to refuse a signature.
var (
	errBadSignature = errors.New("the signature does not match: the machines have different cluster keys, or the " +
		"request was changed")
	errReplayed = errors.New("the request was seen before")
	errNoKey    = errors.New("the request is signed, but this daemon has no cluster key (--cluster-key-file)")
)

// verify checks the signature of r over body.
func (g *Guard) verify(r *http.Request, body []byte) error {
	if len(g.Key) == 0 {
		return errNoKey
	}
	ms, err := strconv.ParseInt(r.Header.Get(headerTime), 10, 64)
	if err != nil {
		return fmt.Errorf("header %s: %w", headerTime, errBadSignature)
	}
	if off := time.Since(time.UnixMilli(ms)).Abs(); off > window {
		return fmt.Errorf("the clock of %s differs from this machine's by %s, at most %s is allowed: synchronise the clocks",
			r.Header.Get(headerFrom), off.Round(time.Second), window)
	}
	want, err := hex.DecodeString(r.Header.Get(headerSignature))
	if err != nil || !hmac.Equal(want, signature(g.Key, r, body)) {
		return errBadSignature
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil // repeating a read does no harm
	}
	return g.nonces.add(r.Header.Get(headerNonce), time.Now())
}

// nonces remembers the nonces of the last two windows in two generations, so that forgetting costs
// nothing.
type nonces struct {
	mu       sync.Mutex
	newer    map[string]struct{}
	older    map[string]struct{}
	switched time.Time
}

// noncesKept bounds one generation: 8,000 signed writes a second for two windows.
const noncesKept = 2_000_000

func (n *nonces) add(nonce string, now time.Time) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.newer == nil || now.Sub(n.switched) > 2*window {
		n.older, n.newer, n.switched = n.newer, map[string]struct{}{}, now
	}
	_, a := n.newer[nonce]
	_, b := n.older[nonce]
	if a || b {
		return errReplayed
	}
	if len(n.newer) >= noncesKept {
		return fmt.Errorf("more than %d signed writes in %s", noncesKept, 2*window)
	}
	n.newer[nonce] = struct{}{}
	return nil
}
