package fsm

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "replay the random history of one seed")
	seedsFlag = flag.Int("seeds", 0, "number of random histories; 0: 4, or 12 with ROTA_TEST_LONG")
)

// seeds yields the seeds of random tests: the one asked for, or the first few.
func seeds() []uint64 {
	if *seedFlag != 0 {
		return []uint64{*seedFlag}
	}
	count := *seedsFlag
	if count == 0 {
		count = 4
		if os.Getenv("ROTA_TEST_LONG") != "" {
			count = 12
		}
	}
	var list []uint64
	for i := range count {
		list = append(list, uint64(i+1))
	}
	return list
}

// chaos makes random commands: mostly sensible ones, so that histories get far, and some that are
// garbage.
type chaos struct {
	*rand.Rand
	s        *Machine
	at       model.Instant
	boots    int
	seen     map[string]int
	small    bool // arrays of one element, so that more of them come to their end
	stretchy bool // some jobs are elastic, and are resized
	sharing  bool // most jobs ask for a part of a GPU
	limits   bool // some configurations limit users, accounts and the queue
}

func (c *chaos) one(n int) bool { return c.IntN(n) == 0 }

// job picks any id, more often that of a job with an attempt in progress.
func (c *chaos) job() model.JobID {
	if c.one(2) {
		var live []model.JobID
		for j := range c.s.v.Live() {
			live = append(live, j.ID)
		}
		if len(live) > 0 {
			return live[c.IntN(len(live))]
		}
	}
	return model.JobID(c.Int64N(int64(c.s.v.LastJob()) + 2))
}

func (c *chaos) nodeName() string { return fmt.Sprintf("n%d", c.IntN(8)) }

func (c *chaos) next() Entry {
	if !c.one(3) {
		c.at += model.Instant(c.IntN(20_000))
	}
	e := Entry{Stamp: model.Stamp{At: c.at, Wall: model.UnixMS(c.at)}, Command: c.command()}
	if c.one(50) {
		e.At -= 100_000
	}
	return e
}

func (c *chaos) command() Command {
	switch n := c.IntN(100); {
	case n < 10:
		return c.submit()
	case n < 20:
		return c.control()
	case n < 23 || len(c.s.v.Nodes()) == 0:
		return c.register()
	case n < 27:
		states := []model.NodeState{model.NodeUp, model.NodeUp, model.NodeUp, model.NodeDown, model.NodeDrained, "x"}
		return SetNodeState{Node: c.nodeName(), State: states[c.IntN(len(states))]}
	case n < 58:
		return c.plan()
	case n < 97:
		return c.report()
	case n < 98:
		return c.updateSome()
	case n < 99:
		return TrimHistory{UpTo: c.s.v.LastSeq() - c.Int64N(20)}
	}
	cfg := cluster.DefaultConfig()
	cfg.Policy.MaxLaunchFails = 1 + c.IntN(4)
	if c.limits && c.one(2) {
		c.limit(&cfg)
	}
	return SetConfig{Config: cfg}
}

// limit gives random owners limits, and the queue some of the nodes.
func (c *chaos) limit(cfg *cluster.Config) {
	some := func() *cluster.Limit {
		running, gpus, minutes, nodes := c.Int64N(6), 1000*c.Int64N(20), c.Int64N(20_000), 1+c.Int64N(4)
		l := cluster.Limit{Running: &running}
		switch c.IntN(4) {
		case 0:
			l.GPUs, l.Submitted = &gpus, &minutes
		case 1:
			l.GPUMinutes = &minutes
		case 2:
			l.Nodes = &nodes
		}
		return &l
	}
	cfg.Users = map[string]cluster.UserRules{cluster.EachUser: {Limit: some()}}
	cfg.Accounts = map[string]cluster.Account{"a": {Terms: cluster.Terms{Limit: some()}, Parent: "b"},
		"b": {Users: map[string]cluster.Terms{cluster.EachUser: {Limit: some()}}}}
	q := cfg.Queues[model.DefaultQueue]
	if q.Limit = some(); c.one(2) {
		q.Nodes = []string{"n[0-5]"}
	}
	cfg.Queues[model.DefaultQueue] = q
}

