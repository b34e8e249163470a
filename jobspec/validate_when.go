package jobspec

import (
	"fmt"
	"slices"
	"strings"
)

// Limits of what a job waits for, and of what it watches for.
const (
	MaxDependencies   = 64
	MaxDependencyJobs = 1000
	MaxLogPolicies    = 32
	MaxPattern        = 1000
)

// times checks when a job may begin and must have ended, as far as that can be known without a clock; [Job.ValidateAt] does the rest.
func (c *checker) times(j *Job) {
	begin, deadline := c.time("begin", j.Begin), c.time("deadline", j.Deadline)
	switch {
	case begin < 0 || deadline < 0 || j.Deadline == "":
	case j.Begin != "" && deadline <= begin:
		c.add(CodeDeadline, "deadline", "make the deadline later than begin", "the deadline %s is not after begin, %s", j.Deadline, j.Begin)
	case j.Begin != "" && begin+int64(j.TimeLimit) > deadline:
		c.add(CodeDeadline, "deadline", "make the deadline later, or time_limit shorter",
			"a job that begins at %s and may run for %v has not ended by %s", j.Begin, j.TimeLimit, j.Deadline)
	}
}

// time reads a time; -1 says that it is wrong.
func (c *checker) time(where, text string) int64 {
	if text == "" {
		return 0
	}
	unix, err := ParseTime(text)
	if err != nil {
		c.add(CodeTime, where, `write a time with its zone such as "2026-03-01T08:00:00Z"`, "%v", err)
		return -1
	}
	return unix
}

// ValidateAt returns what is wrong with the job's times when it is submitted at now, in seconds since 1970: a deadline that the job
// cannot meet any more. It is not part of [Job.Validate], because a good job does not become bad while it waits.
func (j *Job) ValidateAt(now int64) []Problem {
	deadline, err := ParseTime(j.Deadline)
	if err != nil || j.Deadline == "" {
		return nil
	}
	c := &checker{}
	switch {
	case deadline <= now:
		c.add(CodeDeadline, "deadline", "choose a time to come", "the deadline %s has passed", j.Deadline)
	case now+int64(j.TimeLimit) > deadline:
		c.add(CodeDeadline, "deadline", "make the deadline later, or time_limit shorter",
			"the job may run for %v, and the deadline is in %v", j.TimeLimit, Seconds(deadline-now))
	}
	return c.problems
}

func (c *checker) dependencies(j *Job) {
	c.atMost("dependencies", len(j.Dependencies), MaxDependencies, "dependencies")
	total := 0
	for i := range j.Dependencies {
		c.dependency(at("dependencies", i), &j.Dependencies[i], j.Array != nil)
		total += len(j.Dependencies[i].Jobs)
	}
	c.atMost("dependencies", total, MaxDependencyJobs, "jobs to wait for")
}

func (c *checker) dependency(where string, d *Dependency, isArray bool) {
	c.required(where+".type", d.Type, `write type = "afterok"`)
	c.choice(where+".type", d.Type, "afterok", "afterany", "afternotok", "after", "aftercorr", "singleton")
	c.choice(where+".match", d.Match, "all", "any")
	c.duration(where+".delay", d.Delay)
	switch {
	case d.Type == "singleton" && len(d.Jobs) > 0:
		c.add(CodeDependencyUse, where+".jobs", "leave jobs out", "singleton waits for your jobs of the same name, and takes no list")
	case d.Type != "singleton" && len(d.Jobs) == 0:
		c.add(CodeDependencyUse, where, "write jobs = [123] or the name of a job", "the dependency does not say for which jobs it waits")
	case d.Type == "aftercorr" && !isArray:
		c.add(CodeDependencyUse, where+".type", "use afterok, or make this job an array",
			"with aftercorr each element waits for the element of the same index, and this job has no array")
	}
	taken := map[string]bool{}
	for i, target := range d.Jobs {
		c.target(at(where+".jobs", i), target, d.Type)
		if taken[target] {
			c.add(CodeDuplicate, at(where+".jobs", i), "name it once", "%q is there twice", target)
		}
		taken[target] = true
	}
}

// target checks what a dependency waits for: 123, 123_4 or a name.
func (c *checker) target(where, target, typ string) {
	t, err := ParseTarget(target)
	switch {
	case err != nil:
		c.add(CodeDependency, where, `write the id of a job (123), of an array's element (123_4), or the name of a job of yours`, "%v", err)
	case typ == "aftercorr" && t.Element:
		c.add(CodeDependencyUse, where, fmt.Sprintf("write %q", fmt.Sprint(t.ID)), "with aftercorr elements wait for those of a whole array, not for one")
	}
}

