package fields

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/ncruces/go-strftime"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
)

// Source is what the rows of a command have in common.
type Source struct {
	Cluster string
	Past    bool   // it is sacct: ended jobs too
	Never   string // what is written for a time that has not come
	Exact   bool   // sizes stay in the unit in which Slurm keeps them
	Unit    string // one of [Units]: sizes are in it; "": in the largest that leaves a whole number
	Now     time.Time
	format  string            // of times, as for strftime; "": as Slurm writes them
	groups  map[uint32]string // names by their numbers
}

// NewSource returns a source for a command.
func NewSource(env *command.Env) (*Source, error) {
	s := &Source{Now: env.Now(), Never: "N/A", groups: map[uint32]string{}}
	switch format := env.Getenv("SLURM_TIME_FORMAT"); format {
	case "", "standard":
	case "relative":
		return nil,
			errors.New("SLURM_TIME_FORMAT=relative is not supported: standard, or a format of strftime such as %s, is")
	default:
		s.format = format
	}
	return s, nil
}

// when writes a time as Slurm does.
func (s *Source) when(t *api.Time) string {
	switch {
	case t == nil || t.IsZero():
		return s.Never
	case s.format != "":
		return strftime.Format(s.format, t.Local())
	}
	return show.Time(t, false)
}

// stamp is a time in JSON: seconds since 1970, 0 for none.
func (s *Source) stamp(t *api.Time) any {
	var at int64
	if t != nil && !t.IsZero() {
		at = t.Unix()
	}
	if s.Past {
		return at
	}
	return number{Set: true, Number: at}
}

// groupName returns the name of a Unix group, its number if this machine does not know it.
func (s *Source) groupName(gid uint32) string {
	name, known := s.groups[gid]
	if !known {
		name = strconv.Itoa(int(gid))
		if g, err := user.LookupGroupId(name); err == nil {
			name = g.Name
		}
		s.groups[gid] = name
	}
	return name
}

// size writes a size in the unit that was asked for.
func (s *Source) size(b jobspec.Bytes) string {
	switch {
	case s.Unit != "":
		return inUnit(b, s.Unit)
	case s.Exact:
		return fmt.Sprintf("%dM", b/jobspec.MiB)
	}
	return memory(b)
}

// peak writes what memory was used, which sacct counts in KiB.
func (s *Source) peak(b jobspec.Bytes) string {
	if s.Unit != "" {
		return inUnit(b, s.Unit)
	}
	if n := b / jobspec.KiB; s.Exact || n%1024 != 0 {
		return fmt.Sprintf("%dK", n)
	}
	return memory(b)
}

// PeakOrNone is peak, and "" of what is not known.
func (s *Source) PeakOrNone(b jobspec.Bytes) string {
	if b == 0 {
		return ""
	}
	return s.peak(b)
}

// Units are the letters of sizes, by powers of 1024.
const Units = "KMGTP"

// inUnit writes a size in a unit, with two decimals if it is no whole number of it.
func inUnit(b jobspec.Bytes, unit string) string {
	one := jobspec.Bytes(1) << (10 * (strings.Index(Units, unit) + 1))
	if b%one == 0 {
		return fmt.Sprintf("%d%s", b/one, unit)
	}
	return fmt.Sprintf("%.2f%s", float64(b)/float64(one), unit)
}
