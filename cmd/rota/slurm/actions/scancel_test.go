package actions

import (
	"net/http"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/cmd/rota/slurm/slurmtest"
	"github.com/rota-hpc/rota/controld/api"
)

// cancels is a controller whose jobs are cancelled and signalled. Job 7 runs, 8 is an array, 20
// waits, 21 has ended, 30 belongs to another user, and 99 is unknown.
func cancels(t *testing.T) *rotatest.Answers {
	t.Helper()
	a := slurmtest.Queue(t)
	list := slurmtest.Jobs()
	a.On("GET /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		var out []api.Job
		for _, j := range list {
			if (q.Get("name") == "" || j.Name == q.Get("name")) && (q.Get("queue") == "" || j.Queue == q.Get("queue")) &&
				(len(q["id"]) == 0 || slices.Contains(q["id"], strconv.Itoa(int(j.ID)))) &&
				(q.Get("user") == "" || j.User == q.Get("user")) && (q.Get("state") == "" || j.State == q.Get("state")) {
				out = append(out, j)
			}
		}
		rotatest.StreamOf(out)(w, r)
	})
	a.Give("GET /v1/jobs/20", list[3])
	a.Give("GET /v1/jobs/21", list[4])
	a.Give("GET /v1/cluster", api.Cluster{Name: "dgx"})
	done := api.ControlResponse{Items: []api.ControlItem{{ID: 7}}}
	wrong := api.Problem{Status: 409, Code: api.CodeWrongState, Detail: "it is not so"}
	for _, verb := range []string{"cancel", "signal"} {
		for _, ref := range []string{"7", "8_3", "8_[1-4]"} {
			a.Give("POST /v1/jobs/"+ref+"/"+verb, done)
		}
		a.Refuse("POST /v1/jobs/21/"+verb, wrong)
		a.Refuse("POST /v1/jobs/31/"+verb, api.Problem{Status: 429, Code: api.CodeLimit, Detail: "too many requests",
			Hint: "end some of them"})
		a.Refuse("POST /v1/jobs/30/"+verb, api.Problem{Status: 403, Code: api.CodeDenied, Detail: "no"})
	}
	a.Give("POST /v1/jobs/7/steps/0/signal", struct{}{})
	a.Give("POST /v1/jobs/7_3/steps/0/signal", struct{}{})
	a.Give("POST /v1/jobs/7_3/signal", done)
	a.Refuse("POST /v1/jobs/21/steps/0/signal", wrong)
	a.Refuse("POST /v1/jobs/20/steps/0/signal", wrong)
	a.Refuse("POST /v1/jobs/30/steps/0/signal", api.Problem{Status: 403, Code: api.CodeDenied, Detail: "no"})
	a.Give("POST /v1/jobs/20/cancel", done)
	a.Refuse("POST /v1/jobs/20/signal", wrong)
	a.Give("POST /v1/jobs/cancel", done)
	return a
}

