package cluster

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/jobspec"
)

// checkForm refuses what the state could not hold: it is what a job of any version keeps to.
func checkForm(spec *jobspec.Job) error {
	switch {
	case spec == nil:
		return &SpecError{"a job is missing"}
	case len(spec.Groups) == 0:
		return &SpecError{"a job has at least one group"}
	case spec.Class != "" && spec.Class != jobspec.TE && spec.Class != jobspec.BE:
		return &SpecError{fmt.Sprintf("class is te or be, not %q", spec.Class)}
	case spec.Priority != nil && (*spec.Priority < 0 || *spec.Priority > 100):
		return &SpecError{fmt.Sprintf("priority is 0 to 100, not %d", *spec.Priority)}
	case spec.TimeLimit < 0:
		return &SpecError{"time_limit is negative"}
	}
	for _, l := range []error{
		limit("the number of groups", int64(len(spec.Groups)), maxGroups, ""),
		limit("the size of the job's texts", int64(textSize(spec)), MaxSpecBytes, "bytes"),
		checkRestart(spec.Restart),
	} {
		if l != nil {
			return l
		}
	}
	for i := range spec.Groups {
		if err := checkGroupForm(&spec.Groups[i]); err != nil {
			return err
		}
	}
	return nil
}

func checkGroupForm(g *jobspec.Group) error {
	switch {
	case len(g.Tasks) == 0:
		return &SpecError{fmt.Sprintf("group %q has at least one task", g.Name)}
	case g.TimeLimit < 0:
		return &SpecError{fmt.Sprintf("time_limit of group %q is negative", g.Name)}
	}
	if err := limit("the number of tasks", int64(len(g.Tasks)), maxTasks, ""); err != nil {
		return err
	}
	for i := range g.Tasks {
		if err := checkSize(g, &g.Tasks[i].Resources); err != nil {
			return err
		}
	}
	return checkRestart(g.Restart)
}

// checkSpec2 refuses what a job of submit-jobs/2 cannot ask for. What it refuses must be the same in every version that replays the log.
func checkSpec2(spec *jobspec.Job) error {
	if err := checkForm(spec); err != nil {
		return err
	}
	for i := range spec.Groups {
		if err := checkGroup(spec, &spec.Groups[i]); err != nil {
			return err
		}
	}
	if err := checkScope(spec); err != nil {
		return err
	}
	return checkArray(spec)
}

func checkGroup(spec *jobspec.Job, g *jobspec.Group) error {
	switch {
	case g.Gang != nil && !*g.Gang && g.Count > 1:
		return &SpecError{"gang = false with several workers is not supported: an array has as many elements that start one by one"}
	case !slices.Contains([]string{"", successAll, successLeader, successAny}, g.Success):
		return &SpecError{fmt.Sprintf("success is all, leader or any, not %q", g.Success)}
	case g.OnWorkerFailure == "restart_worker":
		return &SpecError{`on_worker_failure = "restart_worker" is not supported yet: restart_group starts the whole group again`}
	case !slices.Contains([]string{"", onFailureRestart, onFailureIgnore}, g.OnWorkerFailure):
		return &SpecError{fmt.Sprintf("on_worker_failure is restart_group or ignore, not %q", g.OnWorkerFailure)}
	}
	if err := checkShares(g); err != nil {
		return err
	}
	for _, n := range g.Needs() {
		switch {
		case !slices.ContainsFunc(spec.Groups, func(o jobspec.Group) bool { return o.Name == n.Group }):
			return &SpecError{fmt.Sprintf("group %q waits for group %q, which there is not", g.Name, n.Group)}
		case !slices.Contains([]string{"ok", "any", "failed", "started"}, n.Condition):
			return &SpecError{fmt.Sprintf("group %q waits for %q of group %q: it is ok, any, failed or started", g.Name, n.Condition, n.Group)}
		}
	}
	if err := checkElastic(spec, g); err != nil {
		return err
	}
	return checkWhere(spec, g)
}

// checkScope refuses groups that could never start together, or never at all.
func checkScope(spec *jobspec.Job) error {
	waits := slices.ContainsFunc(spec.Groups, func(g jobspec.Group) bool { return len(g.DependsOn) > 0 })
	switch {
	case spec.GangScope != "" && spec.GangScope != "group" && spec.GangScope != gangScopeJob:
		return &SpecError{fmt.Sprintf("gang_scope is group or job, not %q", spec.GangScope)}
	case waits && oneGang(spec):
		return &SpecError{`groups with depends_on in a job with gang_scope = "job" are not supported yet`}
	case waits && len(spec.Groups) == 1:
		return &SpecError{fmt.Sprintf("group %q waits for itself", spec.Groups[0].Name)}
	case spec.Array != nil && len(spec.Groups) > 1 && !oneGang(spec):
		return &SpecError{`an array of several groups is not supported yet unless gang_scope = "job"`}
	case oneGang(spec):
		workers := int64(0)
		for i := range spec.Groups {
			workers += int64(most(&spec.Groups[i]))
		}
		if err := checkOneElastic(spec); err != nil {
			return err
		}
		return limit("the number of workers of all groups", workers, maxWorkers, "")
	}
	names := map[string]bool{}
	for i := range spec.Groups {
		if name := spec.Groups[i].Name; names[name] && len(spec.Groups) > 1 {
			return &SpecError{fmt.Sprintf("two groups have the name %q", name)}
		}
		names[spec.Groups[i].Name] = true
	}
	return checkRing(spec)
}

