package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/slurm/steps/pmi"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/cmd/rota/terminal"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec/hostlist"
	"github.com/rota-hpc/rota/jobspec/lossy"
)

// stepRun is one run of srun: the request for a step, then the running step. Its states are asked
// (the request is sent), begun (the step has a number) and end (the step has ended). A lost
// connection keeps the state; again makes a new connection.
type stepRun struct {
	*tool.Tool
	session *command.Session
	line    *srunLine
	base    string // path of the job's steps in the API
	job     string // job id for messages
	own     bool   // srun runs inside the job
	quiet   bool
	request *api.StepRequest
	output  *stepOutput

	lossTold lossy.Loss    // the last loss of output that the node was told
	lossTo   *stream.Conn  // over this connection
	input    *stream.Input // nil: no task reads input

	pmi *pmi.Listener // nil: --mpi=pmi2 is off

	// waits until the job runs; nil: the job runs already
	awaitRun func(context.Context) error

	asked    bool // the request was sent, so the step may exist
	conn     *stream.Conn
	resumed  *stream.Conn // the connection that input currently goes to
	waited   bool         // a message arrived before the step began
	begun    bool
	received []int64         // bytes of each node's output that srun has written
	acked    []int64         // of these, the bytes acknowledged to the node, which may drop them
	running  map[uint32]bool // running tasks
	// interrupted: a terminating signal reached srun, so the step may have ended because of it
	interrupted bool
	worst       int // highest exit code
	failed      []failure
	sayFails    <-chan time.Time // fires when failed must be printed; nil: failed is empty
	said        bool             // srun has printed that the connection is lost
	end         *api.StepEnd
}

// failure is one way to fail, with the tasks of one node that failed so.
type failure struct {
	node, what string
	tasks      []int
}

// failurePause is how long srun collects failures, so that one line can name all tasks that failed
// alike.
const failurePause = 100 * time.Millisecond

// pmi2 is the value of --mpi for which srun serves MPI programs.
const pmi2 = "pmi2"

// runStep runs a step of a job, shows its output, and returns its exit code as the error. Files
// named on the command line are opened before the request, so that a typing error starts no step.
func runStep(ctx context.Context, t *tool.Tool, args []string) error {
	line, err := readSrun(t, args)
	if err != nil {
		return err
	}
	if line.values["mpi"] == "list" {
		listMPI(t)
		return nil
	}
	s, err := newStepRun(t, line)
	if err != nil {
		return err
	}
	stdin, err := s.openInput()
	if err != nil {
		return err
	}
	if s.session, err = t.Connect(); err != nil {
		return err
	}
	signals, stop := watchSignals()
	defer stop()
	return s.start(ctx, stdin, signals)
}

// listMPI prints the values of --mpi.
func listMPI(t *tool.Tool) {
	fmt.Fprintln(t.Stdout, "MPI plugin types are...\n\tnone\n\tpmi2")
}

// newStepRun turns a command line into a request. It sends nothing.
func newStepRun(t *tool.Tool, line *srunLine) (*stepRun, error) {
	switch mpi := line.values["mpi"]; mpi {
	case "", "none", pmi2:
	default:
		return nil, fmt.Errorf("invalid MPI type '%s', --mpi=list for acceptable types: pmi2 is for MPICH and similar; "+
			"programs of OpenMPI need its own mpirun in a batch script", mpi)
	}
	ref, own, err := line.jobOf()
	if err != nil {
		return nil, err
	}
	s := &stepRun{Tool: t, line: line, job: ref, own: own, base: "/v1/steps", quiet: line.is("quiet"),
		running: map[uint32]bool{}}
	if !own {
		s.base = "/v1/jobs/" + ref + "/steps"
	}
	if s.request, err = line.stepRequest(own); err != nil {
		return nil, err
	}
	// The key makes the request repeatable: the node starts only one step for a key.
	s.request.Key, s.request.Acks, s.request.Losses = api.NewKey(), true, true
	if line.is("pty") {
		size := terminal.Size(t.Env)
		s.request.Terminal, line.values["unbuffered"] = &size, "1"
	}
	if s.output, err = newStepOutput(t, line, s.request); err != nil {
		return nil, err
	}
	if n, err := strconv.ParseInt(ref, 10, 64); err == nil {
		s.output.begun.Job = model.JobID(n) // patterns of file names may contain the job id
	}
	return s, nil
}

