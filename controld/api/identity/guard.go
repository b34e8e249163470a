package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/model"
)

// Headers in which a trusted caller vouches for a user.
const (
	headerUID  = "Rota-Uid"
	headerGID  = "Rota-Gid"
	headerGIDs = "Rota-Gids" // decimal, commas between
	headerUser = "Rota-User"
	headerHome = "Rota-Home"
	// name of the primary group, as the machine knows it that vouches
	headerGroup = "Rota-Group"
	headerJob   = "Rota-Job" // the job that the user's process belongs to
)

// Caller is the user or machine that makes a request.
type Caller struct {
	// User is the user that the request is made for. It is not set when a machine speaks for
	// itself.
	User model.Identity
	// Group is the user's primary group at the machine that vouches for the user. Of an API token it is that of
	// the day when the token was made. The account of a submission goes by it.
	Group Group
	// Machine is set when a member of the cluster makes the request for itself.
	Machine bool
	// Role of the member that makes the request, or passes it on for a user: controller, node or
	// login. "" for a user of this machine.
	Role string
	// From is the name of that member, as its certificate says.
	From string
	// Token is the id of the API token that names the user, "" if there is none, and Scope what it
	// is good for.
	Token, Scope string
	// Job is the job in which the user's process runs, as its node says: the request may change this
	// job alone. 0 outside of jobs.
	Job model.JobID
	// Origin is where the request came from, as the controller says that passed it on; "" if none
	// did.
	Origin string
}

// Group is a Unix group.
type Group struct {
	GID  uint32
	Name string // "": the machine did not say, or knows none
}

type callerKey struct{}

// CallerOf returns the caller of the request that ctx belongs to. A Guard sets it.
func CallerOf(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(*Caller)
	if !ok {
		return Caller{}, false
	}
	return *c, true
}

// WithCaller returns ctx with its caller set.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, &c)
}

// ErrUnauthorised says that the caller of a request is not known.
var ErrUnauthorised = errors.New("the caller of this request is unknown")

// ErrVouch says that a caller spoke for another user and may not.
var ErrVouch = errors.New("only machines of the cluster may make requests on behalf of their users")

// Guard identifies the caller of each request. The zero value serves the users of this machine that
// come by a unix socket.
type Guard struct {
	Credential *pki.Credential // of this member, for requests over TLS
	Users      *Users          // nil: its own
	// Loopback has users identified over loopback TCP by the kernel's table of sockets, for rota
	// dev.
	Loopback bool

	users Users
}

// Vouch puts a user into the headers of a request that a trusted caller makes for them.
func Vouch(h http.Header, id model.Identity) {
	Unvouch(h)
	h.Set(headerUID, strconv.FormatUint(uint64(id.UID), 10))
	h.Set(headerGID, strconv.FormatUint(uint64(id.GID), 10))
	gids := make([]string, len(id.GIDs))
	for i, g := range id.GIDs {
		gids[i] = strconv.FormatUint(uint64(g), 10)
	}
	h.Set(headerGIDs, strings.Join(gids, ","))
	h.Set(headerUser, id.User)
	h.Set(headerHome, id.Home)
}

// VouchGroup says how the machine that vouches for a user names the user's primary group. The account that
// is charged goes by this name, so it does not depend on which controller gets the request.
func VouchGroup(h http.Header, name string) {
	if name != "" {
		h.Set(headerGroup, name)
	}
}

// VouchInJob is [Vouch] for a process of a job.
func VouchInJob(h http.Header, id model.Identity, job model.JobID) {
	Vouch(h, id)
	h.Set(headerJob, strconv.FormatInt(int64(job), 10))
}

// Unvouch removes every header of this package, so that a proxy passes nothing on that its client
// wrote.
func Unvouch(h http.Header) {
	for _, name := range []string{headerUID, headerGID, headerGIDs, headerUser, headerHome, headerGroup, headerJob,
		headerMember, headerOrigin} {
		h.Del(name)
	}
}

