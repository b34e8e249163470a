package schedtest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/jobspec"
)

// Lines that scenarios print.

// Action writes an action of a plan in words.
func (w *World) Action(a fsm.Action) string {
	switch a := a.(type) {
	case *fsm.StartJob:
		return w.starting(a)
	case *fsm.StopJob:
		return w.stopping("stop", a.Job, a.Cause, a.For)
	case *fsm.SuspendJob:
		return w.stopping("suspend", a.Job, a.Cause, a.For)
	case *fsm.ResumeJob:
		return w.resuming(a)
	case *fsm.ResizeJob:
		return w.resizing(a)
	case *fsm.PackJob:
		s := fmt.Sprintf("pack %s with %s", w.Names[a.Job], w.Names[a.Host])
		if a.Expected != 0 {
			s += fmt.Sprintf(", expected %d.%02dx", a.Expected/1000, a.Expected%1000/10)
		}
		return s
	case *fsm.MoveJob:
		return w.moving(a)
	case *fsm.EndAttempt:
		return fmt.Sprintf("end %s: %s", w.Names[a.Job], a.Cause)
	case *fsm.Reserve:
		s := "reserve for " + w.Names[a.Job]
		for _, c := range a.Claims {
			s += fmt.Sprintf(" on %s %s", c.Node, amount(c.Resources))
		}
		return s + " for " + duration(int64(a.Until-w.Now))
	case *fsm.Unreserve:
		return "unreserve " + w.Names[a.Job]
	case *fsm.EarlySignal:
		return "tell " + w.Names[a.Job] + " that its limit comes"
	case *fsm.GiveUp:
		return "give up " + w.Names[a.Job]
	case *fsm.Settle:
		return "settle"
	}
	return a.String()
}

// starting writes a start.
func (w *World) starting(a *fsm.StartJob) string {
	s := "start " + w.Names[a.Job+model.JobID(a.TaskNumber)]
	for _, p := range a.Places {
		s += " on " + p.Node + gpuList(p.GPUs)
		if p.Port != 0 {
			s += fmt.Sprintf(":%d", p.Port)
		}
	}
	s += fmt.Sprintf(" port %d", a.Port)
	if a.Bypasses != 0 {
		s += " past " + w.Names[a.Bypasses]
	}
	return s
}

// stopping writes a stop or a suspension.
func (w *World) stopping(verb string, job model.JobID, cause model.Cause, beneficiary model.JobID) string {
	s := fmt.Sprintf("%s %s: %s", verb, w.Names[job], cause)
	if beneficiary != 0 {
		s += " for " + w.Names[beneficiary]
	}
	return s
}

// resuming writes a resumption.
func (w *World) resuming(a *fsm.ResumeJob) string {
	if len(a.GPUs) == 0 {
		return "take back the suspension of " + w.Names[a.Job]
	}
	s := "resume " + w.Names[a.Job]
	for i, worker := range w.State.View().Job(a.Job).Live().Workers {
		s += " on " + worker.Node + gpuList(a.GPUs[i])
	}
	return s
}

