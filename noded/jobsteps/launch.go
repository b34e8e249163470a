package jobsteps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/clock"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/jobsteps/choose"
	"github.com/rota-hpc/rota/noded/journal"
)

// create starts a granted step and follows it until it has ended. The step is in the journal before
// any node starts a part, so the next daemon finds it after a crash.
func (j *job) create(req *api.StepRequest, g grant, c *client) {
	n := g.n
	st := stepState{Name: nameOf(req), Shares: g.shares, Began: clock.Wall().UnixMilli(), Cyclic: req.Cyclic,
		Overlap: req.Overlap, Stdin: req.Stdin, KillOnBad: req.KillOnBad, Wait: req.Wait, TimeLimit: req.TimeLimit,
		Key: req.Key, EndsJob: req.EndsJob}
	if len(g.parts) > 1 {
		st.Parts = g.parts
	}
	s := newStep(j, n, st)
	s.acks = req.Acks
	// From granted to running in one critical section: close either sees the step, or is seen here.
	j.mu.Lock()
	if j.closed {
		j.move(n, givenBack)
		j.mu.Unlock()
		c.refuse(errEnds)
		return
	}
	j.move(n, stepBegins)
	j.numbers[n].step = s
	j.mu.Unlock()
	state, err := json.Marshal(st)
	if err == nil {
		err = j.m.Journal.Append(journal.Record{Op: journal.StepBegun, ID: j.id.String(),
			Step: &journal.Step{N: n, State: state}})
	}
	s.client, s.phase, s.fresh = c, s.phase.after(clientCame), true
	var failed []*part
	if err == nil {
		failed, err = j.startParts(s, req)
	}
	f, bad := stream.JSON(stream.Begun, stream.AllTasks, s.begun())
	if err == nil {
		err = bad
	}
	if err != nil {
		// Some parts may run: they are killed. Parts that certainly do not run count as ended, the
		// others as running until their streams say otherwise.
		s.kill(err.Error())
		s.worst = api.StepTaskExit{Code: 1}
		s.decided = true
		for _, p := range failed {
			p.lost = true
			s.partEnded(p, api.StepEnd{})
		}
	} else {
		s.pending = append(s.pending, f)
	}
	j.follow(s)
}

// begins reports whether a node does not know yet that its worker runs. The first node of a job may
// learn of the start before the others.
func begins(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Code == api.CodeNoLeader
}

// requests returns, for each part, the request of its group (a heterogeneous step has one for
// each). Tasks that programs name by number are renumbered for the whole step.
func (s *step) requests(req *api.StepRequest) []*api.StepRequest {
	var list []*api.StepRequest
	parts, tasks := choose.PartsOf(req), 0
	for i := range parts {
		nodes := len(s.Shares)
		if len(s.Parts) > 0 {
			nodes = s.Parts[i]
		}
		parts[i].Programs = behind(parts[i].Programs, tasks)
		for range nodes {
			tasks += len(s.Shares[len(list)].Tasks)
			list = append(list, &parts[i])
		}
	}
	return list
}

// behind returns programs whose task numbers are raised by the number of tasks before them.
func behind(programs []api.StepProgram, tasks int) []api.StepProgram {
	out := slices.Clone(programs)
	for i := range out {
		out[i].Tasks = slices.Clone(out[i].Tasks)
		for k := range out[i].Tasks {
			out[i].Tasks[k] += tasks
		}
	}
	return out
}

// groupsOf lists the groups of a step.
func groupsOf(req *api.StepRequest) []int {
	list := []int{req.Group}
	for i := range req.More {
		list = append(list, req.More[i].Group)
	}
	return list
}

// startParts starts all parts at once, and waits for all answers. It returns the parts that
// certainly do not run; after an uncertain error a part may run.
func (j *job) startParts(s *step, req *api.StepRequest) ([]*part, error) {
	b := s.begun()
	failed := make([]*part, len(s.parts))
	errs := make([]error, len(s.parts))
	var all sync.WaitGroup
	requests := s.requests(req)
	for i, p := range s.parts {
		share, r := s.Shares[i], requests[i]
		one := &Part{Programs: r.Programs, Env: r.Env, Workdir: r.Workdir, Umask: req.Umask, Nodes: b.Nodes,
			Counts: b.Tasks, Node: i, Share: share, CoresPerTask: r.CoresPerTask, Exact: r.Exact,
			GPUsPerTask: r.GPUsPerTask, Cyclic: r.Cyclic, Stdin: p.input}
		if len(s.Parts) > 0 {
			one.Groups = groupsOf(req)
		}
		if s.hasTask(share, "0") {
			one.Terminal = req.Terminal
		}
		all.Go(func() { // repeated while the node waits for news of its worker
			ctx, cancel := context.WithTimeout(j.m.ctx, askTime)
			defer cancel()
			err := p.node.Start(ctx, p.id, one)
			for delay := retryMin; begins(err); delay = min(2*delay, retryMax) {
				select {
				case <-time.After(delay):
					err = p.node.Start(ctx, p.id, one)
				case <-ctx.Done():
					err = context.Cause(ctx)
				}
			}
			if err != nil {
				errs[i] = fmt.Errorf("node %s: %w", p.name, err)
				if ctx.Err() == nil && !errors.Is(err, errUncertain) {
					failed[i] = p
				}
			}
		})
	}
	all.Wait()
	return slices.DeleteFunc(failed, func(p *part) bool { return p == nil }), errors.Join(errs...)
}

// goOn goes on with a step of an earlier daemon. A step that had not begun on all its nodes is
// killed: its command never got the step's number and cannot attach to it.
func (j *job) goOn(s *step) {
	for _, p := range s.parts {
		if why := p.unbegun(j.m.ctx); why != "" {
			s.kill(why)
			s.phase = s.phase.after(neverBegan)
			break
		}
	}
	if j.m.ctx.Err() == nil {
		j.follow(s)
	}
}

// unbegun asks a part's node until it answers, and returns why the part's tasks do not run; "" if
// they do. If the node does not answer in time it returns "" too, because the part's stream finds
// that out.
func (p *part) unbegun(ctx context.Context) string {
	deadline := time.Now().Add(nodePatience)
	for delay := retryMin; ; delay = min(2*delay, retryMax) {
		ask, cancel := context.WithTimeout(ctx, askTime)
		begun, err := p.node.Begun(ask, p.id)
		cancel()
		switch {
		case err == nil && begun:
			return ""
		case err == nil, errors.Is(err, container.ErrUnknown):
			return "the node daemon of the job was restarted while the step was starting"
		case ctx.Err() != nil:
			return ""
		case time.Now().After(deadline):
			return "" // its stream says that the node is lost
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return ""
		}
	}
}
