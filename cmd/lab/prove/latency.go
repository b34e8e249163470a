package main

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec/hostlist"
)

// latencyGoal is for 99 of 100 trials on a quiet machine.
const latencyGoal = 500 * time.Millisecond

// waits is how long trials waited for their first line.
type waits struct {
	submitted spread // since their submission was sent
	room      spread // since nothing but the cluster was in their way
	quiet     spread // those of room that saw no take-over
}

// latency tells how long trials waited for their first line.
func (p *proof) latency(f *found) {
	w, wrong := f.waits()
	p.tell("latency", wrong, "trials began %s after their room was free (without trials during a change of the leader: "+
		"%s); %s after their submission", w.room, w.quiet, w.submitted)
	if w.quiet.at(99) > latencyGoal {
		p.remark("the goal is a p99 of %d ms on a quiet machine", latencyGoal.Milliseconds())
	}
}

func (f *found) waits() (w waits, wrong complaints) {
	lines := map[model.JobID]time.Time{}
	for _, t := range f.tried {
		var err error
		if lines[t.id], err = firstLine(t.file); err != nil {
			wrong.add("trial %d: %v", t.id, err)
			delete(lines, t.id)
		}
	}
	exits := f.exits(lines)
	for _, t := range f.tried {
		line, ok := lines[t.id]
		if !ok {
			continue
		}
		took := line.Sub(f.roomSince(t, exits))
		w.submitted, w.room = append(w.submitted, line.Sub(t.asked)), append(w.room, took)
		if !touched(f.takeOvers, t.asked, line) {
			w.quiet = append(w.quiet, took)
		}
	}
	return w, wrong
}

// exits returns when workers were gone by what they wrote themselves, by node.
func (f *found) exits(lines map[model.JobID]time.Time) map[string][]time.Time {
	exits := map[string][]time.Time{}
	gone := func(id attemptID, at time.Time) {
		nodes, err := hostlist.Expand(f.assigned[id].Node)
		if err != nil {
			return // the attempt has no event, which is told elsewhere
		}
		for _, n := range nodes {
			exits[n] = append(exits[n], at)
		}
	}
	for job, all := range f.lives {
		for _, l := range all {
			for _, w := range l.Workers {
				gone(attemptID{job, l.Attempt}, w.Last)
			}
		}
	}
	for _, t := range f.tried {
		if line, ok := lines[t.id]; ok {
			gone(attemptID{t.id, 1}, line.Add(t.runs))
		}
	}
	return exits
}

// roomSince is from when nothing but the cluster was in a trial's way. That is its submission, or,
// if others had to leave first, the last exit on its node before it got the node. That is its
// victim's, unless the room of another job came free before.
func (f *found) roomSince(t tried, exits map[string][]time.Time) time.Time {
	since, got := t.asked, f.assigned[attemptID{t.id, 1}]
	if got.At == nil || !slices.Contains(f.reserved, t.id) {
		return since
	}
	for _, at := range exits[got.Node] {
		if at.After(since) && at.Before(got.At.Time) {
			since = at
		}
	}
	return since
}

// firstLine reads when a trial wrote its first line.
func firstLine(path string) (time.Time, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return time.Time{}, err
	}
	ms, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return time.UnixMilli(ms), err
}
