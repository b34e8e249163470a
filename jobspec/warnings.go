package jobspec

// Built-in limits of a queue for trial-and-error jobs, which its operator may change (docs/operating.md).
const (
	usualTETime = Seconds(2 * 3600)
	usualTEGPUs = 16
)

// Warnings returns what is allowed in the job and probably not meant, in the order of its fields. Nothing is refused because of one.
func (j *Job) Warnings() []Problem {
	c := &checker{}
	if j.Class == TE {
		c.tryTooMuch(j)
	}
	if k := j.Checkpoint; k != nil && k.Path == "" {
		c.add(CodeNoPath, "checkpoint", `write path = "/shared/you/checkpoints"`,
			"the checkpoint has no path, so nobody can see where the program saves or how large that grows")
	}
	if i := j.elasticGroup(); i >= 0 && j.Checkpoint == nil {
		c.add(CodeForgetful, at("groups", i)+".elastic", "let the program save when it gets the signal, and add checkpoint { }",
			"the group is started anew each time that its number of workers changes, and the job does not say that it saves its progress")
	}
	if p := j.Preemption; p != nil && p.GracePeriod > DefaultGracePeriod && j.Checkpoint == nil {
		c.add(CodeNoTrap, "preemption.grace_period", "let the program save its state and add checkpoint { }, or leave grace_period out",
			"a grace period of %v helps only a program that saves when it gets the signal, and this job does not say that it does", p.GracePeriod)
	}
	return c.problems
}

// tryTooMuch warns of what most queues do not give to trial-and-error jobs.
func (c *checker) tryTooMuch(j *Job) {
	if j.TimeLimit > usualTETime {
		c.add(CodeTryTooMuch, "time_limit", `leave class out for a long job`, "a te job of %v is refused by queues that keep the usual limit of %v", j.TimeLimit, usualTETime)
	}
	gpus := 0
	for i := range j.Groups {
		for k := range j.Groups[i].Tasks {
			gpus += min(j.Groups[i].Most(), MaxWorkers) * min(max(j.Groups[i].Tasks[k].Resources.GPUs, 0), MaxGPUs)
		}
	}
	if gpus > usualTEGPUs {
		c.add(CodeTryTooMuch, "groups", "leave class out for a large job", "a te job with %d GPUs is refused by queues that keep the usual limit of %d", gpus, usualTEGPUs)
	}
}
