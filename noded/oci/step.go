package oci

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hostlist"
	"github.com/rota-hpc/rota/noded/oci/launch"
)

// Step is one node's part of a step, which a program of the job has started inside the allocation.
type Step struct {
	Number       int
	Programs     []api.StepProgram
	Env          []string      // of the command that asked for it, NAME=VALUE
	Workdir      string        // "": the job's
	Umask        jobspec.Umask // none: the job's
	Nodes        []string      // of the step
	Counts       []int         // tasks on each of them
	Node         int           // index of this one
	Tasks        []int         // numbers of the tasks here
	Cores        int           // that it has here
	CoresPerTask int           // 0: the step did not ask
	Exact        bool          // it gets no other cores than Cores
	GPUs         []int         // indices into Node.GPUs
	GPUsPerTask  int           // 0: all tasks see all of them
	Memory       jobspec.Bytes // 0: no limit but the worker's
	Cyclic       bool
	Groups       []int            // numbers of the job's groups that it is in, if it is in several
	Terminal     *launch.Terminal // of the first task here; nil: it has none
}

// StepSpec returns the OCI runtime spec of a part of a step. Node has what is the container's own; its
// Cores are those that the part may use, empty if any.
func StepSpec(in Input, s Step) (*specs.Spec, error) {
	t, err := in.stepTask(s)
	if err != nil {
		return nil, err
	}
	return t.spec()
}

// StepPlan says what rota-init runs in the container of a part of a step.
func StepPlan(in Input, s Step) (*launch.Plan, error) {
	t, err := in.stepTask(s)
	if err != nil {
		return nil, err
	}
	p := &launch.Plan{Independent: true, PIDVariable: taskPID, Env: t.stepEnvironment(),
		Dir:      cmp.Or(s.Workdir, in.Alloc.Spec.Workdir, in.Alloc.Spec.SubmitDir, "/tmp"),
		Anywhere: s.Workdir == "" && in.Alloc.Spec.Workdir == "", KillTimeout: cmp.Or(int64(t.task.KillTimeout)*1000, 30_000)}
	if p.Secrets, err = secretVariables(t.task); err != nil {
		return nil, err
	}
	for local, n := range s.Tasks {
		p.Ranks = append(p.Ranks, launch.Rank{Name: "task " + itoa(n), Args: s.argv(n), Env: t.stepRank(local)})
	}
	if s.Terminal != nil {
		p.Ranks[0].Terminal = s.Terminal
	}
	return p, nil
}

// argv returns the command line of a task.
func (s *Step) argv(task int) []string {
	var rest []string
	for _, p := range s.Programs {
		if len(p.Tasks) == 0 {
			rest = p.Argv
		} else if slices.Contains(p.Tasks, task) {
			return p.Argv
		}
	}
	return rest
}

// StepTask returns the index of the task of the worker's group beside which steps run: the one that
// starts them. It is -1 if there is none.
func StepTask(tasks []jobspec.Task) int {
	return slices.IndexFunc(tasks, func(t jobspec.Task) bool {
		return t.Launch != nil && t.Launch.Type == jobspec.LaunchSteps
	})
}

// taskPID is the variable with the id of a task's process.
const taskPID = "SLURM_TASK_PID"

// stepTask returns the task beside which a step runs, with the step.
func (in Input) stepTask(s Step) (taskInput, error) {
	if g, err := in.findGroup(); err == nil {
		in.Task = StepTask(g.Tasks)
	}
	t, err := in.withRanks()
	t.step, t.taskGPUs = &s, s.GPUs
	return t, err
}

