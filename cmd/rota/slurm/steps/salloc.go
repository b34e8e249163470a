package steps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/follow"
	"github.com/rota-hpc/rota/cmd/rota/input"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hostlist"
	"github.com/rota-hpc/rota/jobspec/script"
)

// allocation is a job that holds nodes for steps, while a command runs on this machine.
type allocation struct {
	*tool.Tool
	session *command.Session
	req     *input.Submission
	flags   []script.Flag
	words   []string // the command
	id      model.JobID

	noShell   bool
	immediate time.Duration  // how long it may wait; 0: as long as it takes
	kill      syscall.Signal // to the command when the allocation is revoked; 0: none
}

// salloc holds nodes while a command or a shell runs here, which starts steps on them.
func salloc(ctx context.Context, t *tool.Tool, args []string) error {
	if len(args) > 0 && t.About(args[0]) {
		return nil
	}
	flags, words, bad := script.SallocFlags(args)
	if len(bad) > 0 {
		return t.Refuse("", bad)
	}
	a := &allocation{Tool: t, words: words}
	if err := a.ownFlags(flags); err != nil {
		return err
	}
	switch {
	case a.noShell && len(words) > 0:
		return fmt.Errorf("--no-shell and the command %q exclude each other", words[0])
	case len(words) == 0:
		a.words = []string{cmp.Or(t.Getenv("SHELL"), "/bin/sh")}
	}
	path, err := exec.LookPath(a.words[0])
	if err != nil && !a.noShell {
		return fmt.Errorf("Unable to find command \"%s\": %w", a.words[0], err)
	}
	if a.req, err = input.Salloc(t.Env, "interactive", a.flags, t.Warner(t.Name)); err != nil {
		return t.Unreadable(err)
	}
	if a.session, _, err = t.ConnectFor(ctx, a.req.Result.Clusters); err != nil {
		return allocationError(err)
	}
	job, err := a.grant(ctx)
	if err != nil || a.noShell {
		return err
	}
	return a.run(ctx, path, job)
}

// allocationError is the error for nodes that are not had, in Slurm's words.
func allocationError(err error) error {
	return tool.SubmitError("Unable to allocate resources", err)
}

// ownFlags reads the flags that salloc alone has, and keeps the others.
func (a *allocation) ownFlags(flags []script.Flag) error {
	given := map[string]string{}
	for name, variable := range map[string]string{"immediate": "SALLOC_IMMEDIATE", "kill-command": "SALLOC_KILL_CMD"} {
		if value, set := a.LookupEnv(variable); set {
			given[name] = value
		}
	}
	for _, f := range flags {
		if script.OnlySalloc(f.Name) {
			given[f.Name] = f.Value
		} else {
			a.flags = append(a.flags, f)
		}
	}
	_, a.noShell = given["no-shell"]
	if text, has := given["immediate"]; has {
		n, err := strconv.Atoi(cmp.Or(text, "1"))
		if err != nil || n < 1 || n > 1<<20 {
			return fmt.Errorf("Invalid --immediate specification: %q: write a number of seconds", text)
		}
		a.immediate = time.Duration(n) * time.Second
	}
	text, has := given["kill-command"]
	switch n, err := strconv.Atoi(text); {
	case !has:
	case text == "" || text == "1" && a.Getenv("SALLOC_KILL_CMD") == "1":
		a.kill = syscall.SIGTERM
		if in, ok := a.Stdin.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
			a.kill = syscall.SIGHUP
		}
	case err == nil && unix.SignalName(syscall.Signal(n)) != "":
		a.kill = syscall.Signal(n)
	default:
		if a.kill = unix.SignalNum(command.SignalName(text)); a.kill == 0 {
			return fmt.Errorf("Invalid --kill-command specification: %q is no signal", text)
		}
	}
	return nil
}

func (a *allocation) say(format string, args ...any) {
	if !a.req.Result.Quiet {
		a.Infof(format, args...)
	}
}

// errBusy is the end of the wait of an allocation that was to be had at once.
var errBusy = errors.New("Unable to allocate resources: Requested nodes are busy")

