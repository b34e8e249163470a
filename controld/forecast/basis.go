package forecast

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
)

// habits has each attempt take as long as the shortest quarter of the earlier runs of its kind. If
// too few are known it takes no time at all. Stops take no time.
type habits struct {
	history *estimate.Statistics
	now     model.Instant
	known   map[model.JobID]habit
}

// habit is how long jobs of a kind run at least, usually.
type habit struct {
	ms   int64
	from string // which runs say so; "": too few are known
}

func (h *habits) end(j *model.Job, a *model.Attempt) model.Instant {
	if a.Suspended() {
		return 0
	}
	from := a.Started.At
	if from == 0 {
		from = a.Assigned.At
	}
	at := max(h.now, from+model.Instant(h.of(j).ms))
	if limit := j.EndsAt(a); limit != 0 {
		at = min(at, max(h.now, limit))
	}
	return at
}

func (*habits) stopped(now model.Instant, _ *model.Stop) model.Instant { return now }

// source says which earlier runs the end of a job follows from; "": none.
func (h *habits) source(j *model.Job) string { return h.of(j).from }

// of returns the habit of a job. That of a job which runs for longer already is of runs as long.
func (h *habits) of(j *model.Job) habit {
	if known, ok := h.known[j.ID]; ok {
		return known
	}
	found := habit{}
	kinds, first := estimate.KindsOfJob(j)
	if h.history.Runtimes == nil {
		first = userKinds
	}
	for i := first; i < userKinds && found.from == ""; i++ {
		at, known := h.history.Runtimes.Find(&kinds[i])
		if !known {
			continue
		}
		ran := int64(0)
		if a := j.Live(); a != nil && a.Started.At != 0 {
			ran = int64(max(0, h.now-a.Started.At))
		}
		least, runs := h.history.Runtimes.List[at].LowerQuartile(ran)
		if runs < estimate.FewestRuntimes {
			continue
		}
		found = habit{ms: least, from: fmt.Sprintf("%d earlier runs by %s", runs, j.Owner.User)}
		if kinds[i].Name != "" {
			found.from = fmt.Sprintf("%d earlier runs of job name %s by %s", runs, kinds[i].Name, j.Owner.User)
		}
	}
	if h.known == nil {
		h.known = map[model.JobID]habit{}
	}
	h.known[j.ID] = found
	return found
}

// userKinds is how many of [estimate.KindsOfJob] are of one user. Others say too little of a job.
const userKinds = 4

// ahead returns the ends before a start: on its nodes, or all if there are none on them.
func (p *play) ahead(b begin) []event {
	var near []event
	for _, e := range p.ends[:b.ends] {
		for _, n := range e.nodes {
			if b.nodes[n] {
				near = append(near, e)
				break
			}
		}
	}
	if near == nil {
		return p.ends[:b.ends]
	}
	return near
}

// basis says whose limits a start follows.
func (p *play) basis(b begin) string {
	running, waiting := 0, 0
	for _, e := range p.ahead(b) {
		if e.live {
			running++
		} else {
			waiting++
		}
	}
	switch {
	case running > 0 && waiting > 0:
		return fmt.Sprintf("from limits of %d running and %d waiting jobs", running, waiting)
	case running > 0:
		return "from limits of " + count(running, "running")
	case waiting > 0:
		return "from limits of " + count(waiting, "waiting")
	}
	return "from its begin time and the rules of the queue"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what + " job"
	}
	return fmt.Sprintf("%d %s jobs", n, what)
}

// phrase is a text about jobs, and the same without names.
type phrase struct {
	full, public string
	named        []model.JobID
}

func plain(text string) phrase { return phrase{full: text, public: text} }

// and appends another phrase.
func (p phrase) and(more phrase) phrase {
	if more.full == "" {
		return p
	}
	return phrase{p.full + "; " + more.full, p.public + "; " + more.public, append(p.named, more.named...)}
}

// habitBasis says which earlier runs the earliest start follows.
func (p *play) habitBasis(b begin) phrase {
	var from []string
	var named []model.JobID
	unknown := 0
	for _, e := range p.ahead(b) {
		if e.from == "" {
			unknown++
			continue
		}
		named = append(named, e.job)
		if !slices.Contains(from, e.from) {
			from = append(from, e.from)
		}
	}
	public := "earliest from earlier runs of " + jobs(len(named))
	switch {
	case len(named) == 0 && unknown == 0:
		return phrase{}
	case len(named) == 0:
		return plain("earliest if they end at once")
	case len(from) == 1:
		return phrase{"earliest from " + from[0], public, named}
	}
	return plain(public)
}

func jobs(n int) string {
	if n == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", n)
}

// obstacle says why a job does not start in a play on from a view.
func (p *play) obstacle(v *state.View, id model.JobID) phrase {
	j := v.Job(id)
	switch {
	case j == nil || !j.StillToStart():
		return plain("it does not wait")
	case j.Hold != model.NotHeld:
		return plain("it is held")
	case v.Steering().Paused(steering.All) != nil:
		return plain("an operator has paused scheduling")
	case p.cut:
		return plain("too many jobs go first")
	}
	for _, d := range j.Dependencies {
		for _, target := range d.Jobs {
			if text := obstacleOf(v, target, d.Type); text.full != "" {
				return text
			}
		}
	}
	end := p.machine.View()
	for r := range end.Live() {
		if r.Limit == 0 && r.Deadline == 0 {
			return about(end, r.ID, "has no time limit")
		}
	}
	return plain("no end of a job makes room for it; rota why says what it needs")
}

// obstacleOf says why a job keeps another one from starting that depends on it; "": it need not.
func obstacleOf(v *state.View, target model.JobID, dependency string) phrase {
	switch t := v.Job(target); {
	case t == nil || t.State.Final():
	case t.Hold != model.NotHeld:
		return about(v, target, "is held")
	case dependency == "afternotok":
		return about(v, target, "would have to fail")
	case t.Limit == 0 && t.Deadline == 0:
		return about(v, target, "has no time limit")
	}
	return phrase{}
}

// about is a sentence about a job.
func about(v *state.View, id model.JobID, predicate string) phrase {
	return phrase{"job " + v.NameOf(id) + " " + predicate, "a job that goes first " + predicate, []model.JobID{id}}
}