// start runs the step, with a server for its MPI library if --mpi=pmi2 asks for one.
func (s *stepRun) start(ctx context.Context, stdin io.Reader, signals <-chan os.Signal) error {
	if err := s.line.checkMounts(ctx, s.session, s.job, s.own); err != nil {
		return err
	}
	if s.line.values["mpi"] == pmi2 {
		stop, err := s.offerPMI()
		if err != nil {
			return err
		}
		defer stop()
	}
	return s.run(ctx, stdin, signals)
}

// inputFile parses --input. path is the file that the tasks read ("" is srun's own input); task is
// the one reader, or stream.AllTasks. none means that no task reads input.
func (s *stepRun) inputFile() (path string, task uint32, none bool, err error) {
	task = stream.AllTasks
	text := s.line.values["input"]
	n, notOne := strconv.Atoi(text)
	switch {
	case notOne == nil && n >= 0:
		s.request.Stdin, task = text, uint32(n)
	case strings.EqualFold(text, "none"):
		s.request.Stdin, none = "none", true
	case text != "" && !strings.EqualFold(text, "all"):
		if path, err = s.output.expand(text, 0, 0, "n"); err != nil {
			break
		}
		// A pattern that differs between tasks is refused, because it would need one file for each
		// task.
		if other, _ := s.output.expand(text, 1, 1, "m"); other != path {
			err = fmt.Errorf("--input=%s: one file for each task is not supported: let each task open its own file", text)
		}
	}
	return path, task, none, err
}

// openInput opens the input of the tasks; nil if no task reads input.
func (s *stepRun) openInput() (io.Reader, error) {
	path, task, none, err := s.inputFile()
	if err != nil || none {
		return nil, err
	}
	s.input = stream.NewInput(task)
	if path == "" {
		return s.Stdin, nil
	}
	if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		return &namedPipe{path: path}, readable(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, cannotRead(err)
	}
	return f, nil
}

// readable refuses an unreadable file.
func readable(path string) error {
	if err := unix.Access(path, unix.R_OK); err != nil {
		return cannotRead(&os.PathError{Op: "open", Path: path, Err: err})
	}
	return nil
}

// namedPipe is a pipe that the first Read opens. Opening a pipe waits for a writer, and srun must
// handle signals meanwhile.
type namedPipe struct {
	path string
	file *os.File
}

// Read implements io.Reader.
func (p *namedPipe) Read(b []byte) (n int, err error) {
	if p.file == nil {
		if p.file, err = os.Open(p.path); err != nil {
			return 0, err
		}
	}
	return p.file.Read(b)
}

func cannotRead(err error) error { return fmt.Errorf("Could not open stdin file: %w", err) }

// arrival is a frame from the connection, or the error that ended it.
type arrival struct {
	frame stream.Frame
	err   error
}

// run sends the request, then handles signals, frames and lost connections until the step has
// ended. All of it happens in this goroutine, so the fields of s need no lock.
func (s *stepRun) run(ctx context.Context, stdin io.Reader, signals <-chan os.Signal) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s.asked = true
	conn, err := s.reopen(ctx, signals)
	if err != nil {
		return s.notCreated(ctx, err)
	}
	s.conn = conn
	defer func() { _ = s.conn.Close() }()
	restore := func() {} // resets the terminal once it was changed
	defer func() { restore() }()
	var sizes <-chan os.Signal // set once the step uses the terminal
	if s.input != nil {
		defer s.input.Close()
		go func() {
			_, _ = io.Copy(s.input, stdin) // the copy ends early if the step stops reading
			s.input.End()
		}()
	}
	arrivals := s.receive(conn)
	var in interrupts
	for s.end == nil {
		select {
		case sig := <-signals:
			if err := s.signalled(&in, sig); err != nil {
				return err
			}
		case sig := <-sizes:
			if sig == syscall.SIGCONT { // SIGCONT means that srun was stopped
				terminal.Resume(s.Env)
			}
			s.sendSize()
		case <-s.sayFails:
			s.sayFailures()
		case a := <-arrivals:
			// A frame is acknowledged after its output is written; until then the node keeps the
			// output. If the connection breaks, the loop continues with a new one. An error of take
			// is a local error of srun, such as a closed pipe: it ends the step. A full disk is none.
			if a.err == nil {
				if a.err = s.take(a.frame); a.err == nil {
					s.reportLoss()
					s.acknowledge(a.frame)
				}
			} else if conn, err = s.again(ctx, a.err, signals); err != nil {
				return err
			} else {
				arrivals = s.receive(conn)
				s.sendSize()
				continue
			}
			if a.err != nil {
				s.giveUp(arrivals)
				return a.err
			}
			if s.begun && s.request.Terminal != nil && sizes == nil {
				if sizes, restore, err = s.useTerminal(); err != nil {
					return err
				}
				s.sendSize() // the window may have changed while the step waited
			}
		}
	}
	return s.ended(ctx)
}

