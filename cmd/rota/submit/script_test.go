package submit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/jobfile"
)

// batchScript writes a script and returns its path.
func batchScript(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// sent is the last job that was submitted.
func sent(t *testing.T, a *rotatest.Answers) *jobspec.Job {
	t.Helper()
	asked := a.Requests()
	var r api.SubmitRequest
	if len(asked) == 0 {
		t.Fatal("nothing was sent")
	}
	if err := json.Unmarshal([]byte(asked[len(asked)-1].Body), &r); err != nil || len(r.Jobs) != 1 {
		t.Fatalf("%v in %v", err, asked)
	}
	return r.Jobs[0]
}

const smallScript = `#!/bin/bash
#SBATCH --job-name=train -p gpu
#SBATCH --gres=gpu:2 -t 90 --mail-type=END
python train.py "$@" --lab "$LAB" # with $TORCH_X and $HF_TOKEN
`

func TestSubmitScript(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{17}})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL,
		Env: []string{"OMP_NUM_THREADS=1", "LAB=2", "TORCH_X=caf\xe9", "HF_TOKEN=s", "SLURM_JOB_ID=4", "ROTA_X=1",
			"BASH_FUNC_module%%=() { :; }",
			"SBATCH_PARTITION=env", "SBATCH_ACCOUNT=acc"}}
	file := batchScript(t, "train.sh", smallScript)
	got := s.Run("submit", "-N1", "--part", "cli", "--mem=16G", "-o", "%x-%j.out", file, "--lr", "1e-3", "-N", "two words")
	if got.Code != 0 || got.Stdout != "Submitted batch job 17\n" {
		t.Fatalf("%+v", got)
	}
	for _, part := range []string{"train.sh:3: warning: --mail-type is stored, but no mail is sent yet",
		"leaves out HF_TOKEN",
		"leaves out LAB: the usual variables", "leaves out TORCH_X: values must be UTF-8"} {
		if !strings.Contains(got.Stderr, part) {
			t.Errorf("stderr lacks %q: %s", part, got.Stderr)
		}
	}
	job := sent(t, a)
	k := job.Groups[0].Tasks[0]
	dir, _ := os.Getwd()
	if job.Name != "train" || job.Queue != "cli" || job.Account != "acc" || job.TimeLimit != 5400 ||
		job.Workdir != dir || job.SubmitDir != dir || k.Resources.Memory != 16*jobspec.GiB ||
		k.Resources.GPUs != 2 || k.Log.Stdout != "%x-%j.out" {
		t.Errorf("%+v of %+v", job, k)
	}
	if !strings.Contains(k.Script, "set -- '--lr' '1e-3' '-N' 'two words'\npython train.py") {
		t.Errorf("the script has not its arguments: %s", k.Script)
	}
	for name, want := range map[string]string{"OMP_NUM_THREADS": "1", "LAB": "", "TORCH_X": "", "HF_TOKEN": "",
		"SLURM_JOB_ID": "", "ROTA_X": "",
		"BASH_FUNC_module%%": "() { :; }", "SBATCH_ACCOUNT": "acc"} {
		if job.ExportEnv[name] != want {
			t.Errorf("%s is %q, want %q", name, job.ExportEnv[name], want)
		}
	}
}

func TestSubmitScriptsInOtherWays(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{17}})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Stdin: smallScript}
	if got := s.Run("submit", "-", "--parsable", "--hold"); got.Code != 0 || got.Stdout != "17\n" || !sent(t, a).Hold {
		t.Errorf("from standard input: %+v", got)
	}
	if got := s.Run("submit", "--wrap", "python x.py", "-c", "4", "--export=NONE",
		"--begin=now+1hour"); got.Code != 0 || got.Stderr != "" {
		t.Errorf("--wrap: %+v", got)
	}
	if job := sent(t, a); job.Name != "wrap" || job.Groups[0].Tasks[0].Script != "#!/bin/sh\npython x.py\n" ||
		job.Groups[0].Tasks[0].Resources.Cores != 4 || len(job.ExportEnv) != 0 || job.Begin == "" {
		t.Errorf("--wrap: %+v", job)
	}
	file := batchScript(t, "noext", "#!/bin/sh\n#SBATCH --parsable --array=0-9\n./x\n")
	if got := s.Run("submit", file); got.Code != 0 || got.Stdout != "17\n" || sent(t, a).Array == nil {
		t.Errorf("directives of the command: %+v", got)
	}
	if got := s.Run("submit", "-o", "json", batchScript(t, "x.sh",
		smallScript)); strings.Join(strings.Fields(got.Stdout), "") !=
		`{"apiVersion":"v1","kind":"SubmitResponse","ids":[17]}` ||
		!strings.HasPrefix(got.Stderr, `{"warnings":[{"kind":"warning","code":"SB-090"`) {
		t.Errorf("-o json: %+v", got)
	}
	a.Give("POST /v1/plan", api.PlanResponse{Starts: true})
	if got := s.Run("submit", "--test-only", batchScript(t, "x.sh", smallScript)); got.Code != 0 ||
		!strings.Contains(got.Stdout, "train would start now") {
		t.Errorf("--test-only: %+v", got)
	}
	if got := s.Run("plan", "-N1", batchScript(t, "x.sh", smallScript)); got.Code != 0 ||
		!strings.Contains(got.Stdout, "train would start now") {
		t.Errorf("plan: %+v", got)
	}
	if got := s.Run("validate", batchScript(t, "x.sh", smallScript)); got.Code != 0 ||
		!strings.HasSuffix(got.Stdout, "ok, job train\n") {
		t.Errorf("validate: %+v", got)
	}
}

