// Package exits tests every end that a job may come to. A stop meets a launch, or an end, at one
// moment. The state, the exit, the cause, the output and the dependents must follow the rules. It
// holds tests only.
package exits

import (
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// moment is how far a launch or an end has come when the stop is asked for.
type moment string

// The moments, in order. Each is held by a hook until the stop is known where it has to be known.
const (
	assigned   moment = "assigned"                // the log has the attempt; no node has heard of it
	created    moment = "created"                 // the containers exist; the order to start was not written down
	released   moment = "released"                // the order to start is in the journal, and its shim never gets it
	executing  moment = "executing"               // the program runs, and handles no signal yet
	output     moment = "first output"            // the program has handlers and has written a line
	inGrace    moment = "in grace"                // a preemption has signalled it, and it is about to leave
	exiting    moment = "exiting"                 // the program has ended by itself, and its node does not know
	unreported moment = "exited and not reported" // the node knows, and the log does not
)

var moments = []moment{assigned, created, released, executing, output, inGrace, exiting, unreported}

// executed reports whether the program was executed by then.
func (m moment) executed() bool { return !slices.Contains([]moment{assigned, created, released}, m) }

// ended reports whether the program has ended by itself by then.
func (m moment) ended() bool { return m == exiting || m == unreported }

// stops are the causes for which an attempt is stopped from outside.
var stops = []model.Cause{
	model.CauseTE, model.CauseReclaim, model.CauseOrder, model.CauseShrink, model.CauseGrow, model.CauseMigrate,
	model.CauseDrain, model.CauseCancelled, model.CauseRequeue, model.CauseTimeout, model.CauseNodeLost,
	model.CauseLease,
}

// others are the causes that stop no attempt from outside: it ends by itself, or pauses.
var others = []model.Cause{model.CauseCompleted, model.CauseFailed, model.CauseOOM, model.CauseLaunch,
	model.CausePack, model.CauseSlice}

// launch is one way to start a program.
type launch struct {
	name string
	kind string // of [jobspec.Launch]; "": the job does not say
	// the program is a command line, and not a script
	command bool
	workers int // of a job that is not elastic
	gpus    int // of each worker
	sidecar bool
}

var launches = []launch{
	{name: "command", command: true, workers: 1},
	{name: "script", kind: "single", workers: 1},
	{name: "steps", kind: jobspec.LaunchSteps, workers: 1},
	{name: "steps on two nodes", kind: jobspec.LaunchSteps, workers: 2},
	{name: "per_gpu", kind: "per_gpu", workers: 1, gpus: 2},
	{name: "slurm", kind: "slurm", workers: 2},
	{name: "torchrun", kind: "torchrun", workers: 2},
	{name: "several tasks", workers: 1, sidecar: true},
}

// program is what a job's program does when it is asked to leave, and when it is not.
type program struct {
	name string
	// the exit code after a signal; -1: it dies of the signal, -2: it ignores it
	leaves     int
	ends       int    // the exit code when it ends by itself
	checkpoint bool   // the job says that it saves its progress
	once       bool   // the job must not be started again
	finished   bool   // the program says that it is finished
	zero       string // exit_zero: the meaning of exit code 0 after the job had to leave
}

const (
	dies    = -1
	ignores = -2
)

var programs = []program{
	{name: "dies of the signal", leaves: dies},
	{name: "leaves with 0", leaves: 0},
	{name: "leaves with 7, or ends with 3", leaves: 7, ends: 3},
	{name: "ignores the signal", leaves: ignores},
	{name: "saves and leaves with 0", leaves: 0, checkpoint: true},
	{name: "saves and leaves with 85", leaves: 85, ends: 85, checkpoint: true},
	{name: "saves, leaves with 7, or ends with 3", leaves: 7, ends: 3, checkpoint: true},
	{name: "is finished and leaves with 0", leaves: 0, checkpoint: true, finished: true},
	{name: "is finished and leaves with 7", leaves: 7, checkpoint: true, finished: true},
	{name: "has exit_zero = requeue, leaves with 0", leaves: 0, zero: jobspec.ExitSaved},
	{name: "saves, has exit_zero = complete, leaves with 0", leaves: 0, checkpoint: true, zero: jobspec.ExitDone},
	{name: "may run once, dies of the signal", leaves: dies, once: true},
	{name: "may run once, leaves with 0", leaves: 0, once: true},
}

// programsAt lists the programs that differ at a moment. Programs that were not executed, or handle
// no signal yet, differ only in the word of their jobs. Programs that have ended do not differ in
// how they leave.
func programsAt(m moment) []program {
	type word struct {
		checkpoint, once, finished bool
		leaves, ends               int
		zero                       string
	}
	known := map[word]bool{}
	return slices.DeleteFunc(slices.Clone(programs), func(p program) bool {
		w := word{p.checkpoint, p.once, p.finished, p.leaves, p.ends, p.zero}
		switch {
		case m.ended():
			w.leaves, w.finished, w.zero = 0, false, ""
		case m != output && m != inGrace:
			w.leaves, w.ends, w.finished, w.zero = 0, 0, false, ""
		}
		again := known[w]
		known[w] = true
		return again
	})
}

// cell is one entry of the table.
type cell struct {
	stop    model.Cause
	at      moment
	launch  launch
	program program
}

func (c cell) String() string {
	return fmt.Sprintf("%s, %s, %s, %s", c.stop, c.at, c.launch.name, c.program.name)
}

// only names the cells to play, to look at some of them.
var only = flag.String("cells", "", "play only the cells whose names contain this text")

// cells returns the whole table.
func cells() []cell {
	var all []cell
	for _, s := range stops {
		for _, m := range moments {
			for _, l := range launches {
				for _, p := range programsAt(m) {
					if c := (cell{s, m, l, p}); strings.Contains(c.String(), *only) {
						all = append(all, c)
					}
				}
			}
		}
	}
	return all
}

// impossible returns why a cell cannot be, "" if it can. [cell.refute] holds each reason against the product.
func (c cell) impossible() string {
	switch {
	case c.resizes() && c.launch.kind == jobspec.LaunchSteps:
		return "a job that starts steps is not elastic"
	case c.resizes() && c.program.once:
		return "a job that is never started again is not elastic"
	case c.stop == model.CauseTimeout && !c.at.executed():
		return "a time limit counts from the start"
	case c.stop == model.CauseLease && c.at == assigned:
		return "without a container no shim has a lease"
	}
	return ""
}

func (c cell) resizes() bool { return c.stop == model.CauseShrink || c.stop == model.CauseGrow }

// workers returns with how many workers the attempt begins. A job that is to shrink begins with two.
func (c cell) workers() int {
	switch c.stop {
	case model.CauseShrink:
		return 2
	case model.CauseGrow:
		return 1
	}
	return c.launch.workers
}

// spec returns the job of a cell. script is what its program does.
func (c cell) spec(script string) *jobspec.Job {
	t := jobspec.Task{Name: "main", Script: script, KillTimeout: 1, Resources: jobspec.Resources{Cores: 1,
		Memory: 64 * jobspec.MiB, GPUs: c.launch.gpus, Shm: jobspec.MiB, Tmp: jobspec.MiB}}
	if c.launch.command {
		t.Script, t.Command = "", []string{"/bin/sh", "-c", script}
	}
	if c.launch.kind != "" {
		t.Launch = &jobspec.Launch{Type: c.launch.kind}
	}
	g := jobspec.Group{Count: c.workers(), MaxWorkersPerNode: 1, Tasks: []jobspec.Task{t}}
	if c.launch.sidecar {
		g.Tasks = append(g.Tasks, jobspec.Task{Name: "side", Script: sidecar, KillTimeout: 1,
			Lifecycle: &jobspec.Lifecycle{Hook: "prestart", Sidecar: true}, Resources: jobspec.Resources{Cores: 1,
				Memory: 64 * jobspec.MiB, Shm: jobspec.MiB, Tmp: jobspec.MiB}})
	}
	if c.resizes() {
		g.Count, g.Elastic = 0, &jobspec.Elastic{Min: 1, Max: 2}
	}
	j := &jobspec.Job{Name: "cell", TimeLimit: 3600, Workdir: "/", Groups: []jobspec.Group{g},
		OnNodeLost: jobspec.NodeLossRequeue, // small clusters wait
		Preemption: &jobspec.Preemption{GracePeriod: 1, ExitZero: c.program.zero}}
	if c.program.checkpoint {
		j.Checkpoint = &jobspec.Checkpoint{Path: "/tmp"}
	}
	if c.program.once {
		no := false
		j.Preemption.Requeue = &no
	}
	j.Default()
	return j
}

// sidecar is the script of a task beside the main one.
const sidecar = `trap 'exit 0' TERM
while :; do sleep 0.02; done`
