package dev

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// devMark is the environment variable that marks the processes of a dev directory.
const devMark = "ROTA_DEV_DIR"

// maxDeaths within deathWindow end the attempts to restart a daemon.
const (
	maxDeaths   = 4
	deathWindow = 20 * time.Second
)

// tailLines is how many lines of a log are shown when its daemon has died.
const tailLines = 15

// daemon is a child process.
type daemon struct {
	daemonSpec
	log    string
	cmd    *exec.Cmd
	done   chan struct{} // closed when the process has ended
	deaths []time.Time
}

// startDaemon starts a daemon that dies with this process. It is outside the terminal's process
// group, so Ctrl-C does not reach it.
func (d *devCluster) startDaemon(spec daemonSpec) (*daemon, error) {
	p := &daemon{daemonSpec: spec, log: d.path(filepath.Join("log", spec.name+".log"))}
	return p, d.launch(p)
}

// launch starts the process of a daemon, the first time or after a death.
func (d *devCluster) launch(p *daemon) error {
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("log of %s: %w", p.name, err)
	}
	defer out.Close()
	p.cmd = exec.Command(filepath.Join(d.bin, p.program), p.args...)
	p.cmd.Dir = d.dir
	p.cmd.Env = append(os.Environ(), devMark+"="+d.dir)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.done = make(chan struct{})
	done, cmd := p.done, p.cmd
	go func() {
		_ = cmd.Wait() // ProcessState says how it ended
		close(done)
		d.died <- p
	}()
	return nil
}

// diedTooOften records a death and reports whether there were too many.
func (p *daemon) diedTooOften() bool {
	now := time.Now()
	p.deaths = append(p.deaths, now)
	n := len(p.deaths)
	return n >= maxDeaths && now.Sub(p.deaths[n-maxDeaths]) < deathWindow
}

// reason returns how the daemon ended.
func (p *daemon) reason() error {
	if p.cmd.ProcessState == nil {
		return errors.New("still running")
	}
	return errors.New(p.cmd.ProcessState.String())
}

// tail returns the end of the daemon's log.
func (p *daemon) tail() string {
	b, err := os.ReadFile(p.log)
	if err != nil || len(b) == 0 {
		return "\n" + p.log + " is empty"
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	return "\nthe end of " + p.log + ":\n  " + strings.Join(lines, "\n  ")
}

func (d *devCluster) allTails() string {
	var b strings.Builder
	for _, p := range d.daemons {
		b.WriteString(p.tail())
	}
	return b.String()
}

// end stops daemons in parallel, and kills those that do not stop.
func (d *devCluster) end(daemons []*daemon) {
	for _, p := range daemons {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	}
	deadline := time.NewTimer(devDaemonWait)
	defer deadline.Stop()
	late := false
	for _, p := range daemons {
		if !late {
			select {
			case <-p.done:
				continue
			case <-deadline.C:
				late = true
			case <-d.signals:
				late = true
			}
		}
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}
