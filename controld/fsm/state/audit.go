package state

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/index"
	"github.com/rota-hpc/rota/controld/model"
)

// Auditor verifies the parts that a command touched, after each command. It checks every invariant
// that [State.Check] knows, in time proportional to the change. It keeps its own books, from the
// jobs and nodes that the state reports as changed, and compares all derived values with them. It
// misses changes that reach a job indirectly; State.Check finds them.
type Auditor struct {
	s       *State
	touched *touched
	tallies
	faults  int          // of the state's, reported so far
	errs    []error      // found by the check in progress
	changed []*model.Job // that it is about
	around  *vicinity    // of them
}

// touched is what commands have changed since the last call.
type touched struct {
	jobs  []model.JobID
	nodes []string
	all   bool // the books must be made anew
}

func (t *touched) job(id model.JobID) {
	if t != nil {
		t.jobs = append(t.jobs, id)
	}
}

func (t *touched) node(name string) {
	if t != nil {
		t.nodes = append(t.nodes, name)
	}
}

func (t *touched) everything() {
	if t != nil {
		t.all = true
	}
}

// Audit checks the whole state and returns what checks each further command. There can be one
// auditor of a state at a time.
func (s *State) Audit() (*Auditor, error) {
	s.touched = &touched{}
	a := &Auditor{s: s, touched: s.touched}
	return a, a.begin()
}

// begin makes the books anew and checks the whole state against them.
func (a *Auditor) begin() error {
	*a.touched = touched{}
	a.faults, a.tallies = 0, newTallies()
	a.prepare()
	v := &a.s.v
	for j := range v.jobs.Values() {
		a.jobs[j.ID] = j
		a.count(j, 1)
		a.changed = append(a.changed, j)
	}
	for id, c := range a.children {
		a.note(c.before(v.Job(id), v.trimmed == 0))
	}
	a.claims = v.claimsByNode()
	for _, n := range v.nodes {
		a.followNode(n.Name)
	}
	for _, j := range a.changed {
		a.checkChanged(nil, j)
	}
	a.checkAround()
	a.checkTotals()
	a.checkStrays()
	return errors.Join(a.errs...)
}

// prepare begins a check with what is illegal by itself.
func (a *Auditor) prepare() {
	a.errs, a.changed, a.around = nil, a.changed[:0], newVicinity()
	for _, fault := range a.s.faults[a.faults:] {
		a.note(fault)
	}
	a.faults = len(a.s.faults)
}

// checkStrays checks that the indexes have nothing beside what belongs to jobs and nodes.
func (a *Auditor) checkStrays() {
	v := &a.s.v
	a.s.groups.Check(a.totals.waiting, a.note)
	v.nodeSets.Check(v.nodes, a.note)
	v.dependents.Check(v.jobs.Values(), a.note)
	a.s.checkUnfinished(a.note)
	a.note(a.s.checkLimits())
	a.s.checkBytes(a.note)
	v.usage.Check(v.jobs.Values(), a.note)
	if !a.s.sharesArrays { // else it knows of its own only
		a.s.texts.Check(v.jobs.Values(), a.note)
	}
	a.note(v.keys.Check())
	a.note(v.checkAccounts())
	a.note(v.checkTokens())
	a.note(v.steering.Check())
	a.note(v.versions.Check(v.config))
	a.note(a.s.names.Check())
	a.note(v.statistics.Check())
}

// Check returns every invariant that does not hold any more after what was done since it was last
// called, joined, or nil.
func (a *Auditor) Check() error {
	if a.touched.all {
		return a.begin()
	}
	a.prepare()
	jobs, nodes := a.touched.jobs, a.touched.nodes
	*a.touched = touched{jobs: jobs[:0], nodes: nodes[:0]}
	slices.Sort(jobs)
	jobs = slices.Compact(jobs)
	before := make([]*model.Job, len(jobs))
	for i, id := range jobs {
		before[i] = a.follow(id)
	}
	for _, name := range nodes {
		a.followNode(name)
	}
	a.followClaims()
	for i, id := range jobs {
		a.checkChanged(before[i], a.jobs[id])
	}
	a.checkAround()
	a.checkTotals()
	return errors.Join(a.errs...)
}

func (a *Auditor) note(err error) {
	if err != nil {
		a.errs = append(a.errs, err)
	}
}

func (a *Auditor) bad(format string, args ...any) { a.note(fmt.Errorf(format, args...)) }