// Target is what a dependency waits for: a job by id, an element of an array, or the owner's newest job of a name.
type Target struct {
	ID      int64
	Element bool // only the element with Index
	Index   int
	Name    string // set: by name, and the rest is not
}

// ParseTarget reads 123, 123_4 or a name. What has only digits, or digits around one underscore, is an id.
func ParseTarget(text string) (Target, error) {
	job, index, isElement := strings.Cut(text, "_")
	digits := isDigits(job) && (!isElement || isDigits(index))
	switch {
	case !digits && ValidName(text):
		return Target{Name: text}, nil
	case !digits:
		return Target{}, fmt.Errorf("%q is neither the id nor the name of a job", text)
	case len(job) > 18 || job[0] == '0' || len(index) > 10 || isElement && number(index) > MaxIndex:
		return Target{}, fmt.Errorf("%q is no id that a job can have", text)
	}
	var id int64
	for _, d := range job {
		id = id*10 + int64(d-'0')
	}
	if !isElement {
		return Target{ID: id}, nil
	}
	return Target{ID: id, Element: true, Index: number(index)}, nil
}

func (c *checker) logPolicies(policies []LogPolicy) {
	c.atMost("log_policies", len(policies), MaxLogPolicies, "log policies")
	taken := map[string]bool{}
	for i := range policies {
		p, where := &policies[i], at("log_policies", i)
		c.name(where+".name", p.Name)
		c.unique(where+".name", "log policy", p.Name, taken)
		c.required(where+".action", p.Action, `write action = "fail"`)
		c.choice(where+".action", p.Action, "exclude_node", "fail", "restart", "event")
		c.choice(where+".stream", p.Stream, "both", "stdout", "stderr")
		c.required(where+".pattern", p.Pattern, `write pattern = "CUDA out of memory"`)
		if p.Pattern == "" {
			continue
		}
		re, err := compileRE2(p.Pattern)
		c.report(where+".pattern", err)
		if err == nil && re.MatchString("") {
			c.add(CodePattern, where+".pattern", "describe the line that is meant", "%q matches every line", p.Pattern)
		}
	}
}

// report adds a problem that a function without a path has found.
func (c *checker) report(where string, err error) {
	if p, ok := err.(Problem); ok { //nolint:errorlint // the functions asked return a Problem or nothing
		p.Path = where
		c.problems = append(c.problems, p)
	}
}

// unique refuses what has been there before.
func (c *checker) unique(where, what, name string, taken map[string]bool) {
	if taken[name] {
		c.add(CodeDuplicate, where, "name one of them differently", "the %s %q is there twice", what, name)
	}
	taken[name] = true
}

// dependsOn splits "train:ok" into the group and the condition; without one it is ok.
func dependsOn(text string) (group, condition string) {
	group, condition, found := strings.Cut(text, ":")
	if !found {
		condition = "ok"
	}
	return group, condition
}

// Needs returns the groups that g waits for and under which condition: ok, any, failed or started.
func (g *Group) Needs() []GroupNeed {
	var needs []GroupNeed
	for _, text := range g.DependsOn {
		name, condition := dependsOn(text)
		needs = append(needs, GroupNeed{name, condition})
	}
	return needs
}

// GroupNeed is a group that must have come to a condition.
type GroupNeed struct{ Group, Condition string }

// order checks what the groups wait for: groups that there are, and none itself in the end.
func (c *checker) order(j *Job) {
	if !slices.ContainsFunc(j.Groups, func(g Group) bool { return len(g.DependsOn) > 0 }) {
		return
	}
	names := make([]string, len(j.Groups))
	for i := range j.Groups {
		names[i] = j.Groups[i].name()
	}
	for i := range j.Groups {
		taken := map[string]bool{}
		for k, text := range j.Groups[i].DependsOn {
			where := at(at("groups", i)+".depends_on", k)
			name, condition := dependsOn(text)
			switch {
			case name == names[i]:
				c.add(CodeGroupCycle, where, "leave it out", "the group %q waits for itself", name)
			case !slices.Contains(names, name):
				c.add(CodeDependsOn, where, didYouMean(name, names), "the job has no group %q", name)
			case !slices.Contains([]string{"ok", "any", "failed", "started"}, condition):
				c.add(CodeDependsOn, where, fmt.Sprintf("write %s:ok, %s:any, %s:failed or %s:started", name, name, name, name), "%q is no condition of a group", condition)
			}
			if taken[name] {
				c.add(CodeDuplicate, where, "keep one of them", "the group %q is waited for twice", name)
			}
			taken[name] = true
		}
	}
	c.cycle(j, names)
}

// cycle reports one ring of groups that wait for each other.
func (c *checker) cycle(j *Job, names []string) {
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
				c.add(CodeGroupCycle, at(at("groups", i)+".depends_on", k), "let one of them start by itself",
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
