package steps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/input"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hostlist"
	"github.com/rota-hpc/rota/jobspec/script/slurm"
)

// stepRequest turns a command line into a request for a step. own means that srun runs inside the
// job.
func (line *srunLine) stepRequest(own bool) (*api.StepRequest, error) {
	r := &api.StepRequest{Name: line.values["job-name"], Group: line.group, Umask: input.Umask()}
	err := line.readPart(r, own)
	if err == nil {
		err = line.readEnding(r)
	}
	if err == nil {
		err = line.addParts(r, own)
	}
	return r, err
}

// readPart turns the part of a step in one component of the job into a request.
func (line *srunLine) readPart(r *api.StepRequest, own bool) error {
	if len(line.words) == 0 {
		return errors.New("No command given to execute.")
	}
	for _, read := range []func(*api.StepRequest) error{
		line.readNodes, line.readTasks, line.readAmounts, line.readGPUs, line.readSharing, line.readPerGPU,
		line.readEnvironment, line.readPrograms,
	} {
		if err := read(r); err != nil {
			return err
		}
	}
	if image, job := line.values["container-image"], line.Getenv(slurm.ImageVariable); image != "" && image != job {
		return fmt.Errorf("--container-image=%s: a step runs in the image of its job, which is %q: set the image in the "+
			"script, with #SBATCH --container-image", image, job)
	}
	dir := cmp.Or(line.values["container-workdir"], line.values["chdir"])
	return line.setWorkdir(r, dir, own, line.has("jobid"))
}

// checkMounts refuses mounts that the job does not have, because steps share the mounts of the job.
// Mounts that the node gives to every container keep their path.
func (line *srunLine) checkMounts(ctx context.Context, session *command.Session, ref string, own bool) error {
	list := line.values["container-mounts"]
	if list == "" {
		return nil
	}
	wanted, bad := slurm.Mounts(list)
	if bad != nil {
		return fmt.Errorf("--container-mounts=%s: %s: %s", list, bad.Text, bad.Hint)
	}
	job, _, err := session.JobBy(ctx, cmp.Or(ref, line.OwnJob()), api.Read{})
	if err != nil {
		return fmt.Errorf("--container-mounts: the mounts of the job are unknown: %w", tool.AsSlurm(err))
	}
	if job.Spec == nil && !own {
		return nil // another user's job: the request itself is refused later
	}
	const hint = "a step has only the mounts of its job: add this mount in the script, with #SBATCH --container-mounts"
	for _, m := range wanted {
		target := filepath.Clean(m.Target)
		has := mountAt(job.Spec, target)
		switch {
		case has == nil && own && filepath.Clean(m.Source) == target && isMounted(target):
		case has == nil:
			return fmt.Errorf("--container-mounts=%s: in the job nothing is mounted at %s, but %s", list, target, hint)
		case filepath.Clean(has.Source) != filepath.Clean(m.Source):
			return fmt.Errorf("--container-mounts=%s: in the job %s is mounted at %s, but %s", list, has.Source, target, hint)
		case has.ReadOnly != m.ReadOnly:
			how := map[bool]string{true: "read-only", false: "read-write"}
			return fmt.Errorf("--container-mounts=%s: in the job %s is mounted %s at %s, but %s", list, has.Source,
				how[has.ReadOnly], target, hint)
		}
	}
	return nil
}

// mountAt returns the job's mount at a path, or nil.
func mountAt(spec *jobspec.Job, target string) *jobspec.Mount {
	if spec == nil {
		return nil
	}
	for _, g := range spec.Groups {
		for _, t := range g.Tasks {
			for i := range t.Mounts {
				if filepath.Clean(t.Mounts[i].Target) == target {
					return &t.Mounts[i]
				}
			}
		}
	}
	return nil
}

// isMounted reports whether a mount is known at a path.
func isMounted(path string) bool {
	b, err := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(b)) {
		if words := strings.Fields(line); len(words) > 4 && words[4] == strings.ReplaceAll(path, " ", `\040`) {
			return err == nil
		}
	}
	return false
}

