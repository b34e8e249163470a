package jobsteps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/clock"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
)

const (
	// for which a step goes on without the command that has asked for it
	clientPatience = 10 * time.Second
	// for which a node may not answer before its part of a step counts as lost
	nodePatience = 2 * time.Minute
	retryMin     = 50 * time.Millisecond
	retryMax     = 2 * time.Second
	askTime      = time.Minute // of one request to a node
	// ackBehind is how many bytes of output are kept behind what a client was sent that does not say what it
	// has, for one that has lost its connection on the way.
	ackBehind = 256 << 10
	ackEvery  = 32 << 10
)

// stepState is what the journal has of a step that runs.
type stepState struct {
	Name      string          `json:"name"`
	Shares    []Share         `json:"shares"`
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

// step is a step that runs. Its fields belong to the goroutine of run.
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

	client   *client
	watchers []*client
	recent   []stream.Frame   // what its tasks have written last, for those that begin to look on
	acks     bool             // the client says how much of the output it has
	gone     <-chan time.Time // when a step without a client is ended
	paused   bool             // so was its job when a client was last missed
	late     <-chan time.Time // when the tasks that are left are ended
	limit    <-chan time.Time
	pending  []stream.Frame // to the client
	draining bool           // no client comes back: output is dropped
	told     bool           // it was written to the client how it has ended
	why      string         // it was ended
	killing  bool
	ended    int64 // when, as a Unix time in milliseconds; 0: it runs
	last     bool  // its job has ended: no client comes back for its output
	decided  bool  // how it ends: tasks that are ended because of that say no more
	position int64 // of the client's input
	heard    int64 // how much of the input the client knows that was taken
	fresh    bool  // the client does not know where its input goes on
	worst    api.StepTaskExit
}

// part is one node's part of a step.
type part struct {
	step  *step
	index int
	id    container.ID
	node  Node
	name  string // of the node

	// these belong to the goroutine of step.run
	offset int64 // of its output, that was taken over
	seen   int64 // the same, before a client went back
	known  int64 // of its output, that the client says it has
	acked  int64
	ended  bool
	end    api.StepEnd
	lost   bool
	input  bool     // it takes input
	quiet  []uint32 // tasks here that read none
	ready  bool     // it has said how much of the input it has taken
	taken  int64    // of the input
	have   int64    // of the input, that it was sent or has taken

	mu   sync.Mutex
	conn *stream.Conn // nil: there is none
	gen  int          // of its connection; events of an older one are dropped
	from int64        // where the next connection goes on
	kick chan struct{}
}

// event is what a part says: a frame, that its connection was lost, or that it is lost.
type event struct {
	part   *part
	gen    int
	frame  stream.Frame
	offset int64 // of the output, behind the frame
	first  bool  // of its connection
	broken bool
	lost   string
}

// attach is a client that goes on with a step.
type attach struct {
	client *client
	from   []int64
	acks   bool
}

func newStep(j *job, n int, st stepState) *step {
	s := &step{
		stepState: st, n: n, job: j, events: make(chan event), attaching: make(chan *attach),
		watching: make(chan *client), orders: make(chan order), over: make(chan struct{}),
		log: j.m.Log.With("job", j.id.Job, "step", n),
	}
	for i, share := range st.Shares {
		id := j.worker(share.Place).OfStep(n)
		name := j.node(share.Place)
		p := &part{step: s, index: i, id: id, name: name, node: j.m.node(name), kick: make(chan struct{}, 1)}
		p.input = st.Stdin == "" || st.Stdin == "all" || s.hasTask(share, st.Stdin)
		for local, n := range share.Tasks {
			if _, err := strconv.Atoi(st.Stdin); !p.input || err == nil && strconv.Itoa(n) != st.Stdin {
				p.quiet = append(p.quiet, uint32(local))
			}
		}
		s.parts = append(s.parts, p)
	}
	if st.TimeLimit > 0 {
		s.limit = time.After(time.Until(time.UnixMilli(st.Began).Add(time.Duration(st.TimeLimit) * time.Second)))
	}
	return s
}

// hasTask reports whether a share has the task with a number.
func (s *step) hasTask(share Share, text string) bool {
	n, err := strconv.Atoi(text)
	for _, task := range share.Tasks {
		if err == nil && task == n {
			return true
		}
	}
	return false
}

// begun is what clients are told when they are connected.
func (s *step) begun() api.StepBegun {
	b := api.StepBegun{Job: s.job.jobID(), Attempt: s.job.id.Attempt, Step: s.n, Cyclic: s.Cyclic,
		Parts: s.Parts}
	for i, p := range s.parts {
		b.Nodes, b.Tasks = append(b.Nodes, p.name), append(b.Tasks, len(s.Shares[i].Tasks))
	}
	return b
}

