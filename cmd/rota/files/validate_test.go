package files

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/jobspec"
)

func TestValidate(t *testing.T) {
	s := rotatest.Session{Commands: groups, T: t, Addr: "unix:/nowhere"}
	good := rotatest.JobFile(t, rotatest.SmallJob)
	if got := s.Run("validate", good); got.Code != 0 || !strings.HasSuffix(got.Stdout, "ok, job small\n") {
		t.Errorf("%+v", got)
	}
	var job jobspec.Job
	if got := s.Run("validate", good, "-o", "json"); got.Code != 0 || json.Unmarshal([]byte(got.Stdout), &job) != nil ||
		job.Name != "small" {
		t.Errorf("%+v", got)
	}
	bad := rotatest.JobFile(t, "job \"x\" {}\n")
	if got := s.Run("validate", bad, good); got.Code != exit.Usage || !strings.Contains(got.Stdout, "ok, job small") ||
		got.Stderr == "" {
		t.Errorf("one bad and one good file: %+v", got)
	}
}
