package members

import (
	"crypto/rand"
	"slices"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// getAuthority answers GET /v1/authority: what a member is to trust.
func (h *Handlers) getAuthority(x *exchange.Exchange) (*api.Authority, error) {
	if h.Credential == nil {
		return nil, problem.WrongState("this controller has no certificate authority")
	}
	return &api.Authority{Trusted: h.Credential.Trusted(), Index: x.View.Index()}, nil
}

// replaceAuthority answers POST /v1/authority/rotate. The new authority's key is on this controller's disk
// before the log names the authority.
func (h *Handlers) replaceAuthority(x *exchange.Exchange) (*api.AuthorityChange, error) {
	if err := h.inStep(x); err != nil {
		return nil, err
	}
	if a := x.View.Trust().Authority; a != nil && a.Phase == trust.AuthorityIssues {
		return nil, trust.ErrAuthority
	}
	succession := h.Credential.Trusted().Succession
	if !h.takesUp(x) {
		var err error
		if succession, err = h.Credential.NewSuccessor(); err != nil {
			return nil, err
		}
	}
	if _, err := x.Propose(fsm.ReplaceAuthority{Succession: succession}); err != nil {
		return nil, err
	}
	h.Log.Info("replacement of the authority begins", "by", x.Caller.User.User)
	return h.presentAuthority(x), nil
}

// finishAuthority answers POST /v1/authority/finish. Without a certificate of the new authority a controller
// could not reach the others, so that all must have theirs.
func (h *Handlers) finishAuthority(x *exchange.Exchange) (*api.AuthorityChange, error) {
	a := x.View.Trust().Authority
	if a == nil || a.Phase != trust.AuthorityIssues {
		return nil, problem.WrongState("no replacement of the authority is in phase %q, which is the phase that finish "+
			"ends: see rota cluster", trust.AuthorityIssues)
	}
	controllers, machines := h.Lacking(x.Context(), x.View)
	if len(controllers) > 0 {
		return nil, problem.WrongState("%s has no certificate of the new authority yet, so it still needs the old one to "+
			"reach the others: start it, or remove it for good with rota cluster remove", controllers[0])
	}
	if _, err := x.Propose(fsm.AdvanceAuthority{Number: a.Number, Phase: a.Phase,
		Gossip: fsm.RotateGossipKey{Text: rand.Text(), Authority: pki.NameOfNext(a.Succession)}}); err != nil {
		return nil, err
	}
	h.Log.Info("the old authority is no longer trusted", "by", x.Caller.User.User, "machines_without", len(machines))
	out := &api.AuthorityChange{Number: a.Number}
	out.Lacking, out.More = first(machines)
	return out, nil
}

// inStep refuses while this controller does not yet follow what the log says of the authority.
func (h *Handlers) inStep(x *exchange.Exchange) error {
	if h.Credential == nil {
		return problem.WrongState("this controller has no certificate authority")
	}
	a := x.View.Trust().Authority
	if two := h.Credential.Authorities() > 1; two != (a != nil && a.Phase != trust.AuthorityDone) && !h.takesUp(x) {
		return trust.ErrAuthority
	}
	return nil
}

// takesUp reports whether this controller trusts two authorities of which the log says nothing: a state was
// restored that is older than its keys. Their replacement is begun again, so that no machine is locked out.
func (h *Handlers) takesUp(x *exchange.Exchange) bool {
	a, told := x.View.Trust().Authority, h.Credential.Trusted().Succession
	return h.Credential.Authorities() > 1 && h.Credential.HasKeyOf(told) &&
		(a == nil || a.Phase == trust.AuthorityDone && a.Succession != told)
}

// presentAuthority says how far a replacement of the authority is; nil if none is going on.
func (h *Handlers) presentAuthority(x *exchange.Exchange) *api.AuthorityChange {
	a := x.View.Trust().Authority
	if a == nil || a.Phase == trust.AuthorityDone {
		return nil
	}
	out := &api.AuthorityChange{Number: a.Number, Phase: string(a.Phase)}
	if h.Lacking != nil {
		controllers, machines := h.Lacking(x.Context(), x.View)
		out.Lacking, out.More = first(slices.Concat(controllers, machines))
	}
	return out
}

// first returns the members that an answer names, and how many more there are.
func first(list []string) (named []string, more int) {
	return list[:min(len(list), api.MaxLacking)], max(len(list)-api.MaxLacking, 0)
}

// internalAuthorityKey hands the key of an authority to another controller. One that has no part in the log,
// or no longer has, gets none.
func (h *Handlers) internalAuthorityKey(x *exchange.Exchange) (any, error) {
	if !h.takesPart(x, x.Caller.From) {
		return nil, problem.WrongState("controller %s is not a member of the log, so it gets no key", x.Caller.From)
	}
	key, err := h.Credential.KeyOf(x.Request.URL.Query().Get("authority"))
	if err == nil && key != "" {
		h.Log.Info("sent the key of the new authority to a controller", "controller", x.Caller.From)
	}
	return key, err
}
