package trace

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace/field"
	"github.com/rota-hpc/rota/jobspec"
)

// restartCosts are how long a checkpoint and a restart of each application hold its GPUs, in ms, as
// measured.
var restartCosts = map[string]int64{
	"cifar10": 50 * second, "deepspeech2": 25 * second, "bert": 120 * second, "yolov3": 80 * second,
	"imagenet": 250 * second,
	"ncf":      15 * second,
}

// siaAccount is the account of jobs that have none: these workloads name no users.
const siaAccount = "sia"

func readSia(s *sink, l *lines) error {
	if s.options.Profiles == nil {
		return ErrNoProfiles
	}
	required := []string{"name", "time", "application", "num_replicas", "batch_size"}
	return s.jobs(l, required, extrasBut("name", "workers", "speed"), func(r *row) *Job {
		j := NewJob(r.named("name"))
		j.Account, j.User, j.App = siaAccount, siaAccount, r.named("application")
		j.Submit = r.scaled("time", second, maxStamp)
		j.Workers = int(r.whole("num_replicas", 1, MaxWorkers))
		j.Batch = int(r.whole("batch_size", 1, maxBatch))
		j.Request = model.Vector{Cores: 1, Memory: jobspec.GiB, GPUs: gpu}
		if cost, ok := restartCosts[j.App]; ok {
			j.Restart, j.Grace = cost, 0 // saving is part of the cost
		}
		if r.err == nil {
			r.err = s.setTraining(j)
		}
		readExtras(r, j)
		j.Name = fmt.Sprintf("%s-%d", j.App, j.Batch) // jobs are alike if the program and its batch are the same
		return j
	})
}

// setTraining sets the work and the speed of a job from the profile of its application.
func (s *sink) setTraining(j *Job) error {
	f := s.options.Profiles.ofApplication(j.App)
	if f == nil {
		return fmt.Errorf("no profile of application %q", field.Shorten(j.App))
	}
	length, ok := f.length[int64(j.Batch)]
	if !ok {
		return fmt.Errorf("the profile of %s has no validation at batch %d, so the length of the job is unknown", j.App,
			j.Batch)
	}
	t := &Training{profile: f, batch: int64(j.Batch)}
	t.reference = f.iteration(packed(j.Workers), t.batch)
	if t.reference == 0 {
		return fmt.Errorf("the profile of %s has no step times", j.App)
	}
	if t.reference > MaxTime*1_000_000/length.steps {
		return fmt.Errorf("%d steps of %d ms take more than ten years", length.steps, t.reference/1_000_000)
	}
	j.Steps, j.Progress, j.Scaling = length.steps, length.progress, t
	j.Work = max(1, length.steps*t.reference/1_000_000)
	j.MinWorkers, j.MaxWorkers = 1, max(j.Workers, int(f.mostWorkers(t.batch)))
	return nil
}

// packed divides n workers among as few nodes of four as possible.
func packed(n int) []int {
	var nodes []int
	for ; n > nodeWorkers; n -= nodeWorkers {
		nodes = append(nodes, nodeWorkers)
	}
	return append(nodes, n)
}

// Training is the speed of a job of a profiled application at a fixed global batch. It is the
// measured step time, relative to that of the requested workers, packed.
type Training struct {
	profile   *Profile
	batch     int64
	reference int64 // ns of a step with the requested workers
}

// Rate implements [Scaling].
func (t *Training) Rate(l Layout) int64 {
	ns := t.StepTime(l)
	if ns == 0 {
		return 0
	}
	return max(1, model.MulDiv(t.reference, FullRate, ns))
}

// StepTime returns how long a step takes in a layout, in ns; 0 without workers. The spread of the
// layout does not matter, because the measurements include the cost of several nodes.
func (t *Training) StepTime(l Layout) int64 { return t.profile.iteration(l.PerNode, t.batch) }
