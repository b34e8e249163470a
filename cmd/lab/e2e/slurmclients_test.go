package e2e

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
)

// slurmClient is a cluster of rota dev with Slurm's names, for a client that runs as a user.
type slurmClient struct {
	*devWorld
	addr string
}

// newSlurmClient starts a cluster for a client that needs these files of testdata/slurm, and commands
// under these names of Slurm. It skips the test if the machine has not the client itself, as a command,
// or as a module of Python.
func newSlurmClient(t *testing.T, client, module string, names []string, files ...string) *slurmClient {
	t.Helper()
	if _, err := exec.LookPath(client); err != nil {
		t.Skipf("needs %s: install Debian's package of that name", filepath.Base(client))
	}
	if module != "" && exec.Command(client, "-c", "import "+module).Run() != nil {
		t.Skipf("needs the module %s of Python: install Debian's package python3-%s", module, module)
	}
	w := newDevWorld(t)
	if err := os.Chmod(w.from, 0o777); err != nil { //nolint:gosec // the client writes there, as another user
		t.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(filepath.Join("testdata", "slurm", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(w.from, name), b, 0o755) //nolint:gosec // the client runs it
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s := &slurmClient{w, w.runDev("--slurm", "--nodes", "1", "--cores", "8")}
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(w.dir, "slurm", name)); errors.Is(err, fs.ErrNotExist) {
			t.Skipf("needs %s, which is no name of rota yet", name)
		}
	}
	return s
}

// run runs the client as the user of the jobs of rota dev, and returns what it prints.
func (s *slurmClient) run(args ...string) (stdout, stderr string) {
	s.t.Helper()
	var out, said bytes.Buffer
	cmd := exec.CommandContext(s.ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.from, &out, &said
	cmd.Env = []string{"PATH=" + filepath.Join(s.dir, "slurm") + ":" + bin + ":/usr/bin:/bin",
		"HOME=" + s.from, "ROTA_ADDR=" + s.addr, "LANG=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if err := cmd.Run(); err != nil {
		s.t.Fatalf("%q: %v\n%s\n%s\n%s", args, err, &out, &said, s.outputs())
	}
	return out.String(), said.String()
}

// outputs are the files that jobs have written.
func (s *slurmClient) outputs() string {
	var all strings.Builder
	for _, pattern := range []string{"*.out", "*.err"} {
		paths, _ := filepath.Glob(filepath.Join(s.from, pattern))
		for _, path := range paths {
			b, _ := os.ReadFile(path)
			all.WriteString(path + ":\n" + string(b))
		}
	}
	return all.String()
}

// noJobsLeft notices jobs that the client has not ended. It waits for those that are about to end.
func (s *slurmClient) noJobsLeft() {
	s.t.Helper()
	client, err := api.Dial(s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	begun, after := time.Now(), uint64(0)
	for {
		list, _, err := client.Jobs(s.ctx, api.JobFilter{}, api.Read{After: after, Wait: 10 * time.Second})
		switch {
		case err != nil:
			s.t.Fatal(err)
		case len(list.Items) == 0:
			return
		case time.Since(begun) > time.Minute:
			s.t.Fatalf("the client has left job %d, which is %s", list.Items[0].ID, list.Items[0].State)
		}
		after = list.Index
	}
}

// TestSlurmNames: what users do under Slurm's names, with real containers.
func TestSlurmNames(t *testing.T) {
	s := newSlurmClient(t, "bash", "", []string{"sbatch", "srun", "scancel"}, "names.sh", "job.sh")
	out, said := s.run("bash", "names.sh")
	const want = `the script ended with 7
rank 0 of 2
rank 1 of 2
srun ended with 3
sbatch ended with 5
of rota
CANCELLED
scancel ended with 0
`
	const unknown = "scancel: error: Kill job error on job id 99999: Invalid job id specified\n"
	if out != want || !strings.Contains(said, unknown) {
		t.Errorf("it says\n%swant\n%s%s\n%s", out, want, said, s.outputs())
	}
	s.noJobsLeft()
}

// debianPython is that for which Debian's packages are.
const debianPython = "/usr/bin/python3"

// TestDaskOnSlurm: workers of dask are jobs, do what they are to, and are cancelled.
func TestDaskOnSlurm(t *testing.T) {
	s := newSlurmClient(t, debianPython, "distributed", []string{"sbatch", "scancel"}, "dask_cluster.py")
	out, said := s.run(debianPython, "dask_cluster.py")
	if out != "sum 285\njobs 2\n" {
		t.Errorf("it says %q\n%s\n%s", out, said, s.outputs())
	}
	s.noJobsLeft()
}

// TestSnakemakeOnSlurm: the rules of a workflow are jobs, whose states are asked for with sacct.
func TestSnakemakeOnSlurm(t *testing.T) {
	s := newSlurmClient(t, "snakemake", "", []string{"sbatch", "scancel", "sacct"}, "Snakefile", "status.sh")
	_, said := s.run("snakemake", "--jobs", "4", "--latency-wait", "20", "--cluster",
		"sbatch --parsable -o %j.out -c 1 --mem 512M", "--cluster-status", "./status.sh", "--cluster-cancel", "scancel")
	b, err := os.ReadFile(filepath.Join(s.from, "sum.txt"))
	if lines := strings.Count(string(b), "of job "); err != nil || lines != 3 || !strings.Contains(said, "4 of 4 steps") &&
		!strings.Contains(said, "5 of 5 steps") {
		t.Errorf("%v, the result is %q\n%s\n%s", err, b, said, s.outputs())
	}
	s.noJobsLeft()
}
