package actions

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/cmd/rota/slurm/slurmtest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// clientLines are what clients of Slurm submit: the command line, what is on standard input, and the
// directives of the script FILE.
var clientLines = []struct {
	client     string
	args       string
	stdin      string
	directives string
	want       string // on standard output
}{
	{"submitit", "FILE", "", `--array=0-3%2 --comment=x --cpus-per-task=4 --error=/p/%A_%a_0_log.err --exclude=n9
		--gpus-per-node=2 --job-name=submitit --mail-type=END --mail-user=a@b.c --mem=8GB --nodes=1 --ntasks-per-node=2
		--open-mode=append --output=/p/%A_%a_0_log.out --partition=gpu --signal=USR2@90 --time=60 --wckey=submitit`,
		"Submitted batch job 7\n"},
	{"submitit, other resources", "FILE", "", `--cpus-per-gpu=4 --gpus-per-node=2 --mem-per-gpu=8G --qos=normal
		--nodelist=n1 --dependency=afterok:3 --exclusive --constraint=a100`, "Submitted batch job 7\n"},
	{"submitit, by task", "FILE", "", "--gpus-per-task=1 --ntasks-per-node=2 --mem-per-cpu=1G --gres=gpu:2",
		"Submitted batch job 7\n"},
	{"dask-jobqueue", "FILE", "", `-J dask-worker -e /l/dask-worker-%J.err -o /l/dask-worker-%J.out -p gpu -A nlp -n 1 -N 1
		--cpus-per-task=2 --mem=4G -t 00:30:00`, "Submitted batch job 7\n"},
	{"snakemake", `--parsable --job-name UUID --output /l/%j.log --export=ALL --comment rule_a -A nlp -p gpu -t 10
		--mem 1000 --requeue --exclude=n8,n9 --ntasks=1 --gpus=a100:1 --cpus-per-task=2 -D /tmp --wrap=hostname`,
		"", "", "7\n"},
	{"snakemake, of a cluster", `--parsable --job-name UUID --output /l/%j.log --export=ALL --comment rule_a --clusters dgx
		-t 10 -C fast --qos=normal --mem-per-cpu 500 --nodes=1 --ntasks=1 --ntasks-per-gpu=1 --gres=gpu:a100:1
		--cpus-per-task=2 -D /tmp /dev/stdin`, slurmtest.Body, "", "7;dgx\n"},
	{"snakemake, array", "--parsable --array=1-5 --output /l/%A_%a.log --wrap=hostname", "", "", "7\n"},
	{"nextflow", "FILE", "", `-J nf-task -o /w/.command.log --no-requeue  --signal B:USR2@30 -c 2 -t 01:00:00 --mem 2048M
		-p gpu -A nlp --array 0-3`, "Submitted batch job 7\n"},
	{"nextflow, fusion", "", slurmtest.Body, "", "Submitted batch job 7\n"},
	{"batchspawner", "--parsable", `#!/bin/bash
#SBATCH --output=/home/ann/jupyterhub_slurmspawner_%j.log
#SBATCH --job-name=spawner-jupyterhub
#SBATCH --chdir=/home/ann
#SBATCH --export=PATH,JUPYTERHUB_API_TOKEN
#SBATCH --get-user-env=L
#SBATCH --partition=gpu
#SBATCH --time=8:00:00
#SBATCH --mem=4G
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=2
set -euo pipefail
trap 'echo SIGTERM received' TERM
srun jupyterhub-singleuser
echo "jupyterhub-singleuser ended gracefully"
`, "", "7\n"},
	{"Open OnDemand", `-D /tmp -J sys/dashboard -i /dev/null -o /l/out.log -e /l/err.log -p gpu --priority 50
		--begin 2026-12-01T08:00:00 -A nlp -t 01:00:00 -a 0-1 --qos normal --gpus-per-node 1 -n 2 -d after:3
		--mail-user a@b.c --mail-type ALL -H --no-requeue --export NONE --parsable -M dgx`, slurmtest.Body, "", "7;dgx\n"},
	{"Open OnDemand, variables", "-J x --export HOME,USER --mail-type NONE --requeue --parsable", slurmtest.Body, "",
		"7\n"},
	{"parsl", "FILE", "", `--job-name=parsl.block-0.17 --output=/l/x.submit.stdout --error=/l/x.submit.stderr --nodes=1
		--time=00:10:00 --ntasks-per-node=1 --exclusive --mem=8g --cpus-per-task=4 --partition=gpu --account=nlp --qos=normal
		--constraint=a100 --clusters=dgx`, "Submitted batch job 7 on cluster dgx\n"},
	{"SkyPilot", "--partition=gpu FILE", "", "--job-name=sky --nodes=1 --gres=gpu:h100:8", "Submitted batch job 7\n"},
	{"slurm-buildkite", "--parsable --job-name=buildkite --comment=https://b/1 --output=/l/%j FILE u-u-i-d", "", "",
		"7\n"},
}

