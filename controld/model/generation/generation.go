// Package generation numbers the lives of a cluster. Each recovery from one survivor and each restore
// of a backup begins a new life. The nodes have to accept it before jobs start.
package generation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
)

// Generation numbers the lives of a cluster. A new cluster has generation 0. rota-controld recover and
// rota-controld restore raise the number and draw an ID, so that two controllers that both recover
// have generations that differ. The zero value is generation 0.
type Generation struct {
	Number int64  `json:"number"`
	ID     string `json:"id,omitempty"` // 16 hexadecimal digits; "" for number 0
}

// String returns the generation as NUMBER-ID, or "0".
func (g Generation) String() string {
	if g.ID == "" {
		return strconv.FormatInt(g.Number, 10)
	}
	return strconv.FormatInt(g.Number, 10) + "-" + g.ID
}

// ParseGeneration reads what String returns. Empty text is generation 0.
func ParseGeneration(text string) (Generation, error) {
	if text == "" || text == "0" {
		return Generation{}, nil
	}
	number, id, _ := strings.Cut(text, "-")
	n, err := strconv.ParseInt(number, 10, 64)
	g := Generation{n, id}
	if err != nil || !g.Valid() || g.String() != text {
		return Generation{}, fmt.Errorf("%q is not a generation: write NUMBER-ID, such as 1-0123456789abcdef", text)
	}
	return g, nil
}

// Valid reports whether g is generation 0 or has a number and an ID.
func (g Generation) Valid() bool {
	if g.Number == 0 {
		return g.ID == ""
	}
	return g.Number > 0 && len(g.ID) == generationDigits && strings.Trim(g.ID, "0123456789abcdef") == ""
}

const generationDigits = 16

// Outranks reports whether a machine that has accepted generation old may follow g: the number is
// higher. Of two generations with one number the first that it meets counts.
func (g Generation) Outranks(old Generation) bool { return g.Number > old.Number }

// Recovery says how the present generation of a cluster began. A *Recovery never changes once it is
// stored. Its zero value is that of generation 0.
type Recovery struct {
	Generation Generation  `json:"generation"`
	Means      string      `json:"means"`      // [MeansRecover] or [MeansRestore]
	Controller string      `json:"controller"` // that became a cluster of one
	Raised     model.Stamp `json:"raised"`
	// Before is the last job id that was given before. Later ids begin [IDGap] after it, since
	// others may have been given by controllers that are gone.
	Before model.JobID `json:"before"`
	// Settled is when a majority of the nodes had accepted the generation and reported their
	// attempts. While it is 0, jobs can neither be submitted nor changed nor started.
	Settled model.Instant `json:"settled,omitempty"`
	// OldJobsAt is when jobs from before may start: at Settled if every node had reported, else when
	// the leases of the others have ended.
	OldJobsAt model.Instant `json:"old_jobs_at,omitempty"`
	Accepted  []string      `json:"accepted,omitempty"` // names of nodes, in order
	// Ran are attempts that nodes have reported and the state does not know, by job.
	Ran []RanAttempt `json:"ran,omitempty"`
	// Unknown counts the jobs that nodes have reported and the state does not know.
	Unknown int `json:"unknown,omitempty"`
}

// RanAttempt is the highest attempt of a job that nodes know of.
type RanAttempt struct {
	Job     model.JobID `json:"job"`
	Attempt int         `json:"attempt"`
	Node    string      `json:"node"` // that reported it
}

// How a generation began.
const (
	MeansRecover = "recover" // one survivor was made a cluster of one
	MeansRestore = "restore" // a backup was
)

// IDGap is how many job ids are left out when a generation begins: more than a cluster gives
// between two daily backups.
const IDGap = 1_000_000

// Holds reports whether jobs can be neither submitted nor changed nor started yet.
func (r *Recovery) Holds() bool { return r.Generation.Number > 0 && r.Settled == 0 }

// Accepts reports whether a node has accepted the generation. Generation 0 needs no acceptance.
func (r *Recovery) Accepts(node string) bool {
	if r.Generation.Number == 0 {
		return true
	}
	_, ok := slices.BinarySearch(r.Accepted, node)
	return ok
}

// RanOf returns the highest attempt of a job that nodes have reported; its Attempt is 0 if the
// state knew of all.
func (r *Recovery) RanOf(id model.JobID) RanAttempt {
	if i, ok := r.find(id); ok {
		return r.Ran[i]
	}
	return RanAttempt{}
}

func (r *Recovery) find(id model.JobID) (int, bool) {
	return slices.BinarySearchFunc(r.Ran, id, func(a RanAttempt, id model.JobID) int { return cmp.Compare(a.Job, id) })
}

// WithRan returns a copy of r that knows of an attempt.
func (r *Recovery) WithRan(a RanAttempt) *Recovery {
	next := *r
	next.Ran = slices.Clone(r.Ran)
	i, ok := next.find(a.Job)
	switch {
	case !ok:
		next.Ran = slices.Insert(next.Ran, i, a)
	case next.Ran[i].Attempt < a.Attempt:
		next.Ran[i] = a
	}
	return &next
}

// Newer reports whether a job id may have been given by controllers that are gone: the state knows
// nothing of it.
func (r *Recovery) Newer(id model.JobID) bool {
	return r.Generation.Number > 0 && id > r.Before && id <= r.Before+IDGap
}

// Majority is how many of n nodes must accept a generation.
func Majority(n int) int { return n/2 + 1 }

// Check says what is wrong with r, which was read from a snapshot.
func (r *Recovery) Check() error {
	if !r.Generation.Valid() || r.Means != MeansRecover && r.Means != MeansRestore || !slices.IsSorted(r.Accepted) ||
		!slices.IsSortedFunc(r.Ran, func(a, b RanAttempt) int { return cmp.Compare(a.Job, b.Job) }) {
		return fmt.Errorf("generation %s: %w", r.Generation, model.ErrSnapshot)
	}
	return nil
}

// Refusals about generations.
var (
	ErrGeneration = errors.New("another generation of the cluster")
	ErrUnsettled  = errors.New("the cluster was recovered or restored: no job is submitted, changed or started until a " +
		"majority of its nodes has accepted that; rota doctor names the missing nodes")
)
