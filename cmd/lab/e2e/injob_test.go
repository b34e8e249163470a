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

// batch writes a batch script and submits it. Its output goes to the file that is returned.
func (w *world) batch(name, text string) (id, out string) {
	w.t.Helper()
	dir := w.scratch(name)
	script := filepath.Join(dir, "job.sh")
	w.must(os.WriteFile(script, []byte(text), 0o755))
	out = filepath.Join(dir, "out")
	return strings.TrimSpace(w.ok("submit", "--parsable", "-D", dir, "-o", out, "-t", "5", script)), out
}

// readFile returns a file's text.
func (w *world) readFile(path string) string {
	w.t.Helper()
	b, err := os.ReadFile(path)
	w.must(err)
	return string(b)
}

// isRunning is what a script waits for, as its first command may come before the controllers know that
// it runs.
const isRunning = `until [ "$(squeue -h -j $SLURM_JOB_ID -o %T)" = RUNNING ]; do sleep 0.05; done` + "\n"

// TestJobsRequeueThemselves: three jobs ask to be requeued. They are a trap of a shell, a program
// like submitit's, and a task of an array like Lightning's. Each starts again under its id, until
// it has done its work, and its output goes on in the same file.
func TestJobsRequeueThemselves(t *testing.T) {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("needs python3")
	}
	w := start(t, lab.Options{Controllers: 3, Nodes: 1})
	const python = "#!/usr/bin/python3\nimport os, subprocess, time\n" +
		"print('attempt', os.environ.get('SLURM_RESTART_COUNT', '0'), flush=True)\n" +
		"if int(os.environ.get('SLURM_RESTART_COUNT', '0')) < 2:\n"
	jobs := map[string]string{} // id to file
	for name, text := range map[string]string{
		"trap": "#!/bin/bash\n" + isRunning + "echo attempt ${SLURM_RESTART_COUNT:-0}\n" +
			"trap 'scontrol requeue $SLURM_JOB_ID; wait' USR1\n" +
			"if [ ${SLURM_RESTART_COUNT:-0} -lt 2 ]; then\n  sleep 100 &\n  kill -USR1 $$\n  wait\nfi\n",
		"exec": python + "  subprocess.run(['scontrol', 'requeue', os.environ['SLURM_JOB_ID']], check=True, timeout=60)\n" +
			"  time.sleep(100)\n",
		"alone": "#!/bin/sh\necho attempt ${SLURM_RESTART_COUNT:-0}\n" +
			"if [ ${SLURM_RESTART_COUNT:-0} -lt 2 ]; then rota requeue >/dev/null; sleep 100; fi\n",
	} {
		id, out := w.batch(name, text)
		jobs[id] = out
	}
	dir := w.scratch("array")
	script := filepath.Join(dir, "job.py")
	w.must(os.WriteFile(script, []byte(strings.Replace(python, "\n", "\n#SBATCH -a 3\n", 1)+
		"  job = os.environ['SLURM_ARRAY_JOB_ID'] + '_' + os.environ['SLURM_ARRAY_TASK_ID']\n"+
		"  assert os.system('scontrol requeue ' + job) == 0\n  time.sleep(100)\n"), 0o755))
	array := strings.TrimSpace(w.ok("submit", "--parsable", "-D", dir, "-o", filepath.Join(dir, "out"), "-t", "5", script))
	jobs[array+"_3"] = filepath.Join(dir, "out")
	for id, out := range jobs {
		j := w.ends(id)
		if j.Code != "CD" || len(j.Attempts) != 3 || j.Preemptions != (api.Preemptions{}) {
			t.Errorf("job %s ended as %s, attempts %+v", id, j.Code, j.Attempts)
		}
		if got, want := w.readFile(out), "attempt 0\nattempt 1\nattempt 2\n"; got != want {
			t.Errorf("job %s wrote %q, want %q", id, got, want)
		}
	}
}

