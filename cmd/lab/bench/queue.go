package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// The full queue: this many users with this many pending jobs each. Every job has its own
// environment and script.
const (
	queueUsers = 1000
	queueEach  = 100
)

// watchedPace is how long a job runs, one after the other, while users watch: a hundred jobs start
// and end in a second.
const watchedPace = 10 * time.Millisecond

// fullQueue is a controller whose queue is full, and a node that works through it one job at a
// time.
type fullQueue struct {
	b      *bench
	c      *lab.Cluster
	leader *lab.Daemon
	admin  *api.Client
	users  []*api.Client
	each   int
}

// measureQueue measures how long users and watchers of a full queue wait.
func measureQueue(ctx context.Context, b *bench) error {
	return b.with(ctx, "queue", 1, 0, func(c *lab.Cluster) error {
		q := &fullQueue{b: b, c: c, each: b.repeat(queueEach)}
		defer q.close()
		return q.measure(ctx)
	})
}

func (q *fullQueue) measure(ctx context.Context) error {
	if err := q.open(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{q.fill, q.lists, q.busy, q.arrays, q.watched, q.cancelAll} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// open makes the clients of the users.
func (q *fullQueue) open(ctx context.Context) (err error) {
	if q.leader, err = q.c.Leader(ctx); err != nil {
		return err
	}
	if q.admin, err = q.c.Client(); err != nil {
		return err
	}
	credential, err := q.c.Credential()
	if err != nil {
		return err
	}
	secure := credential.Client(pki.Controller)
	for u := range queueUsers {
		client, err := api.DialWith(q.leader.HTTP, api.Options{Header: vouchFor(u), TLS: secure})
		if err != nil {
			return err
		}
		q.users = append(q.users, client)
	}
	return nil
}

func (q *fullQueue) close() {
	for _, c := range append(q.users, q.admin) {
		if c != nil {
			c.Close()
		}
	}
}

func userName(u int) string { return fmt.Sprintf("bench%d", u) }

// vouchFor returns the headers of a request that a member makes for one of the bench's users.
func vouchFor(u int) http.Header {
	h := http.Header{}
	identity.Vouch(h, model.Identity{UID: uint32(20_000 + u), GID: uint32(20_000 + u), User: userName(u), Home: "/tmp"})
	return h
}

// pending returns a job that waits for all GPUs of the node, with an environment and a script of 1
// KiB of its own.
func (q *fullQueue) pending(u, k int) *jobspec.Job {
	env := map[string]string{}
	for v := range 8 {
		env[fmt.Sprintf("VARIABLE_%d", v)] = fmt.Sprintf("value %d of job %d of user %d", v, k, u)
	}
	line := fmt.Sprintf("echo job %d of user %d\n", k, u)
	script := "#!/bin/sh\n" + strings.Repeat(line, 1024/len(line))
	return &jobspec.Job{
		Name: fmt.Sprintf("name%d", u%10), Workdir: q.c.Shared[0],
		Groups: []jobspec.Group{{Name: "main", Tasks: []jobspec.Task{{
			Name: "main", Script: script + strings.Repeat("#", 1024-len(script)), Env: env,
			Resources: jobspec.Resources{Cores: 1, Memory: 64 * jobspec.MiB, GPUs: 8},
		}}}},
	}
}

// submitPending fills the queue.
func (q *fullQueue) submitPending(ctx context.Context) error {
	for u, client := range q.users {
		jobs := make([]*jobspec.Job, q.each)
		for k := range jobs {
			jobs[k] = q.pending(u, k)
		}
		if _, err := client.SubmitAll(ctx, "", jobs); err != nil {
			return err
		}
	}
	return nil
}

// fill fills the queue and measures the controller's memory for each pending job.
func (q *fullQueue) fill(ctx context.Context) error {
	if err := q.submitPending(ctx); err != nil {
		return err
	}
	live, err := q.live(ctx)
	if err != nil {
		return err
	}
	resident, err := memory(q.leader.Pid(), "RssAnon")
	if err != nil {
		return err
	}
	most, err := memory(q.leader.Pid(), "VmHWM")
	if err != nil {
		return err
	}
	all := queueUsers * q.each
	q.b.add(fmt.Sprintf("memory of a pending job, %d pending", all), live/float64(all)-1024, "B", "<= 2000",
		"live data in the controller's heap, without the scripts of 1 KiB; Slurm 3,800")
	q.b.add(fmt.Sprintf("resident memory of the controller, %d pending", all), resident/1e6, "MB", "",
		fmt.Sprintf("including the scripts and garbage; at most %.0f while the queue was filled, including pages of the "+
			"log; Slurm 390",
			most/1e6))
	return nil
}

// live returns the live heap of the controller. It waits for a garbage collection while the
// controller is idle, which the runtime makes every two minutes. A collection during other work
// counts new garbage as live.
func (q *fullQueue) live(ctx context.Context) (float64, error) {
	const quiet = 2 * time.Second // longer than any collection takes
	begin, last := 0.0, time.Now()
	for {
		n, err := metric(ctx, q.leader.Plain, "go_gc_duration_seconds_count")
		if err != nil {
			return 0, err
		}
		if n > begin && begin > 0 && time.Since(last) > quiet {
			return metric(ctx, q.leader.Plain, "go_gc_heap_live_bytes")
		}
		if n > begin {
			begin, last = n, time.Now()
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// memory reads a size from a process's status, in bytes. Pages of files, such as the log's, are in
// VmHWM but not in RssAnon.
func memory(pid int, field string) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, field+": %f kB", &kib); n == 1 {
			return kib * 1024, nil
		}
	}
	return 0, fmt.Errorf("process %d: its status has no %s", pid, field)
}

// metric reads one number from a daemon's metrics.
func metric(ctx context.Context, addr, name string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, addr+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(resp.Body); err != nil {
		return 0, err
	}
	for line := range strings.Lines(body.String()) {
		if v, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(v), 64)
		}
	}
	return 0, fmt.Errorf("%s reports no %s", addr, name)
}

