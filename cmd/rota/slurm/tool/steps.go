package tool

import (
	"slices"
	"strconv"
	"strings"
)

// BatchStep names the step that is the job's script or program itself. ExternStep names the step of
// processes started by rota exec and rota shell.
const (
	BatchStep  = "batch"
	ExternStep = "extern"
)

// CutStep splits names such as 7.batch, 7.0 or 8_3.extern into job and step. Other words after a
// dot name groups of jobs.
func CutStep(ref string) (job, step string) {
	job, step, ok := strings.Cut(ref, ".")
	if _, err := strconv.ParseUint(step, 10, 32); ok &&
		(err == nil || slices.Contains([]string{BatchStep, ExternStep, "interactive"}, step)) {
		return job, step
	}
	return ref, ""
}
