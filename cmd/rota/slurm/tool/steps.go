package tool

import (
	"slices"
	"strconv"
	"strings"
)

// BatchStep names the step that is a job's script or program itself. ExternStep names the step of
// processes that were started beside it, by rota exec and rota shell.
const (
	BatchStep  = "batch"
	ExternStep = "extern"
)

// CutStep splits 7.batch, 7.0 or 8_3.extern into a job and a step. Other words behind a dot name
// groups of jobs.
func CutStep(ref string) (job, step string) {
	job, step, ok := strings.Cut(ref, ".")
	if _, err := strconv.ParseUint(step, 10, 32); ok &&
		(err == nil || slices.Contains([]string{BatchStep, ExternStep, "interactive"}, step)) {
		return job, step
	}
	return ref, ""
}
