package oci

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hostlist"
	"github.com/rota-hpc/rota/noded/oci/launch"
)

// environment returns what every rank of the worker has in common, sorted. Later sources win: login
// defaults, what the job exports from the submit host, Rota's and Slurm's variables, the task's own
// env. Of ROTA_* only ROTA_ADDR can be overridden, because tools
// rely on the others.
func (in taskInput) environment() []string {
	env := map[string]string{
		"HOME": cmp.Or(in.Alloc.Owner.Home, "/tmp"), "USER": in.Alloc.Owner.User, "LOGNAME": in.Alloc.Owner.User,
		"SHELL": "/bin/bash", "PATH": launch.DefaultPath, "LANG": "C.UTF-8", "TMPDIR": "/tmp",
		"ROTA_ADDR": "unix:" + launch.APISocket, // a job may have another one, with a token
	}
	for _, source := range []map[string]string{
		in.mpiVariables(), in.Alloc.Spec.ExportEnv, in.slurmVariables(), in.slurmArrayVariables(), in.slurmGroupVariables(),
		in.gpuVariables(), in.mpsVariables(), in.ncclVariables(), in.torchVariables(), in.tensorflowVariables(), in.task.Env,
		in.rotaVariables(), in.rotaArrayVariables(), in.rotaGroupVariables(),
	} {
		maps.Copy(env, source)
	}
	if in.Node.Modules != "" { // behind what the job has of its own
		if env["PYTHONPATH"] != "" {
			env["PYTHONPATH"] += ":"
		}
		env["PYTHONPATH"] += launch.ModulesDir
	}
	if in.Node.RotaPath != "" {
		env["PATH"] = withCommands(env["PATH"])
	}
	return sortedPairs(env)
}

// withCommands returns a PATH with the directory of the commands for jobs. It stands behind the
// user's directories, and before those of the system, which may have Slurm's own commands.
func withCommands(path string) string {
	var dirs []string
	if path != "" {
		dirs = strings.Split(path, ":")
	}
	system := strings.Split(launch.DefaultPath, ":")
	at := slices.IndexFunc(dirs, func(dir string) bool { return slices.Contains(system, dir) })
	if at < 0 {
		at = len(dirs)
	}
	return strings.Join(slices.Insert(dirs, at, launch.BinDir), ":")
}

func sortedPairs(env map[string]string) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(env)) {
		out = append(out, k+"="+env[k])
	}
	return out
}

func (in taskInput) rotaVariables() map[string]string {
	addr, port := in.rendezvous()
	fewest, most := in.workerRange()
	env := map[string]string{
		"ROTA_JOB_ID": itoa(int(in.Alloc.Job)), "ROTA_JOB_NAME": in.Alloc.Spec.Name, "ROTA_ATTEMPT": itoa(in.Alloc.Attempt),
		"ROTA_RESTARTS": itoa(in.Alloc.Restarts),
		"ROTA_CLASS":    string(in.Alloc.Class), "ROTA_QUEUE": in.Alloc.Queue, "ROTA_ACCOUNT": in.Alloc.Account,
		"ROTA_CLUSTER": in.Alloc.Cluster,
		"ROTA_WORKER":  itoa(in.Alloc.Worker), "ROTA_WORKERS": itoa(len(in.Alloc.Nodes)), "ROTA_WORKERS_MIN": itoa(fewest),
		"ROTA_WORKERS_MAX": itoa(most), "ROTA_NODE": in.Node.Name, "ROTA_NODELIST": distinctNodes(in.Alloc.Nodes),
		"ROTA_GPUS": itoa(len(in.taskGPUs)), "ROTA_GPU_UUIDS": strings.Join(in.uuids(), ","),
		"ROTA_CORES":  itoa(in.task.Resources.Cores),
		"ROTA_MEMORY": strconv.FormatInt(int64(in.task.Resources.Memory), 10), "ROTA_RANKS": itoa(in.all),
		"ROTA_RANKS_PER_WORKER": itoa(in.local),
		"ROTA_GRACE_SECONDS":    itoa(in.gracePeriod()), "ROTA_NOTICE_FILE": launch.NoticeFile,
		"ROTA_PROGRESS_FILE": launch.ProgressFile, "ROTA_SOCKET": launch.JobSocket,
		"ROTA_MASTER_ADDR": addr, "ROTA_MASTER_PORT": itoa(port), "ROTA_SUBMIT_DIR": in.Alloc.Spec.SubmitDir,
	}
	if in.Alloc.Spec.Checkpoint != nil {
		env["ROTA_CHECKPOINT_FILE"] = in.Alloc.Spec.Checkpoint.File()
	}
	if g, of := in.partOfGPU(); g != nil {
		env["ROTA_GPU_SHARE"], env["ROTA_GPU_MEMORY"] = g.ShareText(), strconv.FormatInt(int64(g.MemoryOn(of.Memory)), 10)
	}
	for _, meta := range []map[string]string{in.Alloc.Spec.Meta, in.group.Meta} {
		for k, v := range meta {
			env["ROTA_META_"+jobspec.Variable(k)] = v
		}
	}
	return env
}

