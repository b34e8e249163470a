package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/oci/launch"
)

// worker runs the ranks of one container. Only the goroutine of run uses it.
type worker struct {
	plan     *launch.Plan
	shim     channel
	files    *fileSender // nil: the ranks share the files of this process
	signals  chan launch.Order
	ended    chan struct{} // a child may have ended, and waits to be reaped
	over     chan struct{} // closed when all ranks have ended
	ranks    []*rank
	stopping bool // a rank has failed and the others have been asked to stop
	result   launch.Result
	kill     <-chan time.Time
}

// exit is one process that has ended.
type exit struct {
	pid    int
	status unix.WaitStatus
}

func newWorker(plan *launch.Plan, c channel) *worker {
	w := &worker{plan: plan, shim: c, files: openFileSender(), signals: make(chan launch.Order, 64),
		ended: make(chan struct{}), over: make(chan struct{})}
	own := make(chan os.Signal, 64)
	signal.Notify(own)
	go func() {
		for s := range own {
			if n := s.(syscall.Signal); isForwarded(n) {
				w.signals <- launch.Order{Signal: int(n)}
			}
		}
	}()
	go c.listen(w.signals)
	return w
}

// isForwarded reports whether a signal is meant for the ranks. SIGURG is the Go runtime's own.
func isForwarded(s syscall.Signal) bool {
	return s != unix.SIGCHLD && s != unix.SIGURG && s != unix.SIGPIPE && s != unix.SIGTTIN && s != unix.SIGTTOU
}

// run starts every rank and returns when all have ended.
func (w *worker) run() launch.Result {
	w.shim.send(launch.Result{Begun: true})
	if w.plan.Hold {
		signal.Ignore(unix.SIGCHLD) // the kernel reaps what is executed in the container
		o := <-w.signals
		return launch.Result{Asked: o.Stop}
	}
	settle(w.plan)
	for i := range w.plan.Ranks {
		w.ranks = append(w.ranks, w.startWithFiles(i))
		if r := w.ranks[i]; r.done {
			w.rankEnded(i)
		}
	}
	w.files.close()
	defer close(w.over)
	if w.running() {
		go awaitEnds(w.ended, w.over)
	}
	for w.running() {
		select {
		case o := <-w.signals:
			w.forwardTo(o)
		case <-w.ended:
			if e, ok := reap(); ok {
				w.noteExit(e)
			}
		case <-w.kill:
			w.forward(unix.SIGKILL, "")
		}
	}
	return w.result
}

// settle has the ranks begin in directories that are there. Directories that the job itself names
// stay.
func settle(plan *launch.Plan) {
	home := "/tmp"
	if plan.Home != "" {
		if unix.Access(plan.Home, unix.X_OK) == nil {
			home = plan.Home
		}
		plan.Env = append(slices.DeleteFunc(plan.Env, func(v string) bool { return strings.HasPrefix(v, "HOME=") }),
			"HOME="+home)
	}
	if !plan.Anywhere {
		return
	}
	if refused := unix.Access(plan.Dir, unix.X_OK); refused != nil {
		fmt.Fprintf(os.Stderr, "rota-init: cannot enter the working directory %s on this node: %s; the job runs in %s "+
			"instead\n", plan.Dir,
			reasonOf(refused), home)
		plan.Dir = home
	}
}

func (w *worker) running() bool {
	return slices.ContainsFunc(w.ranks, func(r *rank) bool { return !r.done })
}

// forward passes a signal on to the ranks, see [launch.Order.To].
func (w *worker) forward(s unix.Signal, to string) { w.forwardTo(launch.Order{Signal: int(s), To: to}) }

// forwardTo passes a signal on to the ranks that an order is for.
func (w *worker) forwardTo(o launch.Order) {
	table := processes()
	for i, r := range w.ranks {
		if o.Rank == nil || *o.Rank == i {
			r.result.Asked = r.result.Asked || o.Stop && r.runs(table)
			r.signal(unix.Signal(o.Signal), o.To, table)
		}
	}
}

func (w *worker) noteExit(e exit) {
	for i, r := range w.ranks {
		if r.noteExit(e) {
			w.rankEnded(i)
		}
	}
}

// rankEnded takes the result of a rank.
func (w *worker) rankEnded(i int) {
	r := w.ranks[i].result
	if w.files != nil {
		one := r
		one.Rank = &i
		w.shim.send(one)
	}
	w.addResult(r)
}

// addResult merges one rank's result into the worker's: the highest code of those that ended before
// the rest were stopped.
func (w *worker) addResult(r launch.Result) {
	if w.stopping {
		return
	}
	switch worst := severity(w.result); {
	case severity(r) > worst:
		w.result = r
	case severity(r) == worst:
		w.result.Asked = w.result.Asked || r.Asked
	}
	if severity(r) != 0 && len(w.plan.Ranks) > 1 && !w.plan.Independent {
		w.stopping = true
		w.forward(unix.SIGTERM, "")
		w.kill = time.After(time.Duration(w.plan.KillTimeout) * time.Millisecond)
	}
}

func severity(r launch.Result) int {
	if r.Signal != 0 {
		return 128 + r.Signal
	}
	return r.Code
}

// startWithFiles starts one rank with what it reads and writes.
func (w *worker) startWithFiles(i int) *rank {
	plan := &w.plan.Ranks[i]
	if w.files == nil {
		return w.start(plan, rankFiles{os.Stdin, os.Stdout, os.Stderr}, nil)
	}
	files, err := w.files.open(i, plan.Terminal)
	if err != nil {
		fmt.Fprintf(os.Stderr, "rota-init: %s: %v\n", plan.Name, err)
		return &rank{done: true, result: launch.Result{Code: 126}}
	}
	defer files.close()
	return w.start(plan, files, plan.Terminal)
}

