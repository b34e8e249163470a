package state

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/model"
)

// Check returns every invariant that does not hold, joined, or nil. It reads the whole state, so it
// takes time in proportion.
func (s *State) Check() error {
	errs := slices.Clone(s.faults)
	note := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	for j := range s.v.jobs.Values() {
		note(lifecycle.CheckJob(j))
		note(lifecycle.CheckLedger(j))
		note(s.checkJob(j))
		note(s.checkTasksOf(j))
	}
	before := len(errs)
	s.checkHoldings(note)
	if len(errs) == before { // the grid is made anew from the holdings
		note(s.checkGrid())
	}
	s.checkIndexes(note)
	s.checkRuns(note)
	s.checkUsageCounters(note)
	s.checkReservations(note)
	for shape := range s.v.waitingShapes() {
		note(s.v.nodeSets.CheckKnown(shape))
	}
	s.v.nodeSets.Check(s.v.nodes, note)
	note(s.v.keys.Check())
	s.checkDependents(note)
	s.v.usage.Check(s.v.jobs.Values(), note)
	note(s.v.statistics.Check())
	return errors.Join(errs...)
}

// checkJob says whether a job is in the indexes where it belongs, and nowhere else.
func (s *State) checkJob(j *model.Job) error {
	live, isLive := s.v.live.Get(int64(j.ID))
	if isLive != (j.Live() != nil) || isLive && live != j {
		return fmt.Errorf("job %d and the index of live jobs do not agree", j.ID)
	}
	if done, ok := s.v.finished.Get(j.Seq); j.Seq > 0 && (!ok || done != j || j.Seq <= s.v.trimmed ||
		j.Seq > s.v.lastSeq) {
		return fmt.Errorf("job %d and the history number %d do not agree", j.ID, j.Seq)
	}
	if j.ID > s.v.lastJob {
		return fmt.Errorf("job %d has an id that was not given yet", j.ID)
	}
	if !j.StillToStart() {
		return nil
	}
	if s.groups.Holds(j) {
		return nil
	}
	return fmt.Errorf("pending job %d is not in its group", j.ID)
}

// checkIndexes says whether the indexes have nothing but what checkJob found in them.
func (s *State) checkIndexes(note func(error)) {
	var jobs, live, pending, final int
	for j := range s.v.jobs.Values() {
		jobs += j.Weight()
		switch {
		case j.State.Final():
			final++
		case j.StillToStart():
			pending++
		case j.Children == nil:
			live++
		}
	}
	s.groups.Check(pending, note)
	counts := [][2]int{{s.v.njobs, jobs}, {s.v.live.Size(), live}, {s.v.finished.Size(), final}}
	for i, c := range counts {
		if c[0] != c[1] {
			note(fmt.Errorf("index of %s has %d entries for %d", []string{"jobs", "live", "finished"}[i], c[0], c[1]))
		}
	}
}

// checkHoldings compares what nodes are said to hold with the jobs, and says whether more of a GPU
// is held than there is (A2).
func (s *State) checkHoldings(note func(error)) {
	want := make([]holding, len(s.v.nodes))
	for j := range s.v.live.Values() {
		a := j.Live()
		if a == nil {
			continue // reported by checkJob
		}
		for i := range a.Workers {
			w := &a.Workers[i]
			n, at := s.v.Node(w.Node)
			if n == nil {
				note(fmt.Errorf("job %d worker %d is on node %s, which there is not", j.ID, i, w.Node))
				continue
			}
			want[at].ports = append(want[at].ports, a.Ports(i)...)
		}
		for worker, p := range a.Held {
			if _, at := s.v.Node(p.Node); at >= 0 {
				want[at].workers = append(want[at].workers, HeldWorker{j.ID, worker})
			}
		}
	}
	for i, n := range s.v.nodes {
		h, _ := s.v.holdings.Get(int64(i))
		slices.Sort(want[i].ports)
		if h == nil || !slices.Equal(h.workers, want[i].workers) || !slices.Equal(h.ports, want[i].ports) {
			note(fmt.Errorf("node %s is said to hold %+v, jobs say %+v", n.Name, h, want[i]))
			continue
		}
		if len(slices.Compact(want[i].ports)) != len(h.ports) {
			note(fmt.Errorf("node %s: a port has two owners: %v", n.Name, h.ports))
		}
		note(s.checkOwners(i))
	}
}

// checkOwners says whether more of a GPU is held than there is: by the worker that has it as a
// whole, or by all that share it (A2).
func (s *State) checkOwners(i int) error {
	var taken [model.MaxGPUsPerNode]int64
	for _, held := range s.heldOn(i) {
		for _, g := range held.GPUs {
			if g >= len(s.v.nodes[i].GPUs) {
				return fmt.Errorf("node %s: GPU %d is held and not there", s.v.nodes[i].Name, g)
			}
			if taken[g] += min(model.WholeGPU, held.Request.Active.GPUs); taken[g] > model.WholeGPU {
				return fmt.Errorf("node %s: of GPU %d %d thousandths are held", s.v.nodes[i].Name, g, taken[g])
			}
		}
	}
	return nil
}

// checkGrid compares the grid with one made anew, and says whether more is held than there is (A2).
func (s *State) checkGrid() error {
	if s.v.grid.Len() != len(s.v.nodes) {
		return fmt.Errorf("the grid has %d nodes of %d", s.v.grid.Len(), len(s.v.nodes))
	}
	got, want := s.v.grid, s.regrid()
	for i, n := range s.v.nodes {
		if err := got.CompareNode(i, n, want, i); err != nil {
			return err
		}
		if got.Claimed(i) != want.Claimed(i) {
			return fmt.Errorf("claims on node %s are %+v, made anew %+v", n.Name, got.Claimed(i), want.Claimed(i))
		}
	}
	return nil
}

// checkReservations says whether room is kept for jobs that wait, and for those only (A5).
func (s *State) checkReservations(note func(error)) {
	for i, r := range s.v.reservations {
		j := s.v.Job(r.Job)
		switch {
		case j == nil || !j.StillToStart() || j.Hold != model.NotHeld:
			note(fmt.Errorf("room is reserved for job %d, which does not wait", r.Job))
		case i > 0 && s.v.reservations[i-1].Job >= r.Job:
			note(fmt.Errorf("reservation for job %d is out of order", r.Job))
		}
	}
}