// TestScancel has the command lines of clients and users, and what they ask the controllers for.
func TestScancel(t *testing.T) {
	a := cancels(t)
	const (
		cancel7 = `POST /v1/jobs/7/cancel {}`
		many    = `POST /v1/jobs/cancel {"refs":`
		usr2    = `{"signal":"SIGUSR2","to":"programs"}`
	)
	s := slurmtest.Shell{T: t, Tools: Commands, Addr: a.URL}
	for _, c := range []struct {
		args  string
		stdin string
		asked []string
		out   string
		said  string
		code  int
	}{
		{args: "7", asked: []string{cancel7}},
		{args: "7 20", asked: []string{cancel7, `POST /v1/jobs/20/cancel {}`}},
		{args: "8_3 8_[1-4]", asked: []string{`POST /v1/jobs/8_3/cancel {}`, `POST /v1/jobs/8_%5B1-4%5D/cancel {}`}},
		{args: "7 --clusters=all", asked: []string{cancel7}},
		{args: "-M dgx 7", asked: []string{cancel7}},
		{args: "7 --signal SIGTERM", asked: []string{`POST /v1/jobs/7/signal {"signal":"SIGTERM","to":"programs"}`}},
		{args: "7 --signal USR2", asked: []string{`POST /v1/jobs/7/signal ` + usr2}},
		{args: "-s12 7", asked: []string{`POST /v1/jobs/7/signal ` + usr2}},
		{args: "-b -s usr2 7", asked: []string{`POST /v1/jobs/7/signal {"signal":"SIGUSR2","to":"script"}`}},
		{args: "-f --signal=USR2 7", asked: []string{`POST /v1/jobs/7/signal {"signal":"SIGUSR2"}`}},
		{args: "-s KILL 7", asked: []string{cancel7}},
		{args: "--name sweep", asked: []string{many + `["8_[4-9]","8_3"]}`}},
		{args: "--jobname=train", asked: []string{many + `["7"]}`}},
		{args: "--name=train 7 20", asked: []string{many + `["7"]}`}},
		{args: "--name sweep --signal USR2 --full", asked: []string{`POST /v1/jobs/8_3/signal {"signal":"SIGUSR2"}`}},
		{args: "-p gpu -w n[2-3] -u bob", asked: []string{many + `["8_3"]}`}},
		{args: "-u ann -t PENDING", asked: []string{many + `["20"]}`}},
		{args: "-u eve"},
		{args: "-v 7", asked: []string{cancel7}, said: "scancel: Terminating job 7\n"},
		{args: "-v -s USR2 7", asked: []string{`POST /v1/jobs/7/signal ` + usr2}, said: "scancel: Signal SIGUSR2 to job 7\n"},
		{args: "-i 7 20", stdin: "n\ny\n", asked: []string{many + `["20"]}`},
			out: "Cancel job_id=7 name=train partition=gpu [y/n]? Cancel job_id=20 name=a-long-name partition=gpu [y/n]? "},
		{args: "21", asked: []string{`POST /v1/jobs/21/cancel {}`},
			said: "scancel: error: Kill job error on job id 21: Job/step already completing or completed\n"},
		{args: "-Q 21", asked: []string{`POST /v1/jobs/21/cancel {}`}},
		{args: "-s USR2 21", asked: []string{`POST /v1/jobs/21/signal ` + usr2}, code: 1,
			said: "scancel: error: Kill job error on job id 21: Job/step already completing or completed\n"},
		{args: "-s USR2 20", asked: []string{`POST /v1/jobs/20/signal ` + usr2}, code: 1,
			said: "scancel: error: Kill job error on job id 20: Job is pending execution\n"},
		{args: "99 7", asked: []string{`POST /v1/jobs/99/cancel {}`, cancel7},
			said: "scancel: error: Kill job error on job id 99: Invalid job id specified\n"},
		{args: "-Q 99", asked: []string{`POST /v1/jobs/99/cancel {}`}},
		{args: "-s USR2 99", asked: []string{`POST /v1/jobs/99/signal ` + usr2}, code: 1,
			said: "scancel: error: Kill job error on job id 99: Invalid job id specified\n"},
		{args: "--name=train 7 99", asked: []string{many + `["7"]}`},
			said: "scancel: error: Kill job error on job id 99: Invalid job id specified\n"},
		{args: "31", asked: []string{`POST /v1/jobs/31/cancel {}`}, code: 1,
			said: "scancel: error: Kill job error on job id 31: too many requests (end some of them)\n"},
		{args: "7.0 7_3.0", asked: []string{`POST /v1/jobs/7/steps/0/signal {"signal":"SIGKILL"}`,
			`POST /v1/jobs/7_3/steps/0/signal {"signal":"SIGKILL"}`}},
		{args: "-s TERM 7.0", asked: []string{`POST /v1/jobs/7/steps/0/signal {"signal":"SIGTERM"}`}},
		{args: "-v 7.0", asked: []string{`POST /v1/jobs/7/steps/0/signal {"signal":"SIGKILL"}`},
			said: "scancel: Terminating step 7.0\n"},
		{args: "-s USR2 7_3.batch", asked: []string{`POST /v1/jobs/7_3/signal {"signal":"SIGUSR2","to":"script"}`}},
		{args: "7.5 7.0", asked: []string{`POST /v1/jobs/7/steps/5/signal {"signal":"SIGKILL"}`,
			`POST /v1/jobs/7/steps/0/signal {"signal":"SIGKILL"}`}, code: 1,
			said: "scancel: error: Kill job error on job step id 7.5: Invalid job id specified\n"},
		{args: "21.0", asked: []string{`POST /v1/jobs/21/steps/0/signal {"signal":"SIGKILL"}`}, code: 1,
			said: "scancel: error: Kill job error on job step id 21.0: Invalid job id specified\n"},
		{args: "20.0", asked: []string{`POST /v1/jobs/20/steps/0/signal {"signal":"SIGKILL"}`}, code: 1,
			said: "scancel: error: Kill job error on job step id 20.0: Job is pending execution\n"},
		{args: "30.0", asked: []string{`POST /v1/jobs/30/steps/0/signal {"signal":"SIGKILL"}`}, code: 1,
			said: "scancel: error: Kill job error on job step id 30.0: Access/permission denied\n"},
		{args: "7.x", asked: []string{`POST /v1/jobs/7.x/cancel {}`}, code: 1,
			said: "scancel: error: Kill job error on job id 7.x: Invalid job id specified\n"},
		{args: "30", asked: []string{`POST /v1/jobs/30/cancel {}`}, code: 1,
			said: "scancel: error: Kill job error on job id 30: Access/permission denied\n"},
	} {
		before := len(a.Requests())
		s.Stdin = c.stdin
		code, out, said := s.Call(append([]string{"scancel"}, strings.Fields(c.args)...)...)
		var asked []string
		for _, r := range a.Requests()[before:] {
			if strings.HasPrefix(r.What, "POST ") {
				asked = append(asked, r.What+" "+strings.TrimSpace(r.Body))
			}
		}
		if code != c.code || out != c.out || said != c.said || !slices.Equal(asked, c.asked) {
			t.Errorf("scancel %s: %d %q %q, asked %q", c.args, code, out, said, asked)
		}
	}
}

