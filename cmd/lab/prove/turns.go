package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/cmd/lab/training"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// The jobs that take turns: six on the four GPUs of one node, as in Gandiva's time-slicing
// experiment.
const (
	turnsNode   = "n1"
	turnsJobs   = 6
	turnsStep   = 20 * time.Millisecond
	turnsAlone  = 20 * time.Second // for which as many as there are GPUs run first, to know how fast they are
	leastJain   = 0.95
	mostLost    = 0.05
	mostSwitch  = time.Second
	neverEnding = 100_000_000 // steps
)

// turn is a job that takes turns.
type turn struct {
	id  model.JobID
	dir string
}

// turns makes six trainings take turns on four GPUs while leaders are killed. It checks that they
// come on evenly, that little is lost, and that none loses a step.
func (p *proof) turns(ctx context.Context) error {
	if p.sharing == 0 {
		return nil
	}
	client, err := p.cluster.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	var jobs []turn
	add := func(n int) error {
		for range n {
			j, err := p.turn(ctx, client, len(jobs))
			if err != nil {
				return err
			}
			jobs = append(jobs, j)
		}
		return nil
	}
	// 1. Pairs of jobs that share a GPU, and one training for each GPU.
	pairs, err := p.packs(ctx, client)
	if err == nil {
		err = add(gpus)
	}
	if err != nil {
		return err
	}
	if err := awaitBeats(ctx, jobs); err != nil {
		return err
	}
	// 2. The speed without turns. Then more trainings than GPUs, so that they must take turns.
	speed, err := measure(ctx, jobs, turnsAlone)
	if err == nil {
		err = add(turnsJobs - gpus)
	}
	if err != nil {
		return err
	}
	// 3. Kill leaders, and count the steps done meanwhile.
	before, began := stepsOf(jobs), time.Now()
	takeOvers, err := p.killDuringTurns(ctx)
	if err != nil {
		return err
	}
	done, took := stepsOf(jobs), time.Since(began)
	for i := range jobs {
		done[i] -= before[i]
	}
	// 4. End the trainings, and judge: even progress, sharing, and no lost step.
	for i := range jobs {
		if err := p.endTurn(ctx, client, &jobs[i]); err != nil {
			return err
		}
	}
	p.judgeTurns(jobs, done, took, speed, takeOvers)
	if err := p.judgePacks(ctx, client, pairs); err != nil {
		return err
	}
	return p.judgeLosses(ctx, "turns lose nothing", jobs)
}

// killDuringTurns kills a leader every 20 to 40 s, for as long as the turns last. It returns the
// changes of the leader.
func (p *proof) killDuringTurns(ctx context.Context) ([]takeOver, error) {
	length := max(packLength, time.Duration(p.sharing*float64(time.Minute)))
	k := &killer{cluster: p.cluster, begin: time.Now(), verbose: p.verbose}
	dice := rand.New(rand.NewPCG(p.seed, 3))
	killing, stop := context.WithTimeout(ctx, length)
	defer stop()
	for lab.Sleep(killing, 20*time.Second+time.Duration(dice.Int64N(int64(20*time.Second)))) {
		if err := k.kill(ctx, 500*time.Millisecond); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return k.takeOvers, nil
}

// turn submits a training that can pause.
func (p *proof) turn(ctx context.Context, client *api.Client, n int) (turn, error) {
	t := turn{dir: filepath.Join(p.shared, fmt.Sprintf("turn%d", n))}
	if err := lab.OpenDir(t.dir); err != nil {
		return t, err
	}
	j := lab.Job("turn", p.shared, false, jobspec.Resources{Cores: 1, Memory: 64 * jobspec.MiB, GPUs: 1}, 1,
		filepath.Join(p.shared, "bin", "trainer"), "-steps", fmt.Sprint(neverEnding), "-every", "0", "-log", "1",
		"-hidden", "8", "-pause", turnsStep.String(), "-dir", t.dir)
	j.Queue = "turns"
	j.Preemption = &jobspec.Preemption{Mode: jobspec.PreemptSuspend}
	j.Constraints = []jobspec.Constraint{{Attribute: "node.name", Value: turnsNode}}
	var err error
	t.id, err = submit(ctx, client, j)
	return t, err
}

// endTurn cancels a job, which saves, and reads what it has written.
func (p *proof) endTurn(ctx context.Context, client *api.Client, t *turn) error {
	if err := client.Cancel(ctx, t.id, "the part with turns is over"); err != nil {
		return err
	}
	if _, err := awaitEnd(ctx, client, t.id, patience); err != nil {
		return err
	}
	all, err := training.Lives(filepath.Join(t.dir, training.File))
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("job %d has had %s", t.id, countText(len(all), "attempt"))
	}
	return err
}

// stepsOf returns at which step each job is by its heartbeats.
func stepsOf(jobs []turn) []int {
	steps := make([]int, len(jobs))
	for i, t := range jobs {
		// what cannot be read now has not come on: the judgement says so
		if all, _ := training.Lives(filepath.Join(t.dir, training.File)); len(all) > 0 {
			steps[i] = all[len(all)-1].To
		}
	}
	return steps
}

