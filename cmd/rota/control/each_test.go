package control

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
)

// last returns what was asked last.
func last(t *testing.T, a *rotatest.Answers) rotatest.Request {
	t.Helper()
	asked := a.Requests()
	if len(asked) == 0 {
		t.Fatal("nothing was asked")
	}
	return asked[len(asked)-1]
}

// TestEachVerb notices a command that does what another one does, or that loses the reason.
func TestEachVerb(t *testing.T) {
	for command, says := range map[string]string{"hold": "held", "release": "released", "requeue": "requeued",
		"cancel": "cancelled"} {
		a := rotatest.NewAnswers(t)
		a.Give("POST /v1/jobs/4/"+command, api.ControlResponse{Items: []api.ControlItem{{ID: 4}}})
		s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
		if got := s.Run(command, "4", "--reason", "because"); got.Code != 0 || got.Stdout != "1 "+says+"\n" ||
			got.Stderr != "" {
			t.Errorf("%s: %+v", command, got)
		}
		var body struct{ Reason string }
		asked := last(t, a)
		if err := json.Unmarshal([]byte(asked.Body), &body); err != nil || body.Reason != "because" ||
			asked.What != "POST /v1/jobs/4/"+command {
			t.Errorf("%s asked %+v, %v", command, asked, err)
		}
		before := len(a.Requests())
		for _, args := range [][]string{{command}, {command, "x"}, {command, "4", "--frob"}} {
			if got := s.Run(args...); got.Code != exit.Usage || got.Stdout != "" {
				t.Errorf("%v: %+v", args, got)
			}
		}
		if got := len(a.Requests()); got != before {
			t.Errorf("%s: a wrong command line asked %d times", command, got-before)
		}
	}
}

// TestExitCodesOfRefusals notices a refusal that a script takes for success, or for another refusal.
func TestExitCodesOfRefusals(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		want   int
	}{{404, string(api.CodeNotFound), exit.NotFound}, {403, string(api.CodeDenied), exit.Denied},
		{409, string(api.CodeWrongState), exit.Failed}} {
		a := rotatest.NewAnswers(t)
		p := api.Problem{Status: c.status, Detail: "it says so"}
		reflect.ValueOf(&p).Elem().FieldByName("Code").SetString(c.code)
		a.Refuse("POST /v1/jobs/4/hold", p)
		a.Give("POST /v1/jobs/5/hold", api.ControlResponse{Items: []api.ControlItem{{ID: 5}}})
		s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
		if got := s.Run("hold", "4"); got.Code != c.want || got.Stdout != "" || got.Stderr != "rota: job 4: it says so\n" {
			t.Errorf("%s: %+v", c.code, got)
		}
		if got := s.Run("hold", "4", "5"); got.Code != c.want ||
			got.Stdout != "1 held\n" { // the others are held all the same
			t.Errorf("%s: %+v", c.code, got)
		}
	}
	s := rotatest.Session{Commands: Commands, T: t, Addr: "http://127.0.0.1:1"}
	if got := s.Run("hold", "4"); got.Code != exit.Unreachable {
		t.Errorf("no controller: %+v", got)
	}
}

// TestCancelBySelection notices a filter that is lost: a cancel of more than the user meant.
func TestCancelBySelection(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs/cancel", api.ControlResponse{Items: []api.ControlItem{{ID: 5}}})
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	for args, want := range map[string]api.CancelRequest{
		"-A nlp":                            {Account: "nlp"},
		"-n small":                          {Name: "small"},
		"-t PD":                             {States: []string{"PD"}},
		"--state PD,R -u ada":               {States: []string{"PD", "R"}, User: "ada"},
		"-u ada -A nlp -n x -t R":           {User: "ada", Account: "nlp", Name: "x", States: []string{"R"}},
		"--account nlp --reason maintained": {Account: "nlp", Reason: "maintained"},
	} {
		if got := s.Run(append([]string{"cancel"}, strings.Fields(args)...)...); got.Code != 0 ||
			got.Stdout != "1 cancelled\n" {
			t.Errorf("%s: %+v", args, got)
		}
		var sent api.CancelRequest
		if err := json.Unmarshal([]byte(last(t, a).Body), &sent); err != nil || !reflect.DeepEqual(sent, want) {
			t.Errorf("%s sent %+v, %v", args, sent, err)
		}
	}
	before := len(a.Requests())
	for _, args := range [][]string{{"cancel"}, {"cancel", "4", "-A", "nlp"}, {"cancel", "-u", ""}, {"cancel", "-A", ""},
		{"cancel", "-n", "", "-A", "x"}, {"cancel", "-t", ""}, {"cancel", "--reason", "x"}} {
		if got := s.Run(args...); got.Code != exit.Usage {
			t.Errorf("%q: %+v", args, got)
		}
	}
	if got := len(a.Requests()); got != before {
		t.Errorf("a wrong command line asked %d times", got-before)
	}
}

