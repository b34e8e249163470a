package members

import (
	"crypto/rand"
	"net"
	"slices"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/member"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// createJoinToken answers POST /v1/join-tokens. The secret is in this answer
// and nowhere else.
func (h *Handlers) createJoinToken(x *exchange.Exchange, req *api.JoinTokenRequest) (*api.JoinToken, error) {
	role := pki.Role(req.Role)
	switch {
	case !role.Valid():
		return nil, problem.Invalid("%q is not a role: write one of %v", req.Role, pki.Roles())
	case h.Credential == nil:
		return nil, problem.WrongState("this controller has no certificate authority")
	}
	token := h.Credential.NewToken()
	made, err := exchange.ProposeFor[trust.JoinToken](x, fsm.CreateJoinToken{Digest: pki.SecretDigest(token.Secret()),
		Role: req.Role, By: x.Caller.User.User})
	if err != nil {
		return nil, err
	}
	h.Log.Info("join token created", "role", req.Role, "by", x.Caller.User.User)
	left := (int64(made.Expires-h.Replica.Now(x.View)) + 999) / 1000
	return &api.JoinToken{Token: token.String(), Role: req.Role, ExpiresIn: left}, nil
}

// join answers POST /v1/join: a machine that shows a token gets what makes it a member. Until its
// secret is known to hold, a stranger learns nothing of the cluster, and the log has no entry of it.
func (h *Handlers) join(x *exchange.Exchange, req *api.JoinRequest) (*pki.Grant, error) {
	role := pki.Role(req.Role)
	switch {
	case !role.Valid():
		return nil, problem.Invalid("%q is not a role: write one of %v", req.Role, pki.Roles())
	case !member.ValidName(req.Name):
		return nil, problem.Invalid("%q is not a machine's name: it has 1 to 63 letters, digits, '-', '_' or '.'", req.Name)
	case h.Credential == nil:
		return nil, problem.WrongState("this controller has no certificate authority")
	}
	x.About.Object = req.Role + "/" + req.Name
	digest := pki.SecretDigest(req.Secret)
	leads := h.Replica.Leading()
	known := h.Replica.View().Trust() // after leads: a leader's state has every token
	if !known.KnowsToken(digest) {
		if err := h.wrongSecret(x); err != nil {
			return nil, err
		}
		if leads { // an unknown token was never given out
			return nil, trust.ErrNoToken
		}
	}
	if !leads {
		return nil, x.Forward()
	}
	key, err := pki.RequestDigest([]byte(req.Request))
	if err != nil {
		return nil, problem.Invalid("%v", err)
	}
	if _, err := known.TokenFor(digest, req.Role, req.Name, key, h.Replica.Now(x.View)); err != nil {
		return nil, err
	}
	if err := h.nameTaken(x, role, req.Name); err != nil {
		return nil, err
	}
	if _, err := x.Propose(fsm.UseJoinToken{Digest: digest, Role: req.Role, Name: req.Name, Key: key}); err != nil {
		return nil, err
	}
	grant, err := h.Credential.Grant([]byte(req.Request), role, req.Name, h.seeds(x))
	if err != nil {
		return nil, problem.Invalid("%v", err)
	}
	from, _, _ := net.SplitHostPort(x.Request.RemoteAddr)
	h.Log.Info("machine joined", "role", req.Role, "name", req.Name, "from", from)
	return grant, nil
}

// nameTaken refuses a machine that would have the name of another one that is up.
func (h *Handlers) nameTaken(x *exchange.Exchange, role pki.Role, name string) error {
	switch role {
	case pki.Controller:
		if p, up := h.Peers.Find(name); up || name == h.Name {
			return problem.WrongState("controller %s is up at %s: choose another --name, or stop that one first", name, p.Raft)
		}
		if slices.ContainsFunc(h.Replica.Members(), func(m consensus.Member) bool { return m.Name == name }) {
			return problem.WrongState("controller %s has a vote, which is tied to its log: choose another --name. If its disk "+
				"is lost, run rota cluster remove %s first", name, name)
		}
	case pki.Node:
		if n, _ := x.View.Node(name); n != nil && n.State != model.NodeDown {
			return problem.WrongState("node %s is up at %s: choose another --name, or stop that one first and wait until "+
				"rota nodes shows it as down", name, n.Addr)
		}
	}
	return nil
}

// seeds are the gossip addresses of the controllers.
func (h *Handlers) seeds(x *exchange.Exchange) []string {
	addrs := []string{h.Gossip}
	for _, p := range h.Peers.All() {
		addrs = append(addrs, p.Addr)
	}
	slices.Sort(addrs)
	return addrs
}

// renewCertificate answers POST /v1/certificate: a member gets a new certificate of the role and
// name that its present one has.
func (h *Handlers) renewCertificate(x *exchange.Exchange, req *api.CertificateRequest) (*api.Certificate, error) {
	text, err := h.Credential.Renewal([]byte(req.Request),
		pki.Member{Role: pki.Role(x.Caller.Role), Name: x.Caller.From})
	if err != nil {
		return nil, problem.Invalid("%v", err)
	}
	return &api.Certificate{Cert: string(text)}, nil
}

// revoke answers POST /v1/members/{role}/{name}/revoke.
func (h *Handlers) revoke(x *exchange.Exchange) (*api.Revocation, error) {
	role, name := x.Request.PathValue("role"), x.Request.PathValue("name")
	switch {
	case !pki.Role(role).Valid():
		return nil, problem.Invalid("%q is not a role: write one of %v", role, pki.Roles())
	case !member.ValidName(name):
		return nil, problem.Invalid("%q is not a machine's name", name)
	case role == string(pki.Controller) && h.takesPart(x, name):
		return nil,
			problem.Invalid("controller %s is a member of the log: stop it, and remove it with rota cluster remove %s; then "+
				"revoke its certificates and replace the authority (rota cluster rotate-authority), because the controller has "+
				"the authority's key",
				name, name)
	}
	if _, err := x.Propose(fsm.RevokeCertificates{Role: role, Name: name}); err != nil {
		return nil, err
	}
	h.Log.Info("certificates revoked", "role", role, "name", name, "by", x.Caller.User.User)
	return &api.Revocation{Role: role, Name: name, Generation: x.View.Trust().Generation(role, name)}, nil
}

// takesPart reports whether a controller has a part in the log.
func (h *Handlers) takesPart(x *exchange.Exchange, name string) bool {
	return slices.ContainsFunc(slices.Concat(h.Replica.Members(), h.Replica.Learners()),
		func(m consensus.Member) bool { return m.Name == name })
}

// rotateGossipKey answers POST /v1/gossip-key/rotate.
func (h *Handlers) rotateGossipKey(x *exchange.Exchange) (*api.GossipKey, error) {
	if err := h.inStep(x); err != nil {
		return nil, err
	}
	if _, err := x.Propose(fsm.RotateGossipKey{Text: rand.Text(), Authority: h.Credential.Anchor()}); err != nil {
		return nil, err
	}
	h.Log.Info("replacement of the gossip key begins", "by", x.Caller.User.User)
	return presentGossipKey(x.View.Trust()), nil
}

// presentGossipKey says how far a change of the key of the gossip is.
func presentGossipKey(t *trust.Trust) *api.GossipKey {
	if t.Gossip == nil {
		return &api.GossipKey{}
	}
	return &api.GossipKey{Number: t.Gossip.Newest(), Phase: string(t.Gossip.Phase)}
}