// follow brings the books up to date with a job, and returns what it was before, nil if it is new.
func (a *Auditor) follow(id model.JobID) *model.Job {
	old, next := a.jobs[id], a.s.v.Job(id)
	if old != nil {
		a.count(old, -1)
	}
	if next == nil {
		delete(a.jobs, id)
		if old != nil && old.Parent != 0 && a.s.v.Job(old.Parent) != nil { // its parent job counts it all the same
			a.countChild(old, 1)
		}
		delete(a.children, id)
		return old
	}
	a.jobs[id] = next
	a.changed = append(a.changed, next)
	a.count(next, 1)
	return old
}

// followNode brings the books up to date with a node.
func (a *Auditor) followNode(name string) {
	n, _ := a.s.v.Node(name)
	if n == nil {
		a.bad("node %s is marked as changed, but is missing", name)
		return
	}
	a.nodes[name] = n
	a.around.nodes[name], a.around.stock = true, true
}

// followClaims notes on which nodes more or less is claimed than before.
func (a *Auditor) followClaims() {
	claims := a.s.v.claimsByNode()
	for _, pair := range [2][2]map[string]model.Vector{{a.claims, claims}, {claims, a.claims}} {
		for node, v := range pair[0] {
			if pair[1][node] != v {
				a.around.nodes[node] = true
			}
		}
	}
	a.claims = claims
}

// claimsByNode adds up what reservations claim.
func (v *View) claimsByNode() map[string]model.Vector {
	claims := map[string]model.Vector{}
	for _, r := range v.reservations {
		for _, c := range r.Claims {
			claims[c.Node] = claims[c.Node].Plus(c.Resources)
		}
	}
	return claims
}

// checkTotals compares the sizes of tables with what the books say.
func (a *Auditor) checkTotals() {
	v, c := &a.s.v, &a.totals
	for what, pair := range map[string][2]int{
		"jobs": {v.njobs, c.weight}, "live jobs": {v.live.Size(), c.live}, "runs": {v.runs.Size(), c.live},
		"finished jobs": {v.finished.Size(), c.final},
		"groups":        {a.s.groups.Size(), a.groups.Size()}, "jobs with dependencies": {v.dependents.Size(), c.needing},
		"jobs with deadlines": {v.dated.Size(), c.dated},
		"usage counters":      {v.usageCounters.Size(), len(a.usageCounters)},
	} {
		if pair[0] != pair[1] {
			a.bad("index of %s has %d entries for %d", what, pair[0], pair[1])
		}
	}
	a.note(v.keys.CheckYoungest())
	a.s.checkReservations(a.note)
	a.note(a.s.checkLicenses())
	if a.around.stock {
		if want := v.inventoryOf(); !v.inventory.All.Equal(&want.All) || !v.inventory.Up.Equal(&want.Up) {
			a.bad("the inventory is %+v, recomputed %+v", *v.inventory, *want)
		}
	}
}

// vicinity is what belongs to the jobs and nodes of a change.
type vicinity struct {
	nodes   map[string]bool
	groups  map[model.GroupKey]bool
	leaves  map[model.Association]bool
	parents map[model.JobID]bool
	targets map[model.JobID]bool
	names   map[index.Name]bool
	texts   map[*model.Text]bool
	stock   bool // what the nodes have
}

func newVicinity() *vicinity {
	return &vicinity{
		nodes: map[string]bool{}, groups: map[model.GroupKey]bool{}, leaves: map[model.Association]bool{},
		parents: map[model.JobID]bool{},
		targets: map[model.JobID]bool{}, names: map[index.Name]bool{}, texts: map[*model.Text]bool{},
	}
}

// checkAround checks everything that belongs to what has changed.
func (a *Auditor) checkAround() {
	w := a.around
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		a.checkNode(name)
	}
	for k := range w.groups {
		a.checkGroup(k)
	}
	for leaf := range w.leaves {
		a.checkLeaf(leaf)
	}
	for id := range w.parents {
		a.checkFamily(id)
	}
	for id := range w.targets {
		a.note(a.s.v.dependents.CheckTarget(id, slices.Sorted(maps.Keys(a.dependents[id]))))
	}
	for k := range w.names {
		a.note(a.s.names.CheckCount(k, a.names[k]))
	}
	for t := range w.texts {
		if known := a.s.texts.Script(t.Digest); known == t && t.Refs != a.texts[t] || known == nil && a.texts[t] > 0 {
			a.bad("a script is recorded with %d users, but has %d", t.Refs, a.texts[t])
		}
	}
}
