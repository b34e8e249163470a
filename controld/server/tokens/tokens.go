// Package tokens answers requests about API tokens.
package tokens

import (
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/replica"
)

// Handlers answers requests about API tokens.
type Handlers struct {
	Replica *replica.Replica
	Users   *identity.Users
	Groups  *identity.Groups
}
