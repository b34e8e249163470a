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
// the queue decides them. Doing it twice changes nothing.
func (j *Job) Default() {
	fill(&j.Priority, DefaultPriority)
	if j.Restart != nil {
		j.Restart = j.Restart.withDefaults()
	}
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
	orElse(&g.Count, 1)
	orElse(&g.MaxWorkersPerNode, 1)
	fill(&g.Gang, true)
	for i := range g.Tasks {
		g.Tasks[i].Default()
		fill(&g.Tasks[i].Leader, i == 0)
	}
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
	}
}

// Default fills in what was not asked for: one core, 4 GiB a core, and half of the memory for /dev/shm and /tmp each.
func (r *Resources) Default() {
	orElse(&r.Cores, 1)
	orElse(&r.Memory, Bytes(max(r.Cores, 1))*DefaultMemoryPerCore)
	orElse(&r.Shm, r.Memory/2)
	orElse(&r.Tmp, r.Memory/2)
}

func (r *Restart) withDefaults() *Restart {
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

// preemptionWithDefaults chooses the signal that the job's launcher listens to: frameworks that follow Slurm take SIGUSR1 as the
// request to save and requeue.
func (j *Job) preemptionWithDefaults() *Preemption {
	d := Preemption{}
	if j.Preemption != nil {
		d = *j.Preemption
	}
	signal := "SIGTERM"
	for _, g := range j.Groups {
		for _, t := range g.Tasks {
			if t.Launch != nil && t.Launch.Type == "slurm" {
				signal = "SIGUSR1"
			}
		}
	}
	orElse(&d.Signal, signal)
	orElse(&d.GracePeriod, DefaultGracePeriod)
	return &d
}

// orElse sets *field to value if it is zero.
func orElse[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// fill points *field at value if it is nil.
func fill[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