// TestClientsSubmit has every command line of a client.
func TestClientsSubmit(t *testing.T) {
	for _, c := range clientLines {
		t.Run(c.client, func(t *testing.T) {
			a := slurmtest.Accepting(t)
			file := filepath.Join(t.TempDir(), "job.sh")
			text := "#!/bin/bash\n"
			var words []string
			for _, word := range strings.Fields(c.directives) {
				if strings.HasPrefix(word, "-") {
					words = append(words, "#SBATCH "+word)
				} else {
					words[len(words)-1] += " " + word
				}
			}
			text += strings.ReplaceAll(strings.Join(words, "\n"), "--no-requeue", "--no-requeue ") + "\npython train.py\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"sbatch"}
			for _, word := range strings.Fields(c.args) {
				args = append(args, strings.ReplaceAll(word, "FILE", file))
			}
			code, out, said := slurmtest.Shell{T: t, Tools: Commands, Addr: a.URL, Stdin: c.stdin}.Call(args...)
			if code != 0 || out != c.want {
				t.Fatalf("%d %q, want %q\n%s", code, out, c.want, said)
			}
			for line := range strings.Lines(said) {
				if !strings.HasPrefix(line, "sbatch: warning: ") {
					t.Errorf("said %q", line)
				}
			}
			slurmtest.Submitted(t, a)
		})
	}
}

// TestSbatch has what sbatch prints, and what it makes of flags.
func TestSbatch(t *testing.T) {
	a := slurmtest.Accepting(t)
	s := slurmtest.Shell{T: t, Tools: Commands, Addr: a.URL, Stdin: slurmtest.Body,
		Environ: []string{"SBATCH_JOB_NAME=of-env", "SBATCH_PARTITION=long"}}
	for _, c := range []struct{ args, out, said string }{
		{"", "Submitted batch job 7\n", ""},
		{"-", "Submitted batch job 7\n", ""},
		{"--parsable", "7\n", ""},
		{"-Q", "", ""},
		{"-Q --parsable", "7\n", ""},
		{"-M all", "Submitted batch job 7 on cluster dgx\n", ""},
		{"-M other,dgx --parsable", "7;dgx\n", ""},
		{"--mail-type=END", "Submitted batch job 7\n", "sbatch: warning: --mail-type is stored, but no mail is sent yet " +
			"(SB-090): rota wait ID && mail ..., or rota events -f\n"},
		{"--mail-type=END -Q", "", ""},
	} {
		code, out, said := s.Call(append([]string{"sbatch"}, strings.Fields(c.args)...)...)
		if code != 0 || out != c.out || said != c.said {
			t.Errorf("sbatch %s: %d %q %q", c.args, code, out, said)
		}
		if j := slurmtest.Submitted(t, a); j.Name != "of-env" || j.Queue != "long" {
			t.Errorf("sbatch %s: variables are not read: %q %q", c.args, j.Name, j.Queue)
		}
	}
	_, _, said := s.Call("sbatch", "-d", "afterok:3", "-D", "/tmp/there/is/none")
	if j := slurmtest.Submitted(t, a); j.ExportEnv["SLURM_JOB_DEPENDENCY"] != "afterok:3" ||
		!strings.Contains(said, "the working directory /tmp/there/is/none does not exist on this host") {
		t.Errorf("variables %v, said %q", j.ExportEnv, said)
	}
	if code, _, said := s.Call("sbatch", "-n1", "-c2", ":", "-N2", "-G4", "--wrap=srun a : b"); code != 0 {
		t.Errorf("components: %d %s", code, said)
	}
	if j := slurmtest.Submitted(t, a); len(j.Groups) != 2 || j.GangScope != jobspec.ScopeJob || j.Groups[1].Count != 2 ||
		j.Groups[0].Tasks[0].Resources.Cores != 2 || j.Groups[1].Tasks[0].Resources.GPUs != 2 {
		t.Errorf("components are %+v", j)
	}
	before := len(a.Requests())
	for args, want := range map[string]string{
		"--nonsense":         "sbatch: error: --nonsense is not a known flag (SB-004): \"rota help submit\" lists",
		"-n x":               "sbatch: error: --ntasks ",
		"--wrap=a b.sh":      "sbatch: error: Script arguments not permitted with --wrap option\n",
		"--wrap=":            "sbatch: error: --wrap needs a command\n",
		"/nowhere/x.sh":      "sbatch: error: Unable to open file /nowhere/x.sh: ",
		"there-is-none":      "sbatch: error: Unable to open file there-is-none: ",
		": -n x":             "sbatch: error: --ntasks ",
		": --frob x":         "sbatch: error: --frob is not a known flag",
		"-N":                 "sbatch: error: -N needs a value (SB-006)",
		"--uid=3":            "sbatch: error: --uid is not supported (SB-009): a batch job runs as",
		"--reservation=r":    "sbatch: error: --reservation is not supported (SB-009)",
		"-M other":           "sbatch: error: Batch job submission failed: 'other' can't be reached now, or it is an invalid",
		"--gres=licence:3 -": "sbatch: error: --gres ",
	} {
		code, out, said := s.Call(append([]string{"sbatch"}, strings.Fields(args)...)...)
		if code != 1 || out != "" || !strings.HasPrefix(said, want) {
			t.Errorf("sbatch %s: %d %q %q, want %q", args, code, out, said, want)
		}
	}
	s.Stdin = "no script\n"
	if code, _, said := s.Call("sbatch"); code != 1 || !strings.Contains(said, "does not begin with #!") {
		t.Errorf("no script: %d %s", code, said)
	}
	for _, r := range a.Requests()[before:] {
		if r.What == "POST /v1/jobs" {
			t.Errorf("a wrong command line submitted %s", r.Body)
		}
	}
}