func (c *chaos) submit() Command {
	cmd := SubmitJobs{Owner: model.Identity{UID: uint32(c.IntN(3))}}
	if c.one(3) {
		cmd.Key, cmd.Digest = fmt.Sprint(c.IntN(40)), fmt.Sprint(c.IntN(2))
	}
	for range 1 + c.IntN(4) {
		spec := testSpec(1+c.IntN(3), c.IntN(5))
		spec.Account = []string{"", "a", "b"}[c.IntN(3)]
		spec.Hold = c.one(10)
		spec.Groups[0].MaxWorkersPerNode = c.IntN(3)
		if p := c.IntN(4) * 20; c.one(2) {
			spec.Priority = &p
		}
		if c.one(3) {
			spec.Restart = &jobspec.Restart{Attempts: c.IntN(4), Delay: 1}
		}
		if c.one(3) {
			spec.Checkpoint = &jobspec.Checkpoint{}
		}
		if c.one(30) {
			spec.Queue = "nowhere"
		}
		cmd.Jobs = append(cmd.Jobs, spec)
	}
	if c.sharing {
		return c.divideGPUs(cmd)
	}
	if c.one(3) {
		return c.depend(cmd)
	}
	if c.stretchy && c.one(4) {
		return c.stretch(cmd)
	}
	return cmd
}

func (c *chaos) control() Command {
	if c.one(2) {
		return c.control2()
	}
	verbs := []model.Verb{model.VerbCancel, model.VerbHold, model.VerbRelease, model.VerbRelease, model.VerbRequeue, "x"}
	cmd := ControlJobs{Verb: verbs[c.IntN(len(verbs))], By: uint32(c.IntN(3)), Admin: c.one(2)}
	for range c.IntN(4) {
		cmd.Targets = append(cmd.Targets, Target{ID: c.job()})
	}
	return cmd
}

func (c *chaos) register() Command {
	n := testNode(c.nodeName(), c.IntN(9))
	old, _ := c.s.v.Node(n.Name)
	switch {
	case old == nil:
	case c.one(3):
		c.boots++
		n.BootID = fmt.Sprint("again", c.boots)
		if c.one(3) {
			n.Machine = fmt.Sprint("clone", c.IntN(3))
		}
	default:
		n = *old
		n.GPUs = slices.Clone(old.GPUs)
		for i := range n.GPUs {
			n.GPUs[i].Healthy = !c.one(5)
		}
		if c.one(3) && len(n.GPUs) > 0 {
			n.GPUs = n.GPUs[:len(n.GPUs)-1]
		}
	}
	return RegisterNode{Node: n}
}

func (c *chaos) plan() Command {
	var p CommitPlan
	for range 1 + c.IntN(3) {
		p.Actions = append(p.Actions, c.action())
	}
	return p
}

func (c *chaos) action() Action {
	id := c.job()
	j := c.s.v.Job(id)
	attempt := 1
	if j != nil {
		attempt = j.Attempt
	}
	if c.stretchy && c.one(8) {
		return c.resize()
	}
	switch n := c.IntN(21); {
	case n < 13:
		return c.start()
	case n == 20:
		return c.giveUpSome()
	case n < 15:
		causes := []model.Cause{model.CauseTimeout, model.CauseTE, model.CauseDrain, model.CauseReclaim, model.CauseOrder,
			model.CauseShrink, model.CauseFailed, ""}
		return &StopJob{Job: id, Attempt: attempt, Cause: causes[c.IntN(len(causes))]}
	case n < 17:
		return &EndAttempt{Job: id, Attempt: attempt, Cause: model.CauseNodeLost}
	case n < 19:
		room := model.Vector{Cores: c.Int64N(32), GPUs: c.Int64N(9) * 1000}
		return &Reserve{Job: id, Claims: []model.Claim{{Node: c.nodeName(), Resources: room}},
			Until: c.at}
	}
	return &Unreserve{Job: id}
}

// start picks a pending job and places that often fit.
func (c *chaos) start() *StartJob {
	var pending []*model.Job
	for g := range c.s.v.QueueGroups() {
		if !g.Key.Held || c.one(10) {
			pending = append(pending, g.Jobs...)
		}
	}
	if len(pending) == 0 {
		return &StartJob{Job: c.job()}
	}
	j := pending[c.IntN(len(pending))]
	cmd := &StartJob{Job: j.ID, Bypasses: c.job()}
	if j.Children != nil {
		cmd.TaskNumber = c.IntN(j.Children.Size + 1)
	}
	cmd.Places = c.places(j, c.workersOf(j))
	cmd.Port, _ = c.s.v.FreePort(cmd.Places[0].Node)
	return cmd
}

