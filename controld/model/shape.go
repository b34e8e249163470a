package model

import (
	"github.com/rota-hpc/rota/jobspec"
)

// Shape is what is alike in jobs that fit or fail together on the same nodes.
type Shape struct {
	Request     Request
	Workers     int
	PerNode     int    // workers that may share a node
	Constraints string `json:",omitempty"` // which nodes will do: see View.Eligible; "" all
	Affinities  string `json:",omitempty"` // which of them are better: see View.Preferred; "" none
	// of a gang of several groups: the shapes of the others, in order; see Shape.Each
	Parts string `json:",omitempty"`
}

// GroupKey is what the jobs of a group have in common.
type GroupKey struct {
	Account  string
	User     string
	Class    jobspec.Class
	Priority int
	Shape    Shape
	Held     bool   // so that a cycle passes over any number of held jobs at once
	Level    int    // see [Job.Level]
	Licenses string // what they hold while they run, see [jobspec.LicenseText]
	Queue    string `json:",omitempty"` // "" unless limits of the queue count them
}

// IsSetAside reports whether a waiting job cannot start whatever room there is.
func IsSetAside(j *Job) bool {
	return j.Hold != NotHeld || j.Blocked() || j.Children != nil && len(j.Ready()) == 0
}

// WantsRoom reports whether a job, which may be nil, still waits for room that is made for it.
func WantsRoom(j *Job) bool { return j != nil && j.StillToStart() && !IsSetAside(j) }

// PerNode returns how many workers of a job may share a node, at least 1.
func PerNode(j *Job) int { return max(1, j.GroupSpec().MaxWorkersPerNode) }

// Association returns the account and the user.
func (k *GroupKey) Association() Association { return Association{k.Account, k.User} }