// onNodes says where the workers of a group are, as Slurm does: by node, each once.
type onNodes struct {
	names   []string // in order of their first workers
	workers []int    // on each of them
}

func byNode(nodes []string) onNodes {
	var on onNodes
	for _, n := range nodes {
		i := slices.Index(on.names, n)
		if i < 0 {
			i = len(on.names)
			on.names, on.workers = append(on.names, n), append(on.workers, 0)
		}
		on.workers[i]++
	}
	return on
}

// even reports whether each node has as many workers.
func (on onNodes) even() bool { return slices.Min(on.workers) == slices.Max(on.workers) }

// each writes an amount of each worker for each node, in Slurm's short form: 4(x2),2.
func (on onNodes) each(amount int) string {
	var parts []string
	for i := 0; i < len(on.workers); {
		k := i
		for k < len(on.workers) && on.workers[k] == on.workers[i] {
			k++
		}
		text := itoa(on.workers[i] * amount)
		if k-i > 1 {
			text += "(x" + itoa(k-i) + ")"
		}
		parts, i = append(parts, text), k
	}
	return strings.Join(parts, ",")
}

// distinctNodes writes nodes as a host list that names a node with several workers once.
func distinctNodes(nodes []string) string { return hostlist.Compress(byNode(nodes).names) }

// workerRange returns between which numbers the group's workers may change from attempt to attempt.
func (in taskInput) workerRange() (fewest, most int) {
	if g := in.group; g.Elastic != nil {
		return g.Fewest(), g.Most()
	}
	return len(in.Alloc.Nodes), len(in.Alloc.Nodes)
}

// gracePeriod returns how many seconds the job has to stop when it is preempted.
func (in Input) gracePeriod() int {
	if p := in.Alloc.Spec.Preemption; p != nil && p.GracePeriod > 0 {
		return int(p.GracePeriod)
	}
	return 30
}

func (in taskInput) slurmVariables() map[string]string {
	on := byNode(in.Alloc.Nodes)
	id, nodes, count := itoa(int(in.Alloc.Job)), hostlist.Compress(on.names), itoa(len(on.names))
	cores := itoa(in.task.Resources.Cores)
	env := map[string]string{
		"SLURM_JOB_ID": id, "SLURM_JOBID": id, "SLURM_JOB_NAME": in.Alloc.Spec.Name, "SLURM_JOB_NODELIST": nodes,
		"SLURM_NODELIST":      nodes,
		"SLURM_JOB_NUM_NODES": count, "SLURM_NNODES": count, "SLURM_TASKS_PER_NODE": on.each(in.local),
		"SLURM_CPUS_ON_NODE": cores, "SLURM_JOB_CPUS_PER_NODE": on.each(in.task.Resources.Cores),
		"SLURM_NODEID":        itoa(slices.Index(on.names, in.Alloc.Nodes[in.Alloc.GroupWorker])),
		"SLURMD_NODENAME":     in.Node.Name,
		"SLURM_TOPOLOGY_ADDR": in.Node.Name, "SLURM_TOPOLOGY_ADDR_PATTERN": "node", "SLURM_GTIDS": in.ranksHere(),
		"SLURM_JOB_GID":     itoa(int(in.Alloc.Owner.GID)),
		"SLURM_SUBMIT_DIR":  in.Alloc.Spec.SubmitDir,
		"SLURM_SUBMIT_HOST": in.Alloc.Spec.SubmitHost, "SLURM_JOB_PARTITION": in.Alloc.Queue,
		"SLURM_JOB_ACCOUNT":  in.Alloc.Account,
		"SLURM_JOB_QOS":      string(in.Alloc.Class),
		"SLURM_CLUSTER_NAME": in.Alloc.Cluster,
		"SLURM_JOB_USER":     in.Alloc.Owner.User, "SLURM_JOB_UID": itoa(int(in.Alloc.Owner.UID)),
		"SLURM_JOB_START_TIME": itoa(int(in.Alloc.Start / 1000)),
	}
	if in.Alloc.Restarts > 0 { // scripts test whether it is set
		env["SLURM_RESTART_COUNT"] = itoa(in.Alloc.Restarts)
	}
	if in.kind != jobspec.LaunchSteps {
		env["SLURM_STEP_ID"], env["SLURM_STEPID"] = "0", "0"
		maps.Copy(env, in.slurmAmounts(on))
	}
	if in.Alloc.Limit > 0 {
		env["SLURM_JOB_END_TIME"] = itoa(int(in.Alloc.Start/1000) + int(in.Alloc.Limit))
	}
	if in.kind == "slurm" {
		env["SLURM_LAUNCH_NODE_IPADDR"], _ = in.rendezvous()
	}
	if n := len(in.taskGPUs); n > 0 {
		env["SLURM_GPUS_ON_NODE"], env["SLURM_JOB_GPUS"] = itoa(n), numbers(in.taskGPUs)
	}
	return env
}

