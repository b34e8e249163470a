package steps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/follow"
	"github.com/rota-hpc/rota/cmd/rota/input"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec/script"
)

// sallocRun is one run of salloc: an allocation and its command.
type sallocRun struct {
	*allocation
	words   []string
	noShell bool
	kill    syscall.Signal // sent to the command when the allocation is revoked; 0: none
}

// salloc holds nodes while a command or a shell runs on this machine and starts steps on the nodes.
func salloc(ctx context.Context, t *tool.Tool, args []string) error {
	if len(args) > 0 && t.About(args[0]) {
		return nil
	}
	flags, words, bad := script.SallocFlags(args)
	if len(bad) > 0 {
		return t.Refuse("", bad)
	}
	a := &sallocRun{allocation: &allocation{Tool: t}, words: words}
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
	// Terminal signals such as Ctrl-C also reach the command, for which they are meant.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	job, err := a.grant(ctx, signals)
	if err != nil || a.noShell {
		return err
	}
	return a.run(ctx, path, job, signals)
}

// ownFlags parses the flags that only salloc has; a.flags keeps the others.
func (a *sallocRun) ownFlags(flags []script.Flag) error {
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
	text, has := given["immediate"]
	if err := a.readImmediate(text, has); err != nil {
		return err
	}
	text, has = given["kill-command"]
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

// run runs the command, then releases the allocation.
func (a *sallocRun) run(parent context.Context, path string, job *api.Job, signals <-chan os.Signal) error {
	ctx, stop := context.WithCancel(parent)
	defer stop()
	cmd := exec.Command(path, a.words[1:]...) //nolint:gosec,noctx // the user's command may be any program
	cmd.Args[0] = a.words[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.Stdin, a.Stdout, a.Stderr
	cmd.Env = a.environment(a.Environ(), job, a.clusterName(ctx))
	for _, f := range a.flags {
		if f.Name == "chdir" {
			cmd.Dir = f.Value
		}
	}
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
				_ = cmd.Process.Signal(a.kill) // the command may have ended
			}
			a.say("Job allocation %d has been revoked.", a.id)
		case s := <-signals:
			if s == syscall.SIGTERM || s == syscall.SIGHUP {
				if held {
					held = false
					a.release(0, int(s.(syscall.Signal)))
				}
				over = nil
				_ = cmd.Process.Signal(s) // the command may have ended
			}
		}
	}
}

// overAgain returns a channel that closes when the job no longer holds its nodes.
func (a *sallocRun) overAgain(ctx context.Context) <-chan struct{} {
	session := a.silently() // the command owns the terminal, so print nothing
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

// commandEnd returns the exit code of salloc after its command ended.
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

// waitStatus returns the exit code of a command, or the signal that ended it.
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
