package trace

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sim/trace/field"
)

// Format is the form of a trace file.
type Format string

// The formats that [Read] knows; the package's documentation describes each.
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

// Formats are those that a file can have, in the order they are listed to users.
var Formats = []Format{FitGpp, Philly, SWF, OpenB, Sia, Tiresias, History}

// Bounds of one trace.
const (
	MaxJobs        = cluster.MaxJobs // more would not fit into a cluster's state
	MaxSkippedKept = 1000            // of Trace.Skipped; the others are only counted
	maxShown       = 160             // bytes of a bad line that are kept
)

// ErrNoJobs says that an input has no job that could be read.
var ErrNoJobs = errors.New("no job in the trace")

// ErrNoProfiles says that the measured speeds that a sia workload goes by are missing.
var ErrNoProfiles = errors.New("there are no measured speeds of its applications")

// ErrFormat says that the format of an input is not known.
var ErrFormat = errors.New("the format is not one that is known (fitgpp, philly, swf, openb, sia, tiresias, history)")

// Line is a line of the input that was left out.
type Line struct {
	N    int    // from 1
	Text string // its beginning
	Why  string
}

// String is the line as it is shown to users.
func (l Line) String() string { return fmt.Sprintf("line %d: %s: %s", l.N, l.Why, l.Text) }

// Trace is a workload: jobs in the order of their arrival, those that arrive together in the order of the file.
type Trace struct {
	Name    string // of the file or the generator
	Format  Format
	Epoch   cluster.UnixMS // wall-clock time of Submit 0, for display; 0: unknown. Local time is taken as it stands
	Jobs    []Job
	Skipped []Line // at most MaxSkippedKept
	Bad     int    // lines left out, kept in Skipped or not
	Seed    uint64 // of a generated trace
}

// skip notes a line that was left out.
func (t *Trace) skip(n int, text, why string) {
	t.Bad++
	if len(t.Skipped) >= MaxSkippedKept {
		return
	}
	t.Skipped = append(t.Skipped, Line{n, strings.Map(shown, field.ShortenTo(text, maxShown)), why})
}

// shown is a character of a bad line as it is shown: whatever stands there must not move a terminal's cursor.
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
	var names []string
	for i := range t.Jobs {
		if a := t.Jobs[i].Account; !seen[a] {
			seen[a] = true
			names = append(names, a)
		}
	}
	slices.Sort(names)
	return names
}

// arrange puts the jobs in order of arrival; those of one instant stay in the order of the file.
func (t *Trace) arrange() {
	slices.SortStableFunc(t.Jobs, func(a, b Job) int { return cmp.Compare(a.Submit, b.Submit) })
}

// begin makes the first arrival instant 0 of a trace whose times count from an epoch.
func (t *Trace) begin() {
	if len(t.Jobs) == 0 {
		return
	}
	first := t.Jobs[0].Submit
	t.Epoch += cluster.UnixMS(first)
	for i := range t.Jobs {
		t.Jobs[i].Submit -= first
	}
}
