package jobsteps

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/clock"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/lossy"
	"github.com/rota-hpc/rota/noded/jobsteps/choose"
)

const (
	// clientPatience is how long a step runs on after its command has lost the connection.
	clientPatience = 10 * time.Second
	// nodePatience is how long a node may be silent before its part of a step counts as lost.
	nodePatience = 2 * time.Minute
	retryMin     = 50 * time.Millisecond
	retryMax     = 2 * time.Second
	askTime      = time.Minute // of one request to a node
	// ackBehind is how many bytes of output the shim keeps after they were sent to a client that
	// acknowledges nothing. A client that lost its connection on the way reads them again.
	ackBehind = 256 << 10
	ackEvery  = 32 << 10
)

// stepState is the journal's record of a running step: enough for a restarted daemon to go on with
// it.
type stepState struct {
	Name      string          `json:"name"`
	Shares    []choose.Share  `json:"shares"`
	Parts     []int           `json:"parts,omitempty"` // see [api.StepBegun.Parts]
	Began     int64           `json:"began_unix_ms"`
	Cyclic    bool            `json:"cyclic,omitempty"`
	Overlap   bool            `json:"overlap,omitempty"` // others do not wait for what it has
	Stdin     string          `json:"stdin,omitempty"`
	KillOnBad bool            `json:"kill_on_bad_exit,omitempty"`
	Wait      jobspec.Seconds `json:"wait,omitempty"`
	TimeLimit jobspec.Seconds `json:"time_limit,omitempty"`
	Key       string          `json:"key,omitempty"` // of its request
	EndsJob   bool            `json:"ends_job,omitempty"`
}

// step is a running step. The goroutine of run owns all fields; everything else talks to it through
// the channels. phase.go has the phases that it passes through.
type step struct {
	stepState
	n     int
	job   *job
	parts []*part
	log   *slog.Logger

	events    chan event   // from the parts
	attaching chan *attach // clients that come back
	watching  chan *client // clients that only look on
	orders    chan order
	over      chan struct{} // closed when run has returned
	how       api.StepEnd   // how it has ended, once over is closed

	phase    phase
	client   *client // nil: none is connected
	watchers []*client
	recent   []stream.Frame   // the newest output, for watchers that come later
	acks     bool             // the client says how much of the output it has
	gone     <-chan time.Time // when a step without a client is ended
	paused   bool             // its job was paused when the client was last missed
	late     <-chan time.Time // when the remaining tasks are killed (--wait)
	limit    <-chan time.Time
	pending  []stream.Frame // to the client
	told     bool           // the end was written to the client
	why      string         // reason of a kill; "": the step was not killed, or without a reason
	killing  bool
	ended    int64 // when, as a Unix time in milliseconds; 0: it runs
	decided  bool  // worst is final: exits of tasks that were killed for it do not change it
	position int64 // of the client's input
	heard    int64 // the input up to here was acknowledged to the client
	fresh    bool  // the client does not know yet from where to send input
	worst    api.StepTaskExit
	lost     lossy.Loss // output that the client could not write
}

// attach is a client that connects to a running step. from has, for each part, how much of its
// output the client has already.
type attach struct {
	client *client
	from   []int64
	acks   bool
}

func newStep(j *job, n int, st stepState) *step {
	s := &step{
		stepState: st, n: n, job: j, phase: waiting, events: make(chan event), attaching: make(chan *attach),
		watching: make(chan *client), orders: make(chan order), over: make(chan struct{}),
		log: j.m.Log.With("job", j.id.Job, "step", n),
	}
	for i, share := range st.Shares {
		id := j.worker(share.Place).OfStep(n)
		name := j.node(share.Place)
		p := &part{step: s, index: i, id: id, name: name, node: j.m.node(name), kick: make(chan struct{}, 1)}
		// A part takes input if one of its tasks reads it. Its other tasks get no input. read
		// closes their input at once, so a task that tries to read does not hang.
		p.input = st.Stdin == "" || st.Stdin == "all" || s.hasTask(share, st.Stdin)
		for local, n := range share.Tasks {
			if _, err := strconv.Atoi(st.Stdin); !p.input || err == nil && strconv.Itoa(n) != st.Stdin {
				p.quiet = append(p.quiet, uint32(local))
			}
		}
		s.parts = append(s.parts, p)
	}
	if st.TimeLimit > 0 { // it counts from the step's beginning, also after a restart of the daemon
		s.limit = time.After(time.Until(time.UnixMilli(st.Began).Add(time.Duration(st.TimeLimit) * time.Second)))
	}
	return s
}