// grant submits the job, and waits until its nodes are there. A signal cancels it.
func (a *allocation) grant(parent context.Context) (*api.Job, error) {
	ctx, end := context.WithCancelCause(parent)
	defer end(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	go func() {
		select {
		case <-signals:
			end(exit.ErrInterrupted)
		case <-ctx.Done():
		}
	}()
	err := a.req.OnFewestNodes(ctx, a.session, func(job *jobspec.Job) (err error) {
		a.id, err = a.session.Submit(ctx, api.NewKey(), job)
		return err
	})
	if err != nil {
		return nil, allocationError(err)
	}
	allocated := func() {}
	if a.immediate > 0 {
		busy := time.AfterFunc(a.immediate, func() { end(errBusy) })
		allocated = func() { busy.Stop() }
	}
	job, err := a.await(ctx, allocated)
	allocated()
	if err != nil {
		a.cancel("salloc has not waited for it")
		if a.say("Job allocation %d has been revoked.", a.id); errors.Is(err, exit.ErrInterrupted) {
			return nil, tool.ErrSaid
		}
		return nil, err
	}
	if job.Code != model.Running {
		a.say("Job allocation %d has been revoked.", a.id)
		return nil, fmt.Errorf("Unable to allocate resources: job %d is %s: %s", a.id, job.State,
			cmp.Or(show.Reason(job.Reason), "\"rota status "+show.ID(a.id)+"\" says more"))
	}
	a.say("Granted job allocation %d", a.id)
	a.say("Nodes %s are ready for job", show.Hosts(job.Nodes))
	if slices.ContainsFunc(a.flags, func(f script.Flag) bool { return f.Name == "bell" }) {
		fmt.Fprint(a.Stderr, "\a")
	}
	return job, nil
}

// await waits until the job runs, or has ended. It calls allocated once its nodes are chosen.
func (a *allocation) await(ctx context.Context, allocated func()) (*api.Job, error) {
	answers, waits := 0, false
	return follow.WaitFor(ctx, a.session, a.id, time.Second, time.Second, func(j *api.Job) bool {
		if answers++; j.Code != model.Pending {
			allocated()
		}
		switch {
		case j.Code == model.Pending && answers > 1 && !waits:
			waits = true
			a.say("Pending job allocation %d", a.id)
			a.say("job %d queued and waiting for resources", a.id)
		case j.Code != model.Pending && !j.Code.Final() && waits:
			waits = false
			a.say("job %d has been allocated resources", a.id)
		}
		return j.Code == model.Running || j.Code.Final()
	})
}

// releaseWait is how long salloc tries to give an allocation back.
const releaseWait = 30 * time.Second

// release gives the allocation back, whose job then ends as the command has: by its exit code, or by a signal.
// Where the script of the job cannot be told, the job is cancelled.
func (a *allocation) release(code, signal int) {
	a.say("Relinquishing job allocation %d", a.id)
	ctx, stop := context.WithTimeout(context.Background(), releaseWait)
	defer stop()
	if code != 0 || signal != 0 {
		a.noteEnd(ctx, code, signal)
	}
	unsure := 0
	for delay := 20 * time.Millisecond; ; delay = min(2*delay, time.Second) {
		_, err := a.session.Signal(ctx, show.ID(a.id), api.SignalRequest{Signal: script.Release, To: jobspec.SignalScript})
		var lost *api.UncertainError
		var refused *api.Problem
		if errors.As(err, &lost) {
			unsure++
		}
		switch {
		case errors.As(err, &refused) && refused.Code == api.CodeWrongState, exit.IsNotFound(err):
			return // it has ended
		case err != nil && unsure != 1: // once more it may be heard
			a.cancel("the command of salloc has ended")
			return
		}
		select {
		case <-time.After(delay): // it may not have set its trap yet
		case <-ctx.Done():
			a.cancel("the command of salloc has ended")
			return
		}
	}
}

// noteEnd writes down in the allocation how the command has ended. Where that cannot be done, it counts as a
// success.
func (a *allocation) noteEnd(ctx context.Context, code, signal int) {
	conn, err := a.session.Exec(ctx, show.ID(a.id), api.ExecRequest{Argv: script.ReleaseAs(code, signal)})
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }() // it is read no more
	at := int64(0)
	for {
		f, err := conn.Read()
		if at += f.Counts(); err != nil || f.Kind == stream.End {
			_ = conn.Write(stream.Number(at)) // nothing is sent again
			return
		}
	}
}

