package rota

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/elastic"
	"github.com/rota-hpc/rota/controld/sched/fairshare"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Names for tests, which are in a package of their own.

// Tiers is how many kinds of accounts candidates are of.
const Tiers = tiers

// Policy is policy rota in one cycle.
type Policy = rotaPolicy

// Preemptor makes room for jobs that wait.
type Preemptor = preemptor

// NewPolicy returns policy rota in one cycle.
func NewPolicy(t *scratch.State) *Policy { return newRota(t, &Cache{}) }

// NewPreemptor returns what makes room for jobs that wait.
func (t *rotaPolicy) NewPreemptor() *Preemptor { return newPreemptor(t, &preempt.Cache{}) }

// NewElasticPhases returns the phases for elastic jobs.
func (t *rotaPolicy) NewElasticPhases() *elasticPhases { return newElasticPhases(t) }

// NewHeadroom returns what is to be left free.
func NewHeadroom(t *scratch.State) *headroom { return newHeadroom(t, &Cache{}) }

// Allocation returns how elastic jobs should run.
func (s *elasticPhases) Allocation() *elastic.Allocation { return s.allocation() }

// Due returns with how many workers a job should run.
func (s *elasticPhases) Due(j *model.Job) int {
	size, _ := s.due(j)
	return size
}

// WantSoon makes at least one node count that will have room soon, and counts again.
func (h *headroom) WantSoon() {
	h.soon.want = max(1, h.soon.want)
	h.countAll()
}

// Outlooks returns what is to be free now and what soon.
func (h *headroom) Outlooks() []*outlook { return []*outlook{&h.now, &h.soon} }

// Counted returns which workers a node would take, as it was counted, and as it is.
func (o *outlook) Counted(room *fit.Room, node int) (was, is uint64) {
	return o.on[node], o.takes(room, node, model.Request{}, o.demand.all())
}

// Accounts returns what accounts and users hold.
func (m *preemptor) Accounts() *fairshare.Accounts { return m.rota.accounts() }

// ReluctanceFor returns how readily candidates leave for a trial-and-error job.
func (m *preemptor) ReluctanceFor(j *model.Job) func(*preempt.Candidate) int {
	return m.reluctanceFor(j)
}

// Affordable returns the cheapest set that no account may refuse to lose.
func (m *preemptor) Affordable(j *model.Job, q preempt.Question, cause model.Cause) *preempt.Set {
	return m.affordable(j, q, cause)
}

// PlaceAfter makes some jobs come after the job at hand.
func (m *preemptor) PlaceAfter(jobs []model.JobID) {
	m.places = map[model.JobID]int{}
	for _, id := range jobs {
		m.places[id] = 1
	}
}

// State returns the scratch state of the cycle.
func (m *preemptor) State() *scratch.State { return m.state }

// Search returns the search for victims.
func (m *preemptor) Search() *preempt.Preemptor { return m.search }
