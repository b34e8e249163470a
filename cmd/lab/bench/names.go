package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/creack/pty"

	"github.com/rota-hpc/rota/cmd/lab"
)

// Options of the calls of Slurm's commands.
const (
	namesSubmissions = 200    // of one script, one after the other
	namesJobs        = 10_000 // in the lists of squeue and sacct
	namesLists       = 11     // calls of each
	namesSteps       = 1000   // of true, in one allocation
	namesRounds      = 10     // turns in which the steps are taken
	namesWide        = 8      // steps at once
	namesKeys        = 500
)

// named is one of two systems that have the same commands.
type named struct {
	slurm bool
	path  string   // folder of the commands; empty for those on PATH
	env   []string // beside that of this process
	dir   string   // shared with its jobs
}

func (s *named) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.path, name), args...)
	cmd.Env = append(os.Environ(), s.env...)
	cmd.Dir = s.dir
	return cmd
}

// measureNames measures the commands under Slurm's names, and Slurm's own in alternation.
func measureNames(ctx context.Context, b *bench) error {
	return b.with(ctx, "names", 1, 1, func(c *lab.Cluster) error {
		both, err := b.named(ctx, c)
		if err != nil {
			return err
		}
		for _, measure := range []func(context.Context, []*named) error{
			b.namesSubmit, b.namesEcho, b.namesInSteps, b.namesList,
		} {
			if err := measure(ctx, both); err != nil {
				return err
			}
		}
		return nil
	})
}

// named returns Rota under Slurm's names, and Slurm where it runs.
func (b *bench) named(ctx context.Context, c *lab.Cluster) ([]*named, error) {
	folder := filepath.Join(c.Shared[0], "slurm")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return nil, err
	}
	for _, name := range []string{"sbatch", "squeue", "sacct", "scancel", "srun"} {
		if err := os.Symlink(filepath.Join(b.bin, "rota"), filepath.Join(folder, name)); err != nil {
			return nil, err
		}
	}
	both := []*named{{path: folder, env: []string{"ROTA_ADDR=" + c.Addr(), "NO_COLOR=1"}, dir: c.Shared[0]}}
	if !slurm(ctx) {
		fmt.Fprintf(b.out, "names: Slurm's column is skipped, %s: start one and set SLURM_CONF\n", noSlurm)
		return both, nil
	}
	folder, err := exec.LookPath("sbatch")
	if err != nil {
		return nil, err
	}
	dir, _, err := b.directory("names-slurm")
	return append(both, &named{slurm: true, path: filepath.Dir(folder), dir: dir}), err
}

// inTurn takes a measurement n times of each system, in alternation.
func inTurn(ctx context.Context, both []*named, n int,
	once func(*named) (time.Duration, error),
) ([][]time.Duration, error) {
	took := make([][]time.Duration, len(both))
	for range n {
		for i, s := range both {
			d, err := once(s)
			if err == nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				return nil, err
			}
			took[i] = append(took[i], d)
		}
	}
	return took, nil
}

// addNames adds the percentiles of what was taken in turn.
func (b *bench) addNames(what, goal string, took [][]time.Duration, percentiles ...int) {
	for _, p := range percentiles {
		rota, peer := percentile(took[0], p), noSlurm
		if len(took) > 1 {
			other := percentile(took[1], p)
			peer = fmt.Sprintf("Slurm %.1f ms: %.2f of it; load %s", other, rota/other, loadAverage())
		}
		b.add(fmt.Sprintf("%s, p%d", what, p), rota, "ms", goal, peer)
	}
}

// loadAverage is how many processes wanted a processor in the last minute, on average.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err.Error()
	}
	return strings.Fields(string(text))[0]
}

func failed(cmd *exec.Cmd, out []byte, err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		out = append(out, exit.Stderr...)
	}
	return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, out)
}

// submit submits a script and returns the job's id.
func (s *named) submit(ctx context.Context, script string, flags ...string) (string, error) {
	file := filepath.Join(s.dir, "script.sh")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		return "", err
	}
	cmd := s.command(ctx, "sbatch", append(append([]string{"--parsable", "-o", "/dev/null"}, flags...), file)...)
	out, err := cmd.Output()
	if err != nil {
		return "", failed(cmd, out, err)
	}
	return strings.TrimSpace(string(out)), nil
}

