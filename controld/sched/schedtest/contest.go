package schedtest

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/scratch"
	"github.com/rota-hpc/rota/jobspec"
)

// States returns how many random states a test looks at: many if ROTA_TEST_LONG is set.
func States(usual int) int {
	if long() {
		return 50 * usual
	}
	return usual
}

// Seeds is States for a test that says how many histories are many.
func Seeds(usual, many int) uint64 {
	if long() {
		return uint64(many)
	}
	return uint64(usual)
}

func long() bool { return os.Getenv("ROTA_TEST_LONG") != "" }

// Attempt names one attempt of a job.
type Attempt struct {
	Job model.JobID
	N   int
}

// Contest plays random histories in which jobs take room from others.
type Contest struct {
	*World
	Random *rand.Rand
	Policy string
	jobs   int
	Faulty bool                                  // nodes and GPUs break
	stops  map[Attempt]model.Stop                // as first seen
	paused map[model.JobID]map[model.Cause]int32 // how often each job has paused, by cause
	Seen   map[string]int                        // counts of events, so that the histories prove something
}

// NewContest returns a random history under a policy. Events are counted in seen.
func NewContest(seed uint64, policy string, seen map[string]int) *Contest {
	c := &Contest{World: NewWorld(), Random: rand.New(rand.NewPCG(seed, 7)), Policy: policy,
		stops: map[Attempt]model.Stop{}, paused: map[model.JobID]map[model.Cause]int32{}, Seen: seen}
	c.Must("policy name=%s p=%d min-runtime=%dm reserve-after=%dm max-bypass=%d te-gpus=%d min-turn=%dm", policy,
		1+c.Random.IntN(3), 1+c.Random.IntN(10),
		1+c.Random.IntN(20), c.Random.IntN(5), []int{0, 0, 8}[c.Random.IntN(3)], 10+c.Random.IntN(60))
	if policy == "rota" {
		c.Must("policy te-account=%d te-user=%d", []int{1000, 500, 250}[seed%3], []int{1000, 1000, 300, 150}[seed%4])
	}
	for i := range 2 + c.Random.IntN(3) {
		c.Must("node n%d gpus=%d cores=%d memory=%d", i, 2+c.Random.IntN(7), 8+c.Random.IntN(8), 8+c.Random.IntN(24))
	}
	return c
}

// Must carries out one line of a scenario; an error panics.
func (c *Contest) Must(format string, args ...any) {
	if err := c.Run(fmt.Sprintf(format, args...)); err != nil {
		panic(fmt.Sprintf("%s: %v", fmt.Sprintf(format, args...), err))
	}
}

// Step does something at random.
func (c *Contest) Step() {
	switch c.Random.IntN(8) {
	case 0, 1, 2:
		for range 1 + c.Random.IntN(3) {
			c.jobs++
			save, class := [...]string{"", " save=yes", " save=5m"}[c.Random.IntN(3)],
				[...]string{"te", "be", "be", "be"}[c.Random.IntN(4)]
			if class == "be" && c.Random.IntN(3) == 0 {
				save += " pause=yes"
			}
			c.Must("submit j%d class=%s gang=%dx%d per-node=%d cores=%d memory=%d grace=%ds account=a%d%s", c.jobs,
				class, []int{1, 1, 1, 2, 3}[c.Random.IntN(5)], c.Random.IntN(4),
				1+c.Random.IntN(2),
				1+c.Random.IntN(4), 1+c.Random.IntN(6), 1+c.Random.IntN(600), c.Random.IntN(2), save)
		}
	case 3, 4:
		c.Must("advance %ds", 1+c.Random.IntN(3600))
	default:
		c.disturb()
	}
}

