// Package schedtest plays scenarios and random histories for tests of the scheduler. It uses the
// real state and the real cycle, with nodes that follow a script.
package schedtest

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/jobspec"
)

// World is a cluster that a scenario plays on: the real state and the real cycle, with nodes that
// do what the script says.
type World struct {
	State *fsm.Machine
	Index uint64
	Now   model.Instant
	Ids   map[string]model.JobID
	Names map[model.JobID]string
	boots map[string]int
	Out   strings.Builder

	Unchecked bool            // not after every command: the test does it by itself
	Entered   func(fsm.Entry) // is told of each command, in order, before it is applied

	audit  *state.Auditor // of State, once it was checked
	checks int
}

// NewWorld returns a world without nodes.
func NewWorld() *World {
	c := cluster.DefaultConfig()
	c.Policy.TEAccountPM, c.Policy.TEUserPM = 1000, 1000 // what is not told of them
	setNodeLoss(&c, jobspec.NodeLossRequeue)             // however few nodes a scenario has
	return &World{
		State: fsm.New(c), Now: 1000, Ids: map[string]model.JobID{}, Names: map[model.JobID]string{},
		boots: map[string]int{},
	}
}

// setNodeLoss sets the fate of jobs in the default queue whose nodes are lost.
func setNodeLoss(c *cluster.Config, rule jobspec.NodeLoss) {
	c.Queues = maps.Clone(c.Queues)
	q := c.Queues[model.DefaultQueue]
	q.OnNodeLost = rule
	c.Queues[model.DefaultQueue] = q
}

// Apply proposes a command and checks the invariants after it.
func (w *World) Apply(c fsm.Command) (any, error) {
	w.Index++
	entry := fsm.Entry{Stamp: model.Stamp{At: w.Now, Wall: model.UnixMS(w.Now)}, Command: c}
	if w.Entered != nil {
		w.Entered(entry)
	}
	result, err := w.State.Apply(w.Index, entry)
	if w.Unchecked {
		return result, err
	}
	if broken := w.Check(); broken != nil {
		return result, fmt.Errorf("after %s: %w", c.Kind(), broken)
	}
	return result, err
}

// In a long history the whole state is checked only every wholeEvery times, because the check takes
// time by the number of jobs and nodes. With ROTA_TEST_LONG it is checked each time.
const (
	short      = 32 // calls of Check
	wholeEvery = 16
)

// Check returns each broken invariant of the changes since the last call, and now and then of the
// whole state.
func (w *World) Check() error {
	if w.audit == nil {
		var err error
		w.audit, err = w.State.Audit()
		return err
	}
	err := w.audit.Check()
	if w.checks++; w.checks <= short || w.checks%wholeEvery == 0 || long() {
		if whole := w.State.Check(); whole != nil {
			err = errors.Join(err, fmt.Errorf("the whole state, after this or one of the %d checks before it "+
				"(ROTA_TEST_LONG=1 finds which): %w", wholeEvery-1, whole))
		}
	}
	return err
}

// Run carries out one line of a scenario and appends its output to out.
func (w *World) Run(line string) error {
	words := strings.Fields(line)
	verb, rest := words[0], words[1:]
	names, options := Split(rest)
	switch verb {
	// The cluster: its configuration and nodes.
	case "policy":
		return w.policy(options)
	case "account":
		return w.account(names, options)
	case "license": // NAME=COUNT
		return w.license(options)
	case "limit": // of an owner
		return w.limit(options)
	case "queue":
		return w.queue(names, options)
	case "refused": // as submit
		return w.refused(names, options)
	case "shares":
		return w.shares()
	case "node":
		return w.node(names[0], options)
	case "dead":
		_, err := w.Apply(fsm.ConfirmDead{Nodes: names, By: "root"})
		return err
	case "down", "up", "drain":
		return w.setNode(verb, names)
	// Requests of users.
	case "submit":
		return w.submit(names, options)
	case "pipeline":
		return w.pipeline(names[0], names[1:], options)
	case "hold", "release", "cancel", "requeue":
		return w.control(model.Verb(verb), names)
	case "run", "exit", "paused", "continues", "break", "change", "tried", "measured":
		return w.reported(verb, names, options)
	// Time passes, and the scheduler decides.
	case "advance":
		return w.advance(names[0])
	case "cycle":
		return w.cycle()
	case "turn":
		return w.turn(names)
	case "trim": // as if the history were stored durably
		_, err := w.Apply(fsm.TrimHistory{UpTo: math.MaxInt64})
		return err
	case "update":
		return w.update(names, options)
	case "plan":
		return w.plan()
	case "sharing":
		return w.sharing(options)
	case "rate":
		return w.rate(names, options)
	case "waiting":
		return w.waiting()
	case "jobs":
		return w.jobs()
	}
	return w.show(verb, names)
}