// setWorkdir sets the directory in which tasks start: --chdir, else this directory inside the job,
// else the job's directory. In a shell of salloc it is this directory once the user has changed it.
func (line *srunLine) setWorkdir(r *api.StepRequest, dir string, own, elsewhere bool) error {
	here, err := os.Getwd()
	switch {
	case filepath.IsAbs(dir):
		r.Workdir = filepath.Clean(dir)
	case own && err != nil:
		return err
	case own:
		r.Workdir = filepath.Join(here, dir)
	case dir != "": // the current directory of this machine says nothing about the job's
		return fmt.Errorf("--chdir=%s: name an absolute path of the job's nodes", dir)
	case !elsewhere && err == nil && line.Getenv("SLURM_SUBMIT_DIR") != "" && here != line.Getenv("SLURM_SUBMIT_DIR"):
		r.Workdir = here
	}
	return nil
}

// nodes of the surrounding job, or of the line's component; 0 outside of a job
func (line *srunLine) jobNodes() int {
	n, _ := strconv.Atoi(line.variable("SLURM_JOB_NUM_NODES", true))
	return n
}

// readNodes reads the request for nodes of the job.
func (line *srunLine) readNodes(r *api.StepRequest) (err error) {
	if text, given := line.values["nodes"]; given {
		least, most, isRange := strings.Cut(text, "-")
		low, err := strconv.Atoi(least)
		high := low
		if err == nil && isRange {
			high, err = strconv.Atoi(most)
		}
		if err != nil || low < 1 || high < low || high > 1<<20 {
			return fmt.Errorf("Invalid node count: \"%s\"", text)
		}
		if r.Nodes = low; line.jobNodes() > 0 {
			r.Nodes = max(low, min(high, line.jobNodes()))
		}
	}
	if r.Relative, err = line.number("relative", 0); err != nil {
		return err
	}
	if line.has("relative") && (line.has("nodelist") || line.has("exclude")) {
		return errors.New("-r,--relative not allowed with -w,--nodelist or -x,--exclude.")
	}
	if r.NodeList, err = readHosts(line.values["nodelist"]); err != nil {
		return err
	}
	if r.Exclude, err = readHosts(line.values["exclude"]); err != nil {
		return err
	}
	if most := r.Nodes; line.typed["nodes"] && len(r.NodeList) > most {
		line.Errorf("Required nodelist includes more nodes than permitted by max-node count (%d > %d). Eliminating nodes "+
			"from the nodelist.", len(r.NodeList), most)
		r.NodeList = r.NodeList[:most]
	}
	r.Nodes = max(r.Nodes, len(r.NodeList))
	// If the user names nodes, a node count inherited from the job is ignored.
	if !line.typed["nodes"] && (line.typed["relative"] || len(r.Exclude) > 0) {
		r.Nodes = 0
	}
	return nil
}

// readHosts parses a list of nodes, or reads it from a file if the value has a slash.
func readHosts(text string) ([]string, error) {
	if strings.Contains(text, "/") {
		b, err := os.ReadFile(text)
		if err != nil {
			return nil, fmt.Errorf("Invalid node list: %w", err)
		}
		text = strings.Join(strings.Fields(string(b)), ",")
	}
	names, err := hostlist.Expand(text)
	if err != nil {
		return nil, fmt.Errorf("Invalid node list: %q: %w", text, err)
	}
	var once []string
	for _, name := range names {
		if !slices.Contains(once, name) {
			once = append(once, name)
		}
	}
	return once, nil
}

