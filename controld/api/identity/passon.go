package identity

import (
	"net/http"
	"strings"

	"github.com/rota-hpc/rota/controld/api/pki"
)

// headerMember names the member that made a request which a controller passes on, as role/name.
const headerMember = "Rota-Member"

// headerOrigin says where a request came from that a controller passes on.
const headerOrigin = "Rota-Origin"

// NameOrigin has a controller say where a request came from that it passes on.
func NameOrigin(h http.Header, origin string) { h.Set(headerOrigin, origin) }

// PassOn makes a controller vouch for the caller of a request that it passes on to another
// controller. It names the user, and the member that sent the request.
func PassOn(h http.Header, c Caller) {
	Unvouch(h)
	switch {
	case c.Machine:
	case c.Job != 0:
		VouchInJob(h, c.User, c.Job)
	default:
		Vouch(h, c.User)
	}
	if !c.Machine {
		VouchGroup(h, c.Group.Name)
	}
	if c.Role != "" {
		h.Set(headerMember, c.Role+"/"+c.From)
	}
}

// passedOn takes over what a controller says of the origin of a request that it passes on: the
// member, and the place. The word of a node or of a login node is not taken.
func (c *Caller) passedOn(h http.Header) {
	if c.Role != string(pki.Controller) {
		return
	}
	c.Origin = h.Get(headerOrigin)
	if role, name, ok := strings.Cut(h.Get(headerMember), "/"); ok {
		c.Role, c.From = role, name
	}
}
