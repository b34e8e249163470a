// Package peers knows the other controllers of the cluster. Gossip and a file on disk suggest their
// addresses.
package peers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/member"
	"github.com/rota-hpc/rota/controld/model"
)

// MaxControllers is the largest number of voters of a cluster: more voters make every write slower
// and nothing safer.
const MaxControllers = 5

// Routes between controllers, which the API documentation omits.
const (
	StatePath   = "/v1/internal/state"         // answers with a State
	RecordsPath = "/v1/internal/records"       // answers with finished jobs, from=, to=
	AuditPath   = "/v1/internal/audit"         // answers with entries of its audit log, as GET /v1/audit selects
	KeyPath     = "/v1/internal/authority-key" // answers with the key of the authority named by authority=
)

// Limits of a request to another controller.
const (
	maxAnswer   = 64 << 20 // bytes
	askTimeout  = 10 * time.Second
	meetTimeout = 3 * time.Second // for a controller to identify itself
)

// Interval of requests for the State of each controller, and the number of failed requests after
// which it counts as down.
const (
	askEvery     = 2 * time.Second
	askEveryFast = 250 * time.Millisecond
	missedMost   = 2
)

// Peers are the other controllers. Its methods may be called from any goroutine.
type Peers struct {
	name   string // of this controller
	gossip *member.List
	link   *identity.Link
	client *http.Client
	file   string
	every  time.Duration
	log    *slog.Logger
	// of this controller's log; requests carry it
	generation func() string
	changed    chan struct{} // has one element after a change

	mu    sync.Mutex
	known map[string]*contact // by name
}

// contact is another controller. It has the addresses that the controller itself announced over
// mutual TLS.
type contact struct {
	member.Peer
	missed int // requests since its last answer
}

// New returns the other controllers than the one with this name. Gossip discovers them. link
// connects to their logs, client sends requests to their API, and file stores their addresses. With
// fast, requests are frequent, for tests and clusters on one machine.
func New(name string, gossip *member.List, link *identity.Link, client *http.Client, file string, fast bool,
	log *slog.Logger,
) *Peers {
	p := &Peers{name: name, gossip: gossip, link: link, client: client, file: file, every: askEvery, log: log,
		changed: make(chan struct{}, 1), known: map[string]*contact{}}
	if fast {
		p.every = askEveryFast
	}
	for _, k := range load(file, log) {
		p.known[k.Name] = &contact{missed: missedMost, Peer: member.Peer{Name: k.Name, Addr: k.Gossip,
			Meta: member.Meta{Role: member.Controld, HTTP: k.HTTP, Raft: k.Raft}}}
	}
	return p
}

// SetGeneration makes requests carry the cluster's generation, so that a controller left behind
// does not answer them.
func (p *Peers) SetGeneration(of func() string) { p.generation = of }

// All returns the other controllers that answer, sorted by name.
func (p *Peers) All() []member.Peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []member.Peer
	for _, c := range p.known {
		if c.missed < missedMost {
			found = append(found, c.Peer)
		}
	}
	slices.SortFunc(found, func(a, b member.Peer) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// Find returns another controller by name. It returns false if the controller does not answer.
func (p *Peers) Find(name string) (member.Peer, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.known[name]; c != nil && c.missed < missedMost {
		return c.Peer, true
	}
	return member.Peer{}, false
}

// Raft returns the last known address of another controller's log, whether or not it answers now.
func (p *Peers) Raft(name string) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.known[name]; c != nil && c.Raft != "" {
		return c.Raft, true
	}
	return "", false
}

// Changed delivers after controllers have appeared, disappeared or changed. It is for one reader;
// several changes may share a delivery.
func (p *Peers) Changed() <-chan struct{} { return p.changed }

// State is what one controller tells another about itself.
type State struct {
	Name     string `json:"name"`
	HTTP     string `json:"http"` // host:port of its listeners
	Raft     string `json:"raft"`
	Gossip   string `json:"gossip"`
	HasState bool   `json:"has_state"`
	Log      string `json:"log"`     // id of its log
	Applied  uint64 `json:"applied"` // last entry that its state has
	Records  int64  `json:"records"` // history numbers up to this are on its disk
	Knows    int    `json:"knows"`   // the greatest cluster version that it can apply
	// of its log; "": 0
	Generation string             `json:"generation,omitempty"`
	Voters     []consensus.Member `json:"voters,omitempty"` // voters of its cluster, to its log's knowledge
	// the replacement of the authority whose key it has stored, and the authority of its own
	// certificate
	AuthorityKey int64  `json:"authority_key,omitempty"`
	Issuer       string `json:"issuer,omitempty"`
}

// StateOf asks a controller for its State.
func (p *Peers) StateOf(ctx context.Context, m member.Peer) (State, error) {
	var s State
	err := p.ask(ctx, m, StatePath, &s)
	return s, err
}

// Records asks a controller for finished jobs by their numbers in the history. The answer may
// contain only the first of them.
func (p *Peers) Records(ctx context.Context, m member.Peer, from, to int64) ([]*model.Job, error) {
	var jobs []*model.Job
	err := p.ask(ctx, m, fmt.Sprintf("%s?from=%d&to=%d", RecordsPath, from, to), &jobs)
	return jobs, err
}

// Audit asks a controller for entries of its audit log, which it decodes into out.
func (p *Peers) Audit(ctx context.Context, m member.Peer, query url.Values, out any) error {
	return p.ask(ctx, m, AuditPath+"?"+query.Encode(), out)
}

// AuthorityKey asks a controller for the key of the authority with this fingerprint; "" if it has none.
func (p *Peers) AuthorityKey(ctx context.Context, m member.Peer, authority string) (key string, err error) {
	err = p.ask(ctx, m, KeyPath+"?authority="+url.QueryEscape(authority), &key)
	return key, err
}

// ask sends a GET request to a controller and decodes the JSON that it answers with.
func (p *Peers) ask(ctx context.Context, m member.Peer, path string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+m.HTTP+path, nil)
	if err != nil {
		return err
	}
	if p.generation != nil {
		req.Header.Set(api.HeaderGeneration, p.generation())
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask controller %s: %w", m.Name, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("ask controller %s: %w", m.Name, err)
	}
	if resp.StatusCode != http.StatusOK {
		text := strings.TrimSpace(string(b[:min(len(b), 300)]))
		return fmt.Errorf("ask controller %s: %s: %s", m.Name, resp.Status, text)
	}
	return json.Unmarshal(b, out)
}

// Meet connects to the address that a controller gives for its log and asks for its State. This
// proves that its log is reachable there, and that it is a controller of this cluster.
func (p *Peers) Meet(ctx context.Context, m member.Peer) (State, error) {
	ctx, cancel := context.WithTimeout(ctx, meetTimeout)
	defer cancel()
	c, err := p.link.Dial(ctx, m.Name, m.Raft)
	if err != nil {
		return State{}, fmt.Errorf("its log at %s: %w", m.Raft, err)
	}
	if err := c.Close(); err != nil {
		return State{}, err
	}
	s, err := p.StateOf(ctx, m)
	if err == nil && s.Name != m.Name {
		err = fmt.Errorf("at %s answers %q", m.HTTP, s.Name)
	}
	return s, err
}
