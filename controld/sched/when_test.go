package sched_test

import (
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
)

// conditions is what some jobs of a random history say of when they may start.
func (h *history) conditions() string {
	all := ""
	if h.random.IntN(8) == 0 {
		all += fmt.Sprintf(" begin=%ds", 1+h.random.IntN(600))
	}
	if h.random.IntN(8) == 0 {
		all += fmt.Sprintf(" deadline=%dm", 40+h.random.IntN(60))
	}
	if h.random.IntN(6) == 0 {
		all += " on-never=hold"
	}
	if needs := h.someNeeds(); needs != "" {
		all += " needs=" + needs
	}
	return all
}

func (h *history) someNeeds() string {
	var parts []string
	for range h.random.IntN(6) / 3 {
		names := h.unfinished()
		if len(names) == 0 {
			break
		}
		kind := [...]string{"after", "after", "afterok", "afterok", "afterany", "afternotok"}[h.random.IntN(6)]
		if h.random.IntN(4) == 0 {
			kind += fmt.Sprintf("+%ds", h.random.IntN(90))
		}
		kind += [...]string{":", ":", "?"}[h.random.IntN(3)] + names[h.random.IntN(len(names))]
		if h.random.IntN(2) == 0 {
			kind += "," + names[h.random.IntN(len(names))]
		}
		parts = append(parts, kind)
	}
	return strings.Join(parts, ";")
}

// unfinished lists the jobs that have not ended, those of a history without members that may be
// made yet.
func (h *history) unfinished() []string {
	var names []string
	for j := range h.State.View().Jobs() {
		if !j.State.Final() && j.Parent == 0 {
			names = append(names, h.Names[j.ID])
		}
	}
	return names
}

// satisfy brings the dependencies of j to the states that it asks for. It reports whether that is
// possible: a dependency that itself waits cannot end well at once.
func (h *history) satisfy(j *model.Job) bool {
	for _, n := range j.Dependencies {
		for _, id := range n.Jobs {
			target := h.State.View().Job(id)
			if n.Type == "aftercorr" || n.Type == "afterok" && (target == nil || target.Live() == nil) {
				return false
			}
		}
	}
	ended := true
	for _, n := range j.Dependencies {
		for _, id := range n.Jobs {
			h.finish(id, n.Type == "afterok")
			target := h.State.View().Job(id)
			// one whose worker had failed before is tried again
			ended = ended && (target == nil || target.State.Final())
		}
	}
	return ended
}

// finish ends a job, a member that may not have been made, or a record with all its members: well,
// or by cancelling it.
func (h *history) finish(id model.JobID, well bool) {
	name := h.Names[id]
	if j := h.State.View().Job(id); well && j.Live() != nil {
		h.must("run %s", name)
		h.must("exit %s", name)
		return
	} else if j != nil && j.State.Final() {
		return
	}
	h.must("cancel %s", name)
	for m := range h.State.View().Jobs() {
		if (m.ID == id || m.Parent == id) && m.Live() != nil {
			h.must("exit %s", h.Names[m.ID])
		}
	}
}

// finishMember ends one live member of a record, and reports whether it has.
func (h *history) finishMember(record *model.Job) bool {
	for m := range h.State.View().ChildrenOf(record.ID) {
		if m.Live() != nil {
			h.finish(m.ID, false)
			return true
		}
	}
	return false
}

func waitingMembers(j *model.Job) int {
	if j.Children == nil {
		return 0
	}
	return j.Children.Waiting.Len()
}
