package trace

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace/field"
)

// Format is the format of a trace file.
type Format string

// The formats that [Read] knows. The package's documentation describes each.
const (
	FitGpp    Format = "fitgpp"
	Philly    Format = "philly"
	SWF       Format = "swf"
	OpenB     Format = "openb"
	Sia       Format = "sia"
	Tiresias  Format = "tiresias"
	History   Format = "history"
	Generated Format = "generated" // not of a file
)

// Formats are the formats of files, in the order in which users see them.
var Formats = []Format{FitGpp, Philly, SWF, OpenB, Sia, Tiresias, History}

// Bounds of one trace.
const (
	MaxJobs        = model.MaxJobs // more would not fit into a cluster's state
	MaxSkippedKept = 1000          // of Trace.Skipped; the others are only counted
	maxShown       = 160           // bytes of a bad line that are kept
)

// ErrNoJobs says that no job could be read from an input.
var ErrNoJobs = errors.New("no job in the trace")

// ErrNoProfiles says that the measured speeds of a sia workload are missing.
var ErrNoProfiles = errors.New("measured speeds of its applications are missing")

// ErrFormat says that the format of an input is unknown.
var ErrFormat = errors.New("the format is unknown (known: fitgpp, philly, swf, openb, sia, tiresias, history)")

// Line is a line of the input that was left out.
type Line struct {
	N    int    // from 1
	Text string // its beginning
	Why  string
}

// String returns the line as users see it.
func (l Line) String() string { return fmt.Sprintf("line %d: %s: %s", l.N, l.Why, l.Text) }

// Trace is a workload: jobs in the order of their arrival. Jobs that arrive together are in the
// order of the file.
type Trace struct {
	Name    string // of the file or the generator
	Format  Format
	Epoch   model.UnixMS // wall-clock time of Submit 0, for display; 0: unknown; local times are taken as they stand
	Jobs    []Job
	Skipped []Line // at most MaxSkippedKept
	Bad     int    // lines left out, kept in Skipped or not
	Seed    uint64 // of a generated trace
}

// skip counts a line that was left out, and keeps it while there are few.
func (t *Trace) skip(n int, text, why string) {
	t.Bad++
	if len(t.Skipped) >= MaxSkippedKept {
		return
	}
	t.Skipped = append(t.Skipped, Line{n, strings.Map(shown, field.ShortenTo(text, maxShown)), why})
}

// shown replaces characters of a bad line that could move a terminal's cursor.
func shown(r rune) rune {
	switch {
	case unicode.IsPrint(r):
		return r
	case r == '\t':
		return ' '
	}
	return '?'
}

// Accounts are the accounts of the jobs, each once, sorted.
func (t *Trace) Accounts() []string {
	seen := map[string]bool{}
	for i := range t.Jobs {
		seen[t.Jobs[i].Account] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// sortByArrival sorts the jobs by arrival; jobs of one instant stay in the order of the file.
func (t *Trace) sortByArrival() {
	slices.SortStableFunc(t.Jobs, func(a, b Job) int { return cmp.Compare(a.Submit, b.Submit) })
}

// startAtFirst makes the first arrival instant 0 of a trace whose times count from an epoch.
func (t *Trace) startAtFirst() {
	first := t.Jobs[0].Submit
	t.Epoch += model.UnixMS(first)
	for i := range t.Jobs {
		t.Jobs[i].Submit -= first
	}
}
