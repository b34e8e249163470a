package jobspec

import "slices"

// Defaults of settings that do not depend on the cluster.
const (
	DefaultPriority           = 50
	DefaultGroup              = "main"
	DefaultKillTimeout        = Seconds(30)
	DefaultGracePeriod        = Seconds(30)
	DefaultRestartDelay       = Seconds(30)
	DefaultRestartMaxDelay    = Seconds(600)
	DefaultRestartWindow      = Seconds(86400)
	DefaultCheckpointExitCode = 85
	DefaultLogSize            = GiB
	DefaultLogKeep            = 3
	DefaultMemoryPerCore      = 4 * GiB
)

// Default fills in the settings that do not depend on the cluster. Queue, account, class and time
// limit stay as they are, because the queue decides them. An explicit value equal to its default is
// removed, which keeps records small. A second call changes nothing.
func (j *Job) Default() {
	fill(&j.Priority, DefaultPriority)
	j.Restart = defaulted(j.Restart)
	drop(&j.GangScope, ScopeGroup)
	if len(j.Groups) == 1 {
		drop(&j.GangScope, ScopeJob)
	}
	drop(&j.OnDependencyFailure, "cancel")
	for i := range j.Dependencies {
		j.Dependencies[i].Default()
	}
	for i := range j.LogPolicies {
		j.LogPolicies[i].Default()
	}
	defaultConditions(j.Constraints, j.Affinities)
	j.defaultArray()
	j.Checkpoint = defaulted(j.Checkpoint)
	for i := range j.Groups {
		j.Groups[i].Default()
	}
	j.Preemption = j.preemptionWithDefaults()
}

// Default fills in the settings of a group.
func (g *Group) Default() {
	orElse(&g.Name, DefaultGroup)
	if g.Elastic == nil {
		orElse(&g.Count, 1)
	}
	g.Elastic = defaulted(g.Elastic)
	orElse(&g.MaxWorkersPerNode, g.UsualPerNode())
	fill(&g.Gang, true)
	drop(&g.Success, "all")
	drop(&g.OnWorkerFailure, "restart_group")
	g.Restart = defaulted(g.Restart)
	defaultConditions(g.Constraints, g.Affinities)
	leader := g.leaderIndex()
	for i := range g.Tasks {
		if g.Exclusive { // the worker gets all memory of its node
			orElse(&g.Tasks[i].Resources.Memory, DefaultMemoryPerCore)
		}
		g.Tasks[i].Default()
		fill(&g.Tasks[i].Leader, i == leader)
	}
}

// UsualPerNode returns how many workers of the group may share a node by default. By default all
// may share, so that the group uses as few nodes as possible. A worker gets its own node if its
// group gets whole nodes, runs steps, or cannot tell workers on one node apart.
func (g *Group) UsualPerNode() int {
	if !g.Loose() && (g.Exclusive || g.RunsSteps() || g.MeetsByHost()) {
		return 1
	}
	return min(max(g.Most(), 1), MaxWorkers)
}

// MeetsByHost reports whether the workers find each other by torchrun's c10d, which identifies them
// by host name and process id. Workers on one node have equal host names and process ids.
func (g *Group) MeetsByHost() bool {
	return slices.ContainsFunc(g.Tasks, func(t Task) bool { return t.Launch != nil && t.Launch.Rdzv == "c10d" })
}

// leaderIndex returns the index of the leader: the main task with leader = true, or the first main
// task without leader = false.
func (g *Group) leaderIndex() int {
	first := -1
	for i := range g.Tasks {
		switch t := &g.Tasks[i]; {
		case t.Lifecycle != nil:
		case t.Leader != nil && *t.Leader:
			return i
		case t.Leader == nil && first < 0:
			first = i
		}
	}
	return first
}

func defaultConditions(constraints []Constraint, affinities []Affinity) {
	for i := range constraints {
		constraints[i].Default()
	}
	for i := range affinities {
		affinities[i].Default()
	}
}

// defaultArray fills in the settings of the array. A stop rule without a goal takes the goal of the
// task that reports its metric.
func (j *Job) defaultArray() {
	if j.Array == nil {
		return
	}
	a := defaulted(j.Array)
	if a.Stop != nil {
		s := *a.Stop
		for _, t := range j.MainTasks() {
			if t.Progress != nil && t.Progress.Metric == s.Metric {
				orElse(&s.Goal, t.Progress.Goal)
			}
		}
		orElse(&s.Goal, "min")
		a.Stop = &s
	}
	j.Array = a
}

// Default fills in the settings of a task except Leader, which depends on the other tasks.
func (t *Task) Default() {
	orElse(&t.KillSignal, "SIGTERM")
	orElse(&t.KillTimeout, DefaultKillTimeout)
	t.Resources.Default()
	t.Log = filled(t.Log)
	t.Launch = filled(t.Launch)
	for i := range t.Mounts {
		t.Mounts[i].Default()
	}
	for i := range t.Secrets {
		t.Secrets[i].Default()
	}
}

