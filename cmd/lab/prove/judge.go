package main

import (
	"fmt"
	"math"
	"time"

	"github.com/rota-hpc/rota/cmd/lab/training"
	"github.com/rota-hpc/rota/controld/model"
)

// Differences that the comparisons allow.
const (
	graceSlack = time.Second
)

// judge tells each property that is seen from jobs and events.
func (p *proof) judge(f *found) {
	for _, check := range []func(*found){p.ends, p.order, p.steps, p.alone, p.ledger, p.grace, p.latency} {
		check(f)
	}
}

// ends checks that each job that was acknowledged is in the history, and that no job failed.
func (p *proof) ends(f *found) {
	var wrong complaints
	completed, cancelled, attempts := 0, 0, 0
	for _, t := range f.trained {
		j := f.history[t.id]
		switch {
		case j == nil:
			wrong.add("job %d was acknowledged, but is missing from the history", t.id)
			continue
		case j.Code == model.Completed:
			completed++
		case j.Code == model.Cancelled && len(f.attempts(t.id)) == 0:
			cancelled++
		default:
			wrong.add("job %d ended as %s in attempt %d: %s", t.id, j.Code, j.Attempt, j.Reason.Text)
		}
		attempts += len(f.attempts(t.id))
		if len(f.attempts(t.id)) != j.Attempt {
			wrong.add("job %d has %d attempts, but events of %d", t.id, j.Attempt, len(f.attempts(t.id)))
		}
	}
	for _, t := range f.tried {
		if j := f.history[t.id]; j == nil || j.Code != model.Completed {
			wrong.add("trial %d did not complete", t.id)
		}
	}
	p.tell("jobs", wrong, "%d training jobs completed in %s, %d never started, %s completed", completed,
		countText(attempts, "attempt"), cancelled, countText(len(f.tried), "trial"))
}

// order checks a simple form of the order that no reading of the policy allows to break. Among jobs
// that are alike in user, account, priority, kind and shape, none starts for the first time before
// an older one. Room that is free and lawful for the younger one is so for the older one too.
func (p *proof) order(f *found) {
	type alike struct {
		kind, account string
		priority      int
	}
	byKind := map[alike][]trained{}
	for _, t := range f.trained { // by age
		key := alike{t.name, t.account, t.priority}
		byKind[key] = append(byKind[key], t)
	}
	var wrong complaints
	starts, pairs := 0, 0
	for _, jobs := range byKind {
		for i, young := range jobs {
			start, ok := f.assigned[attemptID{young.id, 1}]
			if !ok {
				continue
			}
			starts++
			for _, old := range jobs[:i] {
				pairs++
				if s, ok := f.assigned[attemptID{old.id, 1}]; !ok || s.Index > start.Index {
					wrong.add("job %d (%s) started although the equal, older job %d was waiting", young.id, young.name, old.id)
				}
			}
		}
	}
	p.tell("order", wrong, "%s in %d groups of equal jobs, %s of an older and a younger job compared",
		countText(starts, "first start"), len(byKind), countText(pairs, "pair"))
}

// steps checks that each attempt goes on at least from the last checkpoint before it. That is the
// step at which the job says that it left, or the last multiple of saveEvery that it had surely
// saved.
func (p *proof) steps(f *found) {
	var wrong complaints
	resumed, lost := 0, 0
	for _, t := range f.trained {
		all, saved := f.lives[t.id], 0
		for i, l := range all {
			if i > 0 {
				resumed++
				lost += all[i-1].To - l.From
			}
			if l.From < saved {
				wrong.add("attempt %d of job %d begins at step %d, but step %d was saved", l.Attempt, t.id, l.From, saved)
			}
			saved = max(saved, (l.To-1)/saveEvery*saveEvery)
			if f.left(t, l) {
				saved = max(saved, l.To)
			}
		}
	}
	p.tell("checkpoints", wrong, "%s from a checkpoint, %s done twice in total", countText(resumed, "restart"),
		countText(lost, "step"))
}

// left reports whether an attempt says itself that it has saved everything.
func (f *found) left(t trained, l training.Life) bool {
	j := f.history[t.id]
	if j == nil {
		return false
	}
	for _, a := range j.Attempts {
		if a.N == l.Attempt {
			return a.ExitCode == model.DefaultCkptCode && a.Signal == 0
		}
	}
	return false
}

// alone checks that no two attempts of a job were alive at one moment.
func (p *proof) alone(f *found) {
	var wrong complaints
	n, least := 0, time.Duration(math.MaxInt64)
	for _, t := range f.trained {
		all := f.lives[t.id]
		for i := 1; i < len(all); i++ {
			n++
			overlap := all[i-1].Overlap(&all[i])
			least = min(least, -overlap)
			if overlap > 0 {
				wrong.add("attempts %d and %d of job %d were alive at once for %v", all[i-1].Attempt, all[i].Attempt, t.id, overlap)
			}
		}
	}
	text := "no job had a second attempt"
	if n > 0 {
		text = fmt.Sprintf("%s followed another attempt of the same job, at least %d ms after its last heartbeat",
			countText(n, "attempt"), least.Milliseconds())
	}
	p.tell("one attempt", wrong, "%s", text)
}

// grace checks that a job that was asked to leave was gone when its grace was over.
func (p *proof) grace(f *found) {
	var wrong complaints
	asked, killed, latest := 0, 0, time.Duration(math.MinInt64)
	for _, t := range f.trained {
		for _, a := range f.attempts(t.id) {
			stop, ok := f.stopping[a]
			if !ok || !stop.Cause.Displaces() {
				continue
			}
			end, ok := f.ended[a]
			if !ok {
				wrong.add("attempt %d of job %d was asked to leave and has not ended", a.n, a.job)
				continue
			}
			asked++
			by := stop.At.Add(time.Duration(t.grace) * time.Second)
			late := f.exit(end).Sub(by)
			latest = max(latest, late)
			if t.stubborn {
				killed++
			}
			if late > graceSlack {
				wrong.add("attempt %d of job %d ended %v after the end of its grace period of %d s", a.n, a.job, late, t.grace)
			}
		}
	}
	text := "no job was asked to leave"
	if asked > 0 {
		text = fmt.Sprintf("%s asked to leave, %d of them ignore the request; the last one ended %d ms after the end of "+
			"its grace period",
			countText(asked, "attempt"), killed, latest.Milliseconds())
	}
	p.tell("grace", wrong, "%s", text)
}
