package trace

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace/field"
	"github.com/rota-hpc/rota/jobspec"
)

// NewJob returns a job with an id and nothing else.
func NewJob(id string) *Job {
	return &Job{ID: id, Class: jobspec.BE, Priority: MidPriority, Grace: Unknown, Restart: Unknown}
}

var fitgppColumns = []string{"job_id", "class", "user", "submit_min", "cpus", "ram_gb", "gpus", "exec_min", "grace_min"}

// FitGppAccount is the account above the users of a fitgpp workload.
const FitGppAccount = "paper"

// jobs reads a table with a job on each line. read returns the job of a line, and notes faults in
// the row.
func (s *sink) jobs(l *lines, required, optional []string, read func(*row) *Job) error {
	return table(l, s.trace, required, optional, func(r *row) error {
		j := read(r)
		if r.err != nil {
			return r.err
		}
		return s.add(j, r.line)
	})
}

// extrasBut returns extraColumns without those that a format has itself.
func extrasBut(own ...string) []string {
	return slices.DeleteFunc(slices.Clone(extraColumns), func(c string) bool { return slices.Contains(own, c) })
}

func readFitGpp(s *sink, l *lines) error {
	return s.jobs(l, fitgppColumns, extraColumns, func(r *row) *Job {
		j := s.draft(r.named("job_id"))
		j.Class, j.User, j.Account = class(r, "class"), r.named("user"), FitGppAccount
		j.Submit = r.scaled("submit_min", minute, maxStamp)
		j.Work = r.scaled("exec_min", minute, MaxTime)
		j.Grace = r.scaled("grace_min", minute, MaxTime)
		j.Request = model.Vector{
			Cores:  r.whole("cpus", 1, MaxCores),
			Memory: jobspec.Bytes(r.scaled("ram_gb", int64(jobspec.GiB), MaxMemory)),
			GPUs:   r.whole("gpus", 0, MaxGPUs) * gpu,
		}
		readExtras(r, j)
		return j
	})
}

func readPhilly(s *sink, l *lines) error {
	s.dated = true
	required := []string{"timestamp", "duration", "num_gpus", "cluster"}
	return s.jobs(l, required, append([]string{"gpu_time"}, extraColumns...), func(r *row) *Job {
		j := s.draft(strconv.Itoa(r.line))
		at, err := field.Time(r.text("timestamp"))
		if err != nil {
			r.fail("timestamp", err)
		}
		j.Submit, j.Work = at, r.scaled("duration", second, MaxTime)
		j.Account, j.User = r.named("cluster"), r.text("cluster")
		n := r.whole("num_gpus", 1, MaxGPUs*MaxWorkers)
		s.setGang(j, n)
		if r.has("gpu_time") && r.err == nil {
			checkGPUTime(r, n*j.Work)
		}
		readExtras(r, j)
		return j
	})
}

// checkGPUTime compares the product that a philly line repeats with its factors, to find shifted
// columns.
func checkGPUTime(r *row, ms int64) {
	const most = 1 << 60
	if got := r.scaled("gpu_time", second, most); r.err == nil && (got > ms+ms/100+second || got < ms-ms/100-second) {
		r.fail("gpu_time", fmt.Errorf("%d s is not duration times num_gpus", got/second))
	}
}

// setGang divides n GPUs among workers: up to a node's GPUs are one worker on one node, more are
// whole nodes. Such traces have no cores and no memory. So a worker gets one core and one GiB for
// each GPU, and GPU nodes run out of GPUs first.
func (s *sink) setGang(j *Job, n int64) {
	per := int64(s.options.nodeGPUs())
	j.Workers, j.PerNode = 1, 1
	if n > per {
		j.Workers, n = int((n+per-1)/per), per
	}
	j.Request = model.Vector{Cores: n, Memory: jobspec.Bytes(n) * jobspec.GiB, GPUs: n * gpu}
}

func readTiresias(s *sink, l *lines) error {
	required := []string{"job_id", "num_gpu", "submit_time", "model_name", "duration"}
	return s.jobs(l, required, append([]string{"iterations", "interval"}, extraColumns...),
		func(r *row) *Job {
			j := s.draft(r.named("job_id"))
			j.Submit, j.Work = r.scaled("submit_time", second, maxStamp), r.scaled("duration", second, MaxTime)
			j.App, j.Name = r.text("model_name"), r.text("model_name")
			s.setGang(j, r.whole("num_gpu", 1, MaxGPUs*MaxWorkers))
			if r.has("iterations") {
				j.Steps = r.whole("iterations", 1, 1<<50)
			}
			readExtras(r, j)
			return j
		})
}

func readOpenB(s *sink, l *lines) error {
	required := []string{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time",
		"scheduled_time"}
	optional := append([]string{"gpu_spec", "qos", "pod_phase"}, extrasBut("name", "models")...)
	return s.jobs(l, required, optional, func(r *row) *Job {
		j := s.draft(r.named("name"))
		j.QoS = r.text("qos")
		j.Request = podRequest(r)
		podTimes(r, j)
		if r.has("gpu_spec") {
			j.Models = models(r.text("gpu_spec"))
		}
		readExtras(r, j)
		j.Name = "" // every pod has a name of its own, so names do not tell which pods are alike
		return j
	})
}

// podRequest returns the request of a pod. Parts of a core are rounded up.
func podRequest(r *row) model.Vector {
	v := model.Vector{
		Cores:  max(1, (r.whole("cpu_milli", 0, MaxCores*1000)+999)/1000),
		Memory: jobspec.Bytes(r.whole("memory_mib", 0, MaxMemory>>20)) * jobspec.MiB,
	}
	n := r.whole("num_gpu", 0, MaxGPUs)
	part := r.whole("gpu_milli", 0, gpu)
	switch {
	case n == 0 && part > 0:
		r.fail("gpu_milli", fmt.Errorf("%d thousandths without a GPU", part))
	case n > 0 && part == 0:
		r.fail("gpu_milli", fmt.Errorf("0 thousandths of %d GPUs", n))
	case n > 1 && part < gpu:
		r.fail("gpu_milli", fmt.Errorf("%d thousandths of %d GPUs: only one GPU can be shared", part, n))
	}
	v.GPUs = n * part
	return v
}

// podTimes sets when a pod arrived and how long it ran, or was wanted if it never ran.
func podTimes(r *row, j *Job) {
	created, deleted := r.scaled("creation_time", second, maxStamp), r.scaled("deletion_time", second, maxStamp)
	began := created
	if r.has("scheduled_time") {
		began = r.scaled("scheduled_time", second, maxStamp)
	} else {
		j.Unplaced = true
	}
	j.Submit, j.Work = created, deleted-began
	if began < created && r.err == nil {
		r.fail("scheduled_time", fmt.Errorf("before creation_time"))
	}
}
