package controld

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/member"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/peers"
)

// authorityLook is how often a controller tries again to follow a replacement of the authority.
const authorityLook = time.Second

// followAuthority has this controller follow a replacement of the authority. It gets the new authority's key, issues
// certificates with it, and trusts the old authority no more. Other members ask the controllers.
func (d *daemon) followAuthority(ctx context.Context) error {
	var followed *trust.AuthorityChange
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, authorityLook)
		v, _, err := d.replica.Until(wait, func(v *state.View) bool { return v.Trust().Authority != followed }, nil)
		cancel()
		if err != nil {
			continue // it is looked at again
		}
		a := v.Trust().Authority
		if a == nil {
			followed = nil
			continue
		}
		if err := d.succeed(ctx, a); err != nil {
			d.log.Warn("cannot take part in the replacement of the authority; trying again",
				"phase", string(a.Phase), "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(authorityLook):
			}
			continue
		}
		followed = a
		d.log.Info("replacement of the authority", "number", a.Number, "phase", string(a.Phase))
	}
	return nil
}

// succeed follows a replacement to its phase.
func (d *daemon) succeed(ctx context.Context, a *trust.AuthorityChange) error {
	stage := pki.StageAlone
	switch a.Phase {
	case trust.AuthorityTrusted:
		stage = pki.StageTrusted
	case trust.AuthorityIssues:
		stage = pki.StageIssues
	}
	anchor := d.credential.Anchor()
	if err := d.credential.Succeed(a.Succession, stage); err != nil {
		return err
	}
	if !d.credential.HasKeyOf(a.Succession) {
		if err := d.fetchAuthorityKey(ctx, a.Succession); err != nil {
			return err
		}
		if err := d.credential.Succeed(a.Succession, stage); err != nil {
			return err
		}
	}
	if d.credential.Anchor() != anchor {
		return d.gossip.Resign()
	}
	return nil
}

// fetchAuthorityKey asks the other controllers for the key of the new authority.
func (d *daemon) fetchAuthorityKey(ctx context.Context, succession string) error {
	errs := []error{errors.New("no other controller has sent the key of the new authority")}
	for _, p := range d.peers.All() {
		key, err := d.peers.AuthorityKey(ctx, p, pki.NameOfNext(succession))
		if err == nil && key != "" {
			err = d.credential.AddKey(succession, key)
			if err == nil {
				return nil
			}
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// authorityState says of which authority this controller has the key, and a certificate.
func (d *daemon) authorityState() (key int64, issuer string) {
	if a := d.replica.View().Trust().Authority; a != nil && d.credential.HasKeyOf(a.Succession) {
		key = a.Number
	}
	return key, d.credential.Issuer()
}

// lacking returns the members that the next phase of a replacement waits for, as ROLE/NAME. They
// are controllers without the new key or, later, members without a certificate of the new
// authority. A controller that is down counts.
func (d *daemon) lacking(ctx context.Context, v *state.View) (controllers, machines []string) {
	a := v.Trust().Authority
	for _, m := range slices.Concat(d.replica.Members(), d.replica.Learners()) {
		if err := d.hasAuthority(ctx, m, a); err != nil {
			controllers = append(controllers, string(pki.Controller)+"/"+m.Name)
		}
	}
	if a.Phase != trust.AuthorityIssues {
		return controllers, nil
	}
	for _, n := range v.Nodes() {
		revoked := n.State == model.NodeDown && v.Trust().Generation(string(pki.Node), n.Name) > 0
		if !revoked && !d.credential.Renewed(pki.Node, n.Name) {
			machines = append(machines, string(pki.Node)+"/"+n.Name)
		}
	}
	for _, m := range d.credential.Older() {
		if name := string(m.Role) + "/" + m.Name; m.Role != pki.Controller && !slices.Contains(machines, name) {
			machines = append(machines, name)
		}
	}
	slices.Sort(machines)
	return controllers, machines
}

// hasAuthority reports why a controller is not ready for the next phase of a replacement.
func (d *daemon) hasAuthority(ctx context.Context, m consensus.Member, a *trust.AuthorityChange) error {
	s := peers.State{}
	if m.Name == d.cfg.Name {
		s.AuthorityKey, s.Issuer = d.authorityState()
	} else {
		p, up := d.peers.Find(m.Name)
		if !up {
			return fmt.Errorf("controller %s does not answer", m.Name)
		}
		var err error
		if s, err = d.stateOf(ctx, p); err != nil {
			return err
		}
	}
	if s.AuthorityKey != a.Number || a.Phase == trust.AuthorityIssues && s.Issuer != pki.NameOfNext(a.Succession) {
		return fmt.Errorf("controller %s has not finished this phase", m.Name)
	}
	return nil
}

func (d *daemon) stateOf(ctx context.Context, p member.Peer) (peers.State, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return d.peers.StateOf(ctx, p)
}
