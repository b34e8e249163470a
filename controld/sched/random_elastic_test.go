package sched

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// stretched plays random histories of elastic and other jobs.
type stretched struct{ *contest }

func newStretched(seed uint64, policy string, seen map[string]int) *stretched {
	c := &contest{world: newWorld(), random: rand.New(rand.NewPCG(seed, 11)), policy: policy, stops: map[attempt]cluster.Stop{}, seen: seen}
	c.must("policy name=%s reserve-after=%dm", policy, 1+c.random.IntN(20))
	for i := range 2 + c.random.IntN(3) {
		c.must("node n%d gpus=%d cores=%d memory=%d", i, 2+c.random.IntN(7), 8+c.random.IntN(8), 16+c.random.IntN(24))
	}
	return &stretched{c}
}

// step does something at random.
func (s *stretched) step() {
	switch s.random.IntN(8) {
	case 0, 1, 2:
		s.submit()
	case 3, 4:
		s.must("advance %ds", 1+s.random.IntN(600))
	case 5:
		s.tell()
	default:
		s.disturb()
	}
}

// submit adds a job, mostly an elastic one.
func (s *stretched) submit() {
	s.jobs++
	common := fmt.Sprintf("j%d priority=%d cores=%d memory=%d grace=%ds account=a%d%s", s.jobs, 40+10*s.random.IntN(3), 1+s.random.IntN(3),
		1+s.random.IntN(4), 1+s.random.IntN(120), s.random.IntN(2), [...]string{"", " save=yes"}[s.random.IntN(2)])
	if s.random.IntN(4) == 0 {
		s.must("submit %s gang=%dx%d", common, 1+s.random.IntN(2), s.random.IntN(3))
		return
	}
	unit := 1 + s.random.IntN(2)
	least := unit * (1 + s.random.IntN(2))
	most := least + unit*s.random.IntN(4)
	server := [...]string{"", "", " server=1"}[s.random.IntN(3)]
	s.must("submit %s gpus=%d elastic=%d-%d/%d step=%d%s", common, s.random.IntN(3), least, most, unit, unit*(1+s.random.IntN(2)), server)
}

// tell says how fast jobs are that run: every second one gets hardly faster with more workers.
func (s *stretched) tell() {
	var live []*cluster.Job
	for j := range s.state.View().Live() {
		if _, elastic := j.Elastic(); elastic && j.Live().Started.At != 0 && j.Live().Stop == nil {
			live = append(live, j)
		}
	}
	for _, j := range live {
		rate := 1000 * j.Size()
		if j.ID%2 == 0 {
			rate = 1000 + j.Size()
		}
		s.must("rate %s is=%d", s.names[j.ID], rate)
	}
}

// settle cycles until nothing changes and looks at each plan.
func (s *stretched) settle() error {
	for range 50 {
		v := s.state.View()
		plan, _ := Cycle(v, s.now, v.Config().Policy)
		if len(plan.Actions) == 0 {
			return s.lawful()
		}
		if err := s.soundResizes(v, plan); err != nil {
			return err
		}
		if err := s.commit(plan); err != nil {
			return err
		}
		s.out.Reset()
		if err := s.lawful(); err != nil {
			return err
		}
	}
	return fmt.Errorf("the cycle does not come to rest")
}

// soundResizes looks at a plan alone: who gives up workers does so for a job that waits, whose promised room needs all of them; who gets some
// does so while nobody leaves, out of room that nobody claims and that is not kept free for trial-and-error jobs.
func (s *stretched) soundResizes(v *cluster.View, plan cluster.CommitPlan) error {
	claims := map[cluster.JobID]*cluster.Reservation{}
	for _, a := range plan.Actions {
		switch {
		case a.Reserve != nil:
			claims[a.Reserve.Job] = a.Reserve
		case a.Resize == nil:
		case a.Resize.For != 0:
			if err := s.gives(v, a.Resize, claims[a.Resize.For]); err != nil {
				return err
			}
		case len(a.Resize.Leave) > 0:
			s.seen["back"]++
		default:
			s.seen["grow"]++
		}
	}
	return s.needless(v, plan, claims)
}

