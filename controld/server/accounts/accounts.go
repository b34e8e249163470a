// Package accounts answers what accounts and users hold, and what they should hold.
package accounts

import "github.com/rota-hpc/rota/controld/replica"

// Handlers answers requests about accounts.
type Handlers struct{ Replica *replica.Replica }