// awaitBeats waits until all jobs take steps.
func awaitBeats(ctx context.Context, jobs []turn) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, t := range jobs {
		for stepsOf([]turn{t})[0] == 0 {
			if !lab.Sleep(ctx, 50*time.Millisecond) {
				return fmt.Errorf("job %d does not begin", t.id)
			}
		}
	}
	return nil
}

// measure returns how many steps some jobs do in a second, all together.
func measure(ctx context.Context, jobs []turn, length time.Duration) (float64, error) {
	before, began := total(stepsOf(jobs)), time.Now()
	if !lab.Sleep(ctx, length) {
		return 0, context.Cause(ctx)
	}
	return float64(total(stepsOf(jobs))-before) / time.Since(began).Seconds(), nil
}

func total(steps []int) (sum int) {
	for _, n := range steps {
		sum += n
	}
	return sum
}

// jain is Jain's index of fairness: 1, all have the same; 1/n, one has all.
func jain(steps []int) float64 {
	var sum, squares float64
	for _, n := range steps {
		sum, squares = sum+float64(n), squares+float64(n)*float64(n)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(steps)) * squares)
}

// judgeTurns compares the steps of the jobs with the steps of one job for each GPU. The speed is in
// steps a second.
func (p *proof) judgeTurns(jobs []turn, done []int, took time.Duration, speed float64, kills []takeOver) {
	var wrong complaints
	fair, lost := jain(done), 1-float64(total(done))/(speed*took.Seconds())
	if fair < leastJain {
		wrong.add("Jain's index is below %.2f: %v steps", leastJain, done)
	}
	if lost > mostLost {
		wrong.add("more than %.0f %% of the training steps are lost", 100*mostLost)
	}
	p.tell("turns", wrong,
		"%d trainings on %d GPUs for %.1f min with %s of the leader: Jain's index %.4f, %.1f %% of the steps lost",
		len(jobs), gpus, took.Minutes(), countText(len(kills), "kill"), fair, 100*lost)
	pauses, resumes := p.switches(jobs, kills)
	wrong = nil
	if len(pauses) < turnsJobs || len(resumes) < turnsJobs-1 {
		wrong.add("too few to judge")
	}
	if pauses.at(99) > mostSwitch || resumes.at(99) > mostSwitch {
		wrong.add("it takes longer than %v", mostSwitch)
	}
	p.tell("switches", wrong, "to suspend: %v; to resume: %v (without those during a change of the leader)", pauses,
		resumes)
}

// switches returns how long it took to suspend the jobs and to have them go on, where a leader was
// there all the time.
func (p *proof) switches(jobs []turn, kills []takeOver) (pauses, resumes spread) {
	of, asked := map[model.JobID]bool{}, map[model.JobID]time.Time{}
	for _, t := range jobs {
		of[t.id] = true
	}
	took := func(e api.Event) spread {
		if touched(kills, asked[e.Job], e.At.Time) {
			return nil
		}
		return spread{e.At.Sub(asked[e.Job])}
	}
	for _, e := range p.log.sorted() {
		if !of[e.Job] || e.At == nil {
			continue
		}
		switch model.EventType(e.Type) {
		case model.EventSuspending, model.EventResuming:
			asked[e.Job] = e.At.Time
		case model.EventSuspended:
			pauses = append(pauses, took(e)...)
		case model.EventContinued:
			resumes = append(resumes, took(e)...)
		}
	}
	return pauses, resumes
}

var lossLine = regexp.MustCompile(`step (\d+) of \d+  loss (\S+)`)

// judgeLosses runs as many steps again, undisturbed, and compares the losses.
func (p *proof) judgeLosses(ctx context.Context, name string, jobs []turn) error {
	var wrong complaints
	for _, t := range jobs {
		out, err := p.cluster.Rota(ctx, "logs", fmt.Sprint(t.id)).Output()
		if err != nil {
			return fmt.Errorf("output of job %d: %w", t.id, err)
		}
		lines := lossLine.FindAllStringSubmatch(string(out), -1)
		if len(lines) == 0 {
			return fmt.Errorf("job %d has printed no loss", t.id)
		}
		first, _ := strconv.Atoi(lines[0][1]) // the pattern has digits there
		for i, line := range lines {
			if line[1] != strconv.Itoa(first+i) {
				wrong.add("job %d printed step %s after step %d", t.id, line[1], first+i-1)
				break
			}
		}
		last := lines[len(lines)-1]
		alone, err := exec.CommandContext(ctx, filepath.Join(p.bin, "trainer"), "-steps", last[1], "-log", last[1], "-hidden",
			"8").Output()
		if err != nil {
			return errors.Join(fmt.Errorf("an undisturbed run: %w", err), ctx.Err())
		}
		if !strings.Contains(string(alone), "loss "+last[2]+"\n") {
			wrong.add("job %d has loss %s at step %s, an undisturbed run %s", t.id, last[2], last[1], alone)
		}
	}
	p.tell(name, wrong, "%s, each step once, with the loss of an undisturbed run",
		countText(len(jobs), "training"))
	return nil
}