// reportLoss tells the node how much output could not be written, if that is news on this
// connection.
func (s *stepRun) reportLoss() {
	if s.lossTo == s.conn && s.lossTold == s.output.lost || s.output.lost.Bytes == 0 {
		return
	}
	if s.lossTold.Bytes == 0 {
		s.Errorf("output of StepId=%s.%d is lost: %s", s.job, s.output.begun.Step, s.output.lost.Why())
	}
	s.lossTo, s.lossTold = s.conn, s.output.lost
	_ = s.conn.WriteJSON(stream.Lost, stream.AllTasks, s.lossTold) // the next read notices a lost connection
}

// endPatience is how long srun waits for the end of a step that it has killed.
const endPatience = 10 * time.Second

// giveUp kills a step after a local error of srun, and waits for its end. Closing the connection at
// once could lose the signal. Also, the script's next step may need the resources of this one.
func (s *stepRun) giveUp(arrivals <-chan arrival) {
	_ = s.conn.Write(stream.Frame{Kind: stream.Signal, Task: stream.AllTasks, Data: []byte("SIGKILL")})
	late := time.After(endPatience)
	for {
		select {
		case a := <-arrivals:
			if a.err != nil || a.frame.Kind == stream.End {
				return
			}
		case <-late:
			return
		}
	}
}

// receive reads frames from a connection in its own goroutine, until the step or the connection
// ends. Messages to the step go to this connection from now on.
func (s *stepRun) receive(conn *stream.Conn) <-chan arrival {
	s.conn = conn
	to := make(chan arrival)
	go func() {
		for {
			f, err := conn.Read()
			f.Data = append([]byte(nil), f.Data...) // the next Read overwrites its buffer
			to <- arrival{f, err}
			if err != nil || f.Kind == stream.End {
				return
			}
		}
	}()
	return to
}

// take handles one frame. received counts output for each node, over all its tasks; a new
// connection resumes each node's output at that count.
func (s *stepRun) take(f stream.Frame) error {
	if n := f.Counts(); n > 0 && int(f.Task) < len(s.output.nodes) {
		s.received[s.output.nodes[f.Task]] += n
	}
	switch f.Kind {
	case stream.Stdout, stream.Stderr:
		if err := s.output.write(from{f.Task, f.Kind == stream.Stderr}, f.Data); err != nil {
			if errors.Is(err, syscall.EPIPE) { // as with "srun ... | head"
				return exit.WithCode(exit.Pipe)
			}
			return err
		}
	case stream.Ack:
		return s.acknowledged(f)
	case stream.Message:
		if s.waited = s.waited || !s.begun; !s.quiet {
			s.Infof("%s", show.Clean(string(f.Data)))
		}
	case stream.Begun:
		var b api.StepBegun
		if err := json.Unmarshal(f.Data, &b); err != nil {
			return fmt.Errorf("cannot read the start of the step: %w", err)
		}
		if s.begun {
			return nil // the signal is sent again on every new connection
		}
		s.begun, s.job = true, strconv.FormatInt(int64(b.Job), 10)
		if s.waited && !s.quiet {
			s.Infof("Step created for StepId=%s.%d", s.job, b.Step)
		}
		if err := s.output.begin(b); err != nil {
			return err
		}
		s.received, s.acked = make([]int64, len(b.Nodes)), make([]int64, len(b.Nodes))
		for task := range s.output.nodes {
			s.running[uint32(task)] = true
		}
		if s.pmi != nil {
			s.beginPMI(b)
		}
	case stream.Exit:
		var x api.StepTaskExit
		if err := json.Unmarshal(f.Data, &x); err != nil {
			return fmt.Errorf("cannot read the exit status of task %d: %w", f.Task, err)
		}
		return s.taskEnded(f.Task, x)
	case stream.End:
		s.end = &api.StepEnd{}
		if err := json.Unmarshal(f.Data, s.end); err != nil {
			return fmt.Errorf("cannot read the end of the step: %w", err)
		}
	}
	return nil
}