// start starts one rank, in a process group of its own; with a terminal, in a session that has it. A
// rank that cannot be started has ended with a shell's code for that.
func (w *worker) start(plan *launch.Rank, files rankFiles, terminal *launch.Terminal) *rank {
	env := append(slices.Clone(w.plan.Env), plan.Env...)
	path, err := lookPath(plan.Args[0], env, w.plan.Dir)
	if err == nil {
		own := &syscall.SysProcAttr{Setpgid: terminal == nil, Setsid: terminal != nil, Setctty: terminal != nil}
		var p *os.Process
		program, args := path, plan.Args
		if name := w.plan.PIDVariable; name != "" {
			if err = executable(path, w.plan.Dir); err == nil {
				program, args = ownProgram, append([]string{"rota-init", launch.TaskArgument, name, path}, args...)
			}
		}
		if err == nil {
			p, err = os.StartProcess(program, args, &os.ProcAttr{Dir: w.plan.Dir, Env: env, Files: files[:], Sys: own})
		}
		if err == nil {
			pid := p.Pid
			_ = p.Release() // reap waits for it; CRIU cannot save a descriptor of a process before 4.1
			return &rank{pid: pid, alive: true, signalled: map[int]bool{}}
		}
	}
	fmt.Fprintf(files[2], "rota-init: %s: %s\n", plan.Name, startFailure(plan.Args[0], path, w.plan.Dir, err))
	code := 126
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		code = 127
	}
	return &rank{done: true, result: launch.Result{Code: code}}
}

// startFailure says what is missing: the kernel returns the same error for a program, its
// interpreter, and the working directory.
func startFailure(name, path, dir string, err error) string {
	if refused := unix.Access(dir, unix.X_OK); refused != nil {
		return fmt.Sprintf("cannot enter the working directory %s on this node: %s", dir, reasonOf(refused))
	}
	if interpreter := interpreterOf(path); errors.Is(err, os.ErrNotExist) && interpreter != "" {
		hint := ""
		if strings.HasSuffix(interpreter, "\r") {
			hint = "; the lines of the script end with CR LF, as on Windows"
		}
		return fmt.Sprintf("%s: its interpreter %q: no such file or directory%s", name, interpreter, hint)
	}
	return name + ": " + reasonOf(err)
}

// interpreterOf returns the program that a script names in its first line, "" if it is no script
// that can be read.
func interpreterOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := f.Read(head) // an unreadable file is no script
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	rest, script := strings.CutPrefix(line, "#!")
	if !script {
		return ""
	}
	first, _, _ := strings.Cut(strings.TrimLeft(rest, " \t"), " ")
	return first
}

func reasonOf(err error) string {
	if missing := (*notInPath)(nil); errors.As(err, &missing) {
		return missing.Error()
	}
	var e *os.PathError
	if errors.As(err, &e) {
		return e.Err.Error()
	}
	return err.Error()
}

// notInPath is the error for a command that no directory of PATH has.
type notInPath struct{ path string }

// Unwrap returns the error that exec gives for such a command.
func (e *notInPath) Unwrap() error { return exec.ErrNotFound }

// Error says which PATH was searched and, if that is the one that jobs have by themselves, how a job
// gets another.
func (e *notInPath) Error() string {
	if e.path == "" {
		return "command not found: PATH is empty"
	}
	text := fmt.Sprintf("command not found in PATH (%s)", e.path)
	dirs := slices.DeleteFunc(strings.Split(e.path, ":"), func(dir string) bool { return dir == launch.BinDir })
	if strings.Join(dirs, ":") == launch.DefaultPath {
		text += "; your shell's PATH is not copied: export = [\"PATH\"] in a job file and --export PATH of rota run copy it"
	}
	return text
}

// lookPath finds a command as a shell does, in the PATH of the rank and not of this process.
func lookPath(name string, env []string, dir string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	if path, ok := lastValue(env, "PATH"); ok {
		return searchPath(name, path, dir)
	}
	return "", &notInPath{}
}

// lastValue returns the value of a variable, and whether there is one. The last one wins.
func lastValue(env []string, name string) (string, bool) {
	for _, v := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

func searchPath(name, path, dir string) (string, error) {
	var err error = &notInPath{path}
	for _, d := range strings.Split(path, ":") {
		if d == "" {
			d = dir
		}
		file := d + "/" + name
		info, statErr := os.Stat(file)
		if statErr != nil || info.IsDir() {
			continue
		}
		if unix.Access(file, unix.X_OK) == nil {
			return file, nil
		}
		err = os.ErrPermission
	}
	return "", err
}

// awaitEnds says when a child has ended, until there are no children or all ranks have ended. Orphans always
// become children of the first process. It leaves the child for [reap]: a process that exists, dead or
// alive, is then one whose end was not noted yet, see [rank.dropReaped].
func awaitEnds(ended chan<- struct{}, over <-chan struct{}) {
	for {
		switch err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT, nil); err {
		case nil:
			select {
			case ended <- struct{}{}:
			case <-over:
				return
			}
		case unix.EINTR:
		default:
			return // no children are left, and so no ranks
		}
	}
}

// reap takes the end of one child from the kernel, and reports whether there was one.
func reap() (exit, bool) {
	var status unix.WaitStatus
	for {
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if err != unix.EINTR {
			return exit{pid, status}, err == nil && pid > 0
		}
	}
}