// TestWhatPruneAsks notices a dry run that is not one, and options that are lost.
func TestWhatPruneAsks(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs/9/prune", api.PruneResponse{Kept: []int{3, 1, 2}})
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	for args, want := range map[string]api.PruneRequest{
		"--metric loss --keep top~4":                       {Metric: "loss", Keep: "top 4", Goal: "min"},
		"--metric acc --keep top~4 --goal max --at-step 7": {Metric: "acc", Keep: "top 4", Goal: "max", AtStep: 7},
		"--metric loss --keep top~4 --dry-run":             {Metric: "loss", Keep: "top 4", Goal: "min", DryRun: true},
	} {
		list := []string{"array", "prune", "9"}
		for _, f := range strings.Fields(args) {
			list = append(list, strings.ReplaceAll(f, "~", " "))
		}
		verb := "cancelled"
		if want.DryRun {
			verb = "would be cancelled"
		}
		if got := s.Run(list...); got.Code != 0 || got.Stdout != "kept: 1-3\n"+verb+": none\n" {
			t.Errorf("%s: %+v", args, got)
		}
		var sent api.PruneRequest
		if err := json.Unmarshal([]byte(last(t, a).Body), &sent); err != nil || sent != want {
			t.Errorf("%s sent %+v, %v", args, sent, err)
		}
	}
	got := s.Run("array", "prune", "9", "--metric", "loss", "--keep", "top 4", "-o", "json")
	var back api.PruneResponse
	if err := json.Unmarshal([]byte(got.Stdout), &back); err != nil || len(back.Kept) != 3 {
		t.Errorf("as JSON: %+v, %v", got, err)
	}
	a.Refuse("POST /v1/jobs/9/prune", api.Problem{Status: 403, Code: api.CodeDenied, Detail: "no"})
	if got := s.Run("array", "prune", "9", "--metric", "loss", "--keep", "top 4"); got.Code != exit.Denied ||
		got.Stdout != "" {
		t.Errorf("refused: %+v", got)
	}
	for _, args := range []string{"array prune x --metric loss --keep 1", "array prune 9 10 --metric loss --keep 1",
		"array prune 9 --keep 1", "array"} {
		if got := s.Run(strings.Fields(args)...); got.Code != exit.Usage {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

// TestControllersGoAwayBetweenJobs notices jobs that were cancelled and are not reported, and a
// command that goes on when no controller answers.
func TestControllersGoAwayBetweenJobs(t *testing.T) {
	noLeader := func(w http.ResponseWriter, _ *http.Request) {
		rotatest.WriteProblem(w, &api.Problem{Status: 503, Code: api.CodeNoLeader, Detail: "there is no leader now"})
	}
	for _, c := range []struct {
		gone func(http.ResponseWriter, *http.Request)
		says string
	}{{rotatest.Cut, "no controller reachable"}, {noLeader, "there is no leader now"}} {
		a := rotatest.NewAnswers(t)
		a.Give("POST /v1/jobs/1/cancel", api.ControlResponse{Items: []api.ControlItem{{ID: 1}}})
		a.On("POST /v1/jobs/2/cancel", c.gone)
		s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL,
			ClientOptions: api.Options{RetryFor: time.Nanosecond, Unreachable: time.Nanosecond}}
		got := s.Run("cancel", "1", "2", "3", "4")
		if got.Code != exit.Unreachable || got.Stdout != "1 cancelled\n" ||
			!strings.HasPrefix(got.Stderr, "rota: job 2: ") || !strings.Contains(got.Stderr, c.says) ||
			!strings.Contains(got.Stderr, "; 2 jobs after it not tried\n") {
			t.Errorf("%+v", got)
		}
		for _, r := range a.Requests() {
			if r.What == "POST /v1/jobs/3/cancel" {
				t.Error("job 3 was tried")
			}
		}
		if got := s.Run("cancel", "2", "3"); got.Stdout != "" || !strings.Contains(got.Stderr, "; 1 job after it not tried") {
			t.Errorf("nothing done: %+v", got)
		}
		if got := s.Run("cancel", "2"); strings.Contains(got.Stderr, "not tried") {
			t.Errorf("nothing left: %+v", got)
		}
		got = s.Run("cancel", "1", "2", "-o", "json")
		var done api.ControlResponse
		if err := json.Unmarshal([]byte(got.Stdout), &done); err != nil || len(done.Items) != 1 || done.Items[0].Ref != "1" {
			t.Errorf("as JSON: %+v, %v", got, err)
		}
	}
}

// TestMoreTimeIsNotGivenTwice: an extension whose answer was lost is not repeated, and the user is
// told to look first.
func TestMoreTimeIsNotGivenTwice(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.On("POST /v1/jobs/4/update", rotatest.Cut)
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	got := s.Run("update", "4", "--time", "+2h")
	if got.Code != exit.Unreachable || len(a.Requests()) != 1 ||
		!strings.Contains(got.Stderr, "hint: the request may or may not have taken effect: check before you repeat it") {
		t.Errorf("%+v after %d requests", got, len(a.Requests()))
	}
}