// slurmAmounts are the amounts that Slurm sets only if they were asked for. A job file always says
// them. A batch script has those that its flags ask for (see package script): programs such as
// Lightning draw conclusions from the others.
func (in taskInput) slurmAmounts(on onNodes) map[string]string {
	all, perNode := itoa(in.all), in.local
	if on.even() {
		perNode *= on.workers[0]
	}
	env := map[string]string{"SLURM_NTASKS": all, "SLURM_NPROCS": all, "SLURM_NTASKS_PER_NODE": itoa(perNode),
		"SLURM_CPUS_PER_TASK": itoa(max(in.task.Resources.Cores/in.local, 1))}
	if in.Alloc.Spec.ExportEnv["SLURM_MEM_PER_CPU"] == "" { // srun takes one of them only
		env["SLURM_MEM_PER_NODE"] = itoa(int(in.task.Resources.Memory / jobspec.MiB))
	}
	return env
}

// numbers lists numbers with commas, as Slurm writes GPUs in variables: scripts split it at them.
func numbers(list []int) string {
	words := make([]string, len(list))
	for i, n := range slices.Sorted(slices.Values(list)) {
		words[i] = itoa(n)
	}
	return strings.Join(words, ",")
}

// ranksHere lists the ranks of all workers on this node.
func (in taskInput) ranksHere() string {
	var ranks []string
	for worker, node := range in.Alloc.Nodes {
		if node != in.Alloc.Nodes[in.Alloc.GroupWorker] {
			continue
		}
		for local := range in.local {
			ranks = append(ranks, itoa(worker*in.local+local))
		}
	}
	return strings.Join(ranks, ",")
}

// gpuVariables number the granted devices from 0, as programs in the container see them.
func (in taskInput) gpuVariables() map[string]string {
	env := map[string]string{"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "",
		"NVIDIA_VISIBLE_DEVICES": "void"}
	if n := len(in.taskGPUs); n > 0 {
		var visible []string
		for i := range n {
			visible = append(visible, itoa(i))
		}
		env["CUDA_VISIBLE_DEVICES"] = strings.Join(visible, ",")
		env["NVIDIA_VISIBLE_DEVICES"] = strings.Join(in.uuids(), ",")
	}
	return env
}

// partOfGPU returns which part of a GPU the task has, and of which one; nil if it has none, or whole
// ones.
func (in taskInput) partOfGPU() (*jobspec.GPU, model.GPU) {
	g := in.task.Resources.GPU
	if g == nil || g.Share == 0 || len(in.taskGPUs) != 1 || in.taskGPUs[0] >= len(in.Node.GPUs) {
		return nil, model.GPU{}
	}
	return g, in.Node.GPUs[in.taskGPUs[0]]
}

// usesMPS reports whether programs of the task compute by way of MPS.
func (in taskInput) usesMPS() bool {
	g, _ := in.partOfGPU()
	return g != nil && in.Node.MPS.Pipes != ""
}

// mpsVariables have CUDA compute by way of MPS. The task gets as many of the GPU's multiprocessors, and
// as much of its memory, as its part of the GPU is. The GPU is named by its UUID, because its
// number in the container may be another one than that of the service. Percents are whole ones,
// rounded up.
func (in taskInput) mpsVariables() map[string]string {
	if !in.usesMPS() {
		return nil
	}
	g, of := in.partOfGPU()
	env := map[string]string{
		"CUDA_MPS_PIPE_DIRECTORY": in.Node.MPS.Pipes, "CUDA_VISIBLE_DEVICES": of.UUID,
		"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": itoa((g.Share*100 + jobspec.WholeGPU - 1) / jobspec.WholeGPU),
	}
	if memory := g.MemoryOn(of.Memory); memory > 0 {
		env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = fmt.Sprintf("0=%dMB", memory/jobspec.MiB)
	}
	return env
}