// reported carries out a line about what nodes report of each named job.
func (w *World) reported(verb string, names []string, options map[string]string) error {
	return w.each(names, func(j *model.Job) error {
		switch verb {
		case "run":
			return w.Bring(j, options, model.WorkerCreated, model.WorkerRunning)
		case "exit":
			return w.Bring(j, options, model.WorkerExited)
		case "break":
			return w.Bring(j, options, model.WorkerFailed)
		case "paused", "continues":
			return w.Switched(j, verb == "paused")
		case "change": // the workers that join or leave
			return w.leave(j)
		case "tried":
			return w.tried(j)
		}
		return w.measured(j, options)
	})
}

// show carries out a line that only explains or lists jobs.
func (w *World) show(verb string, names []string) error {
	switch verb {
	case "why":
		for _, name := range names {
			w.why(w.Ids[name])
		}
	case "after":
		for _, name := range names {
			w.after(w.Ids[name])
		}
	case "prio":
		w.prio()
	case "share":
		w.share(names[0])
	default:
		return fmt.Errorf("no command %q", verb)
	}
	return nil
}

// Split tells words from key=value options.
func Split(words []string) (names []string, options map[string]string) {
	options = map[string]string{}
	for _, word := range words {
		if k, v, ok := strings.Cut(word, "="); ok {
			options[k] = v
		} else {
			names = append(names, word)
		}
	}
	return names, options
}

func (w *World) say(format string, args ...any) { fmt.Fprintf(&w.Out, format+"\n", args...) }

// policy changes the configuration: name, reserve-after, reserve-hold, lease, margin, on-node-lost,
// max-bypass, min-runtime, half-life, influence.
func (w *World) policy(options map[string]string) error {
	c := *w.State.View().Config()
	for k, v := range options {
		var err error
		switch k {
		case "max-bypass":
			c.Policy.MaxBypass, err = strconv.Atoi(v)
		case "reserve-after":
			c.Policy.ReserveAfterMS, err = milliseconds(v)
		case "reserve-hold":
			c.Policy.ReserveHoldMS, err = milliseconds(v)
		case "lease":
			c.LeaseMS, err = milliseconds(v)
		case "margin":
			c.MarginMS, err = milliseconds(v)
		case "on-node-lost": // "": by the number of nodes
			var rule jobspec.NodeLoss
			rule, err = jobspec.ParseNodeLoss(v)
			setNodeLoss(&c, rule)
		default:
			err = setFair(&c.Policy, k, v)
		}
		if err != nil {
			return err
		}
	}
	_, err := w.Apply(fsm.SetConfig{Config: c})
	return err
}

// node registers a node. Options are gpus, cores, memory (GiB), ports (how many) and broken (the
// number of its broken GPU). Further ones are suspends (0: it cannot) and reboot (any value: a new
// boot id). With pins=1 a suspended job resumes only with its former GPUs.
func (w *World) node(name string, options map[string]string) error {
	gpus, cores, memory, ports, broken, suspends, pins := 0, 64, 256, 100, -1, 1, 0
	for k, v := range options {
		if Describe(&model.Node{}, k, v) {
			continue
		}
		n, err := strconv.Atoi(v)
		if err != nil {
			return err
		}
		switch k {
		case "gpus":
			gpus = n
		case "cores":
			cores = n
		case "memory":
			memory = n
		case "ports":
			ports = n
		case "broken":
			broken = n
		case "suspends":
			suspends = n
		case "pins":
			pins = n
		default:
			return fmt.Errorf("no property %q of a node", k)
		}
	}
	n := MakeNode(name, gpus, cores, memory, ports)
	n.Suspends, n.PinsGPUs = suspends > 0, pins > 0
	for k, v := range options {
		Describe(&n, k, v)
	}
	if broken >= 0 {
		n.GPUs[broken].Healthy, n.GPUs[broken].Problem = false, "it fell off the bus"
	}
	_, err := w.Apply(fsm.RegisterNode{Node: n})
	return err
}