// run follows the parts until all have ended and a client knows, or none comes back. With ctx it
// returns at once, and the step goes on.
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

// turn waits for one thing to happen.
func (s *step) turn(ctx context.Context) {
	var events <-chan event
	var out chan<- stream.Frame
	var next stream.Frame
	var in <-chan stream.Frame
	var gone, told <-chan struct{}
	if s.client != nil {
		in, gone, told = s.client.in, s.client.gone, s.client.told
	}
	switch {
	case len(s.pending) > 0 && s.client != nil:
		out, next = s.client.out, s.pending[0]
	case s.client != nil || s.draining:
		events = s.events
	}
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
		select {
		case <-told: // at the same time: it has no more to ask
			s.leave()
		default:
			s.lose()
		}
	case a := <-s.attaching:
		s.attach(a)
	case w := <-s.watching:
		for _, f := range s.recent {
			w.out <- f // for which it has room
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
			s.kill("its other tasks did not end in time after the first one")
		}
	case <-s.limit:
		s.limit = nil
		if s.ended == 0 {
			s.kill(api.StepTimedOut)
		}
	case <-ctx.Done():
	}
}

// missed ends a step whose client does not come back. It is waited for while its job is paused, and once
// more after that.
func (s *step) missed() {
	was := s.paused
	w, err := s.job.m.Local.Worker(s.job.id)
	if s.paused = err == nil && w.Paused; s.paused || was {
		s.gone = time.After(clientPatience)
		return
	}
	s.gone, s.draining = nil, true
	s.kill("srun is gone")
	if s.EndsJob {
		m := s.job.m
		m.runs.Go(func() { m.EndJob(m.ctx, s.job.id) }) // which may wait for its steps
	}
}

// finished reports whether all parts have ended, and nothing is left to be told.
func (s *step) finished() bool { return s.allEnded() && s.client == nil && s.draining }

// allEnded reports whether all parts have ended.
func (s *step) allEnded() bool {
	return !slices.ContainsFunc(s.parts, func(p *part) bool { return !p.ended })
}

// end returns how the step has ended.
func (s *step) end() api.StepEnd {
	e := api.StepEnd{StepTaskExit: s.worst, Why: s.why}
	for _, p := range s.parts {
		if e.Why == "" {
			e.Why = p.end.Why
		}
	}
	return e
}

// holds returns how many cores and GPUs a step has on all nodes.
func (s *step) holds() (cores, gpus int) {
	for i := range s.Shares {
		cores, gpus = cores+len(s.Shares[i].Cores), gpus+len(s.Shares[i].GPUs)
	}
	return cores, gpus
}

func severity(e api.StepTaskExit) int {
	if e.OOM {
		return 128 + model.SignalOOM
	}
	if e.Signal != 0 {
		return 128 + e.Signal
	}
	return e.Code
}

