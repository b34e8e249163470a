package fsm

import (
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/trust"
)

// KindRevokeCertificates is the kind of [RevokeCertificates].
var KindRevokeCertificates = newKind("revoke-certificates/1")

// RevokeCertificates has the controllers refuse every certificate that was issued to a role and name
// so far. The machine may join again with a token.
type RevokeCertificates struct {
	Role string `json:"role"` // controller, node or login
	Name string `json:"name"` // name of the machine
}

// Kind implements Command.
func (RevokeCertificates) Kind() Kind { return KindRevokeCertificates }

// apply raises the generation of certificates that are good.
func (c RevokeCertificates) apply(m *Machine) (any, error) {
	t := *m.v.Trust()
	t.Revoked = slices.Clone(t.Revoked)
	i := slices.IndexFunc(t.Revoked, func(r trust.Revocation) bool { return r.Role == c.Role && r.Name == c.Name })
	if i < 0 {
		if err := model.Limit("members with revoked certificates", int64(len(t.Revoked))+1, trust.MaxRevocations,
			""); err != nil {
			return nil, err
		}
		i = len(t.Revoked)
		t.Revoked = append(t.Revoked, trust.Revocation{Role: c.Role, Name: c.Name})
	}
	t.Revoked[i].Generation++
	m.s.SetTrust(&t)
	return nil, nil
}