// MakeNode returns a node with the given GPUs, cores, GiB of memory and ports.
func MakeNode(name string, gpus, cores, memoryGiB, ports int) model.Node {
	n := model.Node{
		Name: name, Addr: "127.0.0.1:1", BootID: name + "-boot", Machine: name + "-machine", Version: "test",
		Cores: int64(cores), Memory: jobspec.Bytes(memoryGiB) * jobspec.GiB, PortMin: 29000, PortMax: 29000 + ports - 1,
		Suspends: true,
	}
	for i := range gpus {
		n.GPUs = append(n.GPUs, model.GPU{
			UUID: fmt.Sprintf("GPU-SIM-%s-%d", name, i), Model: "Simulated", Memory: 80 * jobspec.GiB, Minor: -1, Healthy: true,
		})
	}
	return n
}

func (w *World) setNode(verb string, names []string) error {
	states := map[string]model.NodeState{"down": model.NodeDown, "up": model.NodeUp, "drain": model.NodeDrained}
	for _, name := range names {
		if _, err := w.Apply(fsm.SetNodeState{Node: name, State: states[verb]}); err != nil {
			return err
		}
	}
	return nil
}

// submit adds jobs that are alike. Options are class, priority, gang=WORKERSxGPUS, gpus=N or
// share=THOUSANDTHS of a GPU, cores, memory (GiB), limit and account. Further ones are per-node,
// retries, hold, user, grace, pause (any value: it can be suspended).
func (w *World) submit(names []string, options map[string]string) error {
	owner := cmp.Or(options["user"], "ada")
	delete(options, "user")
	for _, name := range names {
		spec, err := w.MakeJob(name, options)
		if err != nil {
			return err
		}
		addServer(spec, options["server"])
		declareSteps(spec, options["steps"])
		if err := w.AddAs(owner, name, spec); err != nil {
			return err
		}
	}
	return nil
}

func (w *World) add(name string, spec *jobspec.Job) error { return w.AddAs("ada", name, spec) }

// AddAs submits one job of a user. Its tasks get the names by which users know them.
func (w *World) AddAs(user, name string, spec *jobspec.Job) error {
	owner := Ada
	owner.User = user
	c := fsm.SubmitJobs{Owner: owner, Jobs: []*jobspec.Job{spec}}
	result, err := w.Apply(c)
	if err != nil {
		return err
	}
	id := result.([]model.JobID)[0]
	w.Ids[name], w.Names[id] = id, name
	f := w.State.View().Job(id).Children
	for n := 1; f != nil && n <= f.Size; n++ {
		member := w.memberName(id, n)
		w.Ids[member], w.Names[id+model.JobID(n)] = id+model.JobID(n), member
	}
	return nil
}

// Ada is the user that submits if a scenario names none.
var Ada = model.Identity{UID: 1000, GID: 1000, User: "ada"}

func (w *World) memberName(record model.JobID, n int) string {
	spec := w.State.View().Job(record).Spec
	if spec.Array != nil {
		return fmt.Sprintf("%s_%d", w.Names[record], spec.Array.Index(n-1))
	}
	return w.Names[record] + "." + spec.Groups[n-1].Name
}

// pipeline submits a job whose groups run one by one, each like a job of submit: NAME, or
// NAME<OTHER:ok<ANOTHER:any where it depends.
func (w *World) pipeline(name string, groups []string, options map[string]string) error {
	spec, err := w.MakeJob(name, options)
	if err != nil {
		return err
	}
	like := spec.Groups[0]
	spec.Groups = nil
	for _, text := range groups {
		parts := strings.Split(text, "<")
		g := like
		g.Name, g.DependsOn = parts[0], parts[1:]
		spec.Groups = append(spec.Groups, g)
	}
	return w.add(name, spec)
}

