package jobspec

import (
	"fmt"
	"math"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ProgressPattern reads a program's progress from its output.
type ProgressPattern struct {
	re    *regexp.Regexp
	names []string
}

// CompileProgress compiles a [Progress.Pattern]. A group named step is the step, every other named
// group is a metric: `step (?P<step>\d+) loss (?P<loss>\S+)`. The error is a [Problem] without a
// path.
func CompileProgress(pattern string) (*ProgressPattern, error) {
	re, bad := CompilePattern(pattern)
	if bad != nil {
		return nil, bad
	}
	p := &ProgressPattern{re: re, names: re.SubexpNames()}
	if re.SubexpIndex("step") < 0 {
		return nil, Problem{Code: CodeProgress, Text: fmt.Sprintf("the pattern %q has no group named step", pattern),
			Hint: `write (?P<step>\d+) where the step is printed, and (?P<loss>\S+) for a metric`}
	}
	return p, nil
}

// Has reports whether the pattern reads a metric.
func (p *ProgressPattern) Has(metric string) bool { return p.re.SubexpIndex(metric) >= 0 }

// Read returns the progress in one line of output. Metrics that are not finite numbers are left
// out.
func (p *ProgressPattern) Read(line string) (step int64, metrics map[string]float64, ok bool) {
	found := p.re.FindStringSubmatch(line)
	if found == nil {
		return 0, nil, false
	}
	for i, name := range p.names {
		switch n, err := strconv.ParseFloat(found[i], 64); {
		case name == "" || err != nil || math.IsNaN(n) || math.IsInf(n, 0):
		case name == "step":
			if n < 0 || n > 1<<53 {
				return 0, nil, false
			}
			step, ok = int64(n), true
		default:
			if metrics == nil {
				metrics = map[string]float64{}
			}
			metrics[name] = n
		}
	}
	return step, metrics, ok
}

// CompilePattern compiles a regular expression; the problem says where it goes wrong.
func CompilePattern(pattern string) (*regexp.Regexp, error) {
	if len(pattern) > MaxPattern {
		return nil, Problem{Code: CodePattern,
			Text: fmt.Sprintf("the regular expression has %d bytes, at most %d are allowed", len(pattern), MaxPattern)}
	}
	re, err := regexp.Compile(pattern)
	if err == nil {
		return re, nil
	}
	bad, ok := err.(*syntax.Error) //nolint:errorlint // regexp promises this type
	if !ok {
		return nil, Problem{Code: CodePattern, Text: fmt.Sprintf("%q is not a regular expression: %v", pattern, err)}
	}
	where := ""
	if i := strings.Index(pattern, bad.Expr); i >= 0 && bad.Expr != "" && bad.Expr != pattern {
		where = fmt.Sprintf(" at character %d: %s", utf8.RuneCountInString(pattern[:i])+1, bad.Expr)
	}
	return nil, Problem{Code: CodePattern,
		Text: fmt.Sprintf("%q is not a regular expression: %s%s", pattern, bad.Code, where),
		Hint: "write it in RE2's syntax, which has no look-around and no back-references; \\ before a sign takes it " +
			"literally"}
}

// Watched says how the progress of a group's tasks is read, and by which metric they are judged. It
// has no metric if none is named. The stop rule of an array names one where the task does not, and
// says what the goal of that metric is.
func (j *Job) Watched(group int) (p Progress) {
	if j == nil || group >= len(j.Groups) {
		return p
	}
	for _, t := range j.Groups[group].Tasks {
		if t.Progress != nil {
			p = *t.Progress
			break
		}
	}
	if a := j.Array; a != nil && a.Stop != nil && (p.Metric == "" || p.Metric == a.Stop.Metric) {
		p.Metric, p.Goal = a.Stop.Metric, a.Stop.Goal
	}
	return p
}

// MainProgress says which metric of a job matters most, and how it is read. The first group that names
// a metric decides, or else the first group that reports progress.
func (j *Job) MainProgress() (first Progress) {
	for g := range j.Groups {
		switch p := j.Watched(g); {
		case p.Metric != "":
			return p
		case first == (Progress{}):
			first = p
		}
	}
	return first
}
