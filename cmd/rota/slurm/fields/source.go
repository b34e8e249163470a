package fields

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ncruces/go-strftime"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/directory"
	"github.com/rota-hpc/rota/jobspec"
)

// Source holds the settings that all rows of a command share.
type Source struct {
	Cluster string
	Past    bool   // set for sacct, which also lists ended jobs
	Never   string // text for an unset time
	Exact   bool   // sizes stay in the unit that Slurm stores
	Unit    string // one of [Units]; "": the largest unit that gives a whole number
	Now     time.Time
	format  string            // of times, a strftime format; "": Slurm's format
	groups  map[uint32]string // cached group names by group id
}

// NewSource returns a source for a command.
func NewSource(env *command.Env) (*Source, error) {
	s := &Source{Now: env.Now(), Never: "N/A", groups: map[uint32]string{}}
	switch format := env.Getenv("SLURM_TIME_FORMAT"); format {
	case "", "standard":
	case "relative":
		return nil,
			errors.New("SLURM_TIME_FORMAT=relative is not supported: use standard, or a format of strftime such as %s")
	default:
		s.format = format
	}
	return s, nil
}

// when formats a time as Slurm does.
func (s *Source) when(t *api.Time) string {
	switch {
	case t == nil || t.IsZero():
		return s.Never
	case s.format != "":
		return strftime.Format(s.format, t.Local())
	}
	return show.Time(t, false)
}

// stamp returns a time for JSON: seconds since 1970, 0 for an unset time.
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

// groupName returns the name of a Unix group, or its number if this machine does not know it.
func (s *Source) groupName(gid uint32) string {
	name, known := s.groups[gid]
	if !known {
		name = strconv.Itoa(int(gid))
		if g, err := directory.Machine.GroupByID(gid); err == nil {
			name = g.Name
		}
		s.groups[gid] = name
	}
	return name
}

// size formats a size in the requested unit.
func (s *Source) size(b jobspec.Bytes) string {
	switch {
	case s.Unit != "":
		return inUnit(b, s.Unit)
	case s.Exact:
		return fmt.Sprintf("%dM", b/jobspec.MiB)
	}
	return memory(b)
}

// peak formats peak memory; sacct counts it in KiB.
func (s *Source) peak(b jobspec.Bytes) string {
	if s.Unit != "" {
		return inUnit(b, s.Unit)
	}
	if n := b / jobspec.KiB; s.Exact || n%1024 != 0 {
		return fmt.Sprintf("%dK", n)
	}
	return memory(b)
}

// PeakOrNone is peak, or "" if the value is unknown.
func (s *Source) PeakOrNone(b jobspec.Bytes) string {
	if b == 0 {
		return ""
	}
	return s.peak(b)
}

// Units are the unit letters of sizes, by powers of 1024.
const Units = "KMGTP"

// inUnit formats a size in a unit, with two decimals if it is no whole number.
func inUnit(b jobspec.Bytes, unit string) string {
	one := jobspec.Bytes(1) << (10 * (strings.Index(Units, unit) + 1))
	if b%one == 0 {
		return fmt.Sprintf("%d%s", b/one, unit)
	}
	return fmt.Sprintf("%.2f%s", float64(b)/float64(one), unit)
}