// disturb does something to a random job that is not final.
func (c *Contest) disturb() {
	var live []*model.Job
	for j := range c.State.View().Jobs() {
		if !j.State.Final() {
			live = append(live, j)
		}
	}
	if len(live) == 0 {
		return
	}
	j := live[c.Random.IntN(len(live))]
	name := c.Names[j.ID]
	a := j.Live()
	switch {
	case a == nil:
		c.Must("cancel %s", name)
	case a.Stop != nil:
		c.Must("exit code=%d %s", []int{0, 85, 85, 85, 1}[c.Random.IntN(5)], name)
	case j.State == model.Configuring:
		c.Must("run %s", name)
	case (a.Suspending() || a.Resuming()) && c.Random.IntN(6) > 0:
		if err := c.switched(j); err != nil {
			panic(err)
		}
	default:
		c.Must("%s %s", [...]string{"exit", "exit", "exit code=1", "cancel"}[c.Random.IntN(4)], name)
	}
}

// switched has a job follow its last order, and counts its pauses by cause.
func (c *Contest) switched(j *model.Job) error {
	pauses, cause := j.Live().Suspending(), j.Live().Switch.Cause
	if err := c.Switched(j, pauses); err != nil || !pauses || c.State.View().Job(j.ID).State != model.Suspended {
		return err
	}
	if c.paused[j.ID] == nil {
		c.paused[j.ID] = map[model.Cause]int32{}
	}
	c.paused[j.ID][cause]++
	c.Seen["paused"]++
	return nil
}

// Settle cycles until nothing changes and checks each plan.
func (c *Contest) Settle() error {
	for range 20 {
		v := c.State.View()
		plan, wake := sched.Cycle(v, c.Now, v.Config().Policy)
		if wake != 0 && wake <= c.Now {
			return fmt.Errorf("the next wake-up %d is not after %d", wake, c.Now)
		}
		if len(plan.Actions) == 0 {
			return c.atRest()
		}
		if err := c.sound(v, plan); err != nil {
			return err
		}
		if err := c.Commit(plan); err != nil {
			return err
		}
		c.Out.Reset()
		if err := c.lawful(); err != nil {
			return err
		}
	}
	return fmt.Errorf("the cycle does not come to rest")
}

