package submit

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestALostAnswerIsNotTakenForAFailure notices a message that calls a lost answer a plain failure.
// The user would submit the job again, and have it twice.
func TestALostAnswerIsNotTakenForAFailure(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.On("POST /v1/jobs", rotatest.Cut)
	a.Give("GET /v1/jobs/9", api.Job{ID: 9, State: "FAILED", Code: model.Failed, Spec: &jobspec.Job{Name: "old"}})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, ClientOptions: impatient, Stdin: rotatest.SmallJob}
	for args, code := range map[string]int{"submit -": exit.Unreachable, "run true": exit.OwnUnreachable,
		"resubmit 9 --failed": exit.Unreachable} {
		got := s.Run(strings.Fields(args)...)
		if got.Code != code || got.Stdout != "" || !strings.Contains(got.Stderr, "no controller reachable at "+a.URL) ||
			!strings.Contains(got.Stderr, "hint: the job may have been submitted: \"rota queue --me\" shows it") {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
	got := s.Run("submit", "-", "-o", "json")
	var p api.Problem
	if err := json.Unmarshal([]byte(got.Stderr), &p); err != nil || p.Code != api.CodeUncertain ||
		got.Code != exit.Unreachable {
		t.Errorf("as JSON: %+v, %v", got, err)
	}
}

// TestRepeatingALostSubmission does what the message says: the second submission has the key of the
// first, so the controllers submit once.
func TestRepeatingALostSubmission(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.On("POST /v1/jobs", rotatest.Cut)
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, ClientOptions: impatient, Stdin: rotatest.SmallJob}
	got := s.Run("submit", "-")
	key := regexp.MustCompile(`--idempotency-key (\w+)`).FindStringSubmatch(got.Stderr)
	if key == nil {
		t.Fatalf("%+v names no key", got)
	}
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{17}})
	if got := s.Run("submit", "-", "--idempotency-key", key[1]); got.Code != 0 ||
		got.Stdout != "Submitted batch job 17\n" {
		t.Errorf("%+v", got)
	}
	asked := a.Requests()
	if first, last := asked[0], asked[len(asked)-1]; first.Key != last.Key || first.Body != last.Body || first.Key == "" {
		t.Errorf("first %+v\nthen %+v", first, last)
	}
	a.On("POST /v1/jobs", rotatest.Cut)
	if got := s.Run("submit", "-", "--idempotency-key", "mine"); !strings.Contains(got.Stderr, "--idempotency-key mine ") {
		t.Errorf("with a key of the user's: %+v", got)
	}
}

// TestAFailureBeforeAnythingIsSentIsOne notices a doubt where there is none.
func TestAFailureBeforeAnythingIsSentIsOne(t *testing.T) {
	a := rotatest.NewAnswers(t)
	noLeader := api.Problem{Title: "No leader", Status: 503, Code: api.CodeNoLeader, Detail: "there is no leader now"}
	a.Refuse("POST /v1/jobs", noLeader)
	for _, addr := range []string{a.URL, "http://127.0.0.1:1", "unix:/nowhere/rota.sock"} {
		s := rotatest.Session{Commands: groups, T: t, Addr: addr, ClientOptions: impatient, Stdin: rotatest.SmallJob}
		if got := s.Run("submit", "-"); got.Code != exit.Unreachable || strings.Contains(got.Stderr, "may have been") ||
			!strings.HasPrefix(got.Stderr, "rota: submit small: ") {
			t.Errorf("%s: %+v", addr, got)
		}
	}
}

// TestASubmissionIsRepeatedWithItsKey: the client itself asks again when an answer is lost, and the
// user sees one job.
func TestASubmissionIsRepeatedWithItsKey(t *testing.T) {
	a := rotatest.NewAnswers(t)
	asked := 0
	a.On("POST /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked <= 2 {
			rotatest.Cut(w, r)
		}
		_ = json.NewEncoder(w).Encode(api.SubmitResponse{IDs: []model.JobID{17}})
	})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Stdin: rotatest.SmallJob}
	if got := s.Run("submit", "-"); got.Code != 0 || got.Stdout != "Submitted batch job 17\n" || got.Stderr != "" {
		t.Errorf("%+v", got)
	}
	keys := map[string]bool{}
	for _, r := range a.Requests() {
		keys[r.Key] = true
	}
	if len(keys) != 1 || keys[""] {
		t.Errorf("asked with the keys %v", keys)
	}
}