// acknowledged handles the node's report of how much input the step has read. On a new connection,
// input resumes there; later reports release buffered input.
func (s *stepRun) acknowledged(f stream.Frame) error {
	offset, err := f.Offset()
	if err != nil || s.input == nil {
		return err
	}
	if s.resumed != s.conn {
		s.resumed = s.conn
		return s.input.Resume(s.conn, offset)
	}
	return s.input.Taken(offset)
}

// taskEnded flushes the output of an ended task, and groups it with failed tasks of its node that
// ended alike.
func (s *stepRun) taskEnded(task uint32, x api.StepTaskExit) error {
	delete(s.running, task)
	if err := s.output.flushTask(task); err != nil {
		return err
	}
	code := terminal.Code(x)
	s.worst = max(s.worst, code)
	what := ""
	switch {
	case x.OOM:
		what = "Out Of Memory"
	case x.Signal != 0:
		what = signalText(x.Signal)
	case x.Code != 0:
		what = fmt.Sprintf("Exited with exit code %d", x.Code)
	default:
		return nil
	}
	node := s.output.nodeOf(task)
	i := slices.IndexFunc(s.failed, func(f failure) bool { return f.node == node && f.what == what })
	if i < 0 {
		i, s.failed = len(s.failed), append(s.failed, failure{node: node, what: what})
	}
	s.failed[i].tasks = append(s.failed[i].tasks, int(task))
	if s.sayFails == nil {
		s.sayFails = time.After(failurePause)
	}
	return nil
}

// sayFailures prints the collected failures, one line for each node and way to fail.
func (s *stepRun) sayFailures() {
	for _, f := range s.failed {
		slices.Sort(f.tasks)
		s.Errorf("%s: %s: %s", f.node, taskText(f.tasks), f.what)
	}
	s.failed, s.sayFails = nil, nil
}

// signalText returns the C library's name of a signal, as Slurm prints it.
func signalText(n int) string {
	names := map[syscall.Signal]string{syscall.SIGHUP: "Hangup", syscall.SIGINT: "Interrupt", syscall.SIGQUIT: "Quit",
		syscall.SIGILL: "Illegal instruction", syscall.SIGABRT: "Aborted", syscall.SIGBUS: "Bus error",
		syscall.SIGFPE: "Floating point exception", syscall.SIGKILL: "Killed", syscall.SIGSEGV: "Segmentation fault",
		syscall.SIGUSR1: "User defined signal 1", syscall.SIGUSR2: "User defined signal 2",
		syscall.SIGPIPE: "Broken pipe", syscall.SIGALRM: "Alarm clock", syscall.SIGTERM: "Terminated",
		syscall.SIGXCPU: "CPU time limit exceeded"}
	if name := names[syscall.Signal(n)]; name != "" {
		return name
	}
	return fmt.Sprintf("Unknown signal %d", n)
}

// ended returns srun's exit code after the step: the highest of the tasks' codes and the step's
// own. A step that Rota ended for a stated reason never counts as a success.
func (s *stepRun) ended(ctx context.Context) error {
	if !s.begun {
		return s.notCreated(ctx, errors.New(s.end.Why))
	}
	s.sayFailures()
	switch err := s.output.close(); {
	case errors.Is(err, syscall.EPIPE):
		return err
	case err != nil: // the exit code stays that of the program
		s.Errorf("%v", err)
	}
	if s.reportLoss(); s.lossTold.Bytes > 0 {
		s.Errorf("%d bytes of output of StepId=%s.%d were lost: %s", s.lossTold.Bytes, s.job, s.output.begun.Step,
			s.lossTold.Why())
	}
	if s.end.Why != "" {
		s.Errorf("Job step aborted: %s", show.Clean(s.end.Why))
	}
	code := max(s.worst, terminal.Code(s.end.StepTaskExit))
	if code == 0 && s.end.Why != "" {
		code = tool.Failed
	}
	return exit.WithCode(code)
}

