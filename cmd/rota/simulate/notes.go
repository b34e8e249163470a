package simulate

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/sim"
	"github.com/rota-hpc/rota/controld/sim/trace"
)

// How many omitted lines and jobs are named with a reason, and how many by number only.
const (
	skippedShown  = 10
	excludedShown = 5
	namesShown    = 200
)

// reportSkipped prints which lines of a trace were skipped.
func (s *simulation) reportSkipped(t *trace.Trace) {
	shown := t.Skipped[:min(skippedShown, len(t.Skipped))]
	for _, line := range shown {
		s.env.Notef("%s: %s", t.Name, line)
	}
	if more := t.Bad - len(shown); more > 0 {
		s.env.Notef("%s: %s skipped: %s", t.Name,
			show.Count(more, "more line was", "more lines were"), numbersOf(t.Skipped[len(shown):], more))
	}
}

// reportUnusedOptions prints which options have no effect, because all jobs of the trace have
// values of their own.
func (s *simulation) reportUnusedOptions(t *trace.Trace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range []struct {
		option string
		given  bool
		knows  func(*trace.Job) bool
		what   string
	}{
		{"--grace", s.shape.grace, func(j *trace.Job) bool { return j.Grace != trace.Unknown }, "a grace period"},
		{"--checkpoint", s.shape.saves != nil, func(j *trace.Job) bool { return j.Saves != "" }, "a way of saving"},
		{"--estimates", s.shape.estimates > 0, func(j *trace.Job) bool { return j.Estimate > 0 }, "an estimate"},
		{"--overhead", s.setup.Overhead > 0, func(j *trace.Job) bool { return j.Restart != trace.Unknown }, "a restart cost"},
	} {
		if o.given && everyJob(t, o.knows) {
			s.env.Notef("%s: %s has no effect: every job of the trace already has %s", t.Name, o.option, o.what)
		}
	}
}

// everyJob reports whether is returns true for all jobs.
func everyJob(t *trace.Trace, is func(*trace.Job) bool) bool {
	for i := range t.Jobs {
		if !is(&t.Jobs[i]) {
			return false
		}
	}
	return true
}

// numbersOf writes the numbers of lines, with ranges. The lines are the first ones of so many.
func numbersOf(lines []trace.Line, of int) string {
	var names []string
	for i := 0; i < len(lines); {
		last := i
		for last+1 < len(lines) && lines[last+1].N == lines[last].N+1 {
			last++
		}
		name := strconv.Itoa(lines[i].N)
		if last > i {
			name += " to " + strconv.Itoa(lines[last].N)
		}
		names = append(names, name)
		i = last + 1
		if len(names) == namesShown {
			lines = lines[:i]
		}
	}
	text := strings.Join(names, ", ")
	if more := of - len(lines); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// printNotes writes notes on the results, each once.
func (s *simulation) printNotes(w io.Writer, results []*sim.Result) {
	seen := map[string]bool{}
	say := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if !seen[text] {
			seen[text] = true
			fmt.Fprintln(w, text)
		}
	}
	for _, runs := range s.bySeed(results) {
		if n := len(finishedRuns(runs)); n < len(runs) {
			say("%s, %s: means over %d of %d seeds; the others were interrupted", runs[0].Trace, policyOf(runs[0]), n, len(runs))
		}
	}
	for _, r := range results {
		shown := min(excludedShown, len(r.Excluded))
		for _, e := range r.Excluded[:shown] {
			say("%s: excluded job %s", r.Trace, e)
		}
		if more := r.Excluded[shown:]; len(more) > 0 {
			say("%s: %s no node: %s", r.Trace, show.Count(len(more), "more job fits", "more jobs fit"), idsOf(more))
		}
		for _, n := range r.Notes {
			say("%s: %s", r.Trace, n)
		}
		if r.TimedOut > 0 {
			say("%s, %s: %s stopped at the time limit", r.Trace, r.Policy, show.Count(r.TimedOut, "job was", "jobs were"))
		}
		if r.Unended > 0 {
			say("%s, %s: %s not ended", r.Trace, r.Policy, show.Count(r.Unended, "job had", "jobs had"))
		}
	}
}

// idsOf writes the ids of excluded jobs.
func idsOf(excluded []string) string {
	var ids []string
	for _, e := range excluded[:min(namesShown, len(excluded))] {
		id, _, _ := strings.Cut(e, ": ")
		ids = append(ids, id)
	}
	text := strings.Join(ids, ", ")
	if more := len(excluded) - len(ids); more > 0 {
		text += fmt.Sprintf(" and %d more (-o json has all)", more)
	}
	return text
}

// reportNothingShared prints where --window is about nothing that is in the results, and where no job
// paused although --pause lets some.
func (s *simulation) reportNothingShared(results []*sim.Result) {
	for _, runs := range s.bySeed(results) {
		first := runs[0]
		if s.setup.Window[1] > 0 && !slices.ContainsFunc(runs, func(r *sim.Result) bool { return r.Sharing != nil }) {
			s.env.Notef("%s, %s: --window has no effect: the trace does not say which networks the jobs train, and no job was "+
				"suspended",
				first.Trace, policyOf(first))
		}
		if s.shape.pauses > 0 && !slices.ContainsFunc(runs, func(r *sim.Result) bool {
			return r.Sharing != nil && r.Sharing.Suspensions > 0
		}) {
			s.env.Notef("%s, %s: no job was suspended, although --pause allows %s of the best-effort jobs to pause", first.Trace,
				policyOf(first), decimal(float64(s.shape.pauses)/10, -1)+"%")
		}
	}
}

// reportIdenticalSeeds prints a note if all seeds gave the same result, so that their mean is no
// evidence.
func (s *simulation) reportIdenticalSeeds(results []*sim.Result) {
	if len(s.seeds) < 2 {
		return
	}
	for _, runs := range s.bySeed(results) {
		first := runs[0]
		if !slices.ContainsFunc(runs, func(r *sim.Result) bool {
			return r.MakespanS != first.MakespanS || *r.Classes["all"] != *first.Classes["all"] ||
				r.GPUFragmentation != first.GPUFragmentation
		}) {
			s.env.Notef("%s, %s: all seeds gave the same result, so the means are no better evidence than one run",
				first.Trace, policyOf(first))
		}
	}
}