// gives looks at a job that gives up workers.
func (s *stretched) gives(v *cluster.View, r *cluster.ResizeJob, kept *cluster.Reservation) error {
	s.seen["shrink"]++
	taker, giver := v.Job(r.For), v.Job(r.Job)
	switch {
	case kept == nil || !kept.Firm:
		return fmt.Errorf("%s gives up workers for %s, for which no room is kept", s.names[giver.ID], s.names[taker.ID])
	case len(r.Join) > 0:
		return fmt.Errorf("%s gives up workers and gets some", s.names[giver.ID])
	case s.policy == "elastic" && compare(taker, giver) > 0:
		return fmt.Errorf("%s gives up workers for %s, which comes after it", s.names[giver.ID], s.names[taker.ID])
	}
	return nil
}

// needless looks for workers that leave although the promised room would be enough without them.
func (s *stretched) needless(v *cluster.View, plan cluster.CommitPlan, claims map[cluster.JobID]*cluster.Reservation) error {
	waiting := 0
	for j := range v.Jobs() {
		if j.Waits() {
			waiting++
		}
	}
	if waiting != 1 {
		return nil // room may be spared for those who come before
	}
	t := trialOf(v, s.now)
	leaving := make([]cluster.Request, len(v.Nodes()))
	for run := range v.Runs() {
		if run.Attempt.Stop == nil {
			continue
		}
		for _, r := range run.Frees {
			leaving[r.Node] = fit.Plus(leaving[r.Node], r.Room)
		}
	}
	for _, a := range plan.Actions {
		if a.Resize == nil || a.Resize.For == 0 {
			continue
		}
		j := v.Job(a.Resize.Job)
		terms, _ := j.Elastic()
		if terms.Unit > 1 {
			continue // one more may leave than is needed
		}
		for _, w := range a.Resize.Leave {
			_, n := v.Node(j.Live().Workers[w].Node)
			leaving[n] = fit.Plus(leaving[n], j.RequestOf(w))
		}
	}
	for _, a := range plan.Actions {
		if a.Resize == nil || a.Resize.For == 0 || len(claims) != 1 {
			continue
		}
		j := v.Job(a.Resize.Job)
		if terms, _ := j.Elastic(); terms.Unit > 1 {
			continue
		}
		for _, w := range a.Resize.Leave {
			_, n := v.Node(j.Live().Workers[w].Node)
			s.seen["needed"]++
			have := fit.Plus(t.room.Available(n), fit.Minus(leaving[n], j.RequestOf(w)))
			for _, c := range claims[a.Resize.For].Claims {
				if _, at := v.Node(c.Node); at == n && c.Room.Cores <= have.Active.Cores && c.Room.Memory <= have.Active.Memory && c.Room.GPUs <= have.Active.GPUs {
					return fmt.Errorf("worker %d of %s leaves needlessly", w, s.names[j.ID])
				}
			}
		}
	}
	return nil
}

// TestElasticHistories plays random histories under the policies that give jobs more and fewer workers.
func TestElasticHistories(t *testing.T) {
	const steps = 25
	for _, policy := range []string{"elastic", "dragon", "static", "rota"} {
		t.Run(policy, func(t *testing.T) {
			seen := map[string]int{}
			first, last := uint64(1), uint64(states(20_000)/steps)
			if *seedFlag != 0 {
				first, last = *seedFlag, *seedFlag
			}
			for seed := first; seed <= last; seed++ {
				s := newStretched(seed, policy, seen)
				for step := range steps {
					s.step()
					if err := s.settle(); err != nil {
						t.Fatalf("seed=%d step %d: %v", seed, step, err)
					}
				}
			}
			t.Logf("%v", seen)
			want := map[string][]string{"elastic": {"shrink", "grow", "needed"}, "dragon": {"grow", "back"}, "rota": {"grow", "shrink"}}
			for _, what := range want[policy] {
				if *seedFlag == 0 && seen[what] == 0 {
					t.Errorf("the histories had no %q: %v", what, seen)
				}
			}
		})
	}
}