// readTasks reads the number of tasks and their distribution over the nodes.
func (line *srunLine) readTasks(r *api.StepRequest) (err error) {
	if r.Tasks, err = line.number("ntasks", 1); err != nil {
		return err
	}
	if r.TasksPerNode, err = line.number("ntasks-per-node", 1); err != nil {
		return err
	}
	// As in Slurm, the job's number of tasks does not apply to another number of nodes.
	if line.typed["nodes"] && !line.typed["ntasks"] && r.Nodes != line.jobNodes() {
		r.Tasks = 0
		if r.TasksPerNode == 0 {
			r.Tasks = r.Nodes
		}
	}
	if r.Tasks > 0 && r.Nodes > r.Tasks {
		if !line.is("quiet") {
			line.Infof("Warning: can't run %d processes on %d nodes, setting nnodes to %d", r.Tasks, r.Nodes, r.Tasks)
		}
		r.Nodes = r.Tasks
		r.NodeList = r.NodeList[:min(len(r.NodeList), r.Nodes)]
	}
	if r.Tasks > 0 && r.TasksPerNode > 0 && r.Nodes > 0 && r.TasksPerNode*r.Nodes != r.Tasks {
		if line.typed["ntasks-per-node"] && r.Tasks > r.TasksPerNode && !line.is("quiet") {
			//nolint:misspell // Slurm's words
			line.Infof("Warning: can't honor --ntasks-per-node set to %d which doesn't match the requested tasks %d with the "+
				"number of requested nodes %d. Ignoring --ntasks-per-node.", r.TasksPerNode, r.Tasks, r.Nodes)
		}
		r.TasksPerNode = 0
	}
	kind, _, _ := strings.Cut(line.values["distribution"], ":")
	kind, _, _ = strings.Cut(kind, ",") // block,NoPack
	switch strings.ToLower(kind) {
	case "", "block", "*":
	case "cyclic":
		r.Cyclic = true
	default:
		return fmt.Errorf("--distribution=%s is not supported: use block or cyclic", line.values["distribution"])
	}
	return nil
}

// readAmounts reads the request for cores and memory.
func (line *srunLine) readAmounts(r *api.StepRequest) (err error) {
	if r.CoresPerTask, err = line.number("cpus-per-task", 1); err != nil {
		return err
	}
	if line.has("mem") && line.has("mem-per-cpu") {
		return errors.New("--mem and --mem-per-cpu are mutually exclusive.")
	}
	for name, field := range map[string]*jobspec.Bytes{"mem": &r.Memory, "mem-per-cpu": &r.MemoryPerCore} {
		text, given := line.values[name]
		if !given {
			continue
		}
		size, err := slurm.Memory(text)
		if err != nil {
			return fmt.Errorf("Invalid --%s specification: %w", name, err)
		}
		*field = size // 0 means all memory of the job
	}
	return nil
}

// readGPUs reads the request for GPUs. Flags of the command line outweigh variables.
func (line *srunLine) readGPUs(r *api.StepRequest) error {
	fields := map[string]*int{"gpus": &r.GPUs, "gpus-per-node": &r.GPUsPerNode, "gpus-per-task": &r.GPUsPerTask,
		"gres": &r.GPUsPerNode}
	names := []string{"gpus", "gpus-per-node", "gres", "gpus-per-task"}
	typed := slices.ContainsFunc(names, func(n string) bool { return line.typed[n] })
	for _, name := range names {
		text, given := line.values[name]
		if !given || typed && !line.typed[name] {
			continue
		}
		if name == "gpus" && !typed && r.Nodes < line.jobNodes() {
			continue // the job's total does not apply to a part of its nodes
		}
		n, found, err := countGPUs(name, text)
		switch {
		case err != nil:
			return err
		case !found:
		case n == 0:
			r.GPUs = -1
		default:
			*fields[name] = n
		}
	}
	switch bind := strings.TrimPrefix(line.values["gpu-bind"], "verbose,"); bind {
	case "", "closest", "verbose":
	case "none":
		if r.GPUsPerTask > 0 { // each task sees all GPUs of the tasks on its node
			return errors.New("--gpu-bind=none with --gpus-per-task is not supported in a step: ask for --gpus-per-node")
		}
	default:
		return fmt.Errorf("--gpu-bind=%s is not supported: tasks see their own GPUs with --gpus-per-task", bind)
	}
	if r.GPUs < 0 && r.GPUsPerNode+r.GPUsPerTask > 0 {
		return errors.New("the options ask both for no GPUs and for GPUs")
	}
	return nil
}

