package oci

import (
	"cmp"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/logpath"
	"github.com/rota-hpc/rota/noded/oci/launch"
)

const modeRW = fs.FileMode(0o666)

// shape says how many processes there are. A rank is one of them; torchrun makes its own ranks from
// one process of the plan.
type shape struct {
	kind  string
	local int // ranks per worker, including those that torchrun starts
	all   int // ranks of the whole group
	base  int // global number of this worker's first rank
}

// withRanks returns the input with its group, its task and the number of its ranks.
func (in Input) withRanks() (taskInput, error) {
	t, err := in.findTask()
	if err != nil {
		return t, err
	}
	t.kind, t.local = ranksOf(t.task, len(t.taskGPUs))
	if t.local == 0 {
		return t, fmt.Errorf("launch %q starts one process per GPU, but the job has no GPUs", t.kind)
	}
	t.all, t.base = t.local*len(in.Alloc.Nodes), t.local*in.Alloc.GroupWorker
	return t, nil
}

// ranksOf returns the launch type of a task and how many ranks it has in each worker.
func ranksOf(t *jobspec.Task, gpus int) (kind string, local int) {
	l := t.Launch
	switch {
	case l == nil:
		return "single", 1
	case l.Type == "per_gpu" || l.NprocGPU || l.Type == "torchrun" && l.Nproc == 0 && gpus > 0:
		return l.Type, gpus
	}
	return l.Type, max(l.Nproc, 1)
}

// processes returns how many processes rota-init starts in a worker.
func (s shape) processes() int {
	if s.kind == "per_gpu" || s.kind == "slurm" {
		return s.local
	}
	return 1
}

// Plan says what rota-init runs in the worker's container.
func Plan(in Input) (*launch.Plan, error) {
	t, err := in.withRanks()
	if err != nil {
		return nil, err
	}
	p := &launch.Plan{Env: t.environment(), Dir: cmp.Or(in.Alloc.Spec.Workdir, in.Alloc.Spec.SubmitDir, "/tmp"),
		Anywhere: in.Alloc.Spec.Workdir == "", KillTimeout: cmp.Or(int64(t.task.KillTimeout)*1000, 30_000)}
	if _, own := t.task.Env["HOME"]; !own {
		p.Home = cmp.Or(in.Alloc.Spec.ExportEnv["HOME"], in.Alloc.Owner.Home)
	}
	if p.Secrets, err = secretVariables(t.task); err != nil {
		return nil, err
	}
	if t.kind == jobspec.LaunchSteps && in.Alloc.Worker > 0 {
		p.Hold = true
		return p, nil
	}
	args, err := t.args()
	if err != nil {
		return nil, err
	}
	for local := range t.processes() {
		p.Ranks = append(p.Ranks, launch.Rank{
			Name: "rank " + strconv.Itoa(t.base+local), Args: args, Env: t.rankEnvironment(local),
		})
	}
	if size := t.task.Terminal; size != nil {
		p.Ranks[0].Terminal = &launch.Terminal{Rows: uint16(cmp.Or(size.Rows, 24)), Columns: uint16(cmp.Or(size.Columns, 80))}
	}
	return p, nil
}

// args returns the command line of every rank.
func (in taskInput) args() ([]string, error) {
	args := in.task.Command
	if in.task.Script != "" {
		args = []string{"/bin/bash", "-euo", "pipefail", launch.ScriptFile}
		if strings.HasPrefix(in.task.Script, "#!") {
			args = []string{launch.ScriptFile}
		}
	}
	if len(args) == 0 {
		return nil, fmt.Errorf("task %s has neither command nor script", in.task.Name)
	}
	if in.kind == "torchrun" && in.task.Script == "" && args[0] != "torchrun" {
		args = append(in.torchrun(), args...)
	}
	return args, nil
}

// torchrun returns the launcher's own command line, without what it starts. Its flags have
// underscores, which every torchrun takes: one before version 2 knows no hyphens.
func (in taskInput) torchrun() []string {
	l := in.task.Launch
	args := []string{"torchrun", fmt.Sprintf("--nnodes=%d", len(in.Alloc.Nodes)),
		fmt.Sprintf("--nproc_per_node=%d", in.local)}
	if l.MaxRestarts > 0 {
		args = append(args, fmt.Sprintf("--max_restarts=%d", l.MaxRestarts))
	}
	if l.Rdzv == "c10d" {
		return append(args, "--rdzv_backend=c10d", "--rdzv_endpoint="+in.masterEndpoint(), "--rdzv_id="+
			in.rendezvousID())
	}
	addr, port := in.rendezvous()
	return append(args, fmt.Sprintf("--node_rank=%d", in.Alloc.GroupWorker), "--master_addr="+addr,
		fmt.Sprintf("--master_port=%d", port))
}

func (in taskInput) masterEndpoint() string {
	addr, port := in.rendezvous()
	return fmt.Sprintf("%s:%d", addr, port)
}

// rendezvousID names this attempt, so that ranks of another attempt never join it.
func (in Input) rendezvousID() string { return fmt.Sprintf("%d.%d", in.Alloc.Job, in.Alloc.Attempt) }

// LogPath expands a pattern of task.log for the worker.
func LogPath(in Input, pattern string) (string, error) {
	t, err := in.withRanks()
	if err != nil {
		return "", err
	}
	a := &in.Alloc
	w := logpath.Worker{Job: int64(a.Job), Name: a.Spec.Name, User: a.Owner.User, Workdir: a.Spec.Workdir,
		Number: a.Worker, Node: in.Node.Name, Restarts: a.Restarts, FirstRank: t.base}
	if e := in.arrayTask(); e != nil {
		w.Array, w.Index = int64(in.arrayJob()), *e.Index
	}
	return w.Expand(pattern)
}