// hear takes what a part says.
func (s *step) hear(e event) {
	p := e.part
	if e.gen != p.generation() {
		return
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
			end.Why = "node " + p.name + " says nothing of its end: " + err.Error()
		}
		s.partEnded(p, end)
		if e.first { // its shim refuses what was asked for: nothing reads the part any more
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

// task returns the number in the step of a task of a part.
func (s *step) task(p *part, local uint32) uint32 {
	if tasks := s.Shares[p.index].Tasks; int(local) < len(tasks) {
		return uint32(tasks[local])
	}
	return stream.AllTasks
}

// tell sends a frame to the client, and to those that look on.
func (s *step) tell(f stream.Frame) {
	s.show(f)
	if s.client != nil {
		s.pending = append(s.pending, f)
	}
}

// What is kept of what tasks have written, for those that begin to look on. Each step has it in memory.
const (
	recentBytes  = 64 << 10
	recentFrames = 128
)

// show sends a frame to those that look on.
func (s *step) show(f stream.Frame) {
	if f.Kind == stream.Stdout || f.Kind == stream.Stderr {
		s.recent = append(s.recent, f)
		size := 0
		for i := len(s.recent) - 1; i >= 0; i-- {
			if size += len(s.recent[i].Data); size > recentBytes || len(s.recent)-i > recentFrames {
				s.recent = slices.Delete(s.recent, 0, i+1)
				break
			}
		}
	}
	for i := 0; i < len(s.watchers); i++ {
		select {
		case s.watchers[i].out <- f:
			continue
		case <-s.watchers[i].gone:
		default: // it is too slow
			s.watchers[i].close()
		}
		s.watchers = append(s.watchers[:i], s.watchers[i+1:]...)
		i--
	}
}

// acknowledge lets a part forget output that the client has, and a part that no client reads all of it.
func (s *step) acknowledge(p *part) {
	upTo := p.offset
	switch {
	case s.draining:
	case s.acks:
		upTo = min(upTo, p.known)
	default:
		upTo -= ackBehind
	}
	if upTo >= p.acked+ackEvery || s.draining {
		p.acked = upTo
		p.write(stream.Number(upTo))
	}
}

// taskEnded notes the end of a task.
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

// count has a task decide how the step ends, if it has ended worse than others.
func (s *step) count(x api.StepTaskExit) {
	if !s.decided && severity(x) > severity(s.worst) {
		s.worst = x
	}
}

// partEnded notes the end of a part. With the last one the client is told.
func (s *step) partEnded(p *part, end api.StepEnd) {
	if p.ended {
		return
	}
	p.ended, p.end = true, end
	s.count(end.StepTaskExit)
	s.tookMore()
	if s.draining {
		s.acknowledge(p)
	}
	if !s.allEnded() {
		return
	}
	if s.ended == 0 { // the end may be read again
		s.ended = clock.Wall().UnixMilli()
	}
	s.job.freed(s)
	if f, err := stream.JSON(stream.End, stream.AllTasks, s.end()); err == nil {
		s.tell(f)
	}
}

// order is what does not come from the client.
type order struct {
	signals []string
	last    bool          // its job has ended
	within  time.Duration // then it is to end in this time; 0: it is ended
}

func (s *step) carryOut(o order) {
	if o.last {
		s.last, s.gone = true, nil
		s.draining = s.draining || s.client == nil
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

// leave notes that the client knows all.
func (s *step) leave() {
	s.client, s.draining, s.told = nil, true, true
	for _, p := range s.parts {
		s.acknowledge(p)
	}
}

// lose notes that the client is gone.
func (s *step) lose() {
	s.client, s.pending = nil, nil
	s.draining = s.draining || s.last
	if !s.draining {
		s.gone = time.After(clientPatience)
	}
}

// attach goes on with another client, from what it has of each part's output.
func (s *step) attach(a *attach) {
	if s.client != nil {
		s.client.close()
	}
	s.client, s.pending, s.gone, s.fresh, s.acks = a.client, nil, nil, true, a.acks
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
		p.ended, p.ready = false, false
		p.reopen(p.offset)
	}
	s.tellIfLost()
}

// tellIfLost tells a client that attaches to a step without parts that are left how it has ended.
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

// took notes how much of the input a part has taken.
func (s *step) took(p *part, n int64) {
	if !p.input {
		return
	}
	p.taken = n
	if !p.ready {
		p.ready, p.have = true, n
	}
	s.tookMore()
}

// tookMore tells the client how much of its input all parts have taken.
func (s *step) tookMore() {
	least, takes := int64(0), false
	for _, p := range s.parts {
		if !p.input || p.ended {
			continue
		}
		if !p.ready {
			return
		}
		if !takes || p.taken < least {
			least, takes = p.taken, true
		}
	}
	if !takes || s.client == nil || !s.fresh && least <= s.heard {
		return
	}
	if s.fresh {
		s.fresh, s.position = false, least
	}
	s.heard = least
	s.pending = append(s.pending, stream.Number(least))
}

// asked does what a frame of the client says.
func (s *step) asked(f stream.Frame) {
	switch f.Kind {
	case stream.Ack:
		if n, err := f.Offset(); err == nil && int64(f.Task) < int64(len(s.parts)) {
			p := s.parts[f.Task]
			p.known = n
			s.acknowledge(p)
		}
	case stream.Stdin:
		for _, p := range s.parts {
			if p.input && !p.ended && p.ready && p.have < s.position+int64(len(f.Data)) {
				rest := f.Data[max(0, p.have-s.position):]
				p.write(stream.Frame{Kind: f.Kind, Task: s.local(p, f.Task), Data: rest})
				p.have = s.position + int64(len(f.Data))
			}
		}
		s.position += int64(len(f.Data))
	case stream.StdinEnd:
		for _, p := range s.parts {
			if p.input && !p.ended {
				p.write(stream.Frame{Kind: f.Kind, Task: s.local(p, f.Task)})
			}
		}
	case stream.Window:
		for i, p := range s.parts {
			if s.hasTask(s.Shares[i], "0") {
				p.write(stream.Frame{Kind: f.Kind, Data: f.Data})
			}
		}
	case stream.Signal:
		s.signal(string(f.Data))
	}
}

// local returns the number in a part of a task of the step.
func (s *step) local(p *part, task uint32) uint32 {
	for i, n := range s.Shares[p.index].Tasks {
		if uint32(n) == task {
			return uint32(i)
		}
	}
	return stream.AllTasks
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

// kill ends all tasks, and says why, unless that is known.
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

// signal sends a signal to a part until its node has it. A signal other than a kill is tried once.
func (p *part) signal(name string) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), askTime)
		err := p.node.Signal(ctx, p.id, name)
		cancel()
		if err == nil || errors.Is(err, container.ErrUnknown) {
			return
		}
		p.step.log.Warn("cannot signal a part of a step", "node", p.name, "signal", name, "err", err)
		if name != unix.SignalName(unix.SIGKILL) {
			return
		}
		select {
		case <-p.step.over:
			return
		case <-p.step.job.m.ctx.Done():
			return
		case <-time.After(retryMax):
		}
	}
}

