package server

import (
	"crypto/rand"
	"slices"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// getAuthority answers GET /v1/authority: what a member is to trust.
func getAuthority(x *exchange) (*api.Authority, error) {
	if x.s.Credential == nil {
		return nil, problem.WrongState("this controller has no certificate authority")
	}
	return &api.Authority{Trusted: x.s.Credential.Trusted(), Index: x.view.Index()}, nil
}

// replaceAuthority answers POST /v1/authority/rotate. The new authority's key is on this controller's disk
// before the log names the authority.
func replaceAuthority(x *exchange) (*api.AuthorityChange, error) {
	if err := x.inStep(); err != nil {
		return nil, err
	}
	if a := x.view.Trust().Authority; a != nil && a.Phase == trust.AuthorityIssues {
		return nil, trust.ErrAuthority
	}
	succession := x.s.Credential.Trusted().Succession
	if !x.takesUp() {
		var err error
		if succession, err = x.s.Credential.NewSuccessor(); err != nil {
			return nil, err
		}
	}
	if _, err := x.propose(fsm.ReplaceAuthority{Succession: succession}); err != nil {
		return nil, err
	}
	x.s.Log.Info("replacement of the authority begins", "by", x.caller.User.User)
	return x.presentAuthority(), nil
}

// finishAuthority answers POST /v1/authority/finish. Without a certificate of the new authority a controller
// could not reach the others, so that all must have theirs.
func finishAuthority(x *exchange) (*api.AuthorityChange, error) {
	a := x.view.Trust().Authority
	if a == nil || a.Phase != trust.AuthorityIssues {
		return nil, problem.WrongState("no replacement of the authority is in the phase %q, which finish ends: see rota "+
			"cluster", trust.AuthorityIssues)
	}
	controllers, machines := x.s.Lacking(x.ctx(), x.view)
	if len(controllers) > 0 {
		return nil, problem.WrongState("%s has no certificate of the new authority yet, and needs the old one to reach the "+
			"others: start it, or remove it for good with rota cluster remove", controllers[0])
	}
	if _, err := x.propose(fsm.AdvanceAuthority{Number: a.Number, Phase: a.Phase,
		Gossip: fsm.RotateGossipKey{Text: rand.Text(), Authority: pki.NameOfNext(a.Succession)}}); err != nil {
		return nil, err
	}
	x.s.Log.Info("the old authority is no longer trusted", "by", x.caller.User.User, "machines_without", len(machines))
	out := &api.AuthorityChange{Number: a.Number}
	out.Lacking, out.More = first(machines)
	return out, nil
}

// inStep refuses while this controller does not yet follow what the log says of the authority.
func (x *exchange) inStep() error {
	if x.s.Credential == nil {
		return problem.WrongState("this controller has no certificate authority")
	}
	a := x.view.Trust().Authority
	if two := x.s.Credential.Authorities() > 1; two != (a != nil && a.Phase != trust.AuthorityDone) && !x.takesUp() {
		return trust.ErrAuthority
	}
	return nil
}

// takesUp reports whether this controller trusts two authorities of which the log says nothing: a state was
// restored that is older than its keys. Their replacement is begun again, so that no machine is locked out.
func (x *exchange) takesUp() bool {
	a, told := x.view.Trust().Authority, x.s.Credential.Trusted().Succession
	return x.s.Credential.Authorities() > 1 && x.s.Credential.HasKeyOf(told) &&
		(a == nil || a.Phase == trust.AuthorityDone && a.Succession != told)
}

// presentAuthority says how far a replacement of the authority is; nil if none is going on.
func (x *exchange) presentAuthority() *api.AuthorityChange {
	a := x.view.Trust().Authority
	if a == nil || a.Phase == trust.AuthorityDone {
		return nil
	}
	out := &api.AuthorityChange{Number: a.Number, Phase: string(a.Phase)}
	if x.s.Lacking != nil {
		controllers, machines := x.s.Lacking(x.ctx(), x.view)
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
func internalAuthorityKey(x *exchange) (any, error) {
	if !x.takesPart(x.caller.From) {
		return nil, problem.WrongState("controller %s has no part in the log: it gets no key", x.caller.From)
	}
	key, err := x.s.Credential.KeyOf(x.r.URL.Query().Get("authority"))
	if err == nil && key != "" {
		x.s.Log.Info("the key of the new authority was handed to a controller", "controller", x.caller.From)
	}
	return key, err
}
