package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/typo"
)

// beginAndDeadline checks begin and deadline as far as possible without a clock. [ValidateAt] does
// the rest.
func (c *checker) beginAndDeadline(j *jobspec.Job) {
	begin, deadline := c.time("begin", j.Begin), c.time("deadline", j.Deadline)
	switch {
	case begin < 0 || deadline < 0 || j.Deadline == "":
	case j.Begin != "" && deadline <= begin:
		c.add(jobspec.CodeDeadline, "deadline", "make the deadline later than begin",
			"the deadline %s is not after begin, %s", j.Deadline, j.Begin)
	case j.Begin != "" && begin+int64(j.TimeLimit) > deadline:
		c.add(jobspec.CodeDeadline, "deadline", "make the deadline later, or time_limit shorter",
			"a job that begins at %s and may run for %v may not have ended by %s", j.Begin, j.TimeLimit, j.Deadline)
	}
}

// time parses a time. It returns seconds since 1970, 0 for an unset time, or -1 for a mistake.
func (c *checker) time(where, text string) int64 {
	if text == "" {
		return 0
	}
	unix, err := jobspec.ParseTime(text)
	if err != nil {
		c.add(jobspec.CodeTime, where, `write a time with its zone such as "2026-03-01T08:00:00Z"`, "%v", err)
		return -1
	}
	return unix
}

// ValidateAt refuses a deadline that the job cannot meet if it is submitted at now, in seconds
// since 1970. It is not part of [Validate], because a valid job stays valid while it waits.
func ValidateAt(j *jobspec.Job, now int64) []jobspec.Problem {
	deadline, err := jobspec.ParseTime(j.Deadline)
	if err != nil || j.Deadline == "" {
		return nil
	}
	c := &checker{}
	switch {
	case deadline <= now:
		c.add(jobspec.CodeDeadline, "deadline", "choose a time in the future", "the deadline %s has passed", j.Deadline)
	case now+int64(j.TimeLimit) > deadline:
		c.add(jobspec.CodeDeadline, "deadline", "make the deadline later, or time_limit shorter",
			"the job may run for %v, but its deadline is in %v", j.TimeLimit, jobspec.Seconds(deadline-now))
	}
	return c.problems
}

func (c *checker) dependencies(j *jobspec.Job) {
	c.atMost("dependencies", len(j.Dependencies), jobspec.MaxDependencies, "dependencies")
	total := 0
	for i := range j.Dependencies {
		c.dependency(at("dependencies", i), &j.Dependencies[i], j)
		total += len(j.Dependencies[i].Jobs)
	}
	c.atMost("dependencies", total, jobspec.MaxDependencyJobs, "jobs to wait for")
}

func (c *checker) dependency(where string, d *jobspec.Dependency, j *jobspec.Job) {
	c.required(where+".type", d.Type, `write type = "afterok"`)
	c.choice(where+".type", d.Type, "afterok", "afterany", "afternotok", "after", "aftercorr", "singleton")
	c.choice(where+".match", d.Match, "all", "any")
	c.duration(where+".delay", d.Delay)
	switch {
	case d.Type == "singleton" && len(d.Jobs) > 0:
		c.add(jobspec.CodeDependencyUse, where+".jobs", "leave jobs out",
			"singleton waits for your jobs of the same name, so it takes no list")
	case d.Type != "singleton" && len(d.Jobs) == 0:
		c.add(jobspec.CodeDependencyUse, where, "write jobs = [123] or the name of a job",
			"the dependency does not name the jobs to wait for")
	case d.Type == "aftercorr" && j.Array == nil:
		c.add(jobspec.CodeDependencyUse, where+".type", "use afterok, or make this job an array",
			"with aftercorr each element waits for the element with the same index, but this job has no array")
	case d.Type == "aftercorr" && d.Match == "any":
		c.add(jobspec.CodeDependencyUse, where+".match", "leave match out",
			"with aftercorr each element waits for all of its counterparts")
	case d.Type == "aftercorr" && j.OnDependencyFailure == "hold":
		c.add(jobspec.CodeDependencyUse, where+".type", "leave on_dependency_failure out",
			"with aftercorr elements can be cancelled one by one, but not held one by one")
	}
	taken := map[string]bool{}
	for i, target := range d.Jobs {
		c.dependencyTarget(at(where+".jobs", i), target, d.Type)
		if taken[target] && !c.scheduling {
			c.add(jobspec.CodeDuplicate, at(where+".jobs", i), "name it once", "%q is given twice", target)
		}
		taken[target] = true
	}
}