func TestOptionsOverJobFiles(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{17}})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Env: []string{"SBATCH_PARTITION=not-here"}}
	file := rotatest.JobFile(t, rotatest.SmallJob)
	got := s.Run("submit", file, "-N2", "--array=0-3%2", "-d", "afterok:7", "-c4", "-o", "%j.out", "--constraint", "ib")
	if got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	job := sent(t, a)
	if g := job.Groups[0]; g.Count != 2 || g.Tasks[0].Resources.Cores != 4 || g.Tasks[0].Log.Stdout != "%j-%n.out" ||
		job.Array.MaxParallel != 2 || fmt.Sprint(job.Dependencies[0].Jobs) != "[7]" ||
		job.Queue != "" || job.Features[0] != "ib" {
		t.Errorf("%+v", job)
	}
	if got := s.Run("submit", file, "--ntasks=4"); got.Code != exit.Usage ||
		!strings.Contains(got.Stderr, "--ntasks is for scripts") {
		t.Errorf("what is for scripts: %+v", got)
	}
}

func TestConvert(t *testing.T) {
	s := rotatest.Session{Commands: groups, T: t, Addr: "unix:/nowhere"}
	file := batchScript(t, "train.sh", strings.Replace(smallScript, "gpu:2 ",
		"gpu:a100:2 --reboot --begin=now+2hours ", 1))
	got := s.Run("convert", file, "--lr", "3")
	if got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	job, diags := jobfile.Parse("train.hcl", []byte(got.Stdout), jobfile.Options{Now: command.System().Now})
	if diags.HasErrors() || job.Name != "train" || job.Groups[0].Tasks[0].Resources.GPUs != 2 ||
		!strings.Contains(got.Stdout, `begin             = "now+2h"`) {
		t.Errorf("%v of %s", diags, got.Stdout)
	}
	refused, warned := strings.Index(got.Stderr, "--reboot is not supported"),
		strings.Index(got.Stderr, "--mail-type is stored")
	if refused < 0 || warned < refused {
		t.Errorf("what could not be taken over is not listed: %s", got.Stderr)
	}
	if got := s.Run("convert", rotatest.JobFile(t, rotatest.SmallJob)); got.Code != exit.Usage ||
		!strings.Contains(got.Stderr, "is already a job file") {
		t.Errorf("%+v", got)
	}
	if got := s.Run("convert", batchScript(t, "x.sh", "echo\n")); got.Code != exit.Usage ||
		!strings.Contains(got.Stderr, "does not begin with #!") {
		t.Errorf("%+v", got)
	}
	var out struct{ Unmapped []struct{ Code, Kind string } }
	if got := s.Run("convert", "-o", "json", file); json.Unmarshal([]byte(got.Stdout), &out) != nil ||
		len(out.Unmapped) != 2 {
		t.Errorf("%+v", got)
	}
}

func TestScriptMistakes(t *testing.T) {
	s := rotatest.Session{Commands: groups, T: t, Addr: "http://127.0.0.1:1"}
	bad := batchScript(t, "bad.sh", "#!/bin/bash\n#SBATCH --gpuss=1 --time=soon\n./x\n#SBATCH -N 2\n")
	good := batchScript(t, "good.sh", smallScript)
	for _, c := range []struct{ args, want string }{
		{"submit " + bad, "did you mean --gpus?"},
		{"submit --begin=someday " + good, `command line: --begin "someday" is not a time`},
		{"submit --frobnicate " + good, "rota submit has no option --frobnicate"},
		{"submit --gpus-p=1 " + good, "--gpus-p may mean --gpus-per-node, --gpus-per-socket, --gpus-per-task"},
		{"submit --hold=maybe " + good, "--hold takes no value"},
		{"submit -N", "-N needs a value"},
		{"submit -Hz " + good, "rota submit has no option -z"},
		{"submit --time-min=1 " + good, "command line: --time-min is not supported"},
		{"submit -N1 : -N2 --frob " + good, "--frob is not a known flag"},
		{"submit -N1 : -N2 --wrap=ls", "--wrap belongs before the first colon"},
		{"submit -N1 : -N2 -t 5 " + good, "--time is for the whole job, and not for one component"},
		{"submit --wrap=ls " + good, "--wrap and a script exclude each other"},
		{"submit -var a=1 " + good, "-var is for job files"},
		{"submit --reboot " + good, "nodes are not booted for jobs"},
		{"validate " + bad, "bad.sh:2: --time \"soon\" is not a time"},
	} {
		got := s.Run(strings.Fields(c.args)...)
		if got.Code != exit.Usage || !strings.Contains(got.Stderr, c.want) {
			t.Errorf("%s: %+v, want %q", c.args, got, c.want)
		}
	}
	var problem struct {
		Code     string
		Problems []struct{ Code string }
	}
	if got := s.Run("submit", "-o", "json", bad); json.Unmarshal([]byte(got.Stderr), &problem) != nil ||
		problem.Code != api.CodeInvalidJob || len(problem.Problems) != 2 {
		t.Errorf("in JSON: %+v", got)
	}
}

