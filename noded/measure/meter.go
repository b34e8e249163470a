// Package measure learns how far the training of workers is, how fast it goes, and how much they use
// of processors and GPUs. It decides nothing about containers.
//
//   - progress.go reads progress files and findings of log policies.
//   - sample.go samples processor time and GPUs, and rates.go makes profiles and rates from samples.
//   - shares.go compares the GPU memory of a worker with its share.
//   - usage.go says how much a worker has used.
//
// A [Meter] has a lock of its own, and never calls [Node] while it holds that lock. So the node may
// call a Meter while it holds its own.
package measure

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/gpu"
	"github.com/rota-hpc/rota/noded/gpus"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/profile"
	"github.com/rota-hpc/rota/noded/progress"
	"github.com/rota-hpc/rota/noded/reconcile"
	"github.com/rota-hpc/rota/noded/report"
)

// Node is the part of the node daemon that measuring needs.
type Node interface {
	// Workers returns a copy of the facts of each worker.
	Workers() []reconcile.Worker
	// Worker returns a copy of the facts of one worker; false if the node does not know it.
	Worker(id container.ID) (reconcile.Worker, bool)
	// SetExcess stores by how much a worker exceeds its share of GPU memory, and decides again
	// about the worker.
	SetExcess(id container.ID, e reconcile.Excess)
	// SetMeasures stores measures that the journal has. It returns false if they must not be reported:
	// the worker is gone, has a result, or is kept for other controllers.
	SetMeasures(id container.ID, m *journal.Measures) bool
}

// Bundles knows the files of a container. *bundle.Store implements it.
type Bundles interface {
	// Progress returns where the progress of a worker is read, nil when that is not known.
	Progress(id container.ID) *progress.Source
	// Findings returns the findings of log policies in the output of a worker, oldest first.
	Findings(id container.ID) ([]container.Finding, error)
}

// Journal keeps measures for the next daemon. *journal.Journal implements it.
type Journal interface {
	// Append returns when the records are on disk.
	Append(records ...journal.Record) error
}

// Steps are the parts of srun steps on this node. *jobsteps.Local implements it.
type Steps interface {
	// Live returns the parts beside a worker that have not ended.
	Live(worker container.ID) []container.ID
	// OnGPUs returns the GPUs by index of each running part beside a worker.
	OnGPUs(worker container.ID) map[container.ID][]int
	// AddGPU adds a sample: utilisation in thousandths, memory in bytes, at now in Unix milliseconds.
	AddGPU(id container.ID, now, utilisation, memory int64)
	// PauseGPU says that the parts beside a worker are not sampled, because it pauses.
	PauseGPU(worker container.ID)
	// GPUUse returns how much a part has used of its GPUs, and how many it has.
	GPUUse(id container.ID) (used model.Usage, gpus int)
}

// Config is the surroundings of a Meter.
type Config struct {
	Node    Node
	Bundles Bundles
	Journal Journal
	Outbox  *report.Outbox
	Driver  gpu.Source // samples the GPUs
	GPUs    *gpus.Set  // the GPUs of the node by index
	Log     *slog.Logger
	// Used returns how much a container has used by now; nil: unknown.
	Used func(id container.ID) (container.Used, error)
	// ContainerOf returns the container of a process; false if the process is in none.
	ContainerOf func(pid int) (container.ID, bool)
	// Steps is nil on a node without srun steps.
	Steps Steps
}

// Interval is the time between two readings of the progress of a worker.
const Interval = 2 * time.Second

// Meter measures the workers of a node.
type Meter struct {
	Config

	// The goroutine of sampleUsage alone has these:
	owners     owners    // of the processes that use GPUs
	cpuSampled time.Time // the last sample of processor time
	silent     bool      // the driver did not answer last time

	mu      sync.Mutex
	workers map[container.ID]*worker
	origins progress.Origins // of the metrics of jobs
}

// worker holds the measurements of one worker. The lock of the Meter guards it.
type worker struct {
	tail     progress.Tail    // where the next reading of its progress begins
	step     int64            // the highest that it has reported, as far as this daemon has read
	read     *progressRead    // nil when no read is under way
	source   *progress.Source // of its progress, once looked up
	findings int              // number of findings that were queued for a report
	rate     progress.RateMeter
	class    progress.ClassMeter
	rates    measuring
	used     profile.Totals // since this daemon started
	sampled  time.Time      // last sample of its GPUs
}

// New returns a Meter that has measured nothing yet.
func New(c Config) *Meter { return &Meter{Config: c, workers: map[container.ID]*worker{}} }

// Run measures until ctx ends.
func (m *Meter) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.sampleProgress(ctx) })
	group.Go(func() error { return m.sampleUsage(ctx) })
	return group.Wait()
}

// Forget drops a worker when the node does not know it any more.
func (m *Meter) Forget(id container.ID) {
	workers, unlock := m.lock()
	defer unlock()
	delete(workers, id)
}

// prune drops the workers that the node does not know: a measurement may have ended after Forget.
func (m *Meter) prune(known []reconcile.Worker) {
	here := make(map[container.ID]bool, len(known))
	for i := range known {
		here[known[i].ID] = true
	}
	workers, unlock := m.lock()
	defer unlock()
	maps.DeleteFunc(workers, func(id container.ID, _ *worker) bool { return !here[id] })
}

// lock locks the measurements, and returns them and the function that unlocks them.
func (m *Meter) lock() (measured, func()) {
	m.mu.Lock()
	return m.workers, m.mu.Unlock
}

// measured are the measurements of all workers. A method of this type runs under the lock of the
// Meter, because only [Meter.lock] returns one.
type measured map[container.ID]*worker

// of returns the measurements of a worker, which begin with the first call.
func (m measured) of(id container.ID) *worker {
	w := m[id]
	if w == nil {
		w = &worker{}
		m[id] = w
	}
	return w
}

// logOf returns a log whose messages name a worker and its job.
func (m *Meter) logOf(id container.ID) *slog.Logger {
	return m.Log.With("job", id.Job, "alloc", id.String())
}