func (b *bench) namesSubmit(ctx context.Context, both []*named) error {
	took, err := inTurn(ctx, both, b.repeat(namesSubmissions), func(s *named) (time.Duration, error) {
		begun := time.Now()
		_, err := s.submit(ctx, "true\n", "--hold")
		return time.Since(begun), err
	})
	if err != nil {
		return err
	}
	b.addNames("sbatch of one held script", "", took, 50, 99)
	return nil
}

// namesList measures lists of many jobs that wait, and of as many that have ended.
func (b *bench) namesList(ctx context.Context, both []*named) error {
	n := b.repeat(namesJobs)
	for _, s := range both {
		if err := s.fill(ctx, n); err != nil {
			return err
		}
	}
	took, err := inTurn(ctx, both, namesLists, func(s *named) (time.Duration, error) {
		return s.list(ctx, n, "squeue")
	})
	if err != nil {
		return err
	}
	b.addNames(fmt.Sprintf("squeue of %d jobs", n), "", took, 50)
	took, err = inTurn(ctx, both, 1, func(s *named) (time.Duration, error) {
		cmd := s.command(ctx, "scancel", "-u", "root")
		begun := time.Now()
		out, err := cmd.Output()
		if err != nil {
			return 0, failed(cmd, out, err)
		}
		return time.Since(begun), nil
	})
	if err != nil {
		return err
	}
	b.addNames(fmt.Sprintf("scancel -u of %d jobs, once", n), "", took, 50)
	ended := []string{"sacct", "-a", "-X", "-s", "CA", "-S", "now-1hour", "-E", "now"}
	for _, s := range both { // the accounting follows
		for _, err := s.list(ctx, n, ended...); err != nil; _, err = s.list(ctx, n, ended...) {
			select {
			case <-ctx.Done():
				return errors.Join(context.Cause(ctx), err)
			case <-time.After(time.Second):
			}
		}
	}
	took, err = inTurn(ctx, both, namesLists, func(s *named) (time.Duration, error) { return s.list(ctx, n, ended...) })
	if err != nil {
		return err
	}
	b.addNames(fmt.Sprintf("sacct of %d ended jobs", n), "", took, 50)
	return nil
}