// MakeJob returns a job as the options of a scenario's submit say.
func (w *World) MakeJob(name string, options map[string]string) (*jobspec.Job, error) {
	r := jobspec.Resources{Cores: 1, Memory: jobspec.GiB}
	spec := &jobspec.Job{Name: name, Class: jobspec.BE, Queue: "default", Account: "default", Workdir: "/home/ada"}
	group := jobspec.Group{Name: "main", Count: 1}
	if err := w.setWhen(spec, options); err != nil {
		return nil, err
	}
	for k, v := range options {
		if slices.Contains(whenOptions, k) {
			continue
		}
		if err := setOption(spec, &group, &r, k, v); err != nil {
			return nil, err
		}
	}
	group.Tasks = []jobspec.Task{{Name: "main", Command: []string{"true"}, Resources: r}}
	if spec.Groups != nil {
		spread(spec, group)
		return spec, nil
	}
	spec.Groups = []jobspec.Group{group}
	return spec, nil
}

func setOption(spec *jobspec.Job, group *jobspec.Group, r *jobspec.Resources, k, v string) error {
	n, err := strconv.Atoi(v)
	switch k {
	case "array", "max-parallel", "max-failures", "order":
		setArray(spec, k, v, n)
		err = nil
	case "elastic", "step", "cooldown", "grow-after", "server", "resize":
		err = setElastic(group, k, v)
	case "class":
		spec.Class, err = jobspec.Class(v), nil
	case "account":
		spec.Account, err = v, nil
	case "queue":
		spec.Queue, err = v, nil
	case "hold":
		spec.Hold, err = true, nil
	case "priority":
		spec.Priority = &n
	case "gpus":
		r.GPUs = n
	case "share":
		if r.GPU == nil {
			r.GPU = &jobspec.GPU{}
		}
		r.GPUs, r.GPU.Share = 1, n
	case "cores":
		r.Cores = n
	case "memory":
		r.Memory = jobspec.Bytes(n) * jobspec.GiB
	case "per-node":
		group.MaxWorkersPerNode = n
	case "retries":
		spec.Restart = &jobspec.Restart{Attempts: n, Delay: 30, Window: 86400}
	case "gang":
		_, err = fmt.Sscanf(v, "%dx%d", &group.Count, &r.GPUs)
	case "grace":
		var ms int64
		ms, err = milliseconds(v)
		preemptionOf(spec).GracePeriod = jobspec.Seconds(ms / 1000)
	case "pause":
		preemptionOf(spec).Mode, err = jobspec.PreemptSuspend, nil
	case "steps": // of its progress, in all
	case "called": // its name, if that is not the scenario's
		spec.Name, err = v, nil
	case "save":
		err = setSave(spec, v)
	case "limit":
		var ms int64
		ms, err = milliseconds(v)
		spec.TimeLimit = jobspec.Seconds(ms / 1000)
	case "before": // its limit it gets a signal
		var ms int64
		ms, err = milliseconds(v)
		spec.Checkpoint = &jobspec.Checkpoint{BeforeLimit: jobspec.Seconds(ms / 1000)}
	default:
		err = setWhere(spec, group, r, k, v)
	}
	return err
}

// setArray makes a job an array of indices, of which max-parallel live at once and max-failures may
// fail, in order=random or index.
func setArray(spec *jobspec.Job, k, v string, n int) {
	if spec.Array == nil {
		spec.Array = &jobspec.Array{}
	}
	switch k {
	case "array":
		spec.Array.Indices = v
	case "max-parallel":
		spec.Array.MaxParallel = n
	case "max-failures":
		spec.Array.MaxFailures = &n
	case "order":
		spec.Array.Order = v
	}
}

