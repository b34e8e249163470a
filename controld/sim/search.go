package sim

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/rota-hpc/rota/controld/earlystop/judge"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/jobspec"
)

// search is a search of a trace, see [trace.Search]: an array job. Its stop block has the state
// cancel tasks by their reports, as the leader of a live cluster would.
type search struct {
	what      *trace.Search
	array     model.JobID
	first     int32 // run of its first task
	tasks     int
	left      int             // tasks that have not ended
	reported  map[int]float64 // thousandths of accuracy, by task
	submitted model.Instant
	ended     model.Instant // a task reached the goal, or the last one has ended without it; 0: not yet
	found     bool          // a task reached the goal
}

// searchMetric is the metric that tasks of a search report.
const searchMetric = "accuracy"

// arrayOf turns the specification of one task into that of the whole array.
func (s *search) arrayOf(spec *jobspec.Job) {
	spec.Array = &jobspec.Array{Indices: "0"}
	if s.tasks > 1 {
		spec.Array.Indices += "-" + strconv.Itoa(s.tasks-1)
	}
	if s.what.Keep > 0 {
		spec.Array.Stop = &jobspec.ArrayStop{Metric: searchMetric, Goal: "max", AtStep: s.what.AtStep,
			Keep: "top " + strconv.Itoa(s.what.Keep)}
	}
}

// submitSearch submits the jobs of one search as one array.
func (e *engine) submitSearch(jobs []*trace.Job) error {
	s := &search{what: jobs[0].Search, first: int32(len(e.runs)), tasks: len(jobs), left: len(jobs),
		reported: map[int]float64{}, submitted: e.now}
	var spec *jobspec.Job
	if admitted, err := e.admitsSearch(s, jobs); !admitted {
		return err
	}
	for k, j := range jobs {
		r := e.newRun(j)
		own := e.spec(&r)
		if spec == nil {
			spec = own
		}
		if !reflect.DeepEqual(own, spec) {
			return fmt.Errorf("jobs %s and %s of a search must have equal requests, checkpoints and time limits, because they "+
				"are tasks of one array: %w", jobs[0].ID, j.ID, ErrSetup)
		}
		r.search, r.task = s, k+1
		e.enter(r)
	}
	s.arrayOf(spec)
	e.searches = append(e.searches, s)
	ids, err := e.submitSpecs(jobs[0], []*jobspec.Job{spec})
	if err != nil {
		return err
	}
	s.array = ids[0]
	array := e.state.Present().Job(s.array)
	for k := range jobs {
		e.identify(s.first+int32(k), array.TaskID(k+1))
	}
	return nil
}

// marks returns when the live attempt of a job reaches the two points that its search looks at: its
// report step and its goal.
func (e *engine) marks(r *run) (at []model.Instant) {
	for _, work := range e.markedWork(r) {
		need := work*trace.FullRate - (r.job.Work*trace.FullRate - r.left)
		at = append(at, r.from+model.Instant((max(0, need)+r.rate-1)/r.rate))
	}
	return at
}

// markedWork returns the ms of work after which the search of a job looks at it.
func (e *engine) markedWork(r *run) (work []int64) {
	s := r.search
	if s == nil || s.ended > 0 {
		return nil
	}
	_, known := s.reported[r.task]
	if w := s.what.AtStep * e.stepOf(r.job); s.what.Keep > 0 && !known && w <= r.job.Work {
		work = append(work, w)
	}
	if w, ever := r.job.Learning.Reaches(r.job.Work, s.what.Goal); ever {
		work = append(work, w)
	}
	return work
}

// scheduleLearning puts the marks of a stretch on the agenda, if they come before an instant.
func (e *engine) scheduleLearning(i int32, marks []model.Instant, until model.Instant) {
	r := &e.runs[i]
	for _, at := range marks {
		if at <= until {
			e.agenda.push(event{at: max(at, e.now), kind: learned, job: i, attempt: r.attempt, stretch: r.stretch})
		}
	}
}

// learn looks at how far a job of a search has come. Its first report at the step counts, as in a
// live cluster.
func (e *engine) learn(i int32) error {
	r := &e.runs[i]
	s := r.search
	if s == nil || s.ended > 0 || r.stopped != 0 {
		return nil
	}
	work, _ := r.done(e.now)
	done := (r.job.Work*trace.FullRate - r.left + work) / trace.FullRate
	if goal, ever := r.job.Learning.Reaches(r.job.Work, s.what.Goal); ever && done >= goal {
		s.found = true
		return e.endSearch(s)
	}
	step := s.what.AtStep * e.stepOf(r.job)
	if s.what.Keep == 0 || done < step {
		return nil
	}
	if _, known := s.reported[r.task]; known {
		return nil
	}
	s.reported[r.task] = float64(r.job.Learning.Accuracy(r.job.Work, step) + r.job.Learning.Error)
	v := e.state.View()
	if lost := judge.Losers(v, v.Job(s.array), s.reported); len(lost) > 0 {
		return e.cancelTasks(s, lost)
	}
	return nil
}

// endSearch cancels the array of a search that has reached its goal.
func (e *engine) endSearch(s *search) error {
	s.ended = e.now
	return e.cancelTasks(s, nil)
}

// cancelTasks cancels tasks of a search, all if none are named.
func (e *engine) cancelTasks(s *search, tasks ranges.Ranges) error {
	if err := e.sendReports(); err != nil {
		return err
	}
	result, err := e.apply(fsm.ControlJobs{Verb: model.VerbCancel, Admin: true, Pruned: len(tasks) > 0,
		Targets: []fsm.Target{{ID: s.array, Tasks: tasks}}})
	if err == nil {
		err = result.([]model.ControlResult)[0].Err
	}
	if err != nil {
		return fmt.Errorf("cancel tasks %v of array %d: %w", tasks, s.array, err)
	}
	if len(tasks) == 0 {
		tasks = ranges.Span(1, s.tasks)
	}
	for task := range tasks.All() {
		e.cancelled(s.first + int32(task-1))
	}
	e.changed = true
	return nil
}

// cancelled carries out that a job was cancelled: a running one exits at once.
func (e *engine) cancelled(i int32) {
	r := &e.runs[i]
	switch {
	case r.ended > 0:
	case r.live:
		e.notify(i, model.CauseCancelled)
	default:
		e.pending--
		e.totals.addDropped(e, r)
		r.cancelled = true
		e.recordEnd(r)
	}
}

// endTask counts the end of a task.
func (e *engine) endTask(r *run) {
	if s := r.search; s != nil {
		if s.left--; s.left == 0 && s.ended == 0 {
			s.ended = e.now
		}
	}
}

// searched returns the part of the result about searches, nil if there were none.
func (e *engine) searched() *Searches {
	n, r := 0.0, &Searches{}
	for _, s := range e.searches {
		if s.ended == 0 {
			continue
		}
		n++
		r.TimeS += seconds(int64(s.ended - s.submitted))
		if s.found {
			r.Found++
		}
	}
	if n == 0 {
		return nil
	}
	r.TimeS, r.Found = r.TimeS/n, r.Found/n
	return r
}
