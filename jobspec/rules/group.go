package rules

import (
	"github.com/rota-hpc/rota/jobspec"
)

func (c *checker) groups(j *jobspec.Job) {
	if len(j.Groups) == 0 {
		c.add(jobspec.CodeRequired, "groups", `add a task: task "main" { command = [...] }`, "the job has nothing to run")
	}
	if len(j.Groups) > jobspec.MaxGroups {
		c.atMost("groups", len(j.Groups), jobspec.MaxGroups, "groups")
		return
	}
	taken := map[string]bool{}
	for i := range j.Groups {
		g, where := &j.Groups[i], c.elementPath("groups", i)
		c.notTaken(where+".name", "group", groupName(g), taken)
		c.group(where, g, j)
	}
	c.groupDependencies(j)
	if len(j.Groups) > 1 {
		c.groupsTogether(j)
	}
}

// groupName returns a group's name; it gives the same result before and after
// [jobspec.Group.Default].
func groupName(g *jobspec.Group) string {
	if g.Name == "" {
		return jobspec.DefaultGroup
	}
	return g.Name
}

// groupsTogether checks a job with several groups.
func (c *checker) groupsTogether(j *jobspec.Job) {
	if j.GangScope != jobspec.ScopeJob {
		if j.Array != nil {
			c.add(jobspec.CodeUnsupported, "array",
				`write gang_scope = "job" if the groups of an element start together, or submit one job for each group`,
				"an array of jobs with several groups that start independently is not supported yet")
		}
		return
	}
	workers, variables := 0, map[string]string{}
	for i := range j.Groups {
		g, where := &j.Groups[i], c.elementPath("groups", i)
		workers += g.Most()
		if other, taken := variables[jobspec.Variable(groupName(g))]; taken && other != groupName(g) {
			c.add(jobspec.CodeDuplicate, where+".name", "rename one of them",
				"the groups %q and %q would both be $ROTA_HOSTS_%s", other, groupName(g), jobspec.Variable(groupName(g)))
		}
		variables[jobspec.Variable(groupName(g))] = groupName(g)
		if len(g.DependsOn) > 0 {
			c.add(jobspec.CodeUnsupported, where+".depends_on", `leave gang_scope out, or depends_on`,
				"gang_scope = \"job\" and groups that wait for others in one job are not supported yet")
		}
		if j.RunsStepsOfFirst(i) && !j.Groups[0].RunsSteps() {
			c.add(jobspec.CodeUnsupported, where+".tasks", "give the first group launch type steps and the program",
				"if groups start together, only the program of the first group can start steps")
		}
		c.groupOfGang(where, g)
	}
	c.oneElastic(j)
	if workers > jobspec.MaxWorkers {
		c.add(jobspec.CodeRange, "groups", "", "all groups together have %d workers; at most %d are allowed", workers,
			jobspec.MaxWorkers)
	}
}

// groupOfGang refuses settings that a group of a gang cannot have.
func (c *checker) groupOfGang(where string, g *jobspec.Group) {
	for _, own := range []struct {
		name string
		set  bool
	}{{"time_limit", g.TimeLimit != 0}, {"restart", g.Restart != nil}} {
		if own.set {
			c.add(jobspec.CodeScope, where+"."+own.name, "write it in the job",
				"groups that start together cannot each have their own %s", own.name)
		}
	}
	if g.Gang != nil && !*g.Gang {
		c.add(jobspec.CodeScope, where+".gang", `leave gang out, or gang_scope = "job"`,
			"all groups start together, so the workers of a group cannot start one by one")
	}
}

// looseWorkers checks a group whose workers start one by one. The workers become the elements of an
// array, and a job has at most one array.
func (c *checker) looseWorkers(where string, g *jobspec.Group, j *jobspec.Job) {
	if !g.Loose() {
		return
	}
	switch {
	case j.Array != nil:
		c.add(jobspec.CodeUnsupported, where+".gang", "leave count out: the elements of the array start one by one",
			"several workers without gang in an array are not supported yet")
	case len(j.Groups) > 1 && j.GangScope != jobspec.ScopeJob:
		c.add(jobspec.CodeUnsupported, where+".gang", "leave gang out, or submit a separate job for the group",
			"several workers without gang beside other groups are not supported yet")
	case g.MaxWorkersPerNode != 0 && g.MaxWorkersPerNode < g.Count:
		c.add(jobspec.CodeUnsupported, where+".max_workers_per_node",
			"leave it out, or write exclusive = true to give each worker a node",
			"workers that start one by one cannot be kept on different nodes yet")
	}
}

