// Package mps keeps the control daemon of NVIDIA's Multi-Process Service running on a node. The
// control daemon outlives the node daemon, as shims do.
package mps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/bundle"
	"github.com/rota-hpc/rota/noded/requirements"
	"github.com/rota-hpc/rota/noded/retry"
)

// script becomes the control daemon. /dev/shm is another directory for it, as for the programs that
// it serves: these must not see what else the machine has there. One server is for all users.
// Otherwise the jobs of one user would wait until those of another one have ended. Its process
// number is written down first: a node daemon that is killed meanwhile must find it again.
const script = `echo $$ >"$3" && mount --bind "$1" /dev/shm && exec "$2" -f -multiuser-server`

const (
	checkInterval = time.Second // between two looks whether the control daemon runs
	stable        = time.Minute // one that has run for so long is started again without a long wait
)

// Service is the one control daemon of MPS on this node. It outlives the node daemon, because jobs
// lose their GPU when it ends, and they go on while the node daemon is restarted. The next node
// daemon finds it by its process number, and recognises it by its environment.
type Service struct {
	dir     string // /run/rota-mps/NAME, which users can enter: the one of the data is closed to them
	shm     string // in memory, see [bundle.MPS]
	logs    string
	program string
	log     *slog.Logger
}

// New returns the service of a node with a data directory.
func New(node, dataDir string, log *slog.Logger) *Service {
	return &Service{dir: filepath.Join("/run/rota-mps", node), shm: "/dev/shm/rota-mps-" + node,
		logs: filepath.Join(dataDir, "mps"), program: requirements.MPSProgram, log: log}
}

func (m *Service) pipes() string { return filepath.Join(m.dir, "pipes") }

func (m *Service) pidFile() string { return filepath.Join(m.dir, "pid") }

// Place returns where programs reach the service.
func (m *Service) Place() bundle.MPS { return bundle.MPS{Pipes: m.pipes(), Shm: m.shm} }

// Prepare makes the directories that containers are given. Files that ended jobs have left in
// memory are removed while no worker is here.
func (m *Service) Prepare(empty bool) error {
	if err := errors.Join(os.MkdirAll(m.pipes(), 0o755), m.takeShm()); err != nil {
		return fmt.Errorf("directories of MPS: %w", err)
	}
	var errs []error
	if left, err := filepath.Glob(filepath.Join(m.shm, "*")); err == nil && empty { // the pattern is well formed
		for _, path := range left {
			errs = append(errs, os.RemoveAll(path))
		}
	}
	errs = append(errs, os.Chmod(m.shm, os.ModeSticky|0o777), os.MkdirAll(m.logs, 0o700))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("directories of MPS: %w", err)
	}
	return nil
}

// takeShm makes the directory in memory. Any user may write to the directory above it, so another
// user may have made a file of that name. Such a file is moved aside.
func (m *Service) takeShm() error {
	for range 100 { // a user in a loop is slower than this at one of them
		err := os.Mkdir(m.shm, 0o755)
		if err == nil {
			return nil
		}
		info, err2 := os.Lstat(m.shm)
		switch {
		case err2 == nil && info.IsDir() && ownedByUs(info):
			return nil
		case errors.Is(err2, os.ErrNotExist): // it was removed meanwhile
			continue
		case !errors.Is(err, os.ErrExist) || err2 != nil:
			return errors.Join(err, err2)
		}
		aside := fmt.Sprintf("%s.of-another-user.%d", m.shm, time.Now().UnixNano())
		if err := os.Rename(m.shm, aside); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		m.log.Warn("moved the directory of MPS aside, because another user had made it", "directory", m.shm, "to", aside)
	}
	return fmt.Errorf("another user keeps creating %s", m.shm)
}

func ownedByUs(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// environment is that of the control daemon. Its servers inherit it.
func (m *Service) environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "CUDA_MPS_PIPE_DIRECTORY=" + m.pipes(), m.mark()}
}

// mark is a variable of the control daemon that programs of jobs do not have.
func (m *Service) mark() string { return "CUDA_MPS_LOG_DIRECTORY=" + m.logs }

// Owns reports whether a process is the control daemon, or one of its servers, unless it is in a
// container, where anything may be claimed.
func (m *Service) Owns(pid int) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && slices.Contains(strings.Split(string(env), "\x00"), m.mark())
}

// find returns the process number of the control daemon, 0 if it does not run.
func (m *Service) find() int {
	text, err := os.ReadFile(m.pidFile())
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 0 || !m.Owns(pid) {
		return 0
	}
	return pid
}

// Run keeps a control daemon running until ctx ends, and leaves it running then.
func (m *Service) Run(ctx context.Context) error {
	var wait retry.Backoff
	for {
		began := time.Now()
		err := m.start()
		if err == nil {
			err = m.awaitEnd(ctx)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Since(began) >= stable {
			wait = retry.Backoff{}
		}
		m.log.Warn("MPS is not running, so new jobs share GPUs by time slices; restarting its control daemon",
			"err", err, "log", m.output())
		wait.Sleep(ctx)
	}
}

func (m *Service) output() string { return filepath.Join(m.logs, "output") }

// start starts a control daemon, unless one runs.
func (m *Service) start() error {
	if pid := m.find(); pid != 0 {
		m.log.Info("the control daemon of MPS is running", "pid", pid)
		return nil
	}
	if err := os.RemoveAll(m.pidFile()); err != nil {
		return err
	}
	out, err := os.Create(m.output()) // no pipe: it outlives this process
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command("/bin/sh", "-c", script, "sh", m.shm, m.program, m.pidFile())
	cmd.Env, cmd.Stdout, cmd.Stderr = m.environment(), out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Unshareflags: unix.CLONE_NEWNS}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // awaitEnd notices its end
	m.log.Info("starting the control daemon of MPS", "pid", cmd.Process.Pid)
	return nil
}

// awaitEnd waits until the control daemon has ended.
func (m *Service) awaitEnd(ctx context.Context) error {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if m.find() == 0 {
			return errors.New("it has ended")
		}
	}
}

// Quit has a control daemon end that an earlier node daemon has started, once the programs that use
// it have ended.
func (m *Service) Quit(ctx context.Context) {
	if m.find() == 0 {
		return
	}
	cmd := exec.CommandContext(ctx, m.program)
	cmd.Env, cmd.Stdin = m.environment(), strings.NewReader("quit\n")
	if out, err := cmd.CombinedOutput(); err != nil && ctx.Err() == nil {
		m.log.Warn("cannot stop the control daemon of MPS, which this node no longer uses", "err", err,
			"output", strings.TrimSpace(string(out)))
	}
}