// sound checks a plan alone. It stops no job that is being stopped, none twice and no
// trial-and-error job, and each stop is for a waiting job.
func (c *Contest) sound(v *state.View, plan fsm.CommitPlan) error {
	stopped := map[model.JobID]bool{}
	for _, a := range plan.Actions {
		var err error
		switch a := a.(type) {
		case *fsm.SuspendJob:
			err = c.soundSuspension(v, a, stopped)
		case *fsm.ResumeJob:
			c.Seen["resume"]++
		case *fsm.StopJob:
			if a.Cause != model.CauseTimeout {
				err = c.soundStop(v, a, stopped)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// soundSuspension looks at a suspension, which must be as lawful as a stop would be, of a job that
// can save its state.
func (c *Contest) soundSuspension(v *state.View, s *fsm.SuspendJob, stopped map[model.JobID]bool) error {
	switch j := v.Job(s.Job); {
	case stopped[j.ID] || j.Live().Stop != nil || j.Live().Switch != nil && !j.Live().Switched():
		return fmt.Errorf("%s is disturbed twice", c.Names[j.ID])
	case j.State != model.Running || !j.CanSuspend():
		return fmt.Errorf("%s is to pause and cannot", c.Names[j.ID])
	case c.Policy == "fitgpp" || c.Policy == "rand" || j.Class == jobspec.TE || !v.Job(s.For).Waits():
		return fmt.Errorf("%s pauses for %s", c.Names[j.ID], c.Names[s.For])
	case c.Policy == "rota" && s.Cause != model.CauseReclaim &&
		j.DisplacedSince(c.Now-scratch.Day) >= v.Config().Policy.MaxPreempts:
		return fmt.Errorf("%s is displaced too often", c.Names[j.ID])
	}
	stopped[s.Job] = true
	c.Seen["suspend "+string(s.Cause)]++
	return nil
}

// soundStop looks at a stop for the sake of another job.
func (c *Contest) soundStop(v *state.View, s *fsm.StopJob, stopped map[model.JobID]bool) error {
	j := v.Job(s.Job)
	switch {
	case stopped[j.ID] || j.Live().Stop != nil:
		return fmt.Errorf("%s is disturbed twice", c.Names[j.ID])
	case j.Class == jobspec.TE:
		return fmt.Errorf("%s is a trial-and-error job and has to leave", c.Names[j.ID])
	case !v.Job(s.For).Waits():
		return fmt.Errorf("%s leaves for %s, which does not wait", c.Names[j.ID], c.Names[s.For])
	case c.Policy == "rota" && s.Cause != model.CauseMigrate && s.Cause != model.CauseReclaim &&
		j.DisplacedSince(c.Now-scratch.Day) >= v.Config().Policy.MaxPreempts:
		return fmt.Errorf("%s is displaced too often", c.Names[j.ID])
	case s.Cause == model.CauseOrder && j.Spec.Checkpoint == nil:
		return fmt.Errorf("%s loses its turn although it cannot save its state", c.Names[j.ID])
	}
	stopped[j.ID] = true
	c.Seen[string(s.Cause)]++
	return nil
}

// lawful checks the state. Clocks of stops never restart (A1). Room that is taken from others for a
// job stays its own (A5). Displacements are counted by cause and use up no retries (A7).
func (c *Contest) lawful() error {
	v := c.State.View()
	leaving := make([]model.Request, len(v.Nodes()))
	for j := range v.Live() {
		a := j.Live()
		if a.Stop == nil {
			for i := range a.Workers {
				if w := &a.Workers[i]; a.Suspending() && !w.State.Final() {
					_, n := v.Node(w.Node)
					leaving[n] = leaving[n].Plus(j.FreedBySuspension(a, i))
				}
			}
			continue
		}
		if first, known := c.stops[Attempt{j.ID, a.N}]; known && (a.Stop.At != first.At || a.Stop.KillAt > first.KillAt) {
			return fmt.Errorf("the clock of %s was started again: %+v, before %+v", c.Names[j.ID], *a.Stop, first)
		}
		c.stops[Attempt{j.ID, a.N}] = *a.Stop
		for i := range a.Workers {
			if w := &a.Workers[i]; !w.State.Final() {
				_, n := v.Node(w.Node)
				leaving[n] = leaving[n].Plus(j.Holds(a, i))
			}
		}
	}
	claimed := make([]model.Vector, len(v.Nodes()))
	for _, r := range v.Reservations() {
		for _, claim := range r.Claims {
			if _, n := v.Node(claim.Node); r.ForPreemptor {
				claimed[n] = fit.AtLeast(fit.Both(claimed[n]).Plus(fit.Both(claim.Resources)))
			}
		}
	}
	for n, node := range v.Nodes() {
		have := model.Request{Active: v.Grid().Free(n), Resident: v.Grid().FreeResident(n)}
		have = have.Plus(leaving[n])
		have.Resident.Cores = have.Active.Cores
		if !fit.Covers(have, fit.Both(claimed[n])) {
			return fmt.Errorf("on %s %+v is or will be free of %+v that was taken for a job", node.Name, have, claimed[n])
		}
	}
	for j := range v.Jobs() {
		if err := c.counted(j); err != nil {
			return err
		}
	}
	return nil
}

// besideOthers reports whether GPUs are shared on a node where room is kept for a job, and some of
// it for others too. Claims do not name GPUs. Where one breaks, the others may do for each claim
// but not for all of them. Then the last job waits until those before it have started.
func besideOthers(v *state.View, j *model.Job) bool {
	return slices.ContainsFunc(v.Reservation(j.ID).Claims, func(own model.Claim) bool {
		_, node := v.Node(own.Node)
		return v.Grid().SharedGPUs(node) != 0 && slices.ContainsFunc(v.Reservations(), func(r *model.Reservation) bool {
			return r.ForPreemptor && r.Job != j.ID &&
				slices.ContainsFunc(r.Claims, func(c model.Claim) bool { return c.Node == own.Node })
		})
	})
}

func (c *Contest) counted(j *model.Job) error {
	n := map[model.Cause]int32{}
	for i := range j.Attempts {
		n[j.Attempts[i].Cause]++
	}
	for cause, times := range c.paused[j.ID] {
		n[cause] += times
	}
	if k := j.Counters; j.Attempt <= model.MaxAttemptsKept &&
		(k.TE != n[model.CauseTE] || k.Order != n[model.CauseOrder] || k.Reclaim != n[model.CauseReclaim] ||
			k.UserFailures != n[model.CauseFailed]+n[model.CauseOOM]) {
		return fmt.Errorf("%s: %+v of attempts that ended or paused by %v", c.Names[j.ID], k, n)
	}
	return nil
}

// atRest checks the state when nothing is left to do. No job waits that could start (I5). A
// trial-and-error job waits only for leaving jobs, or because none may be asked to leave (A8). A
// job that left in vain goes first (A12).
func (c *Contest) atRest() error {
	if err := c.lawful(); err != nil || c.Policy != "rota" {
		return err
	}
	v := c.State.View()
	reason := sched.Reasons(v, c.Now, v.Config().Policy)
	if err := c.suspended(v); err != nil {
		return err
	}
	for j := range v.Jobs() {
		if !j.Waits() || j.Eligible > c.Now || j.Hold != model.NotHeld {
			continue
		}
		why := reason(j.ID)
		limited := why.Code == model.ReasonTELimit
		if limited {
			c.Seen["limit"]++
		}
		if CollectsRoom(v, c.Now) {
			c.Seen["collected"]++
		} else if (CouldStart(v, j) || HasCome(v, j) && !(c.Faulty && besideOthers(v, j))) && !limited {
			return fmt.Errorf("%s waits although it fits, or its room has come: %+v", c.Names[j.ID], why)
		}
		if j.OwnRoomFirst {
			c.Seen["first"]++
		}
		if j.Class != jobspec.TE {
			continue
		}
		c.Seen[string(why.Code)]++
		switch why.Code {
		case model.ReasonPreempting:
			if why.Until > c.Now+600_000 {
				return fmt.Errorf("%s waits until %d for those that leave", c.Names[j.ID], why.Until)
			}
		case model.ReasonNoVictim, model.ReasonTELimit, model.ReasonBadConstraint:
		case model.ReasonNodeDown, model.ReasonNotAvail:
			if !c.Faulty {
				return fmt.Errorf("%s waits for nodes, and all are up: %+v", c.Names[j.ID], why)
			}
		default:
			return fmt.Errorf("%s is a trial-and-error job and waits for %+v", c.Names[j.ID], why)
		}
	}
	return nil
}

// suspended looks for a suspended job that could go on: where nothing is kept for others, and no
// trial-and-error job waits for the room.
func (c *Contest) suspended(v *state.View) error {
	for j := range v.Jobs() {
		if j.Class == jobspec.TE && j.Waits() {
			return nil
		}
	}
	for j := range v.Live() {
		a, needs := j.Live(), map[int]model.Vector{}
		if !a.Suspended() || a.Stop != nil {
			continue
		}
		fits := true
		for i := range a.Workers {
			if _, n := v.Node(a.Workers[i].Node); !a.Workers[i].State.Final() {
				needs[n] = needs[n].Plus(j.RequestOf(i).Active)
				fits = fits && needs[n].Within(v.Grid().Free(n)) && v.Grid().Claimed(n) == model.Vector{} &&
					v.Nodes()[n].State == model.NodeUp
			}
		}
		if fits {
			return fmt.Errorf("%s stays suspended although there is room", c.Names[j.ID])
		}
	}
	return nil
}

// CollectsRoom reports whether room is kept for a suspended job that has waited for long to go on.
func CollectsRoom(v *state.View, now model.Instant) bool {
	for j := range v.Live() {
		if a := j.Live(); a.Stop == nil && a.Suspended() && a.Switch.Cause.Preempts() &&
			a.Switch.Since+model.Instant(v.Config().Policy.ReserveAfterMS) <= now {
			return true
		}
	}
	return false
}

// CouldStart counts workers node by node with the state's own Fits, and nothing else.
func CouldStart(v *state.View, j *model.Job) bool {
	var g grid.Grid
	g.CopyFrom(v.Grid())
	v.LiftClaims(&g, j.ID)
	if len(j.Parts) > 0 || j.Workers > 1 && j.Request.Active.GPUs%1000 != 0 {
		gang := fit.NewGang(v, j) // nothing simple decides this; fit's own tests try everything
		var room fit.Room
		room.Reset(v)
		return room.Fits(&gang)
	}
	workers, met := 0, j.Workers == 1
	for i, n := range v.Nodes() {
		if excluded(j, n.Name) || !wanted(j, n) {
			continue
		}
		w := 0
		for w < model.PerNode(j) && grid.Fits(&g, i, j.Request.Times(w+1), nil) == nil {
			w++
		}
		if _, port := v.FreePort(n.Name); w > 0 && port {
			met = true
		}
		workers += w
	}
	return met && workers >= j.Workers
}

// wanted asks a node for the few things that wishes says, in its own way.
func wanted(j *model.Job, n *model.Node) bool {
	for _, c := range j.Spec.Groups[0].Constraints {
		switch {
		case c.Attribute == "node.cores" && n.Cores < 8,
			c.Attribute == "node.label.rack" && c.Operator == "=" && n.Labels["rack"] != c.Value,
			c.Attribute == "node.label.rack" && c.Operator == "in" && n.Labels["rack"] > "b":
			return false
		}
	}
	r := &j.Spec.Groups[0].Tasks[0].Resources
	if r.GPU != nil && r.GPU.Model != "" && r.GPUs > 0 && (len(n.GPUs) == 0 ||
		!strings.EqualFold(n.GPUs[0].Model, r.GPU.Model)) {
		return false
	}
	return (j.Spec.Nodes == nil || "n0" <= n.Name && n.Name <= "n2") && (j.Spec.ExcludeNodes == nil || n.Name != "n1")
}

func excluded(j *model.Job, node string) bool {
	for _, name := range j.Exclude {
		if name == node {
			return true
		}
	}
	return false
}

// HasCome reports whether all jobs have left a job's nodes that were to leave for it, while the
// room is still kept for it.
func HasCome(v *state.View, job *model.Job) bool {
	r := v.Reservation(job.ID)
	if r == nil || !r.ForPreemptor {
		return false
	}
	return !slices.ContainsFunc(r.Claims, func(c model.Claim) bool {
		_, node := v.Node(c.Node)
		will := WillBeFree(v, v.Live(), node) // of a suspended job that is stopped only memory comes
		return will.Active != v.Grid().Free(node) || will.Resident.Memory != v.Grid().FreeResident(node).Memory
	})
}

// WillBeFree returns the room of a node that is free, or will be once the leaving jobs have left
// it. A job that is resized frees only some workers.
func WillBeFree(v *state.View, jobs iter.Seq[*model.Job], node int) model.Request {
	have := model.Request{Active: v.Grid().Free(node), Resident: v.Grid().FreeResident(node)}
	for job := range jobs {
		a := job.Live()
		if a == nil || a.Stop == nil && !a.Suspending() {
			continue
		}
		for i := range a.Workers {
			w := &a.Workers[i]
			if a.Stop == nil {
				if w.Node == v.Nodes()[node].Name && !w.State.Final() {
					r := job.FreedBySuspension(a, i)
					r.Active.GPUs -= scratch.BrokenIn(w, v.Nodes()[node], r)
					have = have.Plus(r)
				}
				continue
			}
			if stays := a.Stop.Resize != nil && !slices.Contains(a.Stop.Resize.Leave, i); !stays && !w.State.Final() &&
				w.Node == v.Nodes()[node].Name {
				r := job.Holds(a, i)
				r.Active.GPUs -= scratch.BrokenIn(w, v.Nodes()[node], r)
				have = have.Plus(r)
			}
		}
	}
	have.Resident.Cores = have.Active.Cores
	return have
}
