package admission

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// CheckDependency refuses a dependency whose parts do not fit together.
func CheckDependency(d *jobspec.Dependency) error {
	known := []string{model.NeedAfter, model.NeedAfterOK, model.NeedAfterAny, model.NeedAfterNotOK, model.NeedAfterCorr, model.NeedSingleton}
	switch {
	case !slices.Contains(known, d.Type):
		return &model.SpecError{Text: fmt.Sprintf("type is one of %s, not %q", strings.Join(known, ", "), d.Type)}
	case d.Match != "" && d.Match != "all" && d.Match != "any":
		return &model.SpecError{Text: fmt.Sprintf("match is all or any, not %q", d.Match)}
	case d.Delay < 0 || d.Delay > model.MaxDelay:
		return &model.SpecError{Text: fmt.Sprintf("delay is 0 to %d seconds, not %d", model.MaxDelay, d.Delay)}
	case d.Type == model.NeedSingleton && len(d.Jobs) > 0:
		return &model.SpecError{Text: "a singleton waits for all older jobs of its name: it names no jobs"}
	case d.Type != model.NeedSingleton && len(d.Jobs) == 0:
		return &model.SpecError{Text: "it names no jobs"}
	}
	return model.Limit("the number of jobs that one job depends on", int64(len(d.Jobs)), model.MaxDependencies, "")
}

// ParseTarget reads 123 or 123_4. The element is -1 without one; ok is false for the name of a job.
func ParseTarget(text string) (id model.JobID, element int, ok bool) {
	number, rest, has := strings.Cut(text, "_")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || number[0] == '+' {
		return 0, 0, false
	}
	if !has {
		return model.JobID(n), -1, true
	}
	element, err = strconv.Atoi(rest)
	return model.JobID(n), element, err == nil && element >= 0 && rest[0] != '+'
}