// oneOnNode refuses several workers on one node if they could not work there. Workers that meet by
// c10d would wait for each other for ever, and steps address nodes by name.
func (c *checker) oneOnNode(where string, g *jobspec.Group) {
	if g.Loose() || g.MaxWorkersPerNode < 2 || g.Most() < 2 {
		return
	}
	where += ".max_workers_per_node"
	if g.MeetsByHost() {
		c.add(jobspec.CodeConflict, where, `leave it out, or set rdzv = "static"`,
			`with rdzv = "c10d" torchrun cannot tell workers on the same node apart`)
	}
	if g.RunsSteps() {
		c.add(jobspec.CodeConflict, where, "leave it out, and set the number of tasks of a worker with nproc",
			"with launch type steps each node has exactly one worker of the job")
	}
}

func (c *checker) group(where string, g *jobspec.Group, j *jobspec.Job) {
	c.nameIfSet(where+".name", g.Name)
	if g.Count != 0 {
		c.between(where+".count", g.Count, 1, jobspec.MaxWorkers)
	}
	if g.MaxWorkersPerNode != 0 {
		c.between(where+".max_workers_per_node", g.MaxWorkersPerNode, 1, jobspec.MaxWorkers)
	}
	c.elastic(where, g, j)
	c.looseWorkers(where, g, j)
	if !c.scheduling {
		c.meta(where+".meta", g.Meta)
	}
	c.duration(where+".time_limit", g.TimeLimit)
	if j.TimeLimit > 0 && g.TimeLimit > j.TimeLimit {
		c.add(jobspec.CodeConflict, where+".time_limit", "make it shorter, or the job's longer",
			"the group's time_limit (%v) is longer than the job's (%v)", g.TimeLimit, j.TimeLimit)
	}
	c.choice(where+".success", g.Success, "all", "leader", "any")
	if g.OnWorkerFailure == "restart_worker" {
		c.add(jobspec.CodeUnsupported, where+".on_worker_failure",
			"leave it out: all workers are stopped and started again, as restart says",
			"starting one worker of a group again is not supported yet")
	} else {
		c.choice(where+".on_worker_failure", g.OnWorkerFailure, "restart_group", "ignore")
	}
	c.restart(where+".restart", g.Restart)
	c.constraints(where+".constraints", g.Constraints)
	c.affinities(where+".affinities", g.Affinities)
	c.tasks(where+".tasks", g, j)
	c.steps(where, g)
	if !c.scheduling {
		c.oneOnNode(where, g)
		c.shares(where, g, j)
	}
}

// steps checks a group whose program starts steps: the program runs on the first worker only, and
// its end ends the other workers.
func (c *checker) steps(where string, g *jobspec.Group) {
	if !g.RunsSteps() {
		return
	}
	refuse := func(attribute, why string) {
		c.add(jobspec.CodeConflict, where+"."+attribute, "leave it out", "with launch type steps %s", why)
	}
	if g.Success != "" && g.Success != "leader" {
		refuse("success", "the program on the first worker decides how the group ends")
	}
	if g.OnWorkerFailure == "ignore" {
		refuse("on_worker_failure", "the group needs every worker")
	}
	if g.Elastic != nil {
		refuse("elastic", "the number of workers stays")
	}
	if g.Loose() {
		refuse("gang", "the workers start together")
	}
}

// stepsOfFirst reports whether a group only runs steps, see [jobspec.Job.RunsStepsOfFirst].
func stepsOfFirst(j *jobspec.Job, g *jobspec.Group) bool {
	for i := range j.Groups {
		if g == &j.Groups[i] {
			return j.RunsStepsOfFirst(i) && j.Groups[0].RunsSteps()
		}
	}
	return false
}

