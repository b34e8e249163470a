package steps

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/cmd/rota/slurm/steps/pmi"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/noded/oci/launch"
)

// With --mpi=pmi2 srun answers the processes of an MPI program. Each task starts as a copy of srun
// (pmiTask) in its container; the copy connects the task to this srun. pmiVariable holds the
// address of this srun.
const (
	pmiTask     = "--rota-pmi-task"
	pmiVariable = "ROTA_PMI"
)

// offerPMI prepares a request so that its tasks can find each other by PMI.
func (s *stepRun) offerPMI() (stop func(), err error) {
	l, err := pmi.Listen()
	if err != nil {
		return nil, fmt.Errorf("mpi/pmi2: %w", err)
	}
	s.pmi = l
	eachPart(s.request, func(r *api.StepRequest) {
		if r == s.request || r.Env != nil {
			r.Env = append(r.Env, pmiVariable+"="+l.Address.String())
		}
		for i := range r.Programs {
			p := &r.Programs[i]
			p.Argv = slices.Concat([]string{launch.BinDir + "/srun", pmiTask}, p.Argv)
		}
	})
	return l.Close, nil
}

// beginPMI starts to answer the processes after the step began.
func (s *stepRun) beginPMI(b api.StepBegun) {
	name := fmt.Sprintf("%d.%d", b.Job, b.Step)
	s.pmi.Begin(pmi.NewServer(name, s.output.nodes, func(rank int, why string) {
		s.Errorf("mpi/pmi2: task %d aborts the program: %s", rank, why)
		_ = s.conn.Write(stream.Frame{Kind: stream.Signal, Task: stream.AllTasks, Data: []byte("SIGKILL")})
	}))
}

// runPMITask connects a task to the srun that started it, and then executes the task's program.
func runPMITask(ctx context.Context, t *tool.Tool, words []string) error {
	addr, err := pmi.ParseAddress(t.Getenv(pmiVariable))
	if err != nil || len(words) == 0 {
		return errors.Join(err, errors.New("only srun --mpi=pmi2 starts tasks in this way"))
	}
	rank, err := strconv.Atoi(t.Getenv("SLURM_PROCID"))
	if err != nil {
		return fmt.Errorf("SLURM_PROCID: %w", err)
	}
	path, err := exec.LookPath(words[0])
	if err != nil {
		return err
	}
	conn, size, err := addr.Dial(ctx, rank)
	if err != nil {
		return fmt.Errorf("mpi/pmi2: srun cannot be reached from %s: %w", t.Getenv("SLURMD_NODENAME"), err)
	}
	f, err := conn.File()
	if err != nil {
		return err
	}
	fd := f.Fd() // Fd switches the file to blocking mode
	if _, err := unix.FcntlInt(fd, unix.F_SETFD, 0); err != nil {
		return err
	}
	env := slices.DeleteFunc(t.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, pmiVariable+"=") || strings.HasPrefix(entry, "PMI_")
	})
	env = append(env, fmt.Sprintf("PMI_FD=%d", fd), fmt.Sprintf("PMI_RANK=%d", rank), fmt.Sprintf("PMI_SIZE=%d", size),
		"PMI_JOBID="+t.Getenv("SLURM_JOB_ID")+"."+t.Getenv("SLURM_STEP_ID"))
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, words, env))
}