// fill submits n jobs that wait.
func (s *named) fill(ctx context.Context, n int) error {
	var wg sync.WaitGroup
	errs := make([]error, slurmClients)
	for i := range slurmClients {
		wg.Go(func() {
			for k := i; k < n && errs[i] == nil; k += slurmClients {
				cmd := s.command(ctx, "sbatch", "--hold", "-o", "/dev/null", "-J", fmt.Sprintf("name%d", k), "--wrap", "true")
				if out, err := cmd.Output(); err != nil {
					errs[i] = failed(cmd, out, err)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// list times a list, which must have n jobs at least.
func (s *named) list(ctx context.Context, n int, args ...string) (time.Duration, error) {
	cmd := s.command(ctx, args[0], args[1:]...)
	begun := time.Now()
	out, err := cmd.Output()
	took := time.Since(begun)
	if err != nil {
		return 0, failed(cmd, out, err)
	}
	if lines := strings.Count(string(out), "\n"); lines < n {
		return 0, fmt.Errorf("%s has %d lines of %d jobs", strings.Join(args, " "), lines, n)
	}
	return took, nil
}

// stepper is a batch script that takes steps when it is told to. Files name the turns, and say that it
// has ended.
const stepper = `cd %s
trap 'touch over' EXIT
turn=0
while [ $turn -lt %d ]; do
  until [ -e go.$turn ]; do sleep 0.05; done
  begun=$(date +%%s%%N)
  %s
  echo $(($(date +%%s%%N) - begun)) > took.$turn.part
  mv took.$turn.part took.$turn
  turn=$((turn + 1))
done
`

// namesInSteps measures steps of true in one allocation: one after the other, and eight at once.
func (b *bench) namesInSteps(ctx context.Context, both []*named) error {
	n := max(namesWide, b.repeat(namesSteps)/namesRounds)
	n -= n % namesWide
	one := fmt.Sprintf("i=0; while [ $i -lt %d ]; do srun -n1 --exact true || exit; i=$((i + 1)); done", n)
	wide := fmt.Sprintf("i=0; while [ $i -lt %d ]; do "+
		"for k in %s; do { srun -n1 --exact true || touch failed; } & done; wait; "+
		"[ ! -e failed ] || exit; i=$((i + %d)); done",
		n, strings.Repeat(" k", namesWide), namesWide)
	for _, m := range []struct{ what, script string }{
		{"a step of true in an allocation", one},
		{fmt.Sprintf("the same, %d at once", namesWide), wide},
	} {
		took, err := b.inAllocation(ctx, both, m.script)
		if err != nil {
			return err
		}
		for i := range took {
			for k := range took[i] {
				took[i][k] /= time.Duration(n)
			}
		}
		b.addNames(fmt.Sprintf("%s, %d in %d turns", m.what, n*namesRounds, namesRounds), "", took, 50)
	}
	return nil
}

// inAllocation runs a part of a script in turn, in one allocation of each system.
func (b *bench) inAllocation(ctx context.Context, both []*named, part string) ([][]time.Duration, error) {
	turns := map[*named]int{}
	var err error
	folder := map[*named]string{}
	for _, s := range both {
		if folder[s], err = os.MkdirTemp(s.dir, "steps-"); err != nil {
			return nil, err
		}
		if _, err := s.submit(ctx, fmt.Sprintf(stepper, folder[s], namesRounds, part), "-n", strconv.Itoa(namesWide),
			"--mem-per-cpu=1G"); err != nil {
			return nil, err
		}
	}
	return inTurn(ctx, both, namesRounds, func(s *named) (time.Duration, error) {
		turn := turns[s]
		turns[s]++
		if err := os.WriteFile(filepath.Join(folder[s], fmt.Sprintf("go.%d", turn)), nil, 0o644); err != nil {
			return 0, err
		}
		for {
			_, over := os.Stat(filepath.Join(folder[s], "over"))
			text, err := os.ReadFile(filepath.Join(folder[s], fmt.Sprintf("took.%d", turn)))
			switch {
			case err == nil:
				took, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
				return time.Duration(took), err
			case over == nil:
				return 0, errors.New("a step has failed, or the job of the steps was ended")
			}
			select {
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
}

// namesEcho measures how long a key takes until the program at the other end of srun --pty has
// written it.
func (b *bench) namesEcho(ctx context.Context, both []*named) error {
	terminals := map[*named]*os.File{}
	for _, s := range both {
		cmd := s.command(ctx, "srun", "--pty", "sh", "-c", "stty raw -echo; echo ready; exec cat")
		terminal, err := pty.Start(cmd)
		if err != nil {
			return err
		}
		defer func() {
			terminal.Close()
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // killed
		}()
		if err := until(terminal, "ready"); err != nil {
			return err
		}
		terminals[s] = terminal
	}
	took, err := inTurn(ctx, both, b.repeat(namesKeys), func(s *named) (time.Duration, error) {
		begun := time.Now()
		if _, err := terminals[s].WriteString("x"); err != nil {
			return 0, err
		}
		err := until(terminals[s], "x")
		return time.Since(begun), err
	})
	if err != nil {
		return err
	}
	b.addNames("a key at srun --pty until the program writes it", "<= 20", took, 50, 99)
	return nil
}

// until reads a terminal until it has shown a text.
func until(terminal *os.File, text string) error {
	var seen []byte
	buffer := make([]byte, 4096)
	for !strings.Contains(string(seen), text) {
		n, err := terminal.Read(buffer)
		if err != nil {
			return fmt.Errorf("the terminal shows %q and not %q: %w", seen, text, err)
		}
		seen = append(seen, buffer[:n]...)
	}
	return nil
}
