package access

import (
	"errors"
	"fmt"
	"slices"
)

// Subject is what a route is about: it says which callers are its owner, coordinator or the node
// itself.
type Subject int

// Subjects of routes.
const (
	TheCluster Subject = iota // no job or node in particular
	OneJob                    // the job that {id} of the path names
	ManyJobs                  // each job that the request selects, or the answer shows
	Accounts                  // each account that the answer shows
	OneNode                   // the node that {name} of the path names
)

// Rule says which roles may use a route. The zero rule allows nothing, and no route may have it.
type Rule struct {
	Roles Role
	About Subject
	// Private has the words of the configuration's list private that take the route away from
	// users without another role.
	Private []string
	// Parts are for fewer roles than the route as a whole.
	Parts []*Part
}

// Part is something that a route does, or shows, only for some of the roles that may use it.
type Part struct {
	Name    string // for the table of permissions
	Roles   Role
	Private []string // as in Rule
}

// With returns the rule with more parts.
func (r Rule) With(parts ...*Part) Rule {
	r.Parts = append(slices.Clone(r.Parts), parts...)
	return r
}

// Check returns why a rule cannot be right, or nil.
func (r *Rule) Check() error {
	if r.Roles == 0 {
		return errors.New("it has no rule")
	}
	if !r.About.Has(Owner) && r.Roles&Owner != 0 || !r.About.Has(Coordinator) && r.Roles&Coordinator != 0 {
		return fmt.Errorf("its subject has none of: %s", r.Roles&(Owner|Coordinator))
	}
	for _, p := range r.Parts {
		if p.Roles == 0 || p.Name == "" {
			return fmt.Errorf("its part %q has no rule", p.Name)
		}
	}
	return nil
}

// Has reports whether a caller can have the role because of what a route is about.
func (s Subject) Has(r Role) bool {
	switch r {
	case Owner:
		return s == OneJob || s == ManyJobs
	case Coordinator:
		return s == OneJob || s == ManyJobs || s == Accounts
	}
	return true
}

// Allows reports whether a caller with these roles may use the route. private is the list of the
// configuration.
func (r *Rule) Allows(has Role, private []string) bool {
	return allows(r.Roles, has, r.Private, private)
}

// Allows reports whether a part is allowed to a caller with these roles, in a rule that has it.
func (p *Part) Allows(has Role, private []string) bool {
	return allows(p.Roles, has, p.Private, private)
}

// AllowsPart reports whether a caller with these roles may use a part. A part that the rule does
// not have is allowed to no caller.
func (r *Rule) AllowsPart(p *Part, has Role, private []string) bool {
	return slices.Contains(r.Parts, p) && p.Allows(has, private)
}

// allows reports whether one of the roles is allowed. Private routes are private to users and to
// unknown callers.
func allows(allowed, has Role, words, private []string) bool {
	if slices.ContainsFunc(words, func(w string) bool { return slices.Contains(private, w) }) {
		allowed &^= User | Local | Anyone
	}
	return allowed&has != 0
}