func (c *checker) tasks(where string, g *jobspec.Group, j *jobspec.Job) {
	if len(g.Tasks) == 0 {
		c.add(jobspec.CodeRequired, where, `add a task: task "main" { command = [...] }`, "the group has nothing to run")
		return
	}
	if len(g.Tasks) > jobspec.MaxTasks {
		c.atMost(where, len(g.Tasks), jobspec.MaxTasks, "tasks")
		return
	}
	taken := map[string]bool{}
	for i := range g.Tasks {
		here := c.elementPath(where, i)
		if c.scheduling {
			c.resources(c.partPath(here, ".resources"), &g.Tasks[i].Resources)
			continue
		}
		c.notTaken(here+".name", "task", g.Tasks[i].Name, taken)
		c.task(here, &g.Tasks[i], len(g.Tasks) == 1)
		c.taskProgram(here, &g.Tasks[i], stepsOfFirst(j, g))
		c.references(here, &g.Tasks[i], g, j.Array)
	}
	if len(g.Tasks) > 1 && !c.scheduling {
		c.leader(where, g)
		c.masterPorts(where, g)
		c.progressReaders(where, g)
	}
	c.mainTasks(where, g)
	c.workerTotal(where, g)
}

// mainTasks refuses a group without a main task.
func (c *checker) mainTasks(where string, g *jobspec.Group) {
	for i := range g.Tasks {
		if g.Tasks[i].Lifecycle == nil {
			return
		}
	}
	c.add(jobspec.CodeLifecycle, where, "add a task without lifecycle",
		"the group has no main task: all its tasks run before, alongside or after others")
}

// leader refuses several leaders, leaders that are no main tasks, and a group whose main tasks all
// say leader = false.
func (c *checker) leader(where string, g *jobspec.Group) {
	leaders, mains, followers := 0, 0, 0
	for i := range g.Tasks {
		t := &g.Tasks[i]
		lead := t.Leader != nil && *t.Leader
		switch {
		case t.Lifecycle != nil && lead:
			c.add(jobspec.CodeLeader, at(where, i)+".leader", "make a main task the leader",
				"task %q is not a main task, so it cannot be the leader", t.Name)
		case t.Lifecycle == nil:
			mains++
			if t.Leader != nil && !lead {
				followers++
			}
		}
		if lead && t.Lifecycle == nil {
			if leaders++; leaders == 2 {
				c.add(jobspec.CodeLeader, at(where, i)+".leader", "make only one task the leader",
					"task %q is a second leader of the group",
					t.Name)
			}
		}
	}
	if mains > 0 && followers == mains {
		c.add(jobspec.CodeLeader, where, "write leader = true in one main task", "no main task of the group is the leader")
	}
}

// masterPorts refuses two tasks with the same MASTER_PORT.
func (c *checker) masterPorts(where string, g *jobspec.Group) {
	first := ""
	for i := range g.Tasks {
		t := &g.Tasks[i]
		if t.Launch == nil || t.Launch.Type == "" || t.Launch.Type == "single" {
			continue
		}
		switch {
		case t.Lifecycle != nil:
			c.add(jobspec.CodeLifecycle, at(where, i)+".launch", "leave launch out",
				"task %q is not a main task, so it can start only one process", t.Name)
		case first != "":
			c.add(jobspec.CodeConflict, at(where, i)+".launch", "put one of them into a group of its own",
				"tasks %q and %q would both use MASTER_PORT", first, t.Name)
		default:
			first = t.Name
		}
	}
}

// progressReaders refuses a second task with a progress block, because a worker has only one
// progress.
func (c *checker) progressReaders(where string, g *jobspec.Group) {
	first := ""
	for i := range g.Tasks {
		t := &g.Tasks[i]
		switch {
		case t.Progress == nil:
		case first == "":
			first = t.Name
		default:
			c.add(jobspec.CodeProgress, at(where, i)+".progress", "keep one of them",
				"tasks %q and %q both set how the progress of their worker is read", first, t.Name)
		}
	}
}