// TestSbatchRefused has the words in which clients look for a refusal.
func TestSbatchRefused(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Refuse("POST /v1/jobs", api.Problem{Status: 422, Code: api.CodeInvalidJob, Detail: "queue \"x\" does not exist",
		Hint: "rota config"})
	s := slurmtest.Shell{T: t, Tools: Commands, Addr: a.URL, Stdin: slurmtest.Body}
	code, out, said := s.Call("sbatch")
	if want := "sbatch: error: Batch job submission failed: queue \"x\" does not exist (rota config)\n"; code != 1 ||
		out != "" || said != want {
		t.Errorf("%d %q %q", code, out, said)
	}
	s.Addr = "unix:/nowhere/at/all"
	code, out, said = s.Call("sbatch")
	want := "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure): "
	if code != 1 || out != "" || !strings.HasPrefix(said, want) {
		t.Errorf("%d %q %q", code, out, said)
	}
}

// TestSbatchWaits: with -W the exit code is the job's.
func TestSbatchWaits(t *testing.T) {
	a := slurmtest.Accepting(t)
	s := slurmtest.Shell{T: t, Tools: Commands, Addr: a.URL, Stdin: slurmtest.Body}
	s.Does.Await = func(_ context.Context, _ *command.Session, id model.JobID) error {
		if id != 7 {
			t.Errorf("waits for %d", id)
		}
		return exit.WithCode(42)
	}
	if code, out, said := s.Call("sbatch", "-W"); code != 42 || out != "Submitted batch job 7\n" || said != "" {
		t.Errorf("%d %q %q", code, out, said)
	}
	a.Give("POST /v1/plan", api.PlanResponse{Starts: true, Places: []api.PlanNode{{Node: "n1"}, {Node: "n2"}}})
	if code, out, said := s.Call("sbatch", "--test-only"); code != 0 || out != "" ||
		said != "sbatch: Job would start now on nodes n[1-2]\n" {
		t.Errorf("%d %q %q", code, out, said)
	}
	a.Give("POST /v1/plan", api.PlanResponse{Reason: api.Reason{Code: "Resources", Text: "no GPU is free"}})
	if code, out, said := s.Call("sbatch", "--test-only"); code != 0 || out != "" ||
		!strings.HasPrefix(said, "sbatch: Job would wait: ") || !strings.Contains(said, "no GPU is free") {
		t.Errorf("%d %q %q", code, out, said)
	}
}
