package script

import (
	"maps"
	"slices"
	"strconv"

	"github.com/rota-hpc/rota/jobspec"
)

// A heterogeneous job has components, each with its own nodes. In a script, lines #SBATCH hetjob
// separate the components; on a command line, colons do. The components become groups that start
// together. The script runs on the first node of the first component, and starts steps on all
// components.

// everyComponent marks a flag that applies to each component, as variables do.
const everyComponent = -1

// ofComponent are the flags that each component sets for itself. All other flags apply to the whole
// job.
var ofComponent = map[string]bool{"nodes": true, "ntasks": true, "ntasks-per-node": true, "ntasks-per-gpu": true,
	"cpus-per-task": true, "cpus-per-gpu": true, "mincpus": true, "mem": true, "mem-per-cpu": true, "mem-per-gpu": true,
	"gpus": true, "gpus-per-node": true, "gpus-per-task": true, "gpu-bind": true, "gres": true, "constraint": true,
	"nodelist": true, "exclude": true, "exclusive": true, "licenses": true, "distribution": true}

// ofSubmission are flags about the submission; any component may have them.
var ofSubmission = map[string]bool{"wrap": true, "parsable": true, "quiet": true, "wait": true, "test-only": true}

// propagated are the flags that later components inherit unless they set their own value.
var propagated = []string{"exclude", "distribution"}

// components returns the number of components.
func components(t *text, all []setting) int {
	n := t.components
	for _, s := range all {
		n = max(n, s.component+1)
	}
	return max(n, 1)
}

// applyComponents applies the flags of all components: the first component's flags apply to the job
// itself.
func (a *request) applyComponents(t *text, all []setting) {
	count := components(t, all)
	for i, s := range all {
		if ofSubmission[s.spec.Name] {
			all[i].component = 0
		}
	}
	of := func(n int) []setting {
		return slices.DeleteFunc(slices.Clone(all), func(s setting) bool {
			return s.component != n && s.component != everyComponent
		})
	}
	a.applyFlags(of(0))
	for n := 1; n < min(count, jobspec.MaxGroups+1); n++ { // the rules of jobs refuse more components
		a.more = append(a.more, a.component(of(n)))
	}
	if by, given := a.applied["array"]; given && len(a.more) > 0 {
		a.addFlag(Refused, CodeHetJob, by, "submit a script for each element, or one component",
			"an array of heterogeneous jobs is not supported, nor is it in Slurm")
	}
}

// component applies the flags of a component after the first. It inherits the job's flags that
// concern the task.
func (a *request) component(own []setting) *request {
	c := newRequest(&Result{}, a.opts, &jobspec.Job{})
	c.report = a.report
	c.env, c.mode, c.goOn, c.imageDir, c.mounted = a.env, a.mode, a.goOn, a.imageDir, a.mounted
	before := a
	if len(a.more) > 0 {
		before = a.more[len(a.more)-1]
	}
	own = slices.DeleteFunc(own, func(s setting) bool {
		return s.spec.Honoured() && !ofComponent[s.spec.Name] && a.isJobs(s)
	})
	given := func(name string) bool {
		return slices.ContainsFunc(own, func(s setting) bool { return s.spec.Name == name })
	}
	for _, name := range propagated {
		if s, has := before.applied[name]; has && !given(name) {
			own = append(own, s)
		}
	}
	c.applyFlags(own)
	for _, name := range []string{"kill-on-bad-exit", "overlap"} { // steps read these
		if s, has := a.applied[name]; has {
			c.applied[name] = s
		}
	}
	return c
}

// isJobs handles a whole-job flag in a later component. The flag is refused unless the job has the
// same value.
func (a *request) isJobs(s setting) bool {
	if first, has := a.applied[s.spec.Name]; has && first.value == s.value || s.component == everyComponent {
		return true
	}
	hint := "write it in the first component"
	if s.spec.Name == "partition" {
		hint = "name one queue in the first component, and choose nodes by --constraint or --nodelist"
	}
	a.addFlag(Refused, CodeHetJob, s, hint, "is for the whole job, and not for one component")
	return true
}

// setComponents turns the components after the first into groups that start together with it.
func (a *request) setComponents() {
	if len(a.more) == 0 {
		return
	}
	a.result.Tasks = 0 // each component has its own nodes, so tasks are not spread over unknown nodes
	j := a.job
	j.GangScope = jobspec.ScopeJob
	a.narrow(&j.Groups[0], j)
	j.Nodes, j.ExcludeNodes, j.Features = nil, nil, nil
	for _, c := range a.more {
		s := c.shape()
		c.imageDir, c.mounted = a.imageDir, a.mounted // the image and mounts may come from the script's steps
		g := c.group(s)
		c.launch(&g.Tasks[0], s)
		for name, value := range c.askedVariables() { // the first component's variables belong to the script
			g.Tasks[0].Env = withVariable(g.Tasks[0].Env, name, value)
		}
		c.narrow(&g, c.job)
		for name, n := range c.job.Licenses {
			j.Licenses = maps.Clone(j.Licenses)
			if j.Licenses == nil {
				j.Licenses = map[string]int{}
			}
			j.Licenses[name] += n
		}
		j.Groups = append(j.Groups, g)
	}
	for i := range j.Groups {
		j.Groups[i].Name = "het-" + strconv.Itoa(i)
	}
}

// narrow restricts a group to the nodes that its component requests.
func (a *request) narrow(g *jobspec.Group, asked *jobspec.Job) {
	for _, key := range asked.Features {
		g.Constraints = append(g.Constraints, jobspec.Constraint{Attribute: "node.label." + key, Operator: "is_set"})
	}
	for _, c := range []struct {
		operator string
		lists    []string
	}{{"in", asked.Nodes}, {"not_in", asked.ExcludeNodes}} {
		if names, err := jobspec.ExpandNodes(c.lists); err == nil && len(names) > 0 {
			g.Constraints = append(g.Constraints,
				jobspec.Constraint{Attribute: "node.name", Operator: c.operator, Values: names})
		}
	}
}
