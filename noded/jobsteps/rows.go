package jobsteps

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/jobsteps/choose"
	"github.com/rota-hpc/rota/noded/journal"
)

// follow runs a step until it has ended, and writes its row. The parts are removed first, because
// only then is their use of resources complete. The row comes before the step leaves the list, so
// Finish waits for it.
func (j *job) follow(s *step) {
	s.run(j.m.ctx)
	if j.m.ctx.Err() != nil {
		return // the next daemon goes on with it
	}
	usage := j.removeParts(s)
	j.freed(s)
	j.record(s, usage)
	j.mu.Lock()
	j.move(s.n, rowWritten)
	close(j.changed)
	j.changed = make(chan struct{})
	idle := len(j.steps()) == 0
	j.mu.Unlock()
	if idle && j.m.Idle != nil {
		j.m.Idle(j.id)
	}
	if s.EndsJob {
		j.endLater()
	}
}

// jobPatience is how long a job outlives the one step that it exists for, if srun does not end the
// job. It is longer than srun tries to.
const jobPatience = time.Minute

// endLater ends a job that its client has not ended in time.
func (j *job) endLater() {
	j.m.runs.Go(func() {
		select {
		case <-time.After(jobPatience):
			j.m.EndJob(j.m.ctx, j.id)
		case <-j.m.ctx.Done():
		}
	})
}

// removeParts removes the parts from their nodes, and returns the resources that the step's tasks
// used; nil if that is unknown. A process that was killed for memory becomes the step's outcome.
func (j *job) removeParts(s *step) *model.Usage {
	ends := make([]Ended, len(s.parts))
	var all sync.WaitGroup
	for i, p := range s.parts {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(j.m.ctx, askTime)
			defer cancel()
			var err error
			if ends[i], err = p.node.Remove(ctx, p.id); err != nil && !errors.Is(err, container.ErrUnknown) {
				s.log.Warn("cannot remove the remains of a step; its node removes them when the job ends", "node", p.name,
					"err", err)
			}
		})
	}
	all.Wait()
	var sum model.UsageSum
	for i, end := range ends {
		e := end.Exit
		if e == nil {
			continue
		}
		system := max(0, e.SystemMS)
		used := model.Usage{CPUMS: max(0, e.UserMS) + system, SystemMS: system, PeakMemory: jobspec.Bytes(max(0, e.PeakMem))}
		gpus := end.GPUs
		if g := &end.GPU; g.Possible() && gpus > 0 && gpus <= len(s.Shares[i].GPUs) {
			used.GPU, used.PeakGPU, used.GPUMemory, used.PeakGPUMemory = g.GPU, g.PeakGPU, g.GPUMemory, g.PeakGPUMemory
		} else {
			gpus = 0 // the node does not know the use of GPUs, or claims more of them than the step has
		}
		sum.Add(&used, gpus)
		if e.OOM {
			s.worst, s.why = api.StepTaskExit{Signal: model.SignalOOM, OOM: true}, cmp.Or(s.why, e.Killed)
		}
	}
	if sum.Workers == 0 || !sum.Usage.Possible() { // another node sent nonsense; the state would refuse the row
		return nil
	}
	return &sum.Usage
}

// record writes the row of a step to the journal and reports it. ending keeps rows of one job in
// order: the report follows the journal without another row between.
func (j *job) record(s *step, usage *model.Usage) {
	j.ending.Lock()
	defer j.ending.Unlock()
	end := s.end()
	r := model.StepReport{Job: j.jobID(), Attempt: j.id.Attempt, Step: model.Step{
		Row: j.rows + 1, ID: s.n, Name: s.Name, Tasks: choose.Tasks(s.Shares), Began: model.UnixMS(s.Began),
		ExitCode: end.Code, Signal: end.Signal, OOM: end.OOM, Why: cut(end.Why), Usage: usage,
		Ended: max(model.UnixMS(s.ended), model.UnixMS(s.Began)),
	}}
	var nodes []string
	for _, p := range s.parts {
		if !slices.Contains(nodes, p.name) { // several workers of a job may be on one
			nodes = append(nodes, p.name)
		}
	}
	r.SetNodes(nodes)
	r.Cores, r.GPUs = s.holds()
	if s.lost.Bytes > 0 {
		r.OutputLost = &s.lost
	}
	kept := &journal.Step{N: s.n, Report: &r}
	if !s.told { // its client may ask again after a restart of this daemon, by the key of its request
		kept.Unread = s.Key
	}
	err := j.m.Journal.Append(journal.Record{Op: journal.StepEnded, ID: j.id.String(), Step: kept})
	if err != nil {
		s.log.Error("cannot record in the journal how a step ended", "err", err)
		return // the next daemon finds it lost, and says so
	}
	j.rows++
	j.m.Report(r)
}
