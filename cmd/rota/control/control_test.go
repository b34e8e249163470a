package control

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
)

func TestCancel(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs/1/cancel", api.ControlResponse{Items: []api.ControlItem{{ID: 1}}})
	a.Refuse("POST /v1/jobs/2/cancel", api.Problem{Status: 404, Code: api.CodeNotFound, Detail: "there is no job 2"})
	a.Give("POST /v1/jobs/cancel", api.ControlResponse{Items: []api.ControlItem{{ID: 5}, {ID: 6}}})
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	if got := s.Run("cancel", "1,2"); got.Code != exit.NotFound || got.Stdout != "1 cancelled\n" ||
		got.Stderr != "rota: there is no job 2\n" {
		t.Errorf("%+v", got)
	}
	if got := s.Run("cancel", "-u", "ada", "-t", "PD,R", "--reason", "weekend"); got.Code != 0 ||
		got.Stdout != "2 cancelled\n" {
		t.Errorf("%+v", got)
	}
	asked := a.Requests()
	var sent api.CancelRequest
	if err := json.Unmarshal([]byte(asked[len(asked)-1].Body), &sent); err != nil || sent.User != "ada" ||
		len(sent.States) != 2 || sent.Reason != "weekend" {
		t.Errorf("%v: %+v", err, sent)
	}
}

func TestUpdate(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs/4/update", api.ControlResponse{Items: []api.ControlItem{{ID: 4}}})
	a.Give("POST /v1/jobs/5_[1-2]/update", api.ControlResponse{Items: []api.ControlItem{{ID: 7}, {ID: 8}}})
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	for _, c := range []struct{ args, body string }{
		{"update 4 --time +2h", `{"add_time":7200}`},
		{"update 4 --time -30m --priority 0", `{"add_time":-1800,"priority":0}`},
		{"update 4 --time 1-00:00:00 --name other", `{"time_limit":86400,"name":"other"}`},
		{"update 4 --comment twice", `{"comment":"twice"}`},
		{"update 4 --comment=", `{"comment":""}`},
	} {
		got := s.Run(strings.Fields(c.args)...)
		asked := a.Requests()
		if body := asked[len(asked)-1].Body; got.Code != 0 || got.Stdout != "1 updated\n" || body != c.body {
			t.Errorf("rota %s: %+v sent %s", c.args, got, body)
		}
	}
	if got := s.Run("update", "5_[1-2]", "--priority", "70"); got.Code != 0 || got.Stdout != "2 updated\n" {
		t.Errorf("%+v", got)
	}
	for _, args := range []string{"update 4", "update --time 2h", "update 4 --time soon", "update 4 --priority high"} {
		if got := s.Run(strings.Fields(args)...); got.Code != exit.Usage {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
}

func TestArrayPrune(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs/9/prune", api.PruneResponse{Kept: []int{3}, Cancelled: []int{2, 0, 1}, Silent: []int{7}})
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	got := s.Run("array", "prune", "9", "--metric", "loss", "--keep", "top 25%", "--dry-run")
	if got.Code != 0 || got.Stdout != "kept: 3\nwould be cancelled: 0-2\nnot pruned, because they have not "+
		"reported loss yet: 7\n" {
		t.Errorf("%+v", got)
	}
	for _, args := range []string{"array 9", "array prune 9 --metric loss", "array plant 9 --metric loss --keep 1"} {
		if got := s.Run(strings.Fields(args)...); got.Code != exit.Usage {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
}

// TestSignal: the name of a signal is completed, and a job is needed.
func TestSignal(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs/7/signal", api.ControlResponse{Items: []api.ControlItem{{ID: 7}}})
	a.Give("POST /v1/jobs/7/steps/3/signal", struct{}{})
	a.Give("POST /v1/jobs/8_2/steps/3/signal", struct{}{})
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL, Env: []string{"ROTA_JOB_ID=7"}}
	for args, want := range map[string]string{
		"signal 7 --signal usr1":            `{"signal":"SIGUSR1"}`,
		"signal 7 -s SIGTERM --to script":   `{"signal":"SIGTERM","to":"script"}`,
		"signal 7.3 -s kill":                `{"signal":"SIGKILL"}`, // to the step
		"signal 8_2.3 -s 12":                `{"signal":"SIGUSR2"}`,
		"signal 7 --signal=12 --to=program": `{"signal":"SIGUSR2","to":"program"}`, // the controllers check it
	} {
		got := s.Run(strings.Fields(args)...)
		last := a.Requests()[len(a.Requests())-1]
		path := map[string]string{"signal 7.3 -s kill": "7/steps/3", "signal 8_2.3 -s 12": "8_2/steps/3"}[args]
		if got.Code != 0 || last.What != "POST /v1/jobs/"+cmp.Or(path, "7")+"/signal" ||
			strings.TrimSpace(last.Body) != want {
			t.Errorf("rota %s: %+v, asks %s %s", args, got, last.What, last.Body)
		}
	}
	for _, args := range []string{"signal", "signal 7", "signal 7.0 -s 12 --to script", "signal --signal USR1",
		"signal x -s USR1"} {
		if got := s.Run(strings.Fields(args)...); got.Code != exit.Usage {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
}

// TestAJobWithoutItsID: in a job, commands without an id are about it; cancel never is.
func TestAJobWithoutItsID(t *testing.T) {
	a := rotatest.NewAnswers(t)
	for _, verb := range []string{"requeue", "update", "cancel", "hold"} {
		a.Give("POST /v1/jobs/7/"+verb, api.ControlResponse{Items: []api.ControlItem{{ID: 7}}})
		a.Give("POST /v1/jobs/8/"+verb, api.ControlResponse{Items: []api.ControlItem{{ID: 8}}})
	}
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL, Env: []string{"ROTA_JOB_ID=7"}}
	for _, c := range []struct{ args, want string }{
		{"requeue", "POST /v1/jobs/7/requeue"}, {"requeue --reason x", "POST /v1/jobs/7/requeue"},
		{"update --name x", "POST /v1/jobs/7/update"}, {"requeue 8", "POST /v1/jobs/8/requeue"},
		{"cancel", ""}, {"hold", ""},
	} {
		before := len(a.Requests())
		got, asked := s.Run(strings.Fields(c.args)...), ""
		if all := a.Requests()[before:]; len(all) > 0 {
			asked = all[0].What
		}
		if asked != c.want || (got.Code == 0) != (c.want != "") {
			t.Errorf("rota %s asks %q: %+v", c.args, asked, got)
		}
	}
	for _, id := range []string{"", "0", "x", "7,8"} {
		s.Env = []string{"ROTA_JOB_ID=" + id}
		if got := s.Run("requeue"); got.Code != exit.Usage {
			t.Errorf("ROTA_JOB_ID=%s: %+v", id, got)
		}
	}
}