// Handler puts the caller into the context of each request, and hands those without a known caller
// to refuse.
func (g *Guard) Handler(next http.Handler, refuse func(http.ResponseWriter, *http.Request, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := g.Caller(r)
		if err != nil {
			refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, &c)))
	})
}

// Fresh has members that connected with a certificate of an authority that is being replaced connect again
// after each answer, with their new one.
func Fresh(c *pki.Credential, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.Outdated(r.TLS) && r.Header.Get("Upgrade") == "" {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// Caller identifies the caller of a request. Errors: [ErrUnauthorised], [ErrVouch], and what is
// wrong with its headers. It does not read the body.
func (g *Guard) Caller(r *http.Request) (Caller, error) {
	if r.TLS != nil {
		return g.member(r)
	}
	if r.Header.Get(headerUID) != "" || r.Header.Get(headerJob) != "" {
		return Caller{}, ErrVouch
	}
	peer, err := PeerOf(r.Context())
	if err == nil && peer.TCP && !g.Loopback {
		err = errors.New("plain HTTP is served on the unix socket only")
	}
	if err != nil {
		return Caller{}, fmt.Errorf("%w: %w", ErrUnauthorised, err)
	}
	users := g.Users
	if users == nil {
		users = &g.users
	}
	var c Caller
	if c.User, err = users.Of(peer); err != nil {
		return Caller{}, fmt.Errorf("%w: %w", ErrUnauthorised, err)
	}
	c.Group.GID = c.User.GID
	return c, nil
}

// member identifies a caller by the certificate of its connection.
func (g *Guard) member(r *http.Request) (Caller, error) {
	if g.Credential == nil || len(r.TLS.PeerCertificates) == 0 {
		return Caller{}, fmt.Errorf("%w: the caller needs a certificate of this cluster, or a token", ErrUnauthorised)
	}
	m, err := g.Credential.Verify(r.TLS)
	if err != nil {
		return Caller{}, fmt.Errorf("%w: %w", ErrUnauthorised, err)
	}
	c := Caller{Role: string(m.Role), From: m.Name}
	c.passedOn(r.Header)
	if r.Header.Get(headerJob) != "" && (c.Role != string(pki.Node) || r.Header.Get(headerUID) == "") {
		return Caller{}, fmt.Errorf("%w, and only nodes may do so for processes of their jobs", ErrVouch)
	}
	if r.Header.Get(headerUID) == "" {
		c.Machine = true
		return c, nil
	}
	return vouched(c, r.Header)
}

func vouched(c Caller, h http.Header) (Caller, error) {
	uid, err := parseID(h.Get(headerUID))
	if err != nil {
		return Caller{}, fmt.Errorf("header %s: %w", headerUID, err)
	}
	c.User = model.Identity{UID: uid, User: h.Get(headerUser), Home: h.Get(headerHome)}
	c.Group.Name = h.Get(headerGroup)
	if !utf8.ValidString(c.User.User) || !utf8.ValidString(c.User.Home) || !utf8.ValidString(c.Group.Name) {
		return Caller{}, fmt.Errorf("headers %s, %s and %s: not UTF-8", headerUser, headerHome, headerGroup)
	}
	if s := h.Get(headerGID); s != "" {
		if c.User.GID, err = parseID(s); err != nil {
			return Caller{}, fmt.Errorf("header %s: %w", headerGID, err)
		}
	}
	c.Group.GID = c.User.GID
	if s := h.Get(headerJob); s != "" {
		job, err := strconv.ParseInt(s, 10, 64)
		if err != nil || job < 1 {
			return Caller{}, fmt.Errorf("header %s: %q is not a job", headerJob, s)
		}
		c.Job = model.JobID(job)
	}
	for _, s := range strings.Split(h.Get(headerGIDs), ",") {
		if s == "" {
			continue
		}
		gid, err := parseID(s)
		if err != nil {
			return Caller{}, fmt.Errorf("header %s: %w", headerGIDs, err)
		}
		c.User.GIDs = append(c.User.GIDs, gid)
	}
	return c, nil
}

func parseID(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not a uid or gid", s)
	}
	return uint32(n), nil
}