// places are so many for workers of a job.
func (c *chaos) places(j *model.Job, workers int) []model.Place {
	var places []model.Place
	taken := map[string]uint64{}
	order := c.Perm(len(c.s.v.Nodes()))
	for i := range workers {
		n := c.s.v.Nodes()[order[i/model.PerNode(j)%len(order)]]
		_, at := c.s.v.Node(n.Name)
		mask := c.s.v.Grid().FreeGPUs(at) &^ taken[n.Name]
		if c.one(20) {
			mask = 0xff
		}
		p := model.Place{Node: n.Name}
		if share := j.Request.Share(); share > 0 && !c.one(8) {
			places = append(places, c.sharedPlace(p, at, share))
			continue
		}
		for g := 0; g < 64 && int64(len(p.GPUs))*1000 < j.Request.Active.GPUs; g++ {
			if mask&(1<<g) != 0 {
				p.GPUs = append(p.GPUs, g)
				taken[n.Name] |= 1 << g
			}
		}
		places = append(places, p)
	}
	return places
}

// report is about one worker on some node, or about nothing there is.
func (c *chaos) report() Command {
	n := c.s.v.Nodes()[c.IntN(len(c.s.v.Nodes()))]
	cmd := NodeReport{Node: n.Name, BootID: n.BootID}
	if c.one(30) {
		cmd.BootID = "old"
	}
	desired := c.s.v.Desired(n.Name)
	for range 1 + c.IntN(3) {
		r := model.WorkerReport{Job: c.job(), Attempt: c.IntN(3), Worker: c.IntN(3)}
		if len(desired) > 0 && !c.one(10) {
			d := desired[c.IntN(len(desired))]
			r.Job, r.Attempt, r.Worker = d.Job.ID, d.Job.Attempt, d.Worker
			r.Joined = d.Job.Live().Workers[d.Worker].Joined
		}
		states := []model.WorkerState{model.WorkerAssigned, model.WorkerCreated, model.WorkerCreated, model.WorkerRunning,
			model.WorkerRunning, model.WorkerExited, model.WorkerFailed}
		r.State = states[c.IntN(len(states))]
		if r.State == model.WorkerExited {
			r.ExitCode = []int{0, 0, 0, 0, 1, 85}[c.IntN(6)]
			r.OOM, r.Lease = c.one(12), c.one(12)
		}
		cmd.Workers = append(cmd.Workers, r)
	}
	return cmd
}

// heldView is a view and what it said when it was taken.
type heldView struct {
	v    *state.View
	said string
}

// say writes down everything that a view says, the derived parts included.
func say(t testing.TB, v *state.View) string {
	var b bytes.Buffer
	b.Write(snapshotOf(t, v))
	for j := range v.Live() {
		fmt.Fprintln(&b, "live", j.ID)
	}
	for _, j := range v.Finished(0) {
		fmt.Fprintln(&b, "finished", j.ID)
	}
	for g := range v.QueueGroups() {
		fmt.Fprintln(&b, "group", g.Key, len(g.Jobs))
		for _, j := range g.Jobs {
			fmt.Fprintln(&b, j.ID, j.Hold, j.Eligible)
		}
	}
	for i, n := range v.Nodes() {
		fmt.Fprintln(&b, n.Name, v.Grid().Free(i), v.Grid().FreeGPUs(i), v.Grid().Claimed(i), v.PortsUsed(n.Name),
			v.NodeModified(n.Name))
		for _, d := range v.Desired(n.Name) {
			fmt.Fprintln(&b, "desired", d.Job.ID, d.Worker)
		}
	}
	for n := range v.Grid().Buckets() {
		fmt.Fprintln(&b, v.Grid().Bucket(n))
	}
	for r := range v.LiveAttempts() {
		fmt.Fprintln(&b, "run", r.Job.ID, r.Attempt.N, r.Holds, r.Ends)
	}
	for st := range v.UsageCounters() {
		fmt.Fprintln(&b, "standing", st.Association, st.Held, st.Requested, st.Since)
	}
	fmt.Fprintln(&b, *v.Inventory(), v.Models())
	fmt.Fprintln(&b, len(v.Events(0)))
	return b.String()
}

