// Package access decides which callers may do what. It has the roles of a caller, the rule of a
// route, and the table of all rules.
//
// It decides and knows no request. Package server says which roles a caller has, registers each
// route with its rule, and enforces the rules in one place.
package access

import "strings"

// Role is what a caller is to a request. Several roles together are a set.
type Role uint16

// Roles. An authenticated user has role User, and more roles as they apply. A member of the cluster
// that asks for itself has the role of its certificate alone.
const (
	Owner       Role = 1 << iota // of the job
	Coordinator                  // of the job's account, or of an account above it
	Operator                     // as configured
	Admin                        // as configured, and root of a controller's machine; has role Operator too
	User                         // any authenticated user
	Node                         // a node daemon; where a path names a node, only that node
	Login                        // the daemon of a login node
	Controller                   // a control daemon
	Local                        // not authenticated, from a loopback address or a unix socket
	Anyone                       // not authenticated

	// Members are the daemons of the cluster.
	Members = Node | Login | Controller
)

// names are those of the roles, in the order of the table of permissions.
var names = []struct {
	role Role
	name string
}{
	{Owner, "owner"},
	{Coordinator, "coordinator"},
	{Operator, "operator"},
	{Admin, "admin"},
	{User, "user"},
	{Node, "node"},
	{Login, "login"},
	{Controller, "controller"},
	{Local, "unauthenticated, loopback"},
	{Anyone, "unauthenticated"},
}

// String names the roles of a set.
func (r Role) String() string {
	var text []string
	for _, n := range names {
		if r&n.role != 0 {
			text = append(text, n.name)
		}
	}
	return strings.Join(text, ", ")
}