// TestScancelAsksOnlyForOwnJobs: a filter without a user is about the caller's own jobs, unless it is root.
func TestScancelAsksOnlyForOwnJobs(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	a := rotatest.NewAnswers(t)
	a.On("GET /v1/jobs", rotatest.StreamOf(slurmtest.Jobs()))
	a.Give("POST /v1/jobs/cancel", api.ControlResponse{})
	s := slurmtest.Shell{T: t, Tools: Commands, Addr: a.URL,
		Environ: []string{"SCANCEL_PARTITION=gpu", "SCANCEL_VERBOSE="}}
	if code, _, said := s.Call("scancel"); code != 0 {
		t.Fatal(said)
	}
	last := a.Requests()[len(a.Requests())-1]
	want := `{"refs":["7","20"]}`
	if me.Uid == "0" {
		want = `{"refs":["7","8_[4-9]","8_3","20"]}`
	}
	if got := strings.TrimSpace(last.Body); got != want {
		t.Errorf("as user %s: cancels %s", me.Uid, got)
	}
	if code, _, _ := s.Call("scancel", "--me"); code != 0 {
		t.Error("--me fails")
	}
	all := a.Requests()
	if what := all[len(all)-2].What; !strings.Contains(what, "user="+me.Username) || !strings.Contains(what, "queue=gpu") {
		t.Errorf("--me asks for %s", what)
	}
	refused := api.Problem{Status: 403, Code: api.CodeDenied, Detail: "no"}
	a.Give("POST /v1/jobs/cancel", api.ControlResponse{Items: []api.ControlItem{{ID: 7, Error: &refused},
		{ID: 20, Error: &api.Problem{Status: 409, Code: api.CodeWrongState}}}})
	if code, _, said := s.Call("scancel", "-A", "nlp"); code != 1 ||
		said != "scancel: error: Kill job error on job id 7: Access/permission denied\n" {
		t.Errorf("%d %q", code, said)
	}
}