// gpuList writes GPU indices as [0-3,6].
func gpuList(gpus []int) string {
	var parts []string
	for i := 0; i < len(gpus); {
		k := i
		for k+1 < len(gpus) && gpus[k+1] == gpus[k]+1 {
			k++
		}
		if k == i {
			parts = append(parts, strconv.Itoa(gpus[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", gpus[i], gpus[k]))
		}
		i = k + 1
	}
	if parts == nil {
		return ""
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func amount(v model.Vector) string {
	return fmt.Sprintf("(%g GPUs, %d cores, %d GiB)", float64(v.GPUs)/1000, v.Cores, v.Memory/jobspec.GiB)
}

// after prints the quotas that apply to a job, and the outcome after preemption.
func (w *World) after(id model.JobID) {
	v := w.State.View()
	e := sched.Explain(v, w.Now, v.Config().Policy, id)
	for i := range e.Quotas {
		q := &e.Quotas[i]
		w.say("%s: %s, binds: %t", w.Names[id], q.Text, q.Binds)
		for _, h := range q.Holders {
			w.say("  %s in %s holds %d: %s", h.User, h.Account, h.Held, w.list(h.Jobs))
		}
	}
	if e.After == nil {
		w.say("%s: nothing is known of preemption", w.Names[id])
		return
	}
	w.say("%s, by %s: %s", w.Names[id], e.After.By, e.After.Text)
	for _, s := range e.After.Spared {
		w.say("  %s: %s", w.list(s.Jobs), s.Rule)
	}
}

// list names jobs.
func (w *World) list(ids []model.JobID) string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = w.Names[id]
	}
	return strings.Join(names, " ")
}

// why prints the reason, the funnel without its unchanging steps, and the advice.
func (w *World) why(id model.JobID) {
	v := w.State.View()
	j := v.Job(id)
	if j != nil && !j.Waits() && j.State != model.Pending {
		if j.State.Final() && j.Reason.Code != "" {
			w.say("%s has ended as %s (%s): %s", w.Names[id], j.State, j.Reason.Code, w.named(j.Reason))
			return
		}
		if j.State == model.Suspended {
			why := sched.Explain(v, w.Now, v.Config().Policy, id).Reason
			w.say("%s is suspended (%s): %s", w.Names[id], why.Code, w.named(why))
			return
		}
		if e := sched.Explain(v, w.Now, v.Config().Policy, id); e.Reason.Code == model.ReasonNodeLost {
			w.say("%s: %s\n  %s", w.Names[id], e.Reason.Sentence(), e.Advice)
			return
		}
		w.say("%s does not wait", w.Names[id])
		return
	}
	e := sched.Explain(v, w.Now, v.Config().Policy, id)
	w.say("%s waits (%s): %s", w.Names[id], e.Reason.Code, w.named(e.Reason))
	last := -1
	for _, step := range e.Funnel {
		if step.Nodes != last {
			w.say("  %d nodes %s", step.Nodes, step.What)
		}
		last = step.Nodes
	}
	w.say("  %d jobs ahead", e.Ahead)
	if e.Advice != "" {
		w.say("  advice: %s", e.Advice)
	}
}

// named is the sentence of a reason with the job's name in place of its number.
func (w *World) named(r model.Reason) string {
	return w.called(r.Sentence())
}

// waiting prints a reason for every pending job, by the function that listings use.
func (w *World) waiting() error {
	v := w.State.View()
	reason := sched.Reasons(v, w.Now, v.Config().Policy)
	for j := range v.Jobs() {
		if j.State == model.Pending || j.Waits() {
			w.say("%s %s", w.Names[j.ID], reason(j.ID).Code)
		}
	}
	return nil
}

// jobs prints every job's state, with its nodes while it has some.
func (w *World) jobs() error {
	all := slices.SortedFunc(w.State.View().Jobs(), func(a, b *model.Job) int { return cmp.Compare(a.ID, b.ID) })
	for _, j := range all {
		s := w.Names[j.ID] + " " + string(j.State)
		if f := j.Children; f != nil {
			s += fmt.Sprintf(" waiting [%s] dropped [%s], %d live, %d completed, %d failed, %d cancelled",
				f.Waiting, f.Dropped, f.Live, f.Completed, f.Failed, f.Cancelled)
		}
		if a := j.Live(); a != nil {
			for _, worker := range a.Workers {
				s += " " + worker.Node
			}
		}
		w.say("%s", s)
	}
	return nil
}

// duration writes milliseconds without zero parts: 1h30m.
func duration(ms int64) string {
	s := (time.Duration(ms) * time.Millisecond).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// prio lists the jobs that wait in the order of the policy, with its terms.
func (w *World) prio() {
	v := w.State.View()
	for _, p := range sched.Priorities(v, w.Now, v.Config().Policy) {
		text := fmt.Sprintf("%d %s: %s priority %d level %d service %ds age %ds", p.Position, w.Names[p.Job.ID], p.Class,
			p.Priority, p.Level, p.Service/1000, p.Age/1000)
		if p.Reserved {
			text += " reserved"
		}
		if p.AccountsOver != 0 || p.UserOver {
			text += fmt.Sprintf(" over %d %t", p.AccountsOver, p.UserOver)
		}
		w.say("%s", text)
	}
}

// share prints how the share of an account is computed.
func (w *World) share(account string) {
	v := w.State.View()
	e := sched.ExplainShare(v, w.Now, v.Config().Policy, account)
	if e == nil {
		w.say("no account %s", account)
		return
	}
	for _, s := range e.Steps {
		w.say("%s weight %d of %d deserves %d (configured: %t) asks for %d fair %d holds %d", s.Account, s.Weight, s.Weights,
			s.Deserved, s.Configured, s.Demand, s.Fair, s.Alloc)
	}
	w.say("promised: %t, takes back %d from %v, is above by %d for %v", e.Promised, e.Reclaims, e.From, e.Over, e.By)
}