// TestRandomHistories applies thousands of random commands. Every invariant must hold, see broken.
// A state restored from a snapshot must go the same way as the original, and a view must never
// change.
func TestRandomHistories(t *testing.T) {
	const steps = 4000
	seen := map[string]int{}
	defer checkNoticed(t, seen)
	for _, seed := range seeds() {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			c := &chaos{Rand: rand.New(rand.NewPCG(seed, 1)), s: New(cluster.DefaultConfig()), at: 1, seen: seen, stretchy: true,
				limits: true}
			twin := New(cluster.DefaultConfig()) // applies decoded entries, and is replaced by its own snapshot now and then
			var held []heldView
			audit := audited(t, c.s)
			for i := uint64(1); i <= steps; i++ {
				e := c.next()
				_, err := c.s.Apply(i, e)
				if bad := c.broken(audit, i); bad != nil {
					t.Fatalf("seed %d, entry %d, %s %+v: %v", seed, i, e.Command.Kind(), e.Command, bad)
				}
				twin = c.follow(t, seed, twin, i, e, err)
				if i%3 == 0 {
					c.notice()
				}
				if c.one(7) {
					v := c.s.View()
					held = append(held, heldView{v, say(t, v)})
				}
				if len(held) > 30 {
					checkHeld(t, seed, held)
					held = held[:0]
				}
			}
			checkHeld(t, seed, held)
			c.varied()
		})
	}
}

// wholeEvery is after how many commands of a long history the whole state is checked, which takes time by the
// number of jobs. With ROTA_TEST_LONG it is after each.
var wholeEvery = func() uint64 {
	if os.Getenv("ROTA_TEST_LONG") != "" {
		return 1
	}
	return 16
}()

// broken returns what does not hold after entry i: of what it has touched, and every now and then of all.
func (c *chaos) broken(audit *state.Auditor, i uint64) error {
	err := audit.Check()
	if i%wholeEvery == 0 {
		if whole := c.s.Check(); whole != nil {
			err = errors.Join(err, fmt.Errorf("the whole state, after this or one of the %d commands before it "+
				"(ROTA_TEST_LONG=1 finds which): %w", wholeEvery-1, whole))
		}
	}
	return err
}

// follow applies an entry to the twin by way of its encoding, and compares.
func (c *chaos) follow(t *testing.T, seed uint64, twin *Machine, i uint64, e Entry, want error) *Machine {
	data, err := Encode(e)
	if err != nil {
		t.Fatalf("seed %d, entry %d: %v", seed, i, err)
	}
	decoded, err := Decode(data)
	if err != nil {
		t.Fatalf("seed %d, entry %d: %v", seed, i, err)
	}
	result, err := twin.Apply(i, decoded)
	if fmt.Sprint(err) != fmt.Sprint(want) {
		t.Fatalf("seed %d, entry %d: refused with %v here and %v there", seed, i, want, err)
	}
	if bad := unlisted(e.Command.Kind(), result, err); bad != nil {
		t.Errorf("seed %d, entry %d, %s: the table of commands has no refusal like: %v", seed, i, e.Command.Kind(), bad)
	}
	if !c.one(40) {
		return twin
	}
	ours, theirs := snapshotOf(t, c.s.View()), snapshotOf(t, twin.View())
	if !bytes.Equal(ours, theirs) {
		t.Fatalf("seed %d, entry %d: two replicas differ:\n%s\n%s", seed, i, ours, theirs)
	}
	back, err := ReadSnapshot(bytes.NewReader(theirs))
	if err != nil {
		t.Fatalf("seed %d, entry %d: %v", seed, i, err)
	}
	if err := back.Check(); err != nil {
		t.Fatalf("seed %d, entry %d, restored: %v", seed, i, err)
	}
	if !bytes.Equal(theirs, snapshotOf(t, back.View())) {
		t.Fatalf("seed %d, entry %d: a snapshot of a restored state differs", seed, i)
	}
	return back
}

func checkHeld(t *testing.T, seed uint64, held []heldView) {
	for _, h := range held {
		if now := say(t, h.v); now != h.said {
			t.Fatalf("seed %d: the view at index %d changed:\n%s\nwas\n%s", seed, h.v.Index(), now, h.said)
		}
	}
}

// varied remembers for what causes attempts have ended.
func (c *chaos) varied() {
	for _, e := range c.s.v.Events(0) {
		if e.Type == model.EventEnded {
			c.seen[string("an attempt that ended with cause "+e.Cause)]++
		}
	}
}