// hasTask reports whether a share contains the task whose number is text.
func (s *step) hasTask(share choose.Share, text string) bool {
	n, err := strconv.Atoi(text)
	for _, task := range share.Tasks {
		if err == nil && task == n {
			return true
		}
	}
	return false
}

// begun returns the first frame for a client: the step's number, nodes and tasks.
func (s *step) begun() api.StepBegun {
	b := api.StepBegun{Job: s.job.jobID(), Attempt: s.job.id.Attempt, Step: s.n, Cyclic: s.Cyclic,
		Parts: s.Parts}
	for i, p := range s.parts {
		b.Nodes, b.Tasks = append(b.Nodes, p.name), append(b.Tasks, len(s.Shares[i].Tasks))
	}
	return b
}

// run follows the parts until all have ended and either a client knows the end or no client comes
// back. If ctx ends it returns at once and the step goes on: the next daemon takes it over from the
// journal.
func (s *step) run(ctx context.Context) {
	defer func() {
		s.how = s.end()
		close(s.over)
	}()
	parts, stop := context.WithCancel(ctx)
	defer stop()
	for _, p := range s.parts {
		if !p.lost {
			go p.follow(parts)
		}
	}
	if s.client == nil {
		s.gone = time.After(clientPatience)
	}
	for ctx.Err() == nil && !s.finished() {
		s.turn(ctx)
	}
	if s.client != nil && ctx.Err() != nil {
		s.client.close()
	}
}

// turn handles one event. A nil channel in a select never fires, so the channels chosen in the first
// two steps decide which events count now.
func (s *step) turn(ctx context.Context) {
	var events <-chan event
	var out chan<- stream.Frame
	var next stream.Frame
	var in <-chan stream.Frame
	var gone, told <-chan struct{}
	// 1. The client, if there is one.
	if s.client != nil {
		in, gone, told = s.client.in, s.client.gone, s.client.told
	}
	// 2. Back pressure: as long as frames wait for the client, no more events of parts are taken.
	// The parts' connections are not read then, and the output stays with the shims. Without a
	// client events wait too, unless the output is to be dropped.
	switch {
	case len(s.pending) > 0 && s.client != nil:
		out, next = s.client.out, s.pending[0]
	case s.phase.reads():
		events = s.events
	}
	// 3. The first of them, or one of the events that always count.
	select {
	case e := <-events:
		s.hear(e)
	case out <- next:
		s.pending = s.pending[1:]
	case f := <-in:
		s.asked(f)
	case <-told:
		s.leave()
	case <-gone:
		if s.client.knowsEnd() { // it has no more to ask
			s.leave()
		} else {
			s.lose()
		}
	case a := <-s.attaching:
		s.attach(a)
	case w := <-s.watching:
		for _, f := range s.recent {
			w.out <- f // never blocks: its buffer has room for all of recent
		}
		if s.allEnded() {
			w.tellEnd(s.end())
		} else {
			s.watchers = append(s.watchers, w)
		}
	case o := <-s.orders:
		s.carryOut(o)
	case <-s.gone:
		s.missed()
	case <-s.late:
		s.late = nil
		if s.ended == 0 {
			s.kill("its other tasks did not end in time after the first task")
		}
	case <-s.limit:
		s.limit = nil
		if s.ended == 0 {
			s.kill(api.StepTimedOut)
		}
	case <-ctx.Done():
	}
}

// missed ends a step whose client did not come back in time. While the job is paused, srun stands
// still too if it runs in the job. So a paused job gets another period, and one more after it
// resumes.
func (s *step) missed() {
	was := s.paused
	w, err := s.job.m.Local.Worker(s.job.id)
	if s.paused = err == nil && w.Paused; s.paused || was {
		s.gone = time.After(clientPatience)
		return
	}
	s.gone, s.phase = nil, s.phase.after(patienceOver)
	s.kill("srun is gone")
	if s.EndsJob {
		m := s.job.m
		// EndJob may wait for the steps of the job, this one included, so it gets its own
		// goroutine.
		m.runs.Go(func() { m.EndJob(m.ctx, s.job.id) })
	}
}

