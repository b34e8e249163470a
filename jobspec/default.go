package jobspec

// Defaults of what a job does not say and the cluster does not decide.
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

// Default fills in what was not written and does not depend on the cluster. Queue, account, class and time limit stay as they are:
// the queue decides them. A word that says what is so without it is taken out, which keeps records small. Doing it twice changes
// nothing.
func (j *Job) Default() {
	fill(&j.Priority, DefaultPriority)
	j.Restart = j.Restart.withDefaults()
	drop(&j.GangScope, ScopeGroup)
	if len(j.Groups) == 1 {
		drop(&j.GangScope, ScopeJob)
	}
	drop(&j.OnDependencyFailure, "cancel")
	for i := range j.Dependencies {
		orElse(&j.Dependencies[i].Match, "all")
	}
	for i := range j.LogPolicies {
		orElse(&j.LogPolicies[i].Stream, "both")
	}
	defaultConditions(j.Constraints, j.Affinities)
	j.defaultArray()
	if j.Checkpoint != nil {
		c := *j.Checkpoint
		orElse(&c.ExitCode, DefaultCheckpointExitCode)
		j.Checkpoint = &c
	}
	for i := range j.Groups {
		j.Groups[i].Default()
	}
	j.Preemption = j.preemptionWithDefaults()
}

// Default fills in what a group does not say.
func (g *Group) Default() {
	orElse(&g.Name, DefaultGroup)
	if g.Elastic == nil {
		orElse(&g.Count, 1)
	}
	g.Elastic = g.Elastic.withDefaults()
	if g.Loose() {
		orElse(&g.MaxWorkersPerNode, g.Count)
	}
	orElse(&g.MaxWorkersPerNode, 1)
	fill(&g.Gang, true)
	drop(&g.Success, "all")
	drop(&g.OnWorkerFailure, "restart_group")
	g.Restart = g.Restart.withDefaults()
	defaultConditions(g.Constraints, g.Affinities)
	leader := g.leaderIndex()
	for i := range g.Tasks {
		g.Tasks[i].Default()
		fill(&g.Tasks[i].Leader, i == leader)
	}
}

// leaderIndex is the place of the task that leads: the main task that says so, else the first main task that does not say otherwise.
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
		constraints[i] = constraints[i].plain()
	}
	for i := range affinities {
		affinities[i].Constraint = affinities[i].Constraint.plain()
	}
}

// defaultArray fills in what the array does not say. What a rule to stop is to compare by is taken from the task that reports it.
func (j *Job) defaultArray() {
	if j.Array == nil {
		return
	}
	a := *j.Array
	orElse(&a.Order, "index")
	fill(&a.MaxFailures, -1)
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
	j.Array = &a
}

// Default fills in what a task does not say, except Leader, which depends on its place in the group.
func (t *Task) Default() {
	orElse(&t.KillSignal, "SIGTERM")
	orElse(&t.KillTimeout, DefaultKillTimeout)
	t.Resources.Default()
	t.Log = t.Log.withDefaults()
	t.Launch = t.Launch.withDefaults()
	for i := range t.Mounts {
		orElse(&t.Mounts[i].Type, "bind")
		t.Mounts[i].Source, t.Mounts[i].Target = withoutSlash(t.Mounts[i].Source), withoutSlash(t.Mounts[i].Target)
	}
	for i := range t.Secrets {
		t.Secrets[i].File = t.Secrets[i].SecretFile()
	}
}

// Default fills in what was not asked for: one core, 4 GiB a core, and half of the memory for /dev/shm and /tmp each.
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
		if r.GPUs > 0 && g == (GPU{}) { // any will do
			r.GPU = nil
		}
	}
}

func (r *Restart) withDefaults() *Restart {
	if r == nil {
		return nil
	}
	d := *r
	orElse(&d.Delay, DefaultRestartDelay)
	orElse(&d.Backoff, "exponential")
	orElse(&d.MaxDelay, max(DefaultRestartMaxDelay, d.Delay))
	orElse(&d.Window, DefaultRestartWindow)
	fill(&d.ExcludeNode, true)
	return &d
}

func (l *Log) withDefaults() *Log {
	d := Log{}
	if l != nil {
		d = *l
	}
	fill(&d.Join, d.Stderr == "")
	orElse(&d.Mode, "append")
	orElse(&d.MaxSize, DefaultLogSize)
	fill(&d.Keep, DefaultLogKeep)
	return &d
}

func (l *Launch) withDefaults() *Launch {
	d := Launch{}
	if l != nil {
		d = *l
	}
	orElse(&d.Type, "single")
	switch {
	case d.Type == "per_gpu":
		d.NprocGPU = true
	case d.Nproc == 0 && !d.NprocGPU:
		d.Nproc = 1
	}
	if d.Type == "torchrun" {
		orElse(&d.Rdzv, "static")
	}
	return &d
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

// UsualPreemption is how the job is stopped when it does not say otherwise. The signal is the one that its launcher listens to:
// frameworks that follow Slurm take SIGUSR1 as the request to save and requeue.
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

// orElse sets *field to value if it is zero.
func orElse[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// drop takes a word out that says what is so without it.
func drop(field *string, word string) {
	if *field == word {
		*field = ""
	}
}

// fill points *field at value if it is nil.
func fill[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
