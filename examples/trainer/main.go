// Command trainer is a small, real data-parallel training job: the one that Rota's examples and
// tests run.
//
// It fits a perceptron to data that it makes, with its gradients reduced over TCP between the
// workers of its gang. A step's batch is always cut into the same shards, and these are always
// added in the same order. So the loss at step k has the same bits with 1, 2 or 4 workers, after
// any number of restarts. Whatever a scheduler does to it, a wrong loss shows that work was lost,
// repeated or mixed up.
//
// It behaves as a well-mannered job should. It reports a line a step to $ROTA_PROGRESS_FILE, and
// pauses between two steps when $ROTA_SOCKET says so. It saves its state at intervals, and when it
// is asked to stop (SIGTERM or SIGUSR1). Then it exits with 85, and resumes from the checkpoint
// with any number of workers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// exitCheckpointed tells the scheduler: state saved, run me again.
const exitCheckpointed = 85

// options are the flags and what the environment says of the gang.
type options struct {
	shape
	steps, every, log int
	rate              float64
	pause, compute    time.Duration
	dir               string
	device            string
	memory, busy      int
	uuids             string
	progress, socket  string
	rank, world       int
	attempt           int
	addr, token       string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGINT)
	code, err := run(ctx, os.Args[1:], os.Getenv, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "trainer:", err)
	}
	os.Exit(code)
}

// run trains until the last step and returns 0. It returns 85 when ctx ends, which is a request to
// stop, 1 after an error, and 2 for bad flags.
func run(ctx context.Context, args []string, getenv func(string) string, out io.Writer) (int, error) {
	o, err := parse(args, getenv, out)
	if errors.Is(err, flag.ErrHelp) {
		return 0, nil
	}
	if err != nil {
		return 2, err
	}
	t := &trainer{options: o, model: newModel(o.shape), out: out}
	return t.train(ctx)
}

func parse(args []string, getenv func(string) string, usage io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("trainer", flag.ContinueOnError)
	f.SetOutput(usage)
	f.IntVar(&o.steps, "steps", 200, "steps to train")
	f.IntVar(&o.Inputs, "inputs", 8, "number of inputs of the network")
	f.IntVar(&o.Hidden, "hidden", 32, "hidden units")
	f.IntVar(&o.Batch, "batch", 64, "number of samples of a step, over all workers")
	f.IntVar(&o.Shards, "shards", 8, "number of parts in which a batch is reduced; at least the largest number of workers")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the weights and the data")
	f.Float64Var(&o.rate, "rate", 0.05, "learning rate")
	f.IntVar(&o.every, "every", 50, "steps between checkpoints; 0: only when asked to stop")
	f.IntVar(&o.log, "log", 20, "steps between lines on standard output")
	f.DurationVar(&o.pause, "pause", 0, "extra time of a step, to make a run last")
	f.DurationVar(&o.compute, "compute", 0,
		"extra time to work through a batch, which the workers share as they share its shards")
	f.StringVar(&o.dir, "dir", "",
		"directory for the checkpoint and the heartbeat, created if it is missing; empty: write neither")
	f.StringVar(&o.device, "device", "", "file of a simulated GPU: trainers that name the same one compute in turn")
	f.IntVar(&o.memory, "gpu-memory", 0, "MiB to report as used on each simulated GPU; 0: report nothing")
	f.IntVar(&o.busy, "gpu-busy", 50, "percent of the time to report as busy on each simulated GPU")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.uuids = getenv("ROTA_GPU_UUIDS")
	o.progress, o.socket = getenv("ROTA_PROGRESS_FILE"), getenv("ROTA_SOCKET")
	return o, errors.Join(o.place(getenv), o.check())
}

// place reads the gang from the environment: one process a worker, numbered as PyTorch does.
func (o *options) place(getenv func(string) string) error {
	number := func(name string, otherwise int) (int, error) {
		text := getenv(name)
		if text == "" {
			return otherwise, nil
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return 0, fmt.Errorf("$%s is %q, not a number", name, text)
		}
		return n, nil
	}
	var errs [3]error
	o.rank, errs[0] = number("RANK", 0)
	o.world, errs[1] = number("WORLD_SIZE", 1)
	o.attempt, errs[2] = number("ROTA_ATTEMPT", 1)
	o.addr = net.JoinHostPort(getenv("MASTER_ADDR"), getenv("MASTER_PORT"))
	o.token = getenv("ROTA_JOB_ID") + "." + strconv.Itoa(o.attempt)
	return errors.Join(errs[:]...)
}

func (o *options) check() error {
	switch {
	case o.Inputs < 1 || o.Hidden < 1 || o.Batch < 1 || o.Shards < 1 || o.steps < 0 || o.log < 1:
		return errors.New("inputs, hidden, batch, shards and log must be at least 1, steps at least 0")
	case o.size() > maxWeights:
		return fmt.Errorf("%d weights are more than the trainer supports (%d)", o.size(), maxWeights)
	case o.Batch < o.Shards:
		return fmt.Errorf("a batch of %d cannot be cut into %d shards", o.Batch, o.Shards)
	case o.world < 1 || o.rank < 0 || o.rank >= o.world:
		return fmt.Errorf("rank %d is impossible with %d workers", o.rank, o.world)
	case o.world > o.Shards:
		return fmt.Errorf("%d workers have only %d shards to divide; raise -shards", o.world, o.Shards)
	}
	return nil
}

// trainer is one worker's run.
type trainer struct {
	options
	*model
	gang   *gang
	out    io.Writer
	beat   *heartbeat
	orders *switchboard
	gpu    *device
	obeyed int // the last order to pause or to go on
	done   int // steps
	saved  int // the step of the newest checkpoint
}