// lists times the command that prints the queue.
func (q *fullQueue) lists(ctx context.Context) error {
	all := queueUsers * q.each
	for _, l := range []struct {
		args       []string
		what, goal string
	}{
		{[]string{"queue", "--name", "name3", "-o", "json"}, fmt.Sprintf("queue of %d as JSON", all/10), "<= 200"},
		{[]string{"queue", "-o", "json"}, fmt.Sprintf("queue of %d as JSON", all), "<= 2000"},
		{[]string{"queue"}, fmt.Sprintf("queue of %d as a table", all), "<= 1500"},
	} {
		ds, err := times(ctx, 5, func() *exec.Cmd { return q.c.Rota(ctx, l.args...) })
		if err != nil {
			return err
		}
		q.b.add("rota "+l.what, percentile(ds, 50), "ms", l.goal, "Slurm 3,500 / 34,500 ms as JSON, 3,200 ms as a table")
	}
	return nil
}

// busy times single requests while the node works through the queue, one start and one end after
// the other.
func (q *fullQueue) busy(ctx context.Context) error {
	stop, err := q.work(ctx, 0)
	if err != nil {
		return err
	}
	defer stop()
	n := q.b.repeat(1000)
	one, err := timed(n, func(i int) error {
		_, _, err := q.admin.Job(ctx, model.JobID(queueUsers*q.each-i), api.Read{})
		return err
	})
	if err != nil {
		return err
	}
	list, err := timed(n, func(i int) error {
		u := queueUsers - 1 - i%500
		_, _, err := q.users[u].Jobs(ctx, api.JobFilter{User: userName(u)}, api.Read{})
		return err
	})
	if err != nil {
		return err
	}
	submit, err := q.submissions(ctx, n)
	if err != nil {
		return err
	}
	const peer = "Slurm 1,800 to 2,100 ms"
	q.b.add("one job, while scheduling, p99", percentile(one, 99), "ms", "<= 20", peer)
	q.b.add("one user's jobs, while scheduling, p99", percentile(list, 99), "ms", "<= 20", peer)
	q.b.add("a new submission, while scheduling, p99", percentile(submit, 99), "ms", "<= 20", peer)
	return nil
}

// timed calls f n times, one after the other.
func timed(n int, f func(int) error) ([]time.Duration, error) {
	ds := make([]time.Duration, 0, n)
	for i := range n {
		begin := time.Now()
		if err := f(i); err != nil {
			return nil, err
		}
		ds = append(ds, time.Since(begin))
	}
	return ds, nil
}

func (q *fullQueue) submissions(ctx context.Context, n int) ([]time.Duration, error) {
	return timed(n, func(i int) error {
		_, err := q.users[0].Submit(ctx, api.NewKey(), q.pending(0, 1_000_000+i))
		return err
	})
}