// TestAJobsCommands asks from inside a job for it and for others, before and after a restart of its
// node's daemon. It changes itself alone.
func TestAJobsCommands(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 1})
	other, _ := w.batch("other", "#!/bin/sh\n"+isRunning+"echo up\nexec sleep 1000\n")
	w.until(other, "running", func(j api.Job) bool { return j.Code == "R" })
	id, out := w.batch("asks", fmt.Sprintf(`#!/bin/bash
other=%s
says() { "$@" >said 2>&1; echo "$* = $?: $(grep -v warning: said | head -n 1)"; }
%s
says squeue -h -j $SLURM_JOB_ID -o %%T
says squeue -h -j $other -o %%T
says scontrol requeue $other
says scontrol update JobId=$other Name=x
says rota cancel $other
says rota logs $other
says scancel $other
says sbatch --export=NONE job.sh
says sstat -n -j $SLURM_JOB_ID -o jobid
says rota submit --export=NONE job.sh
says rota node drain n1 --reason x
says scontrol show hostnames
says scontrol update JobId=$SLURM_JOB_ID Comment=inside
says squeue -h -j $SLURM_JOB_ID -o %%k
says sacct -nXP -j $SLURM_JOB_ID -o state,comment
says sinfo -h -o %%D
says scontrol update JobId=$SLURM_JOB_ID TimeLimit=4
rota status | head -n 1
touch up
until [ -e down ]; do sleep 0.05; done
says squeue -h -j $SLURM_JOB_ID -o %%T
touch again
until [ -e restarted ]; do sleep 0.05; done
says squeue -h -j $SLURM_JOB_ID -o %%l
PATH=$PWD:$PATH
printf '#!/bin/sh\necho mine\n' >squeue
chmod +x squeue
hash -r
says squeue
`, other, isRunning))
	dir := filepath.Dir(out)
	w.until(id, "ready", func(api.Job) bool { _, err := os.Stat(filepath.Join(dir, "up")); return err == nil })
	touch := func(name string) { w.must(os.WriteFile(filepath.Join(dir, name), nil, 0o644)) }
	n := w.node("n1")
	n.Kill()
	touch("down") // the command waits for the daemon
	w.must(n.Start())
	there := func(name string) bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
	w.wait("an answer after the restart", func() bool { return there("again") })
	touch("restarted")
	j := w.ends(id)
	text := w.readFile(out)
	if j.Code != "CD" || len(j.Attempts) != 1 {
		t.Errorf("it ended as %s, attempts %+v\n%s", j.Code, j.Attempts, text)
	}
	refused := "processes of a job can change only that job: this is job " + id
	w.wants(text, "squeue -h -j "+id+" -o %T = 0: RUNNING\n", "squeue -h -j "+other+" -o %T = 0: RUNNING\n",
		"scontrol requeue "+other+" = 1: scontrol: error: job "+other+": "+refused,
		"scontrol update JobId="+other+" Name=x = 1: scontrol: error: job "+other+": "+refused,
		"rota cancel "+other+" = 4: rota: job "+other+": "+refused,
		"scancel "+other+" = 1: scancel: error: Kill job error on job id "+other+": Access/permission denied: processes of",
		"sbatch --export=NONE job.sh = 1: sbatch: error: Batch job submission failed: "+refused,
		"sstat -n -j "+id+" -o jobid = 0: "+id+".batch",
		"rota submit --export=NONE job.sh = 4: rota: submit job.sh: "+refused,
		"rota node drain n1 --reason x = 4: rota: node n1: "+refused,
		"rota logs "+other+" = 4: rota: processes of a job can read the output",
		"scontrol show hostnames = 0: n1\n", "squeue -h -j "+id+" -o %k = 0: inside\n",
		"sacct -nXP -j "+id+" -o state,comment = 0: RUNNING|inside\n", "sinfo -h -o %D = 0: 1\n",
		"scontrol update JobId="+id+" TimeLimit=4 = 0: \n", "Job "+id+"  ",
		"squeue -h -j "+id+" -o %l = 0: 4:00\n", "squeue = 0: mine\n")
	if strings.Count(text, "-o %T = 0: RUNNING\n") != 3 {
		t.Errorf("after the restart:\n%s", text)
	}
	defer w.ends(other)
	defer w.ok("cancel", other)
	if o := w.status(other); o.Code != "R" || o.Attempt != 1 || o.Name == "x" {
		t.Errorf("the other job is %s, attempt %d, %s", o.Code, o.Attempt, o.Name)
	}
}
