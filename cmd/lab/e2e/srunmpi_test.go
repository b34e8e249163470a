package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
)

// helloMPI adds up the ranks of an MPI program. With an argument it waits that many seconds at most in
// MPI_Finalize.
const helloMPI = `#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void leave(int signal) { _exit(0); }
int main(int argc, char **argv) {
	int rank, size, sum;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	printf("rank %d of %d, all together %d\n", rank, size, sum);
	fflush(stdout);
	if (argc > 1) {
		signal(SIGALRM, leave);
		alarm(atoi(argv[1]));
	}
	MPI_Finalize();
	return 0;
}
`

// installed skips a test on a machine without a program.
func installed(t *testing.T, pack, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("needs %s of Debian's package %s, which is not installed", program, pack)
	}
}

// compiled compiles an MPI program into a directory that jobs see.
func (w *world) compiled(cc, dir string) {
	w.t.Helper()
	w.must(os.Mkdir(dir, 0o755))
	file := filepath.Join(dir, "hello.c")
	w.must(os.WriteFile(file, []byte(helloMPI), 0o644))
	if out, err := exec.CommandContext(w.ctx, cc, "-o", filepath.Join(dir, "hello"), file).CombinedOutput(); err != nil {
		w.t.Fatalf("%s: %v\n%s", cc, err, out)
	}
}

// ranksOfFour is what four ranks of the program write.
func ranksOfFour() string {
	text := ""
	for rank := range 4 {
		text += fmt.Sprintf("rank %d of 4, all together 6\n", rank)
	}
	return text[:len(text)-1]
}

// Programs of the real MPICH find each other by srun, two on each of two nodes. Over TCP the UCX
// 1.13 of Debian 12 often hangs in MPI_Finalize, under MPICH's own mpiexec too. So four of them
// need not come to its end, and two may try again.
func TestSrunStartsMPICH(t *testing.T) {
	installed(t, "libmpich-dev", "mpicc.mpich")
	w := start(t, lab.Options{Controllers: 1, Nodes: 2})
	dir, id, out := w.script("mpich", "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=2 --mem=1G\n"+
		"until [ -e hello ]; do sleep 0.05; done\nexport UCX_TLS=tcp,self UCX_NET_DEVICES=lo\n"+
		"srun --mpi=pmi2 ./hello 5 2>errors\n"+
		"for t in 1 2 3 4 5 6 7 8; do timeout 20 srun --mpi=pmi2 -N2 -n2 ./hello >text 2>errors && cat text && break; done\n"+
		"srun --mpi=pmi2 -n1 -N1 ./hello\n")
	w.compiled("mpicc.mpich", filepath.Join(dir, "built"))
	w.must(os.Rename(filepath.Join(dir, "built", "hello"), filepath.Join(dir, "hello")))
	j := w.ends(id)
	want := "rank 0 of 1, all together 0\nrank 0 of 2, all together 1\n"
	want += strings.Replace(ranksOfFour(), "\n", "\nrank 1 of 2, all together 1\n", 1)
	if text := w.readFile(out); j.Code != "CD" || sortedLines(text) != want {
		t.Errorf("it ended as %s, and wrote\n%s, want, in any order\n%s", j.Code, text, want)
	}
}

// OpenMPI's own mpirun starts its daemons on the other nodes by srun.
func TestMPIRunOnNodes(t *testing.T) {
	installed(t, "openmpi-bin", "mpirun.openmpi")
	installed(t, "libopenmpi-dev", "mpicc.openmpi")
	w := start(t, lab.Options{Controllers: 1, Nodes: 2})
	dir, id, out := w.script("openmpi", "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=2 --mem=1G\n"+
		"until [ -e hello ]; do sleep 0.05; done\n"+
		"mpirun.openmpi --mca btl tcp,self --mca oob_tcp_if_include lo --mca btl_tcp_if_include lo ./hello\n")
	w.compiled("mpicc.openmpi", filepath.Join(dir, "built"))
	w.must(os.Rename(filepath.Join(dir, "built", "hello"), filepath.Join(dir, "hello")))
	j := w.ends(id)
	if text := w.readFile(out); j.Code != "CD" || sortedLines(text) != ranksOfFour() {
		t.Errorf("it ended as %s, and wrote\n%s, want, in any order\n%s", j.Code, text, ranksOfFour())
	}
}