// notCreated puts the error of a request into Slurm's words.
func (s *stepRun) notCreated(ctx context.Context, err error) error {
	refused, denied := tool.Denied(err)
	var own *exit.CodeError
	var none *notAllocated
	switch {
	case errors.As(err, &own), errors.As(err, &none):
		return err
	case tool.IsUnreachable(err):
		return tool.AsSlurm(err)
	case denied:
		s.Errorf("Unable to confirm allocation for job %s: %s", s.job, refused)
	case exit.IsNotFound(err):
		s.Errorf("Unable to confirm allocation for job %s: %s", s.job, tool.NoSuchJob)
	case tool.HasEnded(ctx, s.session, s.job, err):
		s.Errorf("Slurm job %s has expired", s.job)
	default:
		return fmt.Errorf("Unable to create step for job %s: %w", s.job, tool.AsSlurm(err))
	}
	s.Infof("Check SLURM_JOB_ID environment variable. Expired or invalid job %s", s.job)
	return tool.ErrSaid
}

// attachPatience is how long srun tries to reach the step's node again, not counting the wait
// inside each request.
const attachPatience = 10 * time.Minute

// again replaces a lost connection, for example after the node daemon was restarted. It attaches to
// a begun step; otherwise it repeats the request, whose key keeps a second step from starting. It
// stops trying after attachPatience, or at a terminating signal.
func (s *stepRun) again(ctx context.Context, lost error, signals <-chan os.Signal) (*stream.Conn, error) {
	_ = s.conn.Close() // the connection is lost already
	until := s.Now().Add(attachPatience)
	for {
		conn, err := s.reopen(ctx, signals)
		var own *exit.CodeError
		switch {
		case err == nil || errors.As(err, &own): // own: a terminating signal ended srun
			return conn, err
		case (tool.IsUnreachable(err) || nodeIsAway(err)) && ctx.Err() == nil && !s.Now().After(until):
		case !s.begun:
			return nil, s.notCreated(ctx, fmt.Errorf("%w: its connection was lost: %w", err, lost))
		default:
			return nil, fmt.Errorf("StepId=%s.%d was lost: %w", s.job, s.output.begun.Step, tool.AsSlurm(err))
		}
		if !s.said && !s.quiet && s.begun {
			s.said = true
			s.Infof("StepId=%s.%d continues without a connection; srun tries to reconnect", s.job, s.output.begun.Step)
		}
	}
}

// nodeIsAway reports whether a controller could not reach the job's node. The node daemon may be
// restarting.
func nodeIsAway(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Status == http.StatusBadGateway
}

// awayPause is the pause between two tries to reach a node.
const awayPause = 500 * time.Millisecond

// reopen sends the request once more, or attaches to the step if it has begun. The request runs in
// its own goroutine: it may take hours, and srun must handle signals meanwhile. A terminating
// signal ends srun.
func (s *stepRun) reopen(ctx context.Context, signals <-chan os.Signal) (*stream.Conn, error) {
	type answer struct {
		conn *stream.Conn
		err  error
	}
	path, request := s.base, any(s.request)
	if s.begun {
		path = fmt.Sprintf("%s/%d/attach", s.base, s.output.begun.Step)
		request = api.StepAttach{From: slices.Clone(s.received), Acks: true, Losses: true}
	}
	answers := make(chan answer, 1)
	go func() {
		conn, err := s.session.Stream(ctx, path, request)
		if err != nil && s.awaitRun != nil && !s.begun { // the job may not have run yet
			if err = s.awaitRun(ctx); err == nil {
				conn, err = s.session.Stream(ctx, path, request)
			}
		}
		if nodeIsAway(err) {
			<-time.After(awayPause)
		}
		answers <- answer{conn, err}
	}()
	for {
		select {
		case a := <-answers:
			return a.conn, a.err
		case sig := <-signals:
			number, _ := sig.(syscall.Signal) // every os.Signal here is a syscall.Signal
			switch {
			case endsStep(number) && !s.begun:
				s.Infof("Cancelled pending step for job %s", s.job)
			case endsStep(number):
				s.Infof("StepId=%s.%d continues without srun, which could not reconnect: scancel ends it", s.job,
					s.output.begun.Step)
			case !s.begun:
				continue // no task exists yet, so the signal has no receiver
			default:
				s.Errorf("StepId=%s.%d did not get %s: the connection to it is lost", s.job, s.output.begun.Step,
					unix.SignalName(number))
				continue
			}
			s.interrupted = true
			return nil, exit.WithCode(128 + int(number))
		}
	}
}

