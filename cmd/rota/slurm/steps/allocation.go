package steps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

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

// allocation is a job that holds nodes for steps while a command of salloc or srun runs on this
// machine.
type allocation struct {
	*tool.Tool
	session   *command.Session
	req       *input.Submission
	flags     []script.Flag
	id        model.JobID
	immediate time.Duration // longest wait for nodes; 0: no limit
	// chosen: the wait ends once the nodes are chosen, before the workers have started
	chosen bool
}

// allocationError puts the failure of an allocation into Slurm's words.
func allocationError(err error) error {
	return tool.SubmitError("Unable to allocate resources", err)
}

// readImmediate parses --immediate if it is set.
func (a *allocation) readImmediate(text string, given bool) error {
	if !given {
		return nil
	}
	n, err := strconv.Atoi(cmp.Or(text, "1"))
	if err != nil || n < 1 || n > 1<<20 {
		return fmt.Errorf("Invalid --immediate specification: %q: write a number of seconds", text)
	}
	a.immediate = time.Duration(n) * time.Second
	return nil
}

func (a *allocation) say(format string, args ...any) {
	if !a.req.Result.Quiet {
		a.Infof(format, args...)
	}
}

// sayOfSalloc is the [allocation.say] of salloc for messages that srun does not print.
func (a *allocation) sayOfSalloc(format string, args ...any) {
	if a.Name == "salloc" {
		a.say(format, args...)
	}
}

// errBusy ends the wait of an --immediate allocation.
var errBusy = errors.New("Unable to allocate resources: Requested nodes are busy")