// Default fills in one core, 4 GiB of memory for each core, and half of the memory each for
// /dev/shm and for /tmp.
func (r *Resources) Default() {
	orElse(&r.Cores, 1)
	orElse(&r.Memory, Bytes(max(r.Cores, 1))*DefaultMemoryPerCore)
	orElse(&r.Shm, r.Memory/2)
	orElse(&r.Tmp, r.Memory/2)
	drop(&r.RDMA, "none")
	if r.GPU != nil {
		g := *r.GPU
		drop(&g.Vendor, "nvidia")
		r.GPU = &g
		if r.GPUs > 0 && g == (GPU{}) { // an empty requirement: any GPU is suitable
			r.GPU = nil
		}
	}
}

// Default fills in that the job waits for all jobs of the dependency, not for any.
func (d *Dependency) Default() { orElse(&d.Match, "all") }

// Default fills in that the policy reads stdout and stderr.
func (p *LogPolicy) Default() { orElse(&p.Stream, "both") }

// Default brings the constraint into its normal form.
func (c *Constraint) Default() { *c = c.plain() }

// Default fills in the settings of an array except the goal of its stop rule, which depends on the
// tasks.
func (a *Array) Default() {
	orElse(&a.Order, "index")
	fill(&a.MaxFailures, -1)
}

// Default fills in the settings of a checkpoint.
func (c *Checkpoint) Default() { orElse(&c.ExitCode, DefaultCheckpointExitCode) }

// Default fills in the settings of restarts.
func (r *Restart) Default() {
	orElse(&r.Delay, DefaultRestartDelay)
	orElse(&r.Backoff, "exponential")
	orElse(&r.MaxDelay, max(DefaultRestartMaxDelay, r.Delay))
	orElse(&r.Window, DefaultRestartWindow)
	fill(&r.ExcludeNode, true)
}

// Default fills in the settings of a mount, and removes trailing slashes from its paths.
func (m *Mount) Default() {
	orElse(&m.Type, "bind")
	m.Source, m.Target = withoutSlash(m.Source), withoutSlash(m.Target)
}

// Default fills in the file of a secret that is not in a variable.
func (s *Secret) Default() { s.File = s.SecretFile() }

// Default fills in the settings of a log.
func (l *Log) Default() {
	fill(&l.Join, l.Stderr == "")
	orElse(&l.Mode, "append")
	orElse(&l.MaxSize, DefaultLogSize)
	fill(&l.Keep, DefaultLogKeep)
}

// Default fills in the number of processes of a worker, and how they find each other.
func (l *Launch) Default() {
	orElse(&l.Type, "single")
	switch {
	case l.Type == "per_gpu":
		l.NprocGPU = true
	case l.Nproc == 0 && !l.NprocGPU:
		l.Nproc = 1
	}
	if l.Type == "torchrun" {
		orElse(&l.Rdzv, "static")
	}
}

func (j *Job) preemptionWithDefaults() *Preemption {
	d := Preemption{}
	if j.Preemption != nil {
		d = *j.Preemption
	}
	usual := j.UsualPreemption()
	orElse(&d.Signal, usual.Signal)
	orElse(&d.GracePeriod, usual.GracePeriod)
	return &d
}

// UsualPreemption returns the default way to stop the job. Its signal depends on the launchers:
// frameworks for Slurm save and requeue on SIGUSR1.
func (j *Job) UsualPreemption() *Preemption {
	signal := "SIGTERM"
	for _, g := range j.Groups {
		for _, t := range g.Tasks {
			if t.Launch != nil && t.Launch.Type == "slurm" {
				signal = "SIGUSR1"
			}
		}
	}
	return &Preemption{Signal: signal, GracePeriod: DefaultGracePeriod}
}

// part is a pointer to a part of a job that has defaults.
type part[T any] interface {
	*T
	Default()
}

// defaulted returns a copy of a part with its defaults filled in, or nil for nil. Copies of a job
// share their parts, so a part is replaced and never changed in place.
func defaulted[T any, P part[T]](p P) P {
	if p == nil {
		return nil
	}
	return filled(p)
}

// filled is [defaulted], but creates a missing part.
func filled[T any, P part[T]](p P) P {
	next := P(new(T))
	if p != nil {
		*next = *p
	}
	next.Default()
	return next
}

// orElse sets *field to value if it is zero.
func orElse[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// drop clears a field that equals its default.
func drop(field *string, word string) {
	if *field == word {
		*field = ""
	}
}

// fill points *field to value if it is nil.
func fill[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