func (t *trainer) train(ctx context.Context) (code int, err error) {
	if err := t.resume(); err != nil {
		return 1, err
	}
	if t.gang, err = join(ctx, t.rank, t.world, t.addr, t.token); err != nil {
		if ctx.Err() != nil {
			return t.stopped()
		}
		return 1, err
	}
	defer t.gang.close()
	if t.done, err = t.gang.start(t.done, t.w); err != nil {
		return 1, err
	}
	if err := t.makeDir(); err != nil {
		return 1, err
	}
	if t.beat, err = startHeartbeat(t.dir, t.attempt, t.rank, t.done); err != nil {
		return 1, err
	}
	progress, err := openProgress(t.progress)
	if err != nil {
		return 1, errors.Join(err, t.beat.close())
	}
	if t.orders, err = openSwitchboard(t.socket); err != nil {
		fmt.Fprintln(t.out, err) // it trains without pausing
	}
	defer t.orders.close()
	if t.gpu, err = openDevice(t.device, t.memory, t.busy, t.uuids); err != nil {
		return 1, errors.Join(err, progress.Close(), t.beat.close())
	}
	defer t.gpu.close()
	code, err = t.loop(ctx, progress)
	return code, errors.Join(err, progress.Close(), t.beat.close())
}

// makeDir makes the directory for the checkpoint and the heartbeat, if it is missing.
func (t *trainer) makeDir() error {
	if t.dir == "" {
		return nil
	}
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		return fmt.Errorf("make the directory of the checkpoint: %w", err)
	}
	return nil
}

// resume loads worker 0's checkpoint, if there is one.
func (t *trainer) resume() error {
	if t.dir == "" || t.rank != 0 {
		return nil
	}
	c, ok, err := load(t.checkpointPath(), t.options.shape)
	if err != nil || !ok {
		return err
	}
	t.done, t.saved = c.Steps, c.Steps
	copy(t.w, c.Weights)
	fmt.Fprintf(t.out, "resumed at step %d with %d workers\n", c.Steps, t.world)
	return nil
}

func (t *trainer) checkpointPath() string { return filepath.Join(t.dir, "checkpoint") }

// loop takes steps until the goal or until a worker of the gang was asked to stop.
func (t *trainer) loop(ctx context.Context, progress *progressFile) (int, error) {
	for t.done < t.steps {
		loss, asked, err := t.step(ctx)
		if err != nil {
			return 1, err
		}
		stopping := asked.stop
		if t.every > 0 && t.done%t.every == 0 || stopping || t.done == t.steps {
			if err := t.save(); err != nil {
				return 1, err
			}
		}
		if err := progress.line(t.done, t.saved, loss); err != nil {
			return 1, err
		}
		if t.rank == 0 && (t.done%t.log == 0 || t.done == t.steps) {
			fmt.Fprintf(t.out, "step %d of %d  loss %.9f\n", t.done, t.steps, loss)
		}
		if stopping && t.done < t.steps {
			return t.stopped()
		}
		if asked.number > t.obeyed && t.orders != nil {
			err := errors.Join(t.gpu.release(), t.orders.obey(ctx, asked.number), t.gpu.take())
			if err != nil {
				return 1, err
			}
			t.obeyed = asked.number + asked.number%2
			if ctx.Err() != nil { // as in every worker: a job that is suspended is stopped as a whole
				return t.stopPaused()
			}
		}
		sleep(ctx, t.pause)
	}
	if err := progress.finished(); err != nil {
		return 1, err
	}
	return 0, nil
}

// stopPaused ends a run that was paused after its last step.
func (t *trainer) stopPaused() (int, error) {
	if err := t.save(); err != nil {
		return 1, err
	}
	return t.stopped()
}

func (t *trainer) stopped() (int, error) {
	if t.dir == "" {
		fmt.Fprintf(t.out, "stopped at step %d; nothing was saved, because -dir is not set\n", t.done)
		return 128 + int(syscall.SIGTERM), nil
	}
	fmt.Fprintf(t.out, "stopped at step %d, saved\n", t.done)
	return exitCheckpointed, nil
}

// step computes this worker's shards, reduces them with the others', and applies the sum.
func (t *trainer) step(ctx context.Context) (loss float64, asked demand, err error) {
	from, to := mine(t.rank, t.world, t.options.Shards)
	own := make([]gradient, 0, t.options.Shards)
	for shard := from; shard < to; shard++ {
		own = append(own, t.shardGradient(t.done, shard))
	}
	err = t.gpu.compute(func() { sleep(ctx, t.compute*time.Duration(len(own))/time.Duration(t.options.Shards)) })
	if err != nil {
		return 0, demand{}, fmt.Errorf("step %d: %w", t.done+1, err)
	}
	number, _ := t.orders.last()
	total, asked, err := t.gang.reduce(own, len(t.w), demand{ctx.Err() != nil, number})
	if err != nil {
		return 0, demand{}, fmt.Errorf("step %d: %w", t.done+1, err)
	}
	loss = t.apply(total, t.rate)
	t.done++
	t.beat.step.Store(int64(t.done))
	return loss, asked, nil
}

// sleep makes a step last; a request to stop ends it early.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// save writes the checkpoint; worker 0 alone does.
func (t *trainer) save() error {
	if t.dir == "" || t.rank != 0 {
		return nil
	}
	if err := (checkpoint{t.done, t.options.shape, t.w}).save(t.checkpointPath()); err != nil {
		return err
	}
	t.saved = t.done
	return nil
}