func (in taskInput) uuids() []string {
	var out []string
	for _, i := range in.taskGPUs {
		if i >= 0 && i < len(in.Node.GPUs) {
			out = append(out, in.Node.GPUs[i].UUID)
		}
	}
	return out
}

// ncclVariables keep NCCL from reaching for the GPUs of another worker of the job on this node,
// which the container does not have. NCCL takes processes with the same host name and the same boot
// for neighbours, unless they are told that they are on different hosts. Containers share both.
func (in taskInput) ncclVariables() map[string]string {
	here := 0
	for _, h := range in.groupHosts() {
		for _, n := range h.Nodes {
			if n == in.Alloc.Nodes[in.Alloc.GroupWorker] {
				here++
			}
		}
	}
	if here < 2 || len(in.taskGPUs) == 0 {
		return nil
	}
	return map[string]string{"NCCL_HOSTID": in.Node.Name + "." + itoa(in.Alloc.Worker)}
}

// groupHosts returns where the workers of all groups of the job are that run together.
func (in taskInput) groupHosts() []api.GroupHosts {
	if len(in.Alloc.Hosts) > 0 {
		return in.Alloc.Hosts
	}
	return []api.GroupHosts{{Group: in.group.Name, Nodes: in.Alloc.Nodes}}
}

// torchVariables say how the workers of a gang find each other. PET_* are torchrun's own flags in
// another form, so that a plain `torchrun train.py` works.
func (in taskInput) torchVariables() map[string]string {
	addr, port := in.rendezvous()
	env := map[string]string{"MASTER_ADDR": addr, "MASTER_PORT": itoa(port)}
	if in.kind != "torchrun" {
		return env
	}
	env["PET_NNODES"], env["PET_NPROC_PER_NODE"] = itoa(len(in.Alloc.Nodes)), itoa(in.local)
	if l := in.task.Launch; l.MaxRestarts > 0 {
		env["PET_MAX_RESTARTS"] = itoa(l.MaxRestarts)
	}
	if in.task.Launch.Rdzv == "c10d" {
		env["PET_RDZV_BACKEND"], env["PET_RDZV_ENDPOINT"], env["PET_RDZV_ID"] = "c10d", in.masterEndpoint(),
			in.rendezvousID()
		return env
	}
	env["PET_NODE_RANK"], env["PET_MASTER_ADDR"], env["PET_MASTER_PORT"] = itoa(in.Alloc.GroupWorker), addr, itoa(port)
	return env
}

// mpiVariables have OpenMPI's mpirun start its ranks in the worker's container. By Slurm's
// variables alone it takes itself to be in a job of Slurm. Then it looks for srun where the node's
// name is not the machine's. A program that starts steps is to do so.
func (in taskInput) mpiVariables() map[string]string {
	if in.kind == jobspec.LaunchSteps {
		return nil
	}
	return map[string]string{"OMPI_MCA_plm": "^slurm", "OMPI_MCA_ras": "^slurm"}
}

// rankEnvironment returns what one process has of its own. torchrun numbers its ranks itself and
// must not find numbers set.
func (in taskInput) rankEnvironment(local int) []string {
	rank := in.base + local
	env := map[string]string{
		"ROTA_RANK": itoa(rank), "ROTA_LOCAL_RANK": itoa(local), "SLURM_PROCID": itoa(rank),
		"SLURM_LOCALID": itoa(local),
	}
	if in.numbersRanks() {
		maps.Copy(env, map[string]string{
			"RANK": itoa(rank), "WORLD_SIZE": itoa(in.all), "LOCAL_RANK": itoa(local), "LOCAL_WORLD_SIZE": itoa(in.local),
			"NODE_RANK": itoa(in.Alloc.GroupWorker), "GROUP_RANK": itoa(in.Alloc.GroupWorker),
		})
	}
	for k := range in.task.Env {
		if !strings.HasPrefix(k, "ROTA_") {
			delete(env, k)
		}
	}
	return sortedPairs(env)
}

// numbersRanks reports whether the processes are ranks of a launch that Rota numbers. A program that is
// the only one starts ranks by itself, if it has several GPUs, and must not take itself for one.
func (in taskInput) numbersRanks() bool {
	alone := in.kind == "single" && in.all == 1 && in.group.Most() == 1 && len(in.Alloc.Hosts) <= 1
	return in.kind != "torchrun" && in.kind != jobspec.LaunchSteps && !alone
}

func itoa(n int) string { return fmt.Sprint(n) }

// Commands are the other names of the command rota in containers: those of Slurm's commands.
func Commands() []string {
	return []string{"sacct", "sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun", "sstat"}
}