// stepResources returns the limits of a part of a step, below those of its worker.
func (in taskInput) stepResources(rules []specs.LinuxDeviceCgroup) *specs.LinuxResources {
	cores := int64(max(in.step.Cores, 1))
	shares := uint64(cores) * 1024
	res := &specs.LinuxResources{Devices: rules, CPU: &specs.LinuxCPU{Shares: &shares}}
	switch {
	case len(in.Node.Cores) > 0:
		res.CPU.Cpus = hostlist.Numbers(in.Node.Cores)
	case in.step.Exact:
		quota, period := cores*cpuPeriod, uint64(cpuPeriod)
		res.CPU.Quota, res.CPU.Period = &quota, &period
	}
	if memory := int64(in.step.Memory); memory > 0 {
		res.Memory = &specs.LinuxMemory{Limit: &memory}
		if !in.Node.NoSwapLimit {
			res.Memory.Swap = &memory
		}
	}
	return res
}

// stepEnvironment returns what all tasks of a part of a step have in common. Variables of the
// command that asked for the step win over the defaults of a job. Facts of the step and of this
// node win over both.
func (in taskInput) stepEnvironment() []string {
	env := map[string]string{}
	for _, pair := range in.environment() {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	for _, pair := range in.step.Env {
		name, value, _ := strings.Cut(pair, "=")
		lacks := func(dir string) bool { return strings.Contains(env[name], dir) && !strings.Contains(value, dir) }
		switch {
		case name == "PATH" && lacks(launch.BinDir):
			value = withCommands(value)
		case name == "PYTHONPATH" && lacks(launch.ModulesDir):
			value += ":" + launch.ModulesDir
		}
		env[name] = value
	}
	delete(env, "SLURM_STEP_GPUS") // of the program that asked
	delete(env, "SLURM_GPUS_ON_NODE")
	for _, source := range []map[string]string{in.slurmVariables(), in.slurmArrayVariables(), in.slurmGroupVariables(),
		in.gpuVariables(), in.mpsVariables(), in.rotaVariables(), in.rotaArrayVariables(), in.rotaGroupVariables(),
		in.stepVariables()} {
		maps.Copy(env, source)
	}
	in.meetInFirst(env)
	if in.step.tasks() == 1 {
		in.leaveAlone(env)
	}
	// of a variable that is there twice many programs take the first
	for _, pair := range in.stepRank(0) {
		name, _, _ := strings.Cut(pair, "=")
		delete(env, name)
	}
	delete(env, taskPID)
	return sortedPairs(env)
}

// leaveAlone removes Rota's rendezvous from the variables of the only task of a step. Programs such
// as Ultralytics take it for a rank otherwise, and wait for the others. A script's own stays.
func (in taskInput) leaveAlone(env map[string]string) {
	for name, value := range in.torchVariables() {
		if env[name] == value && !in.chosen(name) {
			delete(env, name)
		}
	}
}

// chosen reports whether the job file sets a variable for the task that starts steps.
func (in taskInput) chosen(name string) bool {
	_, is := in.task.Env[name]
	return is
}

// meetInFirst has all tasks of a step find each other in the first of its groups. The program that starts
// steps has the variables of the first group of the job, which hold unless it has set others.
func (in taskInput) meetInFirst(env map[string]string) {
	group := in.Alloc.Group
	if len(in.step.Groups) > 0 {
		group = in.step.Groups[0]
	}
	if len(in.Alloc.Hosts) < 2 || group < 0 || group >= len(in.Alloc.Spec.Groups) {
		return
	}
	addr, port := in.rendezvousOf(group, mainTask(&in.Alloc.Spec.Groups[group]))
	for _, usual := range []int{0, in.Alloc.Group} {
		host, at := in.rendezvousOf(usual, mainTask(&in.Alloc.Spec.Groups[usual]))
		if env["MASTER_ADDR"] == host && env["MASTER_PORT"] == itoa(at) {
			env["MASTER_ADDR"], env["MASTER_PORT"] = addr, itoa(port)
			break
		}
	}
	env["ROTA_MASTER_ADDR"], env["ROTA_MASTER_PORT"] = addr, itoa(port)
}

// tasks returns how many tasks the whole step has.
func (s *Step) tasks() int {
	n := 0
	for _, c := range s.Counts {
		n += c
	}
	return n
}

// stepVariables say what is true of a step.
func (in taskInput) stepVariables() map[string]string {
	s := in.step
	all, nodes, number, perNode := itoa(s.tasks()), hostlist.Compress(s.Nodes), itoa(s.Number), hostlist.Counts(s.Counts)
	addr, _ := in.rendezvous()
	distribution := "block"
	if s.Cyclic {
		distribution = "cyclic"
	}
	env := map[string]string{
		"SLURM_STEP_ID": number, "SLURM_STEPID": number, "SLURM_STEP_NODELIST": nodes, "SLURM_STEP_NUM_TASKS": all,
		"SLURM_STEP_NUM_NODES": itoa(len(s.Nodes)), "SLURM_STEP_TASKS_PER_NODE": perNode,
		"SLURM_NTASKS": all, "SLURM_NPROCS": all, "SLURM_NNODES": itoa(len(s.Nodes)), "SLURM_TASKS_PER_NODE": perNode,
		"SLURM_NODEID": itoa(s.Node), "SLURM_NODELIST": nodes, "SLURM_GTIDS": numbers(s.Tasks),
		"SLURM_CPUS_ON_NODE": itoa(s.Cores), "ROTA_CORES": itoa(s.Cores),
		"SLURM_LAUNCH_NODE_IPADDR": addr, "SLURM_SRUN_COMM_HOST": addr, "SLURM_DISTRIBUTION": distribution,
		"ROTA_STEP": number, "ROTA_STEP_NODELIST": nodes, "ROTA_RANKS": all, "ROTA_RANKS_PER_WORKER": itoa(len(s.Tasks)),
	}
	if of := in.nodesOf(s.Groups); len(of) > 0 { // of all groups that the step is in
		list, count := hostlist.Compress(of), itoa(len(of))
		env["SLURM_JOB_NODELIST"], env["SLURM_JOB_NUM_NODES"], env["ROTA_NODELIST"] = list, count, list
	}
	if len(in.Alloc.GPUs) > 0 {
		env["SLURM_JOB_GPUS"] = numbers(in.Alloc.GPUs)
	}
	if len(s.GPUs) > 0 {
		env["SLURM_STEP_GPUS"] = numbers(s.GPUs)
	}
	if s.CoresPerTask > 0 {
		env["SLURM_CPUS_PER_TASK"] = itoa(s.CoresPerTask)
	}
	if s.Memory > 0 {
		env["SLURM_MEM_PER_NODE"] = itoa(int(s.Memory / jobspec.MiB))
	}
	return env
}

// stepRank returns what one task of a step has of its own. Slurm sets no RANK, so scripts that count
// their ranks themselves come first, and the only task of a step is no rank.
func (in taskInput) stepRank(local int) []string {
	s := in.step
	rank, here, node := itoa(s.Tasks[local]), itoa(len(s.Tasks)), itoa(s.Node)
	env := map[string]string{
		"ROTA_RANK": rank, "ROTA_LOCAL_RANK": itoa(local), "SLURM_PROCID": rank, "SLURM_LOCALID": itoa(local),
	}
	for name, value := range map[string]string{
		"RANK": rank, "WORLD_SIZE": itoa(s.tasks()), "LOCAL_RANK": itoa(local), "LOCAL_WORLD_SIZE": here,
		"NODE_RANK": node, "GROUP_RANK": node,
	} {
		given := slices.ContainsFunc(s.Env, func(pair string) bool { return strings.HasPrefix(pair, name+"=") })
		if s.tasks() > 1 && !given && !in.chosen(name) {
			env[name] = value
		}
	}
	if n := s.GPUsPerTask; n > 0 && !in.usesMPS() {
		var own []string
		for i := local * n; i < (local+1)*n && i < len(s.GPUs); i++ {
			own = append(own, strconv.Itoa(i))
		}
		env["CUDA_VISIBLE_DEVICES"] = strings.Join(own, ",")
	}
	return sortedPairs(env)
}