// TestScancelOfAnotherCluster: what to do is said once.
func TestScancelOfAnotherCluster(t *testing.T) {
	s := slurmtest.Shell{T: t, Tools: Commands, Addr: cancels(t).URL}
	if code, _, said := s.Call("scancel", "-M", "other", "7"); code != 1 ||
		strings.Count(said, "this cluster is dgx") != 1 {
		t.Errorf("%d %s", code, said)
	}
}

// TestScancelRefuses has command lines that cancel nothing.
func TestScancelRefuses(t *testing.T) {
	a := cancels(t)
	s := slurmtest.Shell{T: t, Tools: Commands, Addr: a.URL}
	for args, want := range map[string]string{
		"":                  "scancel: error: No job identification provided\n",
		"x":                 "scancel: error: Invalid job id x\n",
		"7.batch":           "scancel: error: Kill job error on job step id 7.batch: a script ends with its job",
		"-s 9 7_3.batch":    "scancel: error: Kill job error on job step id 7_3.batch: ",
		"7.extern":          "scancel: error: Kill job error on job step id 7.extern: Invalid job id specified\n",
		"-n train 7.0":      "scancel: error: Invalid job id 7.0: a step cannot be combined with",
		"--me 7.0":          "scancel: error: Invalid job id 7.0: a step cannot be combined with",
		"-i 7.0":            "scancel: error: Invalid job id 7.0: a step cannot be combined with",
		"--name= ":          "scancel: error: --name is empty\n",
		"-u , 7":            "scancel: error: --user is empty\n",
		"--state= 7":        "scancel: error: --state is empty\n",
		"-Q -v 7":           "scancel: error: --quiet and --verbose exclude each other\n",
		"--me -u ann":       "scancel: error: --me and --user exclude each other\n",
		"-u 4000000001":     "scancel: error: Invalid user: 4000000001: ",
		"--sibling=x 7":     "scancel: error: unknown flag: --sibling",
		"-M other 7":        "scancel: error: 'other' can't be reached now",
		"-w n[1 -n x":       "scancel: error: Invalid node list: ",
		"--reservation=r 7": "scancel: error: unknown flag: --reservation",
	} {
		code, out, said := s.Call(append([]string{"scancel"}, strings.Fields(args)...)...)
		if code != 1 || out != "" || !strings.HasPrefix(said, want) {
			t.Errorf("scancel %s: %d %q %q, want %q", args, code, out, said, want)
		}
	}
	for _, r := range a.Requests() {
		if strings.HasPrefix(r.What, "POST ") {
			t.Errorf("a wrong command line asks for %s", r.What)
		}
	}
	s.Environ = []string{"SCANCEL_INTERACTIVE=perhaps"}
	if code, _, said := s.Call("scancel", "7"); code != 1 ||
		said != "scancel: error: Unrecognized SCANCEL_INTERACTIVE value: perhaps: write yes or no\n" {
		t.Errorf("%d %q", code, said)
	}
	s.Addr, s.Environ = "unix:/nowhere/at/all", []string{"SCANCEL_INTERACTIVE=no"}
	for _, args := range []string{"7", "-s USR1 7", "-n x"} {
		want := "scancel: error: Unable to contact slurm controller (connect failure): no controller reachable at "
		code, _, said := s.Call(append([]string{"scancel"}, strings.Fields(args)...)...)
		if code != 1 || !strings.HasPrefix(said, want) {
			t.Errorf("scancel %s without a controller: %d %q", args, code, said)
		}
	}
}