// control does something to jobs, to members such as sweep_3 or train.eval, or to several elements
// as in sweep_[3-5,9].
func (w *World) control(verb model.Verb, names []string) error {
	for _, name := range names {
		target, err := w.target(name)
		if err != nil {
			return err
		}
		result, err := w.Apply(fsm.ControlJobs{Verb: verb, Targets: []fsm.Target{target}, By: Ada.UID})
		if err != nil {
			return err
		}
		if err := result.([]model.ControlResult)[0].Err; err != nil {
			return err
		}
	}
	return nil
}

func (w *World) target(name string) (fsm.Target, error) {
	base, indices, several := strings.Cut(name, "_[")
	target := fsm.Target{ID: w.Ids[base]}
	switch {
	case target.ID == 0:
		return target, fmt.Errorf("no job %q", name)
	case several:
		spans, missing, err := w.State.View().Job(target.ID).Spec.Array.Elements().Select("[" + indices)
		if err != nil || missing > 0 {
			return target, fmt.Errorf("%s: %d elements missing, error %w", name, missing, err)
		}
		for _, s := range spans {
			target.Tasks = target.Tasks.With(ranges.Span(s.First+1, s.Last+1))
		}
	}
	return target, nil
}

func (w *World) each(names []string, do func(*model.Job) error) error {
	for _, name := range names {
		j := w.State.View().Job(w.Ids[name])
		if j == nil {
			return fmt.Errorf("no job %q", name)
		}
		if err := do(j); err != nil {
			return err
		}
	}
	return nil
}

// Bring reports that a job's workers have come to each state in turn: all that are not final, or
// those on=NODE, with code=N.
func (w *World) Bring(j *model.Job, options map[string]string, states ...model.WorkerState) error {
	a := j.Live()
	if a == nil {
		return fmt.Errorf("%s has no attempt in progress", w.Names[j.ID])
	}
	code, _ := strconv.Atoi(options["code"])
	for _, state := range states {
		for i, worker := range a.Workers {
			if worker.State.Final() || options["on"] != "" && options["on"] != worker.Node {
				continue
			}
			report := model.WorkerReport{Job: j.ID, Attempt: a.N, Worker: i, State: state}
			if state.Final() {
				report.ExitCode, report.Message = code, options["message"]
			}
			n, _ := w.State.View().Node(worker.Node)
			if _, err := w.Apply(fsm.NodeReport{Node: worker.Node, BootID: n.BootID,
				Workers: []model.WorkerReport{report}}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *World) advance(by string) error {
	ms, err := milliseconds(by)
	w.Now += model.Instant(ms)
	return err
}

// cycle decides and commits until nothing changes, as a leader does, and says what happened and
// when it would look again.
func (w *World) cycle() error {
	said := w.Out.Len()
	var wake model.Instant
	for range 10 {
		v := w.State.View()
		plan, next := sched.Cycle(v, w.Now, v.Config().Policy)
		if wake = next; len(plan.Actions)+len(plan.Would) == 0 {
			break
		}
		if err := w.Commit(plan); err != nil {
			return err
		}
	}
	if w.Out.Len() == said {
		w.say("nothing")
	}
	if wake != 0 {
		w.say("look again in %s", duration(int64(wake-w.Now)))
	}
	return nil
}

// plan decides without committing.
func (w *World) plan() error {
	v := w.State.View()
	plan, _ := sched.Cycle(v, w.Now, v.Config().Policy)
	for _, a := range plan.Actions {
		w.say("would %s", w.Action(a))
	}
	return nil
}

// Commit applies a plan, which the state must accept as a whole.
func (w *World) Commit(plan fsm.CommitPlan) error {
	result, err := w.Apply(plan)
	if err != nil {
		return err
	}
	for i, refused := range result.([]error) {
		if refused != nil {
			return fmt.Errorf("refused to %s: %w", w.Action(plan.Actions[i]), refused)
		}
		w.say("%s", w.Action(plan.Actions[i]))
	}
	for i := range plan.Would {
		w.say("%s", w.wouldDo(&plan.Would[i]))
	}
	return nil
}

func milliseconds(s string) (int64, error) {
	d, err := time.ParseDuration(s)
	return d.Milliseconds(), err
}

// Seed makes tests of random histories play one of them alone.
var Seed = flag.Uint64("seed", 0, "play only the random history with this seed")
