package oci

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode"

	"github.com/rota-hpc/rota/jobspec"
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

func (in Input) shape(task *jobspec.Task) (shape, error) {
	s := shape{kind: "single", local: 1}
	if l := task.Launch; l != nil {
		s.kind = l.Type
		switch {
		case l.Type == "per_gpu" || l.NprocGPU:
			s.local = len(in.devicesOf(task))
		case l.Type == "torchrun" && l.Nproc == 0 && len(in.devicesOf(task)) > 0:
			s.local = len(in.devicesOf(task))
		default:
			s.local = max(l.Nproc, 1)
		}
	}
	if s.local == 0 {
		return s, fmt.Errorf("launch %q starts one process per GPU, but the job has no GPUs", s.kind)
	}
	s.all, s.base = s.local*len(in.Nodes), s.local*in.GroupWorker
	return s, nil
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
	task, err := in.task()
	if err != nil {
		return nil, err
	}
	s, err := in.shape(task)
	if err != nil {
		return nil, err
	}
	args, err := in.args(task, s)
	if err != nil {
		return nil, err
	}
	p := &launch.Plan{Env: in.environment(task, s), Dir: in.Spec.Workdir, KillTimeout: int64(task.KillTimeout) * 1000}
	if p.Dir == "" {
		p.Dir = "/tmp"
	}
	if p.KillTimeout == 0 {
		p.KillTimeout = 30_000
	}
	if p.Secrets, err = secretVariables(task); err != nil {
		return nil, err
	}
	for local := range s.processes() {
		p.Ranks = append(p.Ranks, launch.Rank{
			Name: "rank " + strconv.Itoa(s.base+local), Args: args, Env: in.rankEnvironment(task, s, local),
		})
	}
	return p, nil
}

// args returns the command line of every rank.
func (in Input) args(task *jobspec.Task, s shape) ([]string, error) {
	args := task.Command
	if task.Script != "" {
		args = []string{"/bin/bash", "-euo", "pipefail", launch.ScriptFile}
		if strings.HasPrefix(task.Script, "#!") {
			args = []string{launch.ScriptFile}
		}
	}
	if len(args) == 0 {
		return nil, fmt.Errorf("task %s has neither command nor script", task.Name)
	}
	if s.kind == "torchrun" && task.Script == "" && args[0] != "torchrun" {
		args = append(in.torchrun(task.Launch, s), args...)
	}
	return args, nil
}

// torchrun returns the launcher's own command line, without what it starts.
func (in Input) torchrun(l *jobspec.Launch, s shape) []string {
	args := []string{"torchrun", fmt.Sprintf("--nnodes=%d", len(in.Nodes)), fmt.Sprintf("--nproc-per-node=%d", s.local)}
	if l.MaxRestarts > 0 {
		args = append(args, fmt.Sprintf("--max-restarts=%d", l.MaxRestarts))
	}
	if l.Rdzv == "c10d" {
		return append(args, "--rdzv-backend=c10d", "--rdzv-endpoint="+in.masterEndpoint(), "--rdzv-id="+
			in.rendezvousID())
	}
	addr, port := in.rendezvous()
	return append(args, fmt.Sprintf("--node-rank=%d", in.GroupWorker), "--master-addr="+addr,
		fmt.Sprintf("--master-port=%d", port))
}

func (in Input) masterEndpoint() string {
	addr, port := in.rendezvous()
	return fmt.Sprintf("%s:%d", addr, port)
}

// rendezvousID names this attempt, so that ranks of another attempt never join it.
func (in Input) rendezvousID() string { return fmt.Sprintf("%d.%d", in.Job, in.Attempt) }

// LogPath expands a pattern of task.log as Slurm does: %j job, %x name, %u user, %n worker, %N
// node, %r restarts, %t first rank, %A the array job (the job itself if it is no array task), %a
// the array index (a large number if it is none), %% a percent sign. A number in between, as in
// %4j, pads with zeros. A relative path is below the working directory. Other letters are refused.
func LogPath(in Input, pattern string) (string, error) {
	task, err := in.task()
	if err != nil {
		return "", err
	}
	s, err := in.shape(task)
	if err != nil {
		return "", err
	}
	values := map[byte]string{
		'j': strconv.FormatInt(int64(in.Job), 10), 'A': strconv.FormatInt(int64(in.Job), 10), 'x': in.Spec.Name,
		'u': in.Owner.User,
		'n': strconv.Itoa(in.Worker), 'N': in.Node.Name, 'r': strconv.Itoa(in.Restarts), 't': strconv.Itoa(s.base),
		's': "0",
		'a': "4294967294", // as in Slurm: a script for arrays may be submitted without one
	}
	if e := in.Array; e != nil {
		values['A'], values['a'] = strconv.FormatInt(int64(e.ArrayJob), 10), strconv.Itoa(e.Index)
	}
	text, err := expandLogPath(pattern, values)
	if err != nil {
		return "", fmt.Errorf("log path %q: %w", pattern, err)
	}
	if !strings.HasPrefix(text, "/") {
		text = strings.TrimSuffix(in.Spec.Workdir, "/") + "/" + text
	}
	return text, nil
}

func expandLogPath(pattern string, values map[byte]string) (string, error) {
	var out strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] != '%' {
			out.WriteByte(pattern[i])
			continue
		}
		digits := i + 1
		for i++; i < len(pattern) && unicode.IsDigit(rune(pattern[i])); i++ {
		}
		if i == len(pattern) {
			return "", fmt.Errorf("it ends in the middle of a %% pattern")
		}
		width, _ := strconv.Atoi(pattern[digits:i]) // no digits: no padding
		value, ok := values[pattern[i]]
		switch {
		case pattern[i] == '%':
			value = "%"
		case !ok:
			return "", fmt.Errorf("%%%c is not supported; use %%j, %%x, %%u, %%n, %%N, %%r, %%t, %%A or %%a",
				pattern[i])
		}
		out.WriteString(strings.Repeat("0", max(0, min(width, 10)-len(value))) + value)
	}
	return out.String(), nil
}
