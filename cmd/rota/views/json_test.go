package views

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
)

// TestJSONOfViews checks the promises to programs. The JSON of each view has an apiVersion and a
// kind, its names stay, and its lists are never null. A name that goes shows in a golden file.
func TestJSONOfViews(t *testing.T) {
	a := sampleCluster(t)
	a.Give("GET /v1/jobs/7/usage", api.JobUsage{Job: 7, Attempt: 2, Live: true,
		Usage: &api.Usage{CPUSeconds: 60, Workers: 4, Memory: 1 << 30, PeakMemory: 1 << 28}})
	a.Give("GET /v1/jobs/7/series", api.Series{Job: 7, Metric: "loss", Points: []api.Point{{Step: 1, Value: 0.5}}})
	a.Give("GET /v1/audit", api.AuditList{List: rotatest.List("AuditList", api.AuditEntry{User: "ada",
		Action: "POST /v1/jobs", At: rotatest.At("2026-11-21T08:00:05Z"), Status: 200, Code: "ok", Times: 1})})
	a.Give("GET /v1/priorities", rotatest.List("PriorityList", api.Priority{Position: 1, ID: 8, Name: "x", Ref: "8"}))
	jobs := sampleJobs()[:3]
	for i := range jobs { // as controllers send them
		jobs[i].Flags, jobs[i].Nodes = []string{}, append([]string{}, jobs[i].Nodes...)
		jobs[i].Attempts = append([]api.Attempt{}, jobs[i].Attempts...)
	}
	a.On("GET /v1/jobs", rotatest.StreamOf(jobs))
	nullable := regexp.MustCompile(`"(\w+)": ?null`)
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	for _, args := range []string{"queue", "nodes", "nodes --summary", "status 7", "status 7 --plot", "eff 7", "why 8",
		"hist", "audit", "share", "prio", "events"} {
		got := s.Run(append(strings.Fields(args), "-o", "json")...)
		if got.Code != exit.OK {
			t.Errorf("rota %s: %+v", args, got)
			continue
		}
		var head struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
		}
		if err := json.Unmarshal([]byte(got.Stdout), &head); err != nil || head.APIVersion != "v1" || head.Kind == "" {
			t.Errorf("rota %s: %+v, %v in\n%s", args, head, err, got.Stdout)
		}
		for _, m := range nullable.FindAllStringSubmatch(got.Stdout, -1) {
			if !slices.Contains([]string{"start", "end", "started", "ended", "last_seen", "cpu_efficiency", "memory_efficiency",
				"gpu_efficiency"}, m[1]) {
				t.Errorf("rota %s: %s is null", args, m[1])
			}
		}
		name := strings.NewReplacer(" --", "-", " ", "-").Replace(args)
		rotatest.Golden(t, *update, "json-"+name+".json", got.Stdout)
	}
}
