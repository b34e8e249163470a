package identity

import (
	"net/http"
	"strings"

	"github.com/rota-hpc/rota/controld/api/pki"
)

// headerMember names the member that made a request which a controller passes on, as role/name.
const headerMember = "Rota-Member"

// PassOn has a controller vouch for the caller of a request that it passes on to another
// controller: for the user, and for the member that the request came from.
func PassOn(h http.Header, c Caller) {
	Unvouch(h)
	if !c.Machine {
		Vouch(h, c.User)
	}
	if c.Role != "" {
		h.Set(headerMember, c.Role+"/"+c.From)
	}
}

// passedOn takes over the member that a controller names as the origin of a request. The word of a
// node or of a login node is not taken.
func (c *Caller) passedOn(h http.Header) {
	role, name, ok := strings.Cut(h.Get(headerMember), "/")
	if ok && c.Role == string(pki.Controller) {
		c.Role, c.From = role, name
	}
}