// countGPUs parses [TYPE:]N, or for --gres a list that contains gpu[:TYPE][:N]. No job has other
// resources, so any other --gres is an error.
func countGPUs(flag, text string) (n int, found bool, err error) {
	invalid := fmt.Errorf("Invalid --%s specification: %q", flag, text)
	for item := range strings.SplitSeq(text, ",") {
		if flag == "gres" {
			kind, rest, more := strings.Cut(strings.TrimPrefix(item, "gres/"), ":")
			switch {
			case strings.EqualFold(item, "none"):
				return 0, true, nil
			case kind != "gpu":
				return 0, false, fmt.Errorf("--gres=%s: only GPUs can be requested: write gpu:N", text)
			case !more:
				rest = "1"
			}
			item = rest
		}
		if item = item[strings.LastIndex(item, ":")+1:]; item == "" {
			return 0, false, invalid
		}
		one, err := strconv.Atoi(item)
		if err != nil && flag == "gres" {
			one, err = 1, nil // gpu:a100
		}
		if err != nil || one < 0 || one > 1<<16 {
			return 0, false, invalid
		}
		n += one
	}
	return n, true, nil
}

// readSharing reads whether the step shares resources with other steps, and whether it waits for
// them.
func (line *srunLine) readSharing(r *api.StepRequest) error {
	if line.is("exact") && line.is("whole") {
		return errors.New("--exact and --whole are mutually exclusive.")
	}
	r.Overlap, r.Overcommit = line.is("overlap"), line.is("overcommit")
	// As in Slurm, --exclusive and --cpus-per-task imply --exact.
	r.Exact = !line.is("whole") && (line.is("exact") || line.is("exclusive") || line.has("cpus-per-task"))
	if text := line.values["immediate"]; line.is("immediate") && text != "1" && text != "yes" && text != "true" {
		return fmt.Errorf("--immediate=%s: write --immediate without a value: the step is then refused if it has to wait",
			text)
	}
	r.NoWait = line.is("immediate")
	return nil
}

// readPerGPU reads the numbers of tasks and cores for each GPU. As in Slurm, the number of tasks
// determines the number of GPUs, or the reverse.
func (line *srunLine) readPerGPU(r *api.StepRequest) (err error) {
	if r.CoresPerGPU, err = line.number("cpus-per-gpu", 1); err != nil {
		return err
	}
	switch {
	case r.CoresPerGPU > 0 && line.typed["cpus-per-task"] && line.typed["cpus-per-gpu"]:
		return errors.New("--cpus-per-gpu is mutually exclusive with --cpus-per-task.")
	case line.typed["cpus-per-task"]:
		r.CoresPerGPU = 0
	case r.CoresPerGPU > 0:
		r.CoresPerTask, r.Exact = 0, true
	}
	each, err := line.number("ntasks-per-gpu", 1)
	if err != nil || each == 0 || line.typed["ntasks"] && !line.typed["ntasks-per-gpu"] {
		return err
	}
	if !line.typed["gpus-per-task"] {
		r.GPUsPerTask = 0
	}
	if !line.typed["ntasks-per-node"] {
		r.TasksPerNode = 0
	}
	tasks := 0 // tasks from the command line
	if line.typed["ntasks"] {
		tasks = r.Tasks
	}
	switch {
	case r.GPUsPerTask > 0:
		return errors.New("--ntasks-per-gpu is mutually exclusive with --gpus-per-task.")
	case r.TasksPerNode > 0:
		return errors.New("--ntasks-per-gpu is mutually exclusive with --ntasks-per-node.")
	case r.GPUs == 0 && r.GPUsPerNode == 0 && tasks > 0 && tasks%each == 0:
		r.GPUs = tasks / each
	case r.GPUs > 0 && (tasks == 0 || tasks == each*r.GPUs):
		r.Tasks = each * r.GPUs
	case r.GPUsPerNode > 0 && (tasks == 0 || tasks%(each*r.GPUsPerNode) == 0):
		r.Tasks, r.TasksPerNode = tasks, each*r.GPUsPerNode
	case r.GPUs < 0, tasks == 0:
		return errors.New("--ntasks-per-gpu needs --gpus, --gpus-per-node, --gres or --ntasks")
	default:
		return fmt.Errorf("--ntasks-per-gpu=%d does not match %d tasks and the requested GPUs", each, tasks)
	}
	if each == 1 { // each task sees its own GPU
		r.GPUs, r.GPUsPerNode, r.GPUsPerTask = 0, 0, 1
	}
	return nil
}

