package sched

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// The options of submit that say when a job may start:
//
//	needs=afterok:a,b;after+1m:c;afterany?a,b;singleton   dependencies: all of them; with ? on any of the jobs; after + a delay
//	on-never=hold                                         what becomes of a job whose dependencies can never be met
//	begin=10m deadline=1h                                 times, from now
var whenOptions = []string{"needs", "on-never", "begin", "deadline"}

func (w *world) setWhen(spec *jobspec.Job, options map[string]string) error {
	spec.OnDependencyFailure = options["on-never"]
	for k, field := range map[string]*string{"begin": &spec.Begin, "deadline": &spec.Deadline} {
		if options[k] == "" {
			continue
		}
		ms, err := milliseconds(options[k])
		if err != nil {
			return err
		}
		*field = jobspec.FormatTime((int64(w.now) + ms) / 1000)
	}
	for text := range strings.SplitSeq(options["needs"], ";") {
		if text == "" {
			continue
		}
		d, err := w.dependency(text)
		if err != nil {
			return err
		}
		spec.Dependencies = append(spec.Dependencies, d)
	}
	return nil
}

func (w *world) dependency(text string) (jobspec.Dependency, error) {
	d := jobspec.Dependency{}
	head, names, any := strings.Cut(text, "?")
	if any {
		d.Match = "any"
	} else {
		head, names, _ = strings.Cut(text, ":")
	}
	var delay string
	var delayed bool
	if d.Type, delay, delayed = strings.Cut(head, "+"); delayed {
		ms, err := milliseconds(delay)
		if err != nil {
			return d, err
		}
		d.Delay = jobspec.Seconds(ms / 1000)
	}
	for name := range strings.SplitSeq(names, ",") {
		if name == "" {
			continue
		}
		d.Jobs = append(d.Jobs, w.reference(name))
	}
	return d, nil
}

// reference writes a job of the script as its user would: by number, an element as 12_3. What is unknown stays a name.
func (w *world) reference(name string) string {
	v := w.state.View()
	if id := w.ids[name]; id != 0 {
		return v.NameOf(id)
	}
	return name
}

// update changes jobs: limit, more (time), priority, name.
func (w *world) update(names []string, options map[string]string) error {
	c := cluster.UpdateJobs{By: ada.UID}
	for k, v := range options {
		switch k {
		case "limit", "more":
			ms, err := milliseconds(v)
			if err != nil {
				return err
			}
			seconds := jobspec.Seconds(ms / 1000)
			if c.TimeLimit = &seconds; k == "more" {
				c.TimeLimit, c.AddTime = nil, &seconds
			}
		case "priority":
			n, err := strconv.Atoi(v)
			if err != nil {
				return err
			}
			c.Priority = &n
		case "name":
			c.Name = &v
		default:
			return fmt.Errorf("no property %q to update", k)
		}
	}
	for _, name := range names {
		c.IDs = append(c.IDs, w.ids[name])
	}
	result, err := w.apply(c)
	if err != nil {
		return err
	}
	for _, r := range result.([]cluster.ControlResult) {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// called puts the names of jobs in place of their numbers.
func (w *world) called(text string) string {
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(w.names))) {
		text = strings.ReplaceAll(text, fmt.Sprintf("job %d", id), w.names[id])
	}
	return text
}

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

// unfinished lists the jobs that have not ended, those of a history without members that may be made yet.
func (h *history) unfinished() []string {
	var names []string
	for j := range h.state.View().Jobs() {
		if !j.State.Final() && j.Parent == 0 {
			names = append(names, h.names[j.ID])
		}
	}
	return names
}

// satisfy brings the jobs that j depends on to what its dependencies ask for, and reports whether there is a way to: none that waits itself
// ends well at once.
func (h *history) satisfy(j *cluster.Job) bool {
	for _, n := range j.Needs {
		for _, id := range n.Jobs {
			target := h.state.View().Job(id)
			if n.Type == "aftercorr" || n.Type == "afterok" && (target == nil || target.Live() == nil) {
				return false
			}
		}
	}
	ended := true
	for _, n := range j.Needs {
		for _, id := range n.Jobs {
			h.finish(id, n.Type == "afterok")
			target := h.state.View().Job(id)
			ended = ended && (target == nil || target.State.Final()) // one whose worker had failed before is tried again
		}
	}
	return ended
}

// finish ends a job, a member that may not have been made, or a record with all its members: well, or by cancelling it.
func (h *history) finish(id cluster.JobID, well bool) {
	name := h.names[id]
	if j := h.state.View().Job(id); well && j.Live() != nil {
		h.must("run %s", name)
		h.must("exit %s", name)
		return
	} else if j != nil && j.State.Final() {
		return
	}
	h.must("cancel %s", name)
	for m := range h.state.View().Jobs() {
		if (m.ID == id || m.Parent == id) && m.Live() != nil {
			h.must("exit %s", h.names[m.ID])
		}
	}
}

// finishMember ends one live member of a record, and reports whether it has.
func (h *history) finishMember(record *cluster.Job) bool {
	for m := range h.state.View().Members(record.ID) {
		if m.Live() != nil {
			h.finish(m.ID, false)
			return true
		}
	}
	return false
}

func waitingMembers(j *cluster.Job) int {
	if j.Family == nil {
		return 0
	}
	return j.Family.Waiting.Len()
}