// finished reports whether all parts have ended and no client is to be told.
func (s *step) finished() bool { return s.allEnded() && s.phase == draining }

// allEnded reports whether all parts have ended.
func (s *step) allEnded() bool {
	return !slices.ContainsFunc(s.parts, func(p *part) bool { return !p.ended })
}

// end returns how the step ended, or would end if it ended now.
func (s *step) end() api.StepEnd {
	e := api.StepEnd{StepTaskExit: s.worst, Why: s.why}
	for _, p := range s.parts {
		if e.Why == "" {
			e.Why = p.end.Why
		}
	}
	return e
}

// holds returns the numbers of cores and GPUs of the step on all nodes.
func (s *step) holds() (cores, gpus int) {
	for i := range s.Shares {
		cores, gpus = cores+len(s.Shares[i].Cores), gpus+len(s.Shares[i].GPUs)
	}
	return cores, gpus
}

// severity orders exits of tasks: the step ends with the worst of them.
func severity(e api.StepTaskExit) int {
	if e.OOM {
		return 128 + model.SignalOOM
	}
	if e.Signal != 0 {
		return 128 + e.Signal
	}
	return e.Code
}

// hear handles an event of a part.
func (s *step) hear(e event) {
	p := e.part
	if e.gen != p.generation() {
		return // it comes from a connection that reopen has replaced
	}
	switch {
	case e.lost != "":
		s.partEnded(p, api.StepEnd{Why: e.lost, StepTaskExit: api.StepTaskExit{Signal: int(unix.SIGKILL)}})
		p.lost = true
		s.kill(e.lost)
		return
	case e.broken:
		p.ready = false
		if p.input && !p.ended && s.client != nil {
			s.client.close() // it comes back, and sends again what was lost on the way
		}
		return
	}
	// A client that went back reads output for the second time. Watchers have it already.
	p.offset = e.offset
	again := e.offset <= p.seen
	p.seen = max(p.seen, e.offset)
	f := e.frame
	switch f.Kind {
	case stream.Ack:
		if n, err := f.Offset(); err == nil {
			s.took(p, n)
		}
		return
	case stream.Exit:
		s.taskEnded(f)
		f.Task = s.task(p, f.Task)
	case stream.Stdout, stream.Stderr:
		f.Task = s.task(p, f.Task)
	case stream.Message:
		f.Task = s.task(p, 0)
	case stream.End:
		var end api.StepEnd
		if err := json.Unmarshal(f.Data, &end); err != nil {
			end.Why = "node " + p.name + " did not report its end: " + err.Error()
		}
		s.partEnded(p, end)
		// If the stream begins with its end, the shim may have refused to go on from this offset.
		// Nothing will read the part any more, so it must not run on.
		if e.first {
			go p.signal(unix.SignalName(unix.SIGKILL))
		}
		return
	default:
		return
	}
	if !again {
		s.show(f)
	}
	if s.client != nil {
		s.pending = append(s.pending, f)
	}
	s.acknowledge(p)
}

// task turns the number of a task in a part into its number in the step.
func (s *step) task(p *part, local uint32) uint32 {
	if tasks := s.Shares[p.index].Tasks; int(local) < len(tasks) {
		return uint32(tasks[local])
	}
	return stream.AllTasks
}

// taskEnded handles the exit of a task: it may kill the step (--kill-on-bad-exit), or start the
// time after which the remaining tasks are killed (--wait).
func (s *step) taskEnded(f stream.Frame) {
	var x api.StepTaskExit
	if json.Unmarshal(f.Data, &x) != nil {
		return
	}
	s.count(x)
	if s.KillOnBad && severity(x) > 0 {
		s.decided = true
		s.kill("")
	}
	if s.Wait > 0 && s.late == nil && !s.killing && s.ended == 0 {
		s.late = time.After(time.Duration(s.Wait) * time.Second)
	}
}

// count lets a task's exit become the step's, if it is the worst so far.
func (s *step) count(x api.StepTaskExit) {
	if !s.decided && severity(x) > severity(s.worst) {
		s.worst = x
	}
}

