package views

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
)

// TestStatusShowsSteps: the last ten that have ended of the last attempt, and how many there were.
func TestStatusShowsSteps(t *testing.T) {
	j := leaver()
	at := j.Attempts[1].Start
	j.Attempts[0].Steps = []api.Step{{ID: 0, Name: "of an earlier attempt", Nodes: []string{"n1"}}}
	j.Attempts[1].Steps = []api.Step{
		{ID: 0, Name: "prepare", Nodes: []string{"n1"}, Tasks: 1, Start: at, End: at, ExitCode: 3},
		{ID: 2, Name: "a\x1b[31m", Nodes: []string{"n1", "n2"}, Tasks: 16, Start: at, End: at, Signal: 9,
			Why: api.StepTimedOut, Usage: &api.Usage{CPUSeconds: 7322, PeakMemory: 3 * jobspec.GiB}}}
	var out bytes.Buffer
	if err := printStatus(&out, table.Screen{}, j, true); err != nil {
		t.Fatal(err)
	}
	for i := range 11 {
		j.Attempts[1].Steps = append(j.Attempts[1].Steps, api.Step{ID: i + 3, Name: fmt.Sprint("run", i),
			Nodes: []string{"n1"}, Tasks: 1, Start: at, End: at, Usage: &api.Usage{CPUSeconds: 1}})
	}
	if err := printStatus(&out, table.Screen{}, j, true); err != nil {
		t.Fatal(err)
	}
	rotatest.Golden(t, *update, "steps.txt", out.String())
}
