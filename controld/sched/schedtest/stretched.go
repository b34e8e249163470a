package schedtest

import (
	"fmt"
	"math/rand/v2"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/queue"
)

// stretched plays random histories of elastic and other jobs.
type stretched struct{ *Contest }

// NewStretched returns a random history of elastic jobs under a policy.
func NewStretched(seed uint64, policy string, seen map[string]int) *stretched {
	c := &Contest{World: NewWorld(), Random: rand.New(rand.NewPCG(seed, 11)), Policy: policy,
		stops: map[Attempt]model.Stop{}, Seen: seen}
	c.Must("policy name=%s reserve-after=%dm", policy, 1+c.Random.IntN(20))
	for i := range 2 + c.Random.IntN(3) {
		c.Must("node n%d gpus=%d cores=%d memory=%d", i, 2+c.Random.IntN(7), 8+c.Random.IntN(8), 16+c.Random.IntN(24))
	}
	return &stretched{c}
}

// Step does something at random.
func (s *stretched) Step() {
	switch s.Random.IntN(8) {
	case 0, 1, 2:
		s.submit()
	case 3, 4:
		s.Must("advance %ds", 1+s.Random.IntN(600))
	case 5:
		s.tell()
	default:
		s.disturb()
	}
}

// submit adds a job, mostly an elastic one.
func (s *stretched) submit() {
	s.jobs++
	common := fmt.Sprintf("j%d priority=%d cores=%d memory=%d grace=%ds account=a%d%s", s.jobs, 40+10*s.Random.IntN(3),
		1+s.Random.IntN(3),
		1+s.Random.IntN(4), 1+s.Random.IntN(120), s.Random.IntN(2), [...]string{"", " save=yes"}[s.Random.IntN(2)])
	if s.Random.IntN(4) == 0 {
		s.Must("submit %s gang=%dx%d", common, 1+s.Random.IntN(2), s.Random.IntN(3))
		return
	}
	unit := 1 + s.Random.IntN(2)
	least := unit * (1 + s.Random.IntN(2))
	most := least + unit*s.Random.IntN(4)
	server := [...]string{"", "", " server=1"}[s.Random.IntN(3)]
	s.Must("submit %s gpus=%d elastic=%d-%d/%d step=%d%s", common, s.Random.IntN(3), least, most, unit,
		unit*(1+s.Random.IntN(2)), server)
}

// tell says how fast jobs are that run: every second one gets hardly faster with more workers.
func (s *stretched) tell() {
	var live []*model.Job
	for j := range s.State.View().Live() {
		if _, elastic := j.Elastic(); elastic && j.Live().Started.At != 0 && j.Live().Stop == nil {
			live = append(live, j)
		}
	}
	for _, j := range live {
		rate := 1000 * j.Size()
		if j.ID%2 == 0 {
			rate = 1000 + j.Size()
		}
		s.Must("rate %s is=%d", s.Names[j.ID], rate)
	}
}

// Settle cycles until nothing changes and looks at each plan.
func (s *stretched) Settle() error {
	for range 50 {
		v := s.State.View()
		plan, _ := sched.Cycle(v, s.Now, v.Config().Policy)
		if len(plan.Actions) == 0 {
			return s.lawful()
		}
		if err := s.soundResizes(v, plan); err != nil {
			return err
		}
		if err := s.Commit(plan); err != nil {
			return err
		}
		s.Out.Reset()
		if err := s.lawful(); err != nil {
			return err
		}
	}
	return fmt.Errorf("the cycle does not come to rest")
}

// soundResizes checks a plan alone. A job gives up workers only for a waiting job whose promised
// room needs all of them. A job grows only while no job leaves. It uses room that no job claims and
// that is not kept free for trial-and-error jobs.
func (s *stretched) soundResizes(v *state.View, plan fsm.CommitPlan) error {
	claims := map[model.JobID]*model.Reservation{}
	for _, a := range plan.Actions {
		switch a := a.(type) {
		case *fsm.Reserve:
			claims[a.Job] = (*model.Reservation)(a)
		case *fsm.ResizeJob:
			switch {
			case a.For != 0:
				if err := s.gives(v, a, claims[a.For]); err != nil {
					return err
				}
			case len(a.Leave) > 0:
				s.Seen["back"]++
			default:
				s.Seen["grow"]++
			}
		}
	}
	return s.needless(v, plan, claims)
}

// gives looks at a job that gives up workers.
func (s *stretched) gives(v *state.View, r *fsm.ResizeJob, kept *model.Reservation) error {
	s.Seen["shrink"]++
	taker, giver := v.Job(r.For), v.Job(r.Job)
	switch {
	case kept == nil || !kept.ForPreemptor:
		return fmt.Errorf("%s gives up workers for %s, for which no room is kept", s.Names[giver.ID], s.Names[taker.ID])
	case len(r.Join) > 0:
		return fmt.Errorf("%s gives up workers and gets some", s.Names[giver.ID])
	case s.Policy == "elastic" && queue.Compare(taker, giver) > 0:
		return fmt.Errorf("%s gives up workers for %s, which comes after it", s.Names[giver.ID], s.Names[taker.ID])
	}
	return nil
}

// needless looks for workers that leave although the promised room would be enough without them.
func (s *stretched) needless(v *state.View, plan fsm.CommitPlan,
	claims map[model.JobID]*model.Reservation) error {
	waiting := 0
	for j := range v.Jobs() {
		if j.Waits() {
			waiting++
		}
	}
	if waiting != 1 {
		return nil // room may be spared for jobs that come before
	}
	t := TrialOf(v, s.Now)
	leaving := make([]model.Request, len(v.Nodes()))
	for run := range v.LiveAttempts() {
		if run.Attempt.Stop == nil {
			continue
		}
		for _, r := range run.Releases {
			leaving[r.Node] = leaving[r.Node].Plus(r.Room)
		}
	}
	for _, action := range plan.Actions {
		a, ok := action.(*fsm.ResizeJob)
		if !ok || a.For == 0 {
			continue
		}
		j := v.Job(a.Job)
		terms, _ := j.Elastic()
		if terms.Unit > 1 {
			continue // one more may leave than is needed
		}
		for _, w := range a.Leave {
			_, n := v.Node(j.Live().Workers[w].Node)
			leaving[n] = leaving[n].Plus(j.RequestOf(w))
		}
	}
	for _, action := range plan.Actions {
		a, ok := action.(*fsm.ResizeJob)
		if !ok || a.For == 0 || len(claims) != 1 {
			continue
		}
		j := v.Job(a.Job)
		if terms, _ := j.Elastic(); terms.Unit > 1 {
			continue
		}
		for _, w := range a.Leave {
			_, n := v.Node(j.Live().Workers[w].Node)
			s.Seen["needed"]++
			have := t.Room.Available(n).Plus(leaving[n].Minus(j.RequestOf(w)))
			for _, c := range claims[a.For].Claims {
				if _, at := v.Node(c.Node); at == n && c.Resources.Within(have.Active) {
					return fmt.Errorf("worker %d of %s leaves needlessly", w, s.Names[j.ID])
				}
			}
		}
	}
	return nil
}