// grant submits the job and waits until it holds its nodes. A terminating signal cancels the job.
func (a *allocation) grant(parent context.Context, signals <-chan os.Signal) (*api.Job, error) {
	ctx, end := context.WithCancelCause(parent)
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		for {
			select {
			case s := <-signals:
				if number, _ := s.(syscall.Signal); endsStep(number) {
					end(exit.ErrInterrupted)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	job, err := a.submit(ctx, end)
	end(nil)
	<-listening // later signals go to the command
	if err == nil && errors.Is(context.Cause(ctx), exit.ErrInterrupted) {
		err = exit.ErrInterrupted
	}
	switch {
	case a.id == 0:
		return nil, allocationError(err)
	case err != nil:
		return nil, a.withdraw(err)
	case job.Code.Final():
		a.sayOfSalloc("Job allocation %d has been revoked.", a.id)
		return nil, lostAllocation(job)
	}
	a.sayOfSalloc("Granted job allocation %d", a.id)
	a.sayOfSalloc("Nodes %s are ready for job", show.Hosts(job.Nodes))
	if slices.ContainsFunc(a.flags, func(f script.Flag) bool { return f.Name == "bell" }) {
		fmt.Fprint(a.Stderr, "\a")
	}
	return job, nil
}

// lostAllocation is the error for an allocation that ended before its command started.
func lostAllocation(job *api.Job) error {
	return fmt.Errorf("Unable to allocate resources: job %d is %s: %s", job.ID, job.State,
		cmp.Or(show.Reason(job.Reason), "\"rota status "+show.ID(job.ID)+"\" says more"))
}

// submit submits the job, and returns it once it runs or has ended. After the longest wait, it
// calls end.
func (a *allocation) submit(ctx context.Context, end context.CancelCauseFunc) (*api.Job, error) {
	err := a.req.OnFewestNodes(ctx, a.session, func(job *jobspec.Job) (err error) {
		key := api.NewKey()
		a.id, err = a.session.Submit(ctx, key, job)
		var lost *api.UncertainError
		if errors.As(err, &lost) { // the job may exist, so find it, and cancel it if a signal came
			again, stop := context.WithTimeout(context.WithoutCancel(ctx), submitAgain)
			defer stop()
			if id, bad := a.session.Submit(again, key, job); bad == nil {
				a.id, err = id, nil
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	allocated := func() {}
	if a.immediate > 0 {
		busy := time.AfterFunc(a.immediate, func() { end(errBusy) })
		allocated = func() { busy.Stop() }
	}
	defer allocated()
	return a.await(ctx, allocated)
}

// submitAgain is how long a submission with a lost answer is repeated.
const submitAgain = 5 * time.Second

// withdraw cancels a job that has no nodes yet, and returns the error of the command.
func (a *allocation) withdraw(why error) error {
	a.cancel(a.Name + " has not waited for it")
	a.sayOfSalloc("Job allocation %d has been revoked.", a.id)
	if !errors.Is(why, exit.ErrInterrupted) {
		return why
	}
	if a.Name == "srun" {
		a.say("Job allocation %d has been revoked", a.id)
		a.say("Force Terminated JobId=%d", a.id)
	}
	return tool.ErrSaid
}

// await waits until the job runs or has ended. It calls allocated as soon as the nodes are chosen.
func (a *allocation) await(ctx context.Context, allocated func()) (*api.Job, error) {
	answers, waits := 0, false
	return follow.WaitFor(ctx, a.session, a.id, time.Second, time.Second, func(j *api.Job) bool {
		if answers++; j.Code != model.Pending {
			allocated()
		}
		switch {
		case j.Code == model.Pending && answers > 1 && !waits:
			waits = true
			a.sayOfSalloc("Pending job allocation %d", a.id)
			a.say("job %d queued and waiting for resources", a.id)
		case j.Code != model.Pending && !j.Code.Final() && waits:
			waits = false
			a.say("job %d has been allocated resources", a.id)
		}
		return j.Code == model.Running || j.Code.Final() || a.chosen && j.Code == model.Configuring && len(j.Nodes) > 0
	})
}

// releaseAgain is the first pause before the script of an allocation is told again to end.
const releaseAgain = 200 * time.Millisecond

// releaseWait is how long a command tries to release an allocation.
const releaseWait = 30 * time.Second

// release ends the allocation's job in the way the command ended: with its exit code, or with a
// signal. If the job's script cannot be reached, release cancels the job.
func (a *allocation) release(code, signal int) {
	a.sayOfSalloc("Relinquishing job allocation %d", a.id)
	ctx, stop := context.WithTimeout(context.Background(), releaseWait)
	defer stop()
	if code != 0 || signal != 0 {
		a.noteEnd(ctx, code, signal)
	}
	unsure := 0
	for delay := releaseAgain; ; delay *= 2 {
		_, err := a.session.Signal(ctx, show.ID(a.id), api.SignalRequest{Signal: script.Release, To: jobspec.SignalScript})
		var lost *api.UncertainError
		var refused *api.Problem
		if errors.As(err, &lost) {
			unsure++
		}
		switch {
		case exit.IsNotFound(err):
			return
		case errors.As(err, &refused) && refused.Code == api.CodeWrongState: // it has ended, or a worker starts
		case err != nil && unsure != 1: // the message may arrive at a second try
			a.cancel("the command of " + a.Name + " has ended")
			return
		}
		switch { // the script may not have set its trap yet
		case a.awaitEnd(ctx, delay):
			return
		case ctx.Err() != nil:
			a.cancel("the command of " + a.Name + " has ended")
			return
		}
	}
}

// awaitEnd waits until the job has ended, at most for the given time. It reports whether the job
// has ended.
func (a *allocation) awaitEnd(parent context.Context, within time.Duration) bool {
	ctx, stop := context.WithTimeout(parent, within)
	defer stop()
	_, err := follow.WaitFor(ctx, a.silently(), a.id, within, within, func(j *api.Job) bool { return j.Code.Final() })
	return err == nil
}

// silently returns a session that prints no messages about lost controllers.
func (a *allocation) silently() *command.Session {
	env := *a.Env
	env.Stderr = io.Discard
	return &command.Session{Env: &env, Client: a.session.Client}
}

// noteEnd writes the command's exit status into the allocation. If this fails, the job counts as
// successful.
func (a *allocation) noteEnd(ctx context.Context, code, signal int) {
	conn, err := a.session.Exec(ctx, show.ID(a.id), api.ExecRequest{Argv: script.ReleaseAs(code, signal)})
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }() // nothing is read from it
	at := int64(0)
	for {
		f, err := conn.Read()
		if at += f.Counts(); err != nil || f.Kind == stream.End {
			_ = conn.Write(stream.Number(at)) // the connection ends anyway
			return
		}
	}
}

// cancel ends the job. A job that has already ended is no error.
func (a *allocation) cancel(why string) {
	ctx, stop := context.WithTimeout(context.Background(), releaseWait)
	defer stop()
	var refused *api.Problem
	if err := a.session.Cancel(ctx, a.id, why); err != nil && !(errors.As(err, &refused) && refused.Status < 500) {
		a.Errorf("Unable to relinquish job allocation %d: %v: it continues until its time limit, or until \"scancel %d\"",
			a.id,
			tool.AsSlurm(err), a.id)
	}
}

// environment returns the command's environment: the caller's own, and the variables of the
// allocation that srun reads. Variables left by another allocation are removed. cluster is the
// cluster's name; "" if unknown.
func (a *allocation) environment(own []string, job *api.Job, cluster string) []string {
	set := map[string]string{
		"SLURM_JOB_USER": job.User, "SLURM_JOB_UID": strconv.Itoa(int(job.UID)),
		"SLURM_JOB_GID":    strconv.Itoa(int(job.GID)),
		"SLURM_SUBMIT_DIR": a.req.Job.SubmitDir, "SLURM_SUBMIT_HOST": a.req.Job.SubmitHost,
		"SLURM_NTASKS": "", "SLURM_NPROCS": "", "SLURM_NTASKS_PER_NODE": "", "SLURM_CPUS_PER_TASK": "",
		"SLURM_GPUS": "", "SLURM_GPUS_PER_NODE": "", "SLURM_GPUS_PER_TASK": "", "SLURM_MEM_PER_CPU": "",
		"SLURM_DISTRIBUTION": "", "SLURM_JOB_DEPENDENCY": "", "SLURM_CLUSTER_NAME": cluster, "SLURM_HET_SIZE": "",
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
	for _, entry := range own {
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

// clusterName returns the cluster's name; "" if the controller does not answer.
func (a *allocation) clusterName(ctx context.Context) string {
	cluster, _, err := a.session.Cluster(ctx)
	if err != nil {
		return ""
	}
	return cluster.Name
}

// componentVariables returns the variables of one component of the allocation with this number of
// workers.
func (a *allocation) componentVariables(job *api.Job, component int, workers []string) map[string]string {
	task := &a.req.Job.Groups[component].Tasks[0]
	each := map[string]int{} // number of workers on each node
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