// checkRing refuses groups that wait for each other: it takes away what can start until nothing is left.
func checkRing(spec *jobspec.Job) error {
	left := map[string]bool{}
	for i := range spec.Groups {
		left[spec.Groups[i].Name] = true
	}
	for len(left) > 0 {
		before := len(left)
		for i := range spec.Groups {
			g := &spec.Groups[i]
			if left[g.Name] && !slices.ContainsFunc(g.Needs(), func(n jobspec.GroupNeed) bool { return left[n.Group] }) {
				delete(left, g.Name)
			}
		}
		if len(left) == before {
			return &SpecError{"groups of the job wait for each other"}
		}
	}
	return nil
}

func checkArray(spec *jobspec.Job) error {
	a := spec.Array
	if a == nil {
		return nil
	}
	set := 0
	for _, is := range []bool{a.Indices != "", len(a.Matrix) > 0, len(a.Columns)+len(a.Rows) > 0} {
		if is {
			set++
		}
	}
	switch n := a.Len(); {
	case set != 1:
		return &SpecError{"an array has exactly one of indices, matrix and file"}
	case n == 0:
		return &SpecError{fmt.Sprintf("the array has no elements, or more than %d", MaxMembers)}
	case a.MaxParallel < 0:
		return &SpecError{"max_parallel is negative"}
	case a.Order != "" && a.Order != "index" && a.Order != "random":
		return &SpecError{fmt.Sprintf("order of an array is index or random, not %q", a.Order)}
	}
	for _, row := range a.Rows {
		if len(row) != len(a.Columns) {
			return &SpecError{fmt.Sprintf("a row of the array has %d values for %d columns", len(row), len(a.Columns))}
		}
	}
	return nil
}

// newIn2 names what in a job is of version 2, "" if nothing is. A job of submit-jobs/1 has none of it: controllers of that version cannot
// read it.
func newIn2(spec *jobspec.Job) string {
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"begin", spec.Begin != ""}, {"deadline", spec.Deadline != ""}, {"gang_scope", spec.GangScope != ""},
		{"on_dependency_failure", spec.OnDependencyFailure != ""}, {"dependency", len(spec.Dependencies) > 0}, {"array", spec.Array != nil},
		{"log_policy", len(spec.LogPolicies) > 0}, {"constraint", len(spec.Constraints) > 0}, {"affinity", len(spec.Affinities) > 0},
		{"nodes", len(spec.Nodes) > 0}, {"exclude_nodes", len(spec.ExcludeNodes) > 0}, {"features", len(spec.Features) > 0},
	} {
		if field.set {
			return field.name
		}
	}
	for i := range spec.Groups {
		if name := groupNewIn2(&spec.Groups[i]); name != "" {
			return name
		}
	}
	return ""
}

func groupNewIn2(g *jobspec.Group) string {
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"depends_on", len(g.DependsOn) > 0}, {"time_limit of a group", g.TimeLimit != 0}, {"exclusive", g.Exclusive}, {"success", g.Success != ""},
		{"on_worker_failure", g.OnWorkerFailure != ""}, {"restart of a group", g.Restart != nil},
		{"constraint", len(g.Constraints) > 0}, {"affinity", len(g.Affinities) > 0},
	} {
		if field.set {
			return field.name
		}
	}
	for i := range g.Tasks {
		t := &g.Tasks[i]
		switch {
		case t.Template:
			return "a reference such as ${array.index}"
		case t.Lifecycle != nil:
			return "lifecycle"
		case len(t.Secrets) > 0:
			return "secret"
		case t.Ulimits != nil:
			return "ulimits"
		case t.Resources.GPU != nil:
			return "gpu"
		case t.Resources.RDMA != "":
			return "rdma"
		}
	}
	return ""
}

// NeedsVersion returns the cluster version that a job needs, and what of it is the reason where that is not the first.
func NeedsVersion(spec *jobspec.Job) (version int, because string) {
	if because = newIn3(spec); because != "" {
		return 3, because
	}
	switch {
	case len(spec.Groups) > 1:
		return 2, "several groups"
	case len(spec.Groups) == 1 && len(spec.Groups[0].Tasks) > 1:
		return 2, "several tasks"
	}
	if because = newIn2(spec); because != "" {
		return 2, because
	}
	return 1, ""
}