// ackEvery is the number of output bytes of a node that one acknowledgement covers.
const ackEvery = 32 << 10

// acknowledge tells the node how much of its output srun has written. The node may then drop that
// output.
func (s *stepRun) acknowledge(f stream.Frame) {
	if f.Counts() == 0 || int(f.Task) >= len(s.output.nodes) {
		return
	}
	node := s.output.nodes[f.Task]
	if n := s.received[node]; n >= s.acked[node]+ackEvery {
		s.acked[node] = n
		ack := stream.Number(n)
		ack.Task = uint32(node) //nolint:gosec // the index of a node fits 32 bits
		_ = s.conn.Write(ack)   // the next read notices a lost connection
	}
}

// endsStep reports whether a signal ends srun while no connection can carry the signal to the step.
func endsStep(number syscall.Signal) bool {
	return slices.Contains([]syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}, number)
}

// interrupts holds the times of the last Ctrl-C, and of the last Ctrl-C that was sent to the tasks.
type interrupts struct{ last, sent time.Time }

// interruptPause is the time within which a second Ctrl-C counts as a request to end the step.
const interruptPause = time.Second

// signalled handles a signal as Slurm does. The first Ctrl-C prints the running tasks; a second
// within a second goes to the tasks; a third soon after kills them. Other signals go to the tasks.
func (s *stepRun) signalled(in *interrupts, sig os.Signal) error {
	number, _ := sig.(syscall.Signal) // every os.Signal here is a syscall.Signal
	if !s.begun && endsStep(number) {
		s.interrupted = true
		s.Infof("Cancelled pending step for job %s", s.job)
		return exit.WithCode(128 + int(number))
	}
	now := s.Now()
	switch {
	case number != syscall.SIGINT, s.line.is("disable-status"):
	case s.line.is("quit-on-interrupt"):
		number = syscall.SIGKILL
	case now.Sub(in.last) > interruptPause:
		in.last = now
		s.Infof("interrupt (one more within 1 sec to abort)")
		s.Infof("StepId=%s.%d %s", s.job, s.output.begun.Step, s.state())
		return nil
	case now.Sub(in.sent) < interruptPause:
		s.Infof("forcing job termination")
		number = syscall.SIGKILL
	default:
		in.sent = now
		s.Infof("sending Ctrl-C to StepId=%s.%d", s.job, s.output.begun.Step)
	}
	s.interrupted = s.interrupted || endsStep(number) || number == syscall.SIGKILL
	// The error is ignored, because the reader of the connection notices it too.
	_ = s.conn.Write(stream.Frame{Kind: stream.Signal, Task: stream.AllTasks, Data: []byte(unix.SignalName(number))})
	return nil
}

// state returns a text with the running and the ended tasks.
func (s *stepRun) state() string {
	var running, ended []int
	for task := range s.output.nodes {
		if s.running[uint32(task)] {
			running = append(running, task)
		} else {
			ended = append(ended, task)
		}
	}
	var parts []string
	for _, p := range []struct {
		tasks []int
		what  string
	}{{running, "running"}, {ended, "exited"}} {
		if len(p.tasks) > 0 {
			parts = append(parts, taskText(p.tasks)+": "+p.what)
		}
	}
	return strings.Join(parts, ", ")
}

// taskText formats a list of task numbers.
func taskText(tasks []int) string {
	word := "tasks"
	if len(tasks) == 1 {
		word = "task"
	}
	return word + " " + hostlist.Numbers(tasks)
}

// watchSignals returns a channel of the signals that srun handles for its step. It ignores SIGTTIN,
// so that reading a terminal in the background fails and does not stop srun. It ignores SIGPIPE
// too, so that a write fails with EPIPE.
func watchSignals() (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2, syscall.SIGALRM)
	signal.Ignore(syscall.SIGTTIN, syscall.SIGPIPE)
	return signals, func() { signal.Stop(signals) }
}
