package state

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/fsm/groups"
	"github.com/rota-hpc/rota/controld/fsm/index"
	"github.com/rota-hpc/rota/controld/model"
)

// tallies are what an auditor knows of a state by what has become of its jobs, one change after
// another.
type tallies struct {
	jobs          map[model.JobID]*model.Job
	nodes         map[string]*model.Node
	totals        totals
	holdings      map[string]*holding
	groups        groups.Tally
	active        map[model.Association]int // jobs, of leaves and of accounts
	usageCounters map[model.Association]*estimate.UsageCounter
	children      map[model.JobID]*childTally
	dependents    map[model.JobID]map[model.JobID]bool
	names         map[index.Name]index.NameCount
	texts         map[*model.Text]int
	claims        map[string]model.Vector
}

// totals count jobs.
type totals struct{ weight, live, final, waiting, needing, dated int }

// childTally counts the children that have been made; those that had left the state before they
// were counted are in gone.
type childTally struct {
	live, completed, failed, cancelled int
	gone                               model.Children
}

func newTallies() tallies {
	return tallies{
		jobs: map[model.JobID]*model.Job{}, nodes: map[string]*model.Node{}, holdings: map[string]*holding{},
		groups: groups.NewTally(),
		active: map[model.Association]int{}, usageCounters: map[model.Association]*estimate.UsageCounter{},
		children:   map[model.JobID]*childTally{},
		dependents: map[model.JobID]map[model.JobID]bool{}, names: map[index.Name]index.NameCount{},
		texts: map[*model.Text]int{}, claims: map[string]model.Vector{},
	}
}

// count enters a job into the books, or takes it out with by = -1, and notes what belongs to it.
func (a *Auditor) count(j *model.Job, by int) {
	t := &a.totals
	t.weight += by * j.Weight()
	switch {
	case j.State.Final():
		t.final += by
	case j.Live() != nil:
		t.live += by
		a.countRun(j, by)
	}
	if j.Deadline != 0 && j.StillToStart() {
		t.dated += by
	}
	a.countWaiting(j, by)
	a.countNeeds(j, by)
	a.countActive(j, by)
	if j.Texts != nil {
		a.countTexts(j, by)
	}
	if j.Parent != 0 {
		a.countChild(j, by)
		return
	}
	a.countName(j, by)
	if j.Children != nil {
		a.around.parents[j.ID] = true
		a.family(j.ID)
	}
}

// countRun enters what an attempt in progress holds on nodes.
func (a *Auditor) countRun(j *model.Job, by int) {
	run := j.Live()
	for worker, p := range run.Held {
		h := a.holding(p.Node)
		if by > 0 {
			h.add(HeldWorker{j.ID, worker})
		} else {
			h.remove(HeldWorker{j.ID, worker})
		}
	}
	for i := range run.Workers {
		h := a.holding(run.Workers[i].Node)
		for _, port := range run.Ports(i) {
			k, found := slices.BinarySearch(h.ports, port)
			switch {
			case by > 0:
				h.ports = slices.Insert(h.ports, k, port)
			case found:
				h.ports = slices.Delete(h.ports, k, k+1)
			}
		}
	}
}

func (a *Auditor) holding(node string) *holding {
	a.around.nodes[node] = true
	h := a.holdings[node]
	if h == nil {
		h = &holding{}
		a.holdings[node] = h
	}
	return h
}

// countWaiting enters a job that waits into its group.
func (a *Auditor) countWaiting(j *model.Job, by int) {
	if !j.StillToStart() {
		return
	}
	a.totals.waiting += by
	a.around.groups[groups.KeyOf(j)] = true
	a.groups.Count(j, by)
}

// countNeeds enters the jobs that an unfinished job waits for.
func (a *Auditor) countNeeds(j *model.Job, by int) {
	if j.State.Final() || len(j.Dependencies) == 0 {
		return
	}
	a.totals.needing += by
	for _, target := range j.Targets() {
		a.around.targets[target] = true
		if by < 0 {
			delete(a.dependents[target], j.ID)
			continue
		}
		if a.dependents[target] == nil {
			a.dependents[target] = map[model.JobID]bool{}
		}
		a.dependents[target][j.ID] = true
	}
}

// countActive enters what a job holds and asks for into its leaf and its account.
func (a *Auditor) countActive(j *model.Job, by int) {
	leaf := j.Association()
	if j.Active() {
		for _, of := range []model.Association{leaf, {Account: leaf.Account}} {
			a.around.leaves[of] = true
			a.active[of] += by
		}
	}
	demand := a.s.v.demandOf(j)
	if j.Live() == nil && demand.Attempts == 0 {
		return
	}
	st := a.usageCounters[leaf]
	if st == nil {
		st = &estimate.UsageCounter{Association: leaf}
		a.usageCounters[leaf] = st
	}
	if j.Live() != nil {
		st.AddRun(a.s.v.newRun(j, nil), by)
	}
	st.AddDemand(demand, by)
	if st.Jobs == 0 {
		delete(a.usageCounters, leaf)
	}
}

// countChild enters a child of a parent job.
func (a *Auditor) countChild(j *model.Job, by int) {
	a.around.parents[j.Parent] = true
	f := a.family(j.Parent)
	switch {
	case !j.State.Final():
		f.live += by
	case j.State == model.Completed:
		f.completed += by
	case j.State == model.Cancelled:
		f.cancelled += by
	default:
		f.failed += by
	}
}

func (a *Auditor) family(parent model.JobID) *childTally {
	f := a.children[parent]
	if f == nil {
		f = &childTally{}
		a.children[parent] = f
	}
	return f
}

// before notes how many children had left the state when the books were begun: none if no job had.
func (f *childTally) before(parent *model.Job, none bool) error {
	if parent == nil || parent.Children == nil {
		return nil
	}
	r := parent.Children
	f.gone = model.Children{Completed: r.Completed - f.completed, Failed: r.Failed - f.failed,
		Cancelled: r.Cancelled - f.cancelled}
	if g := &f.gone; min(g.Completed, g.Failed, g.Cancelled) < 0 || none && g.Completed+g.Failed+g.Cancelled > 0 {
		return fmt.Errorf("parent job %d has counted %+v, but its tasks are %+v", parent.ID, *r, *f)
	}
	return nil
}

func (a *Auditor) countName(j *model.Job, by int) {
	k := index.NameOf(j)
	a.around.names[k] = true
	c := a.names[k]
	c.All += by
	if !j.State.Final() {
		c.Open += by
	}
	if a.names[k] = c; c.All == 0 {
		delete(a.names, k)
	}
}

func (a *Auditor) countTexts(j *model.Job, by int) {
	for _, t := range j.Texts.Scripts {
		if t != nil {
			a.around.texts[t] = true
			if a.texts[t] += by; a.texts[t] == 0 {
				delete(a.texts, t)
			}
		}
	}
}
