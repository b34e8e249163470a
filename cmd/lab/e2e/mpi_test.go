package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
)

// mpiProgram adds up the ranks of an MPI program. With an argument it then works until it gets SIGUSR1,
// and asks for another attempt, unless a file with the argument's name is there.
const mpiProgram = `import os, signal, sys, time
from mpi4py import MPI
world = MPI.COMM_WORLD
print(f"rank {world.rank} of {world.size}, all together {world.allreduce(world.rank)}", flush=True)
if len(sys.argv) > 1 and not os.path.exists(sys.argv[1]):
    told = []
    signal.signal(signal.SIGUSR1, lambda *_: told.append(1))
    world.barrier()
    if world.rank == 0:
        open(sys.argv[1] + ".up", "w").write("up\n")
    while not world.allreduce(len(told)):
        time.sleep(0.01)
    if world.rank == 0:
        open(sys.argv[1], "w").close()
    world.barrier()
    MPI.Finalize()
    sys.exit(85)
`

func mpiWorld(t *testing.T) *world {
	needs(t, "OpenMPI", "openmpi-bin python3-mpi4py", "/usr/bin/python3", "-c", "import mpi4py.MPI")
	needs(t, "OpenMPI", "openmpi-bin", "mpirun", "--version")
	w := start(t, lab.Options{Controllers: 1, Nodes: 1, GPUs: 1})
	w.must(os.WriteFile(filepath.Join(w.shared, "ranks.py"), []byte(mpiProgram), 0o644))
	return w
}

// The real mpirun starts the ranks of a batch script on its node: as many as it has tasks, told so or not.
func TestMPIRun(t *testing.T) {
	w := mpiWorld(t)
	script := filepath.Join(w.shared, "ranks.sh")
	for _, command := range []string{"mpirun -n $SLURM_NTASKS", "mpirun"} {
		text := "#!/bin/bash\n#SBATCH --ntasks=4 --nodes=1\n" + command + " /usr/bin/python3 ranks.py\n"
		w.must(os.WriteFile(script, []byte(text), 0o755))
		id := strings.TrimSpace(w.ok("submit", "--parsable", script))
		j := w.ends(id)
		out := w.ok("logs", id)
		if j.Code != "CD" {
			t.Errorf("%s ended as %s, %s\n%s", command, j.Code, exitOf(j), out)
		}
		for rank := range 4 {
			w.wants(out, fmt.Sprintf("rank %d of 4, all together 6", rank))
		}
	}
}

// mpirun passes on a signal with which a job is asked to save, and the ranks' exit code.
func TestMPIRunPassesOnSignalAndExitCode(t *testing.T) {
	w := mpiWorld(t)
	dir := w.scratch("mpi")
	id := w.submit(fmt.Sprintf(`job "ranks" {
  checkpoint {
    path = %q
  }
  preemption {
    signal = "SIGUSR1"
  }
  task "ranks" {
    command = ["mpirun", "-n", 2, "/usr/bin/python3", "ranks.py", "%s/saved"]
    resources {
      cores  = 2
      memory = "512MiB"
    }
  }
}`, dir, dir))
	w.lines(filepath.Join(dir, "saved.up"), 1)
	w.ok("requeue", id)
	j := w.ends(id)
	if j.Code != "CD" || len(j.Attempts) != 2 || j.Attempts[0].ExitCode != 85 || j.Preemptions != (api.Preemptions{}) {
		t.Errorf("it ended as %s, attempts %+v\n%s", j.Code, j.Attempts, w.ok("logs", id))
	}
	w.wants(w.ok("logs", id), "rank 1 of 2, all together 1")
}