// partEnded handles the end of a part. When the last part has ended, the step's resources go to
// waiting requests. The client and the watchers learn how the step ended.
func (s *step) partEnded(p *part, end api.StepEnd) {
	if p.ended {
		return
	}
	p.ended, p.end = true, end
	s.count(end.StepTaskExit)
	s.tookMore() // this part may have been the slowest reader of the input
	if !s.phase.keeps() {
		s.acknowledge(p)
	}
	if !s.allEnded() {
		return
	}
	if s.ended == 0 { // a client that attaches later makes the parts end a second time
		s.ended = clock.Wall().UnixMilli()
	}
	s.job.freed(s)
	if f, err := stream.JSON(stream.End, stream.AllTasks, s.end()); err == nil {
		s.tell(f)
	}
}

// order is a request from outside the step's client: signals, or the end of the job.
type order struct {
	signals []string
	last    bool          // its job has ended
	within  time.Duration // with last: how long the step may still run; 0: it is killed now
}

// carryOut carries an order out. After the end of the job no client is waited for.
func (s *step) carryOut(o order) {
	if o.last {
		s.gone, s.phase = nil, s.phase.after(jobEnded)
	}
	switch {
	case o.last && o.within <= 0:
		s.kill("its job has ended")
		return
	case o.last && s.ended == 0:
		s.tell(stream.Frame{Kind: stream.Message, Task: stream.AllTasks, Data: fmt.Appendf(nil,
			"Job step aborted: Waiting up to %d seconds for job step to finish.", int(o.within.Round(time.Second).Seconds()))})
	}
	for _, name := range o.signals {
		if name == unix.SignalName(unix.SIGKILL) && !o.last {
			s.kill("it was cancelled")
			return
		}
		s.signal(name)
	}
}

// leave handles a client to which the end of the step was written: nothing is left to deliver.
func (s *step) leave() {
	s.client, s.phase, s.told = nil, s.phase.after(clientTold), true
	for _, p := range s.parts {
		s.acknowledge(p)
	}
}

// lose handles a client that is gone. The pending frames are dropped: the next client says how much
// it has, and the shims send the rest again.
func (s *step) lose() {
	s.client, s.pending, s.phase = nil, nil, s.phase.after(clientLost)
	if s.phase == waiting {
		s.gone = time.After(clientPatience)
	}
}

// attach continues with another client: each part is read again from the offset that the client
// has.
func (s *step) attach(a *attach) {
	if s.client != nil {
		s.client.close()
	}
	s.client, s.pending, s.phase = a.client, nil, s.phase.after(clientCame)
	s.gone, s.fresh, s.acks = nil, true, a.acks
	if f, err := stream.JSON(stream.Begun, stream.AllTasks, s.begun()); err == nil {
		s.pending = append(s.pending, f)
	}
	for i, p := range s.parts {
		if p.lost {
			continue
		}
		if p.offset = 0; i < len(a.from) {
			p.offset = a.from[i]
		}
		p.known = p.offset
		// The part repeats everything behind the offset, its end and its position in the input
		// included. Until then it counts as running.
		p.ended, p.ready = false, false
		p.reopen(p.offset)
	}
	s.tellIfLost()
}

// tellIfLost sends the step's end to a client that attaches after all parts were lost. No part is
// left that would say it.
func (s *step) tellIfLost() {
	for _, p := range s.parts {
		if !p.lost {
			return
		}
	}
	if f, err := stream.JSON(stream.End, stream.AllTasks, s.end()); err == nil {
		s.tell(f)
	}
}

// signal sends a signal to all tasks.
func (s *step) signal(name string) {
	if name == unix.SignalName(unix.SIGKILL) {
		s.kill("")
		return
	}
	for _, p := range s.parts {
		if !p.ended {
			go p.signal(name)
		}
	}
}

// kill ends all tasks. The first reason is kept; "" gives none.
func (s *step) kill(why string) {
	if s.why == "" {
		s.why = why
	}
	if s.killing {
		return
	}
	s.killing = true
	for _, p := range s.parts {
		if !p.ended {
			go p.signal(unix.SignalName(unix.SIGKILL))
		}
	}
}

// began returns when the step began.
func (s *step) began() model.UnixMS { return model.UnixMS(s.stepState.Began) }