// readEnding reads the options that end a step early.
func (line *srunLine) readEnding(r *api.StepRequest) error {
	if text, given := line.values["time"]; given {
		limit, unlimited, ok := slurm.TimeLimit(text)
		if !ok {
			return fmt.Errorf("Invalid --time specification: %q", text)
		}
		if r.TimeLimit = limit; unlimited {
			r.TimeLimit = 0
		}
	}
	wait, err := line.number("wait", 0)
	if err != nil {
		return err
	}
	r.Wait = jobspec.Seconds(wait)
	r.KillOnBad = line.is("kill-on-bad-exit")
	return nil
}

// ownVariables are set by the node for each task, never by the caller.
var ownVariables = []string{"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_TASK_PID", "SLURM_GTIDS",
	"SLURMD_NODENAME", "SLURM_STEP_ID", "SLURM_STEPID", "ROTA_RANK", "ROTA_LOCAL_RANK", "ROTA_NODE"}

// rankVariables are the ranks of a step's tasks. A batch script may set them for its steps.
var rankVariables = []string{"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"}

// readEnvironment decides which variables the tasks get.
func (line *srunLine) readEnvironment(r *api.StepRequest) error {
	text := cmp.Or(line.values["export"], "ALL")
	all := false
	var chosen, set []string
	not := ownVariables
	if line.Getenv("SLURM_STEP_ID") != "" { // inside a step these variables hold that step's ranks
		not = slices.Concat(not, rankVariables)
	}
	for item := range splitExport(text) {
		name, _, has := strings.Cut(item, "=")
		switch {
		case has:
			set = append(set, item)
		case strings.EqualFold(item, "ALL"):
			all = true
		case (strings.EqualFold(item, "NONE") || strings.EqualFold(item, "NIL")) && item == text:
		case item != "":
			chosen = append(chosen, name)
		}
	}
	for _, entry := range line.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if line.OwnJob() == "" && !slices.Contains(chosen, name) && (name == "ROTA_ADDR" || name == "ROTA_TOKEN") {
			continue // tasks reach the controllers in their own way
		}
		// The job's variables are always set, as in Slurm.
		if (all || slices.Contains(chosen, name) || strings.HasPrefix(name, "SLURM_")) && !slices.Contains(not, name) {
			r.Env = append(r.Env, entry)
		}
	}
	for _, entry := range set {
		name, _, _ := strings.Cut(entry, "=")
		r.Env = slices.DeleteFunc(r.Env, func(other string) bool { return strings.HasPrefix(other, name+"=") })
		r.Env = append(r.Env, entry)
	}
	return nil
}

// splitExport splits the value of --export at commas. Commas within quotes belong to a value.
func splitExport(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		var word strings.Builder
		quote := rune(0)
		for _, c := range text {
			switch {
			case quote == 0 && (c == '\'' || c == '"'):
				quote = c
			case c == quote:
				quote = 0
			case c == ',' && quote == 0:
				if !yield(word.String()) {
					return
				}
				word.Reset()
			default:
				word.WriteRune(c)
			}
		}
		yield(word.String())
	}
}

// readPrograms reads which programs the tasks run.
func (line *srunLine) readPrograms(r *api.StepRequest) error {
	if !line.is("multi-prog") {
		r.Programs = []api.StepProgram{{Argv: line.words}}
		r.Name = cmp.Or(r.Name, filepath.Base(line.words[0]))
		return nil
	}
	b, err := os.ReadFile(line.words[0])
	if err != nil {
		return fmt.Errorf("Could not open multi_prog config file: %w", err)
	}
	if len(line.words) > 1 {
		return fmt.Errorf("unexpected argument %q after the configuration file of --multi-prog: write arguments into the "+
			"file", line.words[1])
	}
	if r.Programs, err = readMultiProg(string(b), cmp.Or(r.Tasks, r.TasksPerNode*r.Nodes)); err != nil {
		return fmt.Errorf("Configuration file %s invalid: %w", line.words[0], err)
	}
	r.Name = cmp.Or(r.Name, filepath.Base(line.words[0]))
	return nil
}