// TestTasksTakeFewNodes notices tasks that are refused although several nodes have room for them.
// It also notices tasks on more nodes than they need, or on others than the script says.
func TestTasksTakeFewNodes(t *testing.T) {
	impossible := api.Problem{Status: 422, Code: api.CodeImpossible, Detail: "no node is so large"}
	for name, c := range map[string]struct {
		flags   string
		accepts int    // how many nodes are the right number; 0: the first answer counts
		tasks   int    // on each
		uneven  string // tasks on the nodes if they differ
	}{
		"they do not fit on one":       {"-n 10", 3, 4, "4,3(x2)"},
		"an even number":               {"-n 16 -c 2", 8, 2, ""},
		"a GPU for each two tasks":     {"-n 6 --gpus-per-node=2", 2, 3, ""},
		"GPUs in all":                  {"-n 4 --gpus=4", 2, 2, ""},
		"too many on any node":         {"-n 4 -c 5", 0, 0, ""},
		"it says how many nodes":       {"-N 1 -n 10", 0, 0, ""},
		"it says how many on each":     {"-n 10 --ntasks-per-node=5", 0, 0, ""},
		"more GPUs than any node has":  {"-n 2 --gpus-per-task=9", 0, 0, ""},
		"one task":                     {"-n 1 -c 5", 0, 0, ""},
		"more memory than any node is": {"-n 8 --mem=2T", 0, 0, ""},
	} {
		for _, verb := range []string{"submit", "plan"} {
			a, calls := rotatest.NewAnswers(t), 0
			path := map[string]string{"submit": "POST /v1/jobs", "plan": "POST /v1/plan"}[verb]
			a.On(path, func(w http.ResponseWriter, _ *http.Request) {
				if calls++; calls == 1 {
					rotatest.WriteProblem(w, &impossible)
				} else if verb == "submit" {
					_ = json.NewEncoder(w).Encode(api.SubmitResponse{IDs: []model.JobID{17}})
				} else {
					_ = json.NewEncoder(w).Encode(api.PlanResponse{Starts: true})
				}
			})
			a.Give("GET /v1/nodes", api.NodeList{List: api.List[api.Node]{Items: []api.Node{
				{Name: "n1", Cores: 3, Memory: jobspec.TiB, GPUs: make([]api.NodeGPU, 8)},
				{Name: "n2", Cores: 4, Memory: jobspec.TiB, GPUs: make([]api.NodeGPU, 2)}}}})
			args := append(append([]string{verb}, strings.Fields(c.flags)...), batchScript(t, "x.sh", "#!/bin/sh\nsrun ./x\n"))
			got := rotatest.Session{Commands: groups, T: t, Addr: a.URL}.Run(args...)
			if c.accepts == 0 {
				if got.Code != 2 || !strings.Contains(got.Stderr, "no node is so large") || calls != 1 {
					t.Errorf("%s: %d calls, %+v", name, calls, got)
				}
				continue
			}
			asked := a.Requests()
			var r struct {
				Jobs []*jobspec.Job `json:"jobs"`
				Job  *jobspec.Job   `json:"job"`
			}
			if err := json.Unmarshal([]byte(asked[len(asked)-1].Body), &r); err != nil || got.Code != 0 || calls != 2 {
				t.Fatalf("%s: %v, %d calls, %+v", name, err, calls, got)
			}
			job := r.Job
			if len(r.Jobs) > 0 {
				job = r.Jobs[0]
			}
			g := job.Groups[0]
			if k := g.Tasks[0]; g.Count != c.accepts || g.MaxWorkersPerNode != 1 || k.Launch.Nproc != c.tasks ||
				k.Env["SLURM_TASKS_PER_NODE"] != c.uneven || job.SubmitDir == "" {
				t.Errorf("%s: %d workers of %d tasks in %+v", name, g.Count, k.Launch.Nproc, job)
			}
			said := fmt.Sprintf("each of the %d nodes gets room for %d tasks (SB-091)\n", c.accepts, c.tasks)
			if uneven := c.uneven != ""; strings.Contains(got.Stderr, said) != uneven || (got.Stderr != "") != uneven {
				t.Errorf("%s: it says %q", name, got.Stderr)
			}
		}
	}
}