// work runs a node that ends each job after a pace, until stop is called.
func (q *fullQueue) work(ctx context.Context, pace time.Duration) (stop func(), err error) {
	node, err := joinCounting(q.c, "worker")
	if err != nil {
		return nil, err
	}
	node.gpus, node.pace = 8, pace
	return node.start(ctx)
}

// arrays times the submission of arrays of 10,000.
func (q *fullQueue) arrays(ctx context.Context) error {
	ds, err := timed(q.b.repeat(20), func(i int) error {
		job := q.pending(1, 2_000_000+i)
		job.Array, job.Hold = &jobspec.Array{Indices: "0-9999"}, true
		_, err := q.users[1].Submit(ctx, api.NewKey(), job)
		return err
	})
	if err == nil {
		q.b.add("an array of 10000 submitted, p50", percentile(ds, 50), "ms", "<= 7", "one entry of the log; Slurm 7 ms")
	}
	return err
}

// watched times submissions with and without a thousand users that watch their own jobs, and
// measures the controller's processor time. Jobs start and end all the time, and each change goes
// to one watcher.
func (q *fullQueue) watched(ctx context.Context) error {
	stop, err := q.work(ctx, watchedPace)
	if err != nil {
		return err
	}
	defer stop()
	n := q.b.repeat(1000)
	alone, err := q.submissions(ctx, n)
	if err != nil {
		return err
	}
	idle, err := q.processor(ctx, q.b.span(10*time.Second))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg, watching sync.WaitGroup
	failed := make(chan error, len(q.users))
	defer func() { cancel(); wg.Wait() }()
	for u := range q.users {
		watching.Add(1)
		wg.Go(func() {
			if err := q.watch(ctx, u, sync.OnceFunc(watching.Done)); err != nil && ctx.Err() == nil {
				failed <- err
			}
		})
	}
	watching.Wait() // for the first list of each watcher, which is a whole one
	with, err := q.submissions(ctx, n)
	if err != nil {
		return err
	}
	cpu, err := q.processor(ctx, q.b.span(15*time.Second))
	if err != nil {
		return err
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d watchers gave up: %w", len(failed), <-failed)
	}
	q.b.add("processor of the controller, 1000 watchers", 100*cpu, "%", "<= 50",
		fmt.Sprintf("of one core, while some %d jobs a second start and end; %.0f %% without watchers",
			time.Second/watchedPace, 100*idle))
	q.b.add("submission with 1000 watchers, p99", percentile(with, 99), "ms", "<= 2x",
		fmt.Sprintf("without them %.1f ms", percentile(alone, 99)))
	return nil
}

// watch keeps a list of one user's jobs up to date until ctx ends. It calls begun when it has the
// first list, or fails to get one.
func (q *fullQueue) watch(ctx context.Context, u int, begun func()) error {
	defer begun()
	f := api.JobFilter{User: userName(u), Delta: true}
	var after uint64
	for {
		list, _, err := q.users[u].Jobs(ctx, f, api.Read{After: after, Wait: time.Minute})
		if err != nil {
			return err
		}
		after = list.Index
		begun()
	}
}

// processor returns the part of one core that the controller uses over a time.
func (q *fullQueue) processor(ctx context.Context, d time.Duration) (float64, error) {
	before, err := processTime(q.leader.Pid())
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	select {
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-time.After(d):
	}
	after, err := processTime(q.leader.Pid())
	return (after - before).Seconds() / time.Since(begin).Seconds(), err
}

// processTime returns the processor time of a process, in user and system mode.
func processTime(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("process %d: %q", pid, b)
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux
	return time.Duration(user+system) * tick, errors.Join(err1, err2)
}

// cancelAll cancels all pending jobs in one request.
func (q *fullQueue) cancelAll(ctx context.Context) error {
	begin := time.Now()
	resp, err := q.admin.CancelMany(ctx, api.CancelRequest{States: []string{"PD"}})
	if err != nil {
		return err
	}
	took := time.Since(begin)
	for _, item := range resp.Items {
		if item.Error != nil {
			return fmt.Errorf("cancel job %d: %w", item.ID, item.Error)
		}
	}
	q.b.add(fmt.Sprintf("cancel %d jobs", len(resp.Items)), took.Seconds(), "s", "<= 5", "one request; Slurm 71 jobs/s")
	return nil
}
