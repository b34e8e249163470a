package script

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// dependency reads what --dependency takes: TYPE:JOB[+MINUTES][:JOB...], with commas between conditions of which all must be met, or ?
// between those of which one must.
func (a *asked) dependency(s setting) {
	a.job.Dependencies = nil
	all, either := strings.Contains(s.value, ","), strings.Contains(s.value, "?")
	if all && either {
		a.bad(s, "write two job files, or say one of them in other words", "%q: , and ? cannot both stand between conditions", s.value)
		return
	}
	separator := ","
	if either {
		separator = "?"
	}
	var list []jobspec.Dependency
	for item := range strings.SplitSeq(s.value, separator) {
		one, ok := a.condition(s, strings.TrimSpace(item))
		if !ok {
			return
		}
		if list = append(list, one...); len(list) > jobspec.MaxDependencyJobs {
			a.bad(s, "let one job wait for some, and this one for it", "a job waits for at most %d others", jobspec.MaxDependencyJobs)
			return
		}
	}
	if either {
		if list = a.oneOf(s, list); list == nil {
			return
		}
	}
	a.job.Dependencies = merged(list)
}

// condition reads one TYPE:JOB:JOB.
func (a *asked) condition(s setting, item string) ([]jobspec.Dependency, bool) {
	kind, rest, found := strings.Cut(item, ":")
	switch kind {
	case "singleton":
		if found {
			a.bad(s, "write singleton alone", "%q: singleton takes no jobs", item)
		}
		return []jobspec.Dependency{{Type: kind}}, !found
	case "after", "afterok", "afterany", "afternotok", "aftercorr":
	case "afterburstbuffer", "expand":
		a.refuse(s, "leave it out", "%q: there is no such dependency", kind)
		return nil, false
	default:
		hint := "write after, afterok, afterany, afternotok, aftercorr or singleton, such as afterok:123"
		if strings.Trim(kind, "0123456789_") == "" && kind != "" {
			hint = "write afterany:" + kind + ", or afterok:" + kind + " to start only if it went well"
		}
		a.bad(s, hint, "%q is not a dependency", item)
		return nil, false
	}
	if !found || rest == "" {
		a.bad(s, "write "+kind+":123", "%q names no job", item)
		return nil, false
	}
	var list []jobspec.Dependency
	for target := range strings.SplitSeq(rest, ":") {
		one, ok := a.target(s, kind, target)
		if !ok {
			return nil, false
		}
		list = append(list, one)
	}
	return list, true
}

// target reads one JOB or, behind after, JOB+MINUTES.
func (a *asked) target(s setting, kind, text string) (jobspec.Dependency, bool) {
	job, later, delayed := strings.Cut(text, "+")
	d := jobspec.Dependency{Type: kind, Jobs: []string{strings.TrimSuffix(job, "_*")}}
	if t, err := jobspec.ParseTarget(d.Jobs[0]); err != nil || t.Name != "" {
		a.bad(s, "write the id of a job (123) or of an array's element (123_4)", "%q is not the id of a job", job)
		return d, false
	}
	if !delayed {
		return d, true
	}
	minutes, err := strconv.Atoi(later)
	if kind != "after" || err != nil || minutes < 0 || minutes > mostNumber {
		a.bad(s, "write after:123+5 for five minutes behind the start of job 123", "%q: %q is not a number of minutes behind after", text, later)
		return d, false
	}
	d.Delay = jobspec.Seconds(minutes) * 60
	return d, true
}

// oneOf makes one condition of several of which one must be met.
func (a *asked) oneOf(s setting, list []jobspec.Dependency) []jobspec.Dependency {
	out := list[0]
	out.Match = "any"
	groups := strings.Split(s.value, "?")
	for i, d := range list[1:] {
		if d.Type != out.Type || d.Delay != out.Delay || d.Type == "singleton" || len(list) != len(groups) {
			a.refuse(s, "write conditions of one type with one job each, such as afterok:1?afterok:2", "%q: of such conditions all must be met, not one", cutShort(s.value))
			return nil
		}
		if !slices.Contains(out.Jobs, list[i+1].Jobs[0]) {
			out.Jobs = append(out.Jobs, d.Jobs[0])
		}
	}
	return []jobspec.Dependency{out}
}

// merged puts jobs under one condition that has the same type and delay.
func merged(list []jobspec.Dependency) []jobspec.Dependency {
	var out []jobspec.Dependency
	for _, d := range list {
		i := slices.IndexFunc(out, func(o jobspec.Dependency) bool { return o.Type == d.Type && o.Delay == d.Delay && o.Match == d.Match })
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

func (a *asked) invalidDependency(s setting) {
	switch strings.ToLower(s.value) {
	case "yes", "true", "1":
		a.job.OnDependencyFailure = "cancel"
	case "no", "false", "0":
		a.job.OnDependencyFailure = "hold"
	default:
		a.bad(s, "write yes or no", "%q is neither yes nor no", s.value)
	}
}
