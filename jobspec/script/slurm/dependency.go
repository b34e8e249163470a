package slurm

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// maxMinutes bounds the delay after the start of another job.
const maxMinutes = 1_000_000

// Dependencies parses TYPE:JOB[+MINUTES][:JOB...]. With commas between conditions all of them must
// be met, with ? one of them. Jobs with the same type and delay share one condition.
func Dependencies(text string) ([]jobspec.Dependency, *Error) {
	separator, either := ",", strings.Contains(text, "?")
	if either && strings.Contains(text, ",") {
		return nil, bad("use only , or only ?, or submit several jobs",
			"%q: , and ? cannot be mixed between conditions", text)
	}
	if either {
		separator = "?"
	}
	var list []jobspec.Dependency
	for item := range strings.SplitSeq(text, separator) {
		jobs, err := condition(strings.TrimSpace(item))
		if err != nil {
			return nil, err
		}
		if list = append(list, jobs...); len(list) > jobspec.MaxDependencyJobs {
			return nil, bad("let another job wait for some of them, and this job for the other one",
				"a job waits for at most %d others", jobspec.MaxDependencyJobs)
		}
	}
	if either {
		return anyOf(list, strings.Count(text, "?")+1)
	}
	return merged(list), nil
}

// condition parses one TYPE:JOB:JOB.
func condition(item string) ([]jobspec.Dependency, *Error) {
	kind, rest, found := strings.Cut(item, ":")
	switch kind {
	case "singleton":
		if found {
			return nil, bad("write singleton alone", "%q: singleton takes no jobs", item)
		}
		return []jobspec.Dependency{{Type: kind}}, nil
	case "after", "afterok", "afterany", "afternotok", "aftercorr":
	case "afterburstbuffer", "expand":
		return nil, unsupported("leave it out", "%q: unknown type of dependency", kind)
	default:
		hint := "write after, afterok, afterany, afternotok, aftercorr or singleton, such as afterok:123"
		if strings.Trim(kind, "0123456789_") == "" && kind != "" {
			hint = "write afterany:" + kind + ", or afterok:" + kind + " to start only if it succeeds"
		}
		return nil, bad(hint, "%q is not a dependency", item)
	}
	if !found || rest == "" {
		return nil, bad("write "+kind+":123", "%q does not name a job", item)
	}
	var list []jobspec.Dependency
	for job := range strings.SplitSeq(rest, ":") {
		one, err := target(kind, job)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

// target parses one JOB or, with the type after, JOB+MINUTES.
func target(kind, text string) (jobspec.Dependency, *Error) {
	job, later, delayed := strings.Cut(text, "+")
	d := jobspec.Dependency{Type: kind, Jobs: []string{strings.TrimSuffix(job, "_*")}}
	if t, err := jobspec.ParseTarget(d.Jobs[0]); err != nil || t.Name != "" {
		return d, bad("write the id of a job (123) or of an array task (123_4)", "%q is not the id of a job", job)
	}
	if !delayed {
		return d, nil
	}
	minutes, err := strconv.Atoi(later)
	if kind != "after" || err != nil || minutes < 0 || minutes > maxMinutes {
		return d, bad("write after:123+5 to start five minutes after job 123 has started",
			"%q: after needs a number of minutes, not %q", text, later)
	}
	d.Delay = jobspec.Seconds(minutes) * 60
	return d, nil
}

// anyOf combines conditions into one, of which one job must satisfy it. There must be as many jobs
// as conditions.
func anyOf(list []jobspec.Dependency, conditions int) ([]jobspec.Dependency, *Error) {
	out := list[0]
	out.Match = "any"
	for _, d := range list[1:] {
		if d.Type != out.Type || d.Delay != out.Delay || d.Type == "singleton" || len(list) != conditions {
			return nil, unsupported("write conditions of one type with one job each, such as afterok:1?afterok:2",
				"with ? needs conditions of the same type, with one job each")
		}
		if !slices.Contains(out.Jobs, d.Jobs[0]) {
			out.Jobs = append(out.Jobs, d.Jobs[0])
		}
	}
	return []jobspec.Dependency{out}, nil
}

// merged merges conditions with the same type and delay.
func merged(list []jobspec.Dependency) []jobspec.Dependency {
	var out []jobspec.Dependency
	for _, d := range list {
		i := slices.IndexFunc(out, func(o jobspec.Dependency) bool { return o.Type == d.Type && o.Delay == d.Delay })
		if i < 0 {
			out = append(out, d)
			continue
		}
		for _, job := range d.Jobs {
			if !slices.Contains(out[i].Jobs, job) {
				out[i].Jobs = append(out[i].Jobs, job)
			}
		}
	}
	return out
}