// dependencyTarget checks what a dependency waits for: 123, 123_4 or a name.
func (c *checker) dependencyTarget(where, target, typ string) {
	t, err := jobspec.ParseTarget(target)
	switch {
	case err != nil:
		c.add(jobspec.CodeDependency, where,
			`write the id of a job (123), of an array's element (123_4), or the name of a job of yours`, "%v", err)
	case typ == "aftercorr" && t.Element:
		c.add(jobspec.CodeDependencyUse, where, fmt.Sprintf("write %q", fmt.Sprint(t.ID)),
			"with aftercorr a job must name a whole array, not a single element")
	}
}

func (c *checker) logPolicies(policies []jobspec.LogPolicy) {
	c.atMost("log_policies", len(policies), jobspec.MaxLogPolicies, "log policies")
	taken := map[string]bool{}
	for i := range policies {
		p, where := &policies[i], at("log_policies", i)
		c.name(where+".name", p.Name)
		c.notTaken(where+".name", "log policy", p.Name, taken)
		c.required(where+".action", p.Action, `write action = "fail"`)
		c.choice(where+".action", p.Action, "exclude_node", "fail", "restart", "event")
		c.choice(where+".stream", p.Stream, "both", "stdout", "stderr")
		c.required(where+".pattern", p.Pattern, `write pattern = "CUDA out of memory"`)
		if p.Pattern == "" {
			continue
		}
		re, err := jobspec.CompilePattern(p.Pattern)
		c.addAt(where+".pattern", err)
		if err == nil && re.MatchString("") {
			c.add(jobspec.CodePattern, where+".pattern", "write a pattern that matches only the intended lines",
				"%q matches every line", p.Pattern)
		}
	}
}

// addAt adds a problem, with the path of its place.
func (c *checker) addAt(where string, err error) {
	if p, ok := err.(jobspec.Problem); ok { //nolint:errorlint // the called functions return a Problem or nil
		p.Path = where
		c.problems = append(c.problems, p)
	}
}

// notTaken refuses a name in use, and marks the name as used.
func (c *checker) notTaken(where, what, name string, taken map[string]bool) {
	if taken[name] {
		c.add(jobspec.CodeDuplicate, where, "rename one of them", "the %s %q is given twice", what, name)
	}
	taken[name] = true
}

// groupDependencies checks depends_on of all groups: unknown groups, unknown conditions, and
// cycles.
func (c *checker) groupDependencies(j *jobspec.Job) {
	if !slices.ContainsFunc(j.Groups, func(g jobspec.Group) bool { return len(g.DependsOn) > 0 }) {
		return
	}
	names := make([]string, len(j.Groups))
	for i := range j.Groups {
		names[i] = groupName(&j.Groups[i])
	}
	for i := range j.Groups {
		taken := map[string]bool{}
		for k, need := range j.Groups[i].Needs() {
			where := at(at("groups", i)+".depends_on", k)
			name, condition := need.Group, need.Condition
			switch {
			case name == names[i]:
				c.add(jobspec.CodeGroupCycle, where, "leave it out", "the group %q waits for itself", name)
			case !slices.Contains(names, name):
				c.add(jobspec.CodeDependsOn, where, typo.Hint(name, names), "the job has no group %q", name)
			case !slices.Contains([]string{"ok", "any", "failed", "started"}, condition):
				c.add(jobspec.CodeDependsOn, where,
					fmt.Sprintf("write %s:ok, %s:any, %s:failed or %s:started", name, name, name, name),
					"%q is not a condition of a group", condition)
			}
			if taken[name] {
				c.add(jobspec.CodeDuplicate, where, "keep one of them", "depends_on names the group %q twice", name)
			}
			taken[name] = true
		}
	}
	c.groupCycle(j, names)
}

// groupCycle reports one cycle of groups that wait for each other.
func (c *checker) groupCycle(j *jobspec.Job, names []string) {
	const fresh, open, done = 0, 1, 2
	state := make([]int, len(names))
	var walk func(i int, path []string) bool
	walk = func(i int, path []string) bool {
		path = append(path, names[i])
		state[i] = open
		for k, need := range j.Groups[i].Needs() {
			next := slices.Index(names, need.Group)
			if next < 0 || next == i {
				continue
			}
			if state[next] == open {
				ring := append(path[slices.Index(path, names[next]):], names[next])
				c.add(jobspec.CodeGroupCycle, at(at("groups", i)+".depends_on", k), "remove one of the dependencies",
					"the groups wait for each other: %s", strings.Join(ring, " for "))
				return true
			}
			if state[next] == fresh && walk(next, path) {
				return true
			}
		}
		state[i] = done
		return false
	}
	for i := range names {
		if state[i] == fresh && walk(i, nil) {
			return
		}
	}
}