// cancel ends the job. That it has ended already is no error.
func (a *allocation) cancel(why string) {
	ctx, stop := context.WithTimeout(context.Background(), releaseWait)
	defer stop()
	var refused *api.Problem
	if err := a.session.Cancel(ctx, a.id, why); err != nil && !(errors.As(err, &refused) && refused.Status < 500) {
		a.Errorf("Unable to relinquish job allocation %d: %v: it goes on until its time limit, or \"scancel %d\"", a.id,
			tool.AsSlurm(err), a.id)
	}
}

// run runs the command, and gives the allocation back when it has ended.
func (a *allocation) run(parent context.Context, path string, job *api.Job) error {
	ctx, stop := context.WithCancel(parent)
	defer stop()
	cmd := exec.Command(path, a.words[1:]...) //nolint:gosec,noctx // it is what the user wants, and ends by itself
	cmd.Args[0] = a.words[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.Stdin, a.Stdout, a.Stderr
	cmd.Env = a.environment(ctx, job)
	for _, f := range a.flags {
		if f.Name == "chdir" {
			cmd.Dir = f.Value
		}
	}
	// Keys of a terminal signal the command too, for which they are meant.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		a.release(tool.Failed, 0)
		return fmt.Errorf("Unable to exec command \"%s\": %w", a.words[0], err)
	}
	ended, over := make(chan error, 1), a.overAgain(ctx)
	go func() { ended <- cmd.Wait() }()
	held := true
	for {
		select {
		case err := <-ended:
			if held {
				code, signal := waitStatus(err)
				a.release(code, int(signal))
			}
			return commandEnd(err)
		case <-over:
			held = false
			if over = nil; a.kill != 0 {
				_ = cmd.Process.Signal(a.kill) // it may have ended
			}
			a.say("Job allocation %d has been revoked.", a.id)
		case s := <-signals:
			if s == syscall.SIGTERM || s == syscall.SIGHUP {
				if held {
					held = false
					a.release(0, int(s.(syscall.Signal)))
				}
				over = nil
				_ = cmd.Process.Signal(s) // it may have ended
			}
		}
	}
}

// overAgain returns a channel that is closed when the job does not hold its nodes any more.
func (a *allocation) overAgain(ctx context.Context) <-chan struct{} {
	silent := *a.Env
	silent.Stderr = io.Discard // the terminal is the command's
	session := &command.Session{Env: &silent, Client: a.session.Client}
	over := make(chan struct{})
	go func() {
		_, err := follow.WaitFor(ctx, session, a.id, follow.PollWait, follow.PollWait, func(j *api.Job) bool {
			return j.Code.Final() || j.Code == model.Completing || j.Code == model.Pending
		})
		if err == nil || exit.IsNotFound(err) {
			close(over)
		}
	}()
	return over
}

// commandEnd is the exit code of salloc for the end of its command.
func commandEnd(err error) error {
	var how *exec.ExitError
	if !errors.As(err, &how) {
		return err
	}
	code, signal := waitStatus(err)
	if signal != 0 {
		code = 128 + int(signal)
	}
	return exit.WithCode(code)
}

// waitStatus returns the exit code of a command, or the signal that has ended it.
func waitStatus(err error) (code int, signal syscall.Signal) {
	var how *exec.ExitError
	if !errors.As(err, &how) {
		return 0, 0
	}
	if status, ok := how.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 0, status.Signal()
	}
	return how.ExitCode(), 0
}