func (p *part) generation() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gen
}

// write sends a frame to the part, if it is connected. What is lost is noticed where it is read.
func (p *part) write(f stream.Frame) {
	p.mu.Lock()
	conn := p.conn
	p.mu.Unlock()
	if conn != nil {
		_ = conn.Write(f)
	}
}

// reopen has the part read again, from an offset.
func (p *part) reopen(from int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gen++
	p.from = from
	if p.conn != nil {
		_ = p.conn.Close()
		p.conn = nil
	}
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// follow reads the part until ctx ends. After its end it waits for another client that reads again.
func (p *part) follow(ctx context.Context) {
	var last time.Time // of the last try that succeeded
	delay := retryMin
	for ctx.Err() == nil {
		began := time.Now()
		if last.IsZero() {
			last = began
		}
		gen, ended, err := p.read(ctx)
		wait := time.Duration(0)
		switch {
		case ended:
			wait = time.Hour
		case p.generation() != gen:
			last, delay = time.Now(), retryMin
		case err == nil:
			last, delay, wait = time.Now(), retryMin, retryMin
		case errors.Is(err, container.ErrUnknown):
			p.say(ctx, event{gen: gen, lost: fmt.Sprintf("its part on node %s is lost", p.name)})
			wait = time.Hour
		case time.Since(last) > nodePatience:
			p.say(ctx, event{gen: gen, lost: fmt.Sprintf("node %s is lost: %v", p.name, err)})
			wait = time.Hour
		default:
			wait, delay = delay, min(2*delay, retryMax)
		}
		if wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-p.kick:
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
		}
	}
}

func (p *part) say(ctx context.Context, e event) bool {
	e.part = p
	select {
	case p.step.events <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

// read reads the part over one connection. It reports whether the part has ended. No error means that
// something was read.
func (p *part) read(ctx context.Context) (gen int, ended bool, err error) {
	p.mu.Lock()
	gen, offset := p.gen, p.from
	p.mu.Unlock()
	ask, cancel := context.WithTimeout(ctx, askTime)
	life, end := context.WithCancel(ctx)
	defer end()
	conn, err := p.node.Open(ask, life, p.id, offset)
	cancel()
	if err != nil {
		return gen, false, err
	}
	defer func() { _ = conn.Close() }() // it is read no more
	p.mu.Lock()
	if p.gen != gen {
		p.mu.Unlock()
		return gen, false, nil
	}
	p.conn = conn
	p.mu.Unlock()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	for _, task := range p.quiet {
		_ = conn.Write(stream.Frame{Kind: stream.StdinEnd, Task: task}) // what is lost is noticed where it is read
	}
	heard := false
	for {
		f, err := conn.Read()
		if err != nil {
			if heard {
				err = nil
			}
			p.mu.Lock()
			broken := p.gen == gen
			if broken {
				p.conn = nil
			}
			p.mu.Unlock()
			if broken {
				p.say(ctx, event{gen: gen, broken: true})
			}
			return gen, false, err
		}
		offset += f.Counts()
		f.Data = append([]byte(nil), f.Data...)
		e := event{gen: gen, frame: f, offset: offset, first: !heard}
		heard = true
		if !p.deliver(ctx, e) {
			return gen, false, nil
		}
		p.mu.Lock()
		if p.gen == gen {
			p.from = offset
		}
		p.mu.Unlock()
		if f.Kind == stream.End {
			// The connection stays for the acknowledgement of all: without it the shim waits before it records the
			// end. It closes the connection then.
			_, _ = conn.Read()
			return gen, true, nil
		}
	}
}

// deliver says something unless the part is to be read again from elsewhere.
func (p *part) deliver(ctx context.Context, e event) bool {
	e.part = p
	for {
		if p.generation() != e.gen {
			return false
		}
		select {
		case p.step.events <- e:
			return true
		case <-p.kick: // reopen
		case <-ctx.Done():
			return false
		}
	}
}

func (s *step) began() model.UnixMS { return model.UnixMS(s.stepState.Began) }