// workerTotal checks the sum of all tasks of a worker.
func (c *checker) workerTotal(where string, g *jobspec.Group) {
	cores, gpus, memory := 0, 0, jobspec.Bytes(0)
	for i := range g.Tasks {
		r := g.Tasks[i].Resources
		r.Default()
		if r.Cores < 0 || r.Cores > c.maxCores() || r.GPUs < 0 || r.GPUs > jobspec.MaxGPUs || r.Memory < 0 ||
			r.Memory > jobspec.MaxSize {
			return // the task's own check reported it
		}
		cores, gpus, memory = cores+r.Cores, gpus+r.GPUs, memory+r.Memory
	}
	for _, s := range []struct {
		what        string
		total, most int64
	}{{"cores", int64(cores), int64(c.maxCores())}, {"GPUs", int64(gpus), jobspec.MaxGPUs},
		{"bytes of memory", int64(memory), int64(jobspec.MaxSize)}} {
		if s.total > s.most {
			c.add(jobspec.CodeRange, where, "", "the tasks of a worker request %d %s together, which is more than %d", s.total,
				s.what,
				s.most)
		}
	}
}

func (c *checker) lifecycle(where string, l *jobspec.Lifecycle) {
	if l == nil {
		return
	}
	c.required(where+".hook", l.Hook, `write hook = "prestart", "poststart" or "poststop"`)
	c.choice(where+".hook", l.Hook, "prestart", "poststart", "poststop")
	if l.Hook == "poststop" && l.Sidecar {
		c.add(jobspec.CodeLifecycle, where+".sidecar", "use hook = \"poststart\", or leave sidecar out",
			"a sidecar runs alongside the main tasks, so it cannot begin after them")
	}
}

func (c *checker) ulimits(where string, u *jobspec.Ulimits) {
	if u == nil {
		return
	}
	for _, l := range []struct {
		name  string
		bytes jobspec.Bytes
	}{{"memlock", u.Memlock}, {"stack", u.Stack}, {"core", u.Core}} {
		if l.bytes < -1 || l.bytes > jobspec.MaxSize {
			c.add(jobspec.CodeRange, where+"."+l.name, `write a size such as "64GiB", or "unlimited"`,
				"%d bytes are out of range", int64(l.bytes))
		}
	}
	if u.Nofile < 0 || u.Nofile > jobspec.MaxNofile {
		c.add(jobspec.CodeRange, where+".nofile", "", "%d is out of range: 1 to %d", u.Nofile, jobspec.MaxNofile)
	}
}

func (c *checker) secrets(where string, t *jobspec.Task) {
	c.atMost(where, len(t.Secrets), jobspec.MaxMounts, "secrets")
	taken, variables, files := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range t.Secrets {
		s, here := &t.Secrets[i], at(where, i)
		c.name(here+".name", s.Name)
		twice := taken[s.Name]
		c.notTaken(here+".name", "secret", s.Name, taken)
		c.required(here+".source", s.Source, `write source = "/home/you/.token"`)
		c.absolute(here+".source", s.Source)
		c.absolute(here+".file", s.File)
		switch {
		case s.Env != "" && s.File != "":
			c.add(jobspec.CodeSecret, here+".file", "keep one of them", "the secret %q is to go both into a variable and into "+
				"a file",
				s.Name)
		case s.Env != "":
			c.secretVariable(here+".env", t, s.Env, variables)
		case s.File != "" && reservedSecret(s.File):
			c.add(jobspec.CodePath, here+".file", "write a name in "+jobspec.SecretsDir+", or leave file out",
				"a secret cannot be put at %q", s.File)
		case !twice:
			c.notTaken(here+".file", "file", s.SecretFile(), files)
		}
	}
}

func (c *checker) secretVariable(where string, t *jobspec.Task, name string, taken map[string]bool) {
	c.variableName(where, name, jobspec.ValidVariable)
	if _, both := t.Env[name]; both {
		c.add(jobspec.CodeDuplicate, where, "set it once", "%s is set in env as well", name)
	}
	c.notTaken(where, "variable", name, taken)
}