// environment is that of the command: that of salloc, and what srun reads of the allocation. What another
// allocation has left there is taken out.
func (a *allocation) environment(ctx context.Context, job *api.Job) []string {
	set := map[string]string{
		"SLURM_JOB_USER": job.User, "SLURM_JOB_UID": strconv.Itoa(int(job.UID)),
		"SLURM_JOB_GID":    strconv.Itoa(int(job.GID)),
		"SLURM_SUBMIT_DIR": a.req.Job.SubmitDir, "SLURM_SUBMIT_HOST": a.req.Job.SubmitHost,
		"SLURM_NTASKS": "", "SLURM_NPROCS": "", "SLURM_NTASKS_PER_NODE": "", "SLURM_CPUS_PER_TASK": "",
		"SLURM_GPUS": "", "SLURM_GPUS_PER_NODE": "", "SLURM_GPUS_PER_TASK": "", "SLURM_MEM_PER_CPU": "",
		"SLURM_DISTRIBUTION": "", "SLURM_JOB_DEPENDENCY": "", "SLURM_CLUSTER_NAME": "", "SLURM_HET_SIZE": "",
	}
	if cluster, _, err := a.session.Cluster(ctx); err == nil {
		set["SLURM_CLUSTER_NAME"] = cluster.Name
	}
	groups := a.req.Job.Groups
	first := 0
	for i := range groups {
		workers := job.Nodes[min(first, len(job.Nodes)):min(first+groups[i].Count, len(job.Nodes))]
		first += groups[i].Count
		of := a.componentVariables(job, i, workers)
		for name, value := range of {
			if len(groups) > 1 {
				set[name+"_HET_GROUP_"+strconv.Itoa(i)] = value
			}
			if i == 0 {
				set[name] = value
			}
		}
	}
	if len(groups) > 1 {
		set["SLURM_HET_SIZE"] = strconv.Itoa(len(groups))
	}
	var env []string
	for _, entry := range a.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if _, replaced := set[name]; !replaced && !strings.Contains(name, "_HET_GROUP_") {
			env = append(env, entry)
		}
	}
	for name, value := range set {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// componentVariables returns what srun reads of one component of the allocation, which has so many workers.
func (a *allocation) componentVariables(job *api.Job, component int, workers []string) map[string]string {
	task := &a.req.Job.Groups[component].Tasks[0]
	each := map[string]int{} // workers
	for _, n := range workers {
		each[n]++
	}
	tasks, perWorker := 0, 1
	if task.Launch != nil {
		perWorker = max(task.Launch.Nproc, 1)
	}
	var counts, cores []int
	nodes := show.Distinct(workers)
	for _, n := range nodes {
		tasks += each[n] * perWorker
		counts, cores = append(counts, each[n]*perWorker), append(cores, each[n]*task.Resources.Cores)
	}
	id, list, count := show.ID(a.id), hostlist.Compress(nodes), strconv.Itoa(len(nodes))
	set := map[string]string{
		"SLURM_JOB_ID": id, "SLURM_JOBID": id, "SLURM_JOB_NODELIST": list, "SLURM_NODELIST": list,
		"SLURM_JOB_NUM_NODES": count, "SLURM_NNODES": count, "SLURM_TASKS_PER_NODE": hostlist.Counts(counts),
		"SLURM_JOB_CPUS_PER_NODE": hostlist.Counts(cores), "SLURM_JOB_NAME": job.Name, "SLURM_JOB_PARTITION": job.Queue,
		"SLURM_JOB_ACCOUNT": job.Account, "SLURM_JOB_QOS": string(job.Class),
	}
	for _, f := range a.flags {
		if f.Component != component {
			continue
		}
		switch f.Name {
		case "ntasks":
			set["SLURM_NTASKS"], set["SLURM_NPROCS"] = f.Value, f.Value
		case "ntasks-per-node":
			set["SLURM_NTASKS_PER_NODE"] = f.Value
			set["SLURM_NTASKS"] = cmp.Or(set["SLURM_NTASKS"], strconv.Itoa(tasks))
			set["SLURM_NPROCS"] = set["SLURM_NTASKS"]
		case "cpus-per-task":
			set["SLURM_CPUS_PER_TASK"] = f.Value
		}
	}
	asked := map[string]string{}
	if component == 0 {
		maps.Copy(asked, a.req.Result.Variables)
	}
	maps.Copy(asked, task.Env)
	for name, value := range asked {
		if strings.HasPrefix(name, "SLURM_") {
			set[name] = value
		}
	}
	return set
}
