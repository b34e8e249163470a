package admission

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/topology"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Bounds of one job of several groups, and of one group of several tasks.
const (
	maxGroups = 64
	maxTasks  = 64
)

// CheckForm refuses a specification that the state could not hold: parts that are missing, negative
// or too many. A snapshot's jobs are held to it too.
func CheckForm(spec *jobspec.Job) error {
	switch {
	case spec == nil:
		return &model.SpecError{Text: "a job is missing"}
	case len(spec.Groups) == 0:
		return &model.SpecError{Text: "a job has at least one group"}
	case spec.Class != "" && spec.Class != jobspec.TE && spec.Class != jobspec.BE:
		return &model.SpecError{Text: fmt.Sprintf("class is te or be, not %q", spec.Class)}
	case spec.Priority != nil && (*spec.Priority < 0 || *spec.Priority > 100):
		return &model.SpecError{Text: fmt.Sprintf("priority is 0 to 100, not %d", *spec.Priority)}
	case spec.TimeLimit < 0:
		return &model.SpecError{Text: "time_limit is negative"}
	}
	for _, l := range []error{
		model.Limit("the number of groups", int64(len(spec.Groups)), maxGroups, ""),
		model.Limit("the size of the job's texts", int64(textSize(spec)), model.MaxSpecBytes, "bytes"),
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
		return &model.SpecError{Text: fmt.Sprintf("group %q has at least one task", g.Name)}
	case g.TimeLimit < 0:
		return &model.SpecError{Text: fmt.Sprintf("time_limit of group %q is negative", g.Name)}
	}
	if err := model.Limit("the number of tasks", int64(len(g.Tasks)), maxTasks, ""); err != nil {
		return err
	}
	for i := range g.Tasks {
		if err := checkSize(g, &g.Tasks[i].Resources); err != nil {
			return err
		}
	}
	return checkRestart(g.Restart)
}

// CheckSpec refuses a specification that no cluster can carry out.
func CheckSpec(spec *jobspec.Job) error {
	if err := CheckForm(spec); err != nil {
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
		return &model.SpecError{Text: "gang = false with several workers is not supported: an array has as many elements that start one by one"}
	case !slices.Contains([]string{"", model.SuccessAll, model.SuccessLeader, model.SuccessAny}, g.Success):
		return &model.SpecError{Text: fmt.Sprintf("success is all, leader or any, not %q", g.Success)}
	case g.OnWorkerFailure == "restart_worker":
		return &model.SpecError{Text: `on_worker_failure = "restart_worker" is not supported yet: restart_group starts the whole group again`}
	case !slices.Contains([]string{"", model.OnFailureRestart, model.OnFailureIgnore}, g.OnWorkerFailure):
		return &model.SpecError{Text: fmt.Sprintf("on_worker_failure is restart_group or ignore, not %q", g.OnWorkerFailure)}
	}
	if err := model.CheckShares(g); err != nil {
		return err
	}
	for _, n := range g.Needs() {
		switch {
		case !slices.ContainsFunc(spec.Groups, func(o jobspec.Group) bool { return o.Name == n.Group }):
			return &model.SpecError{Text: fmt.Sprintf("group %q waits for group %q, which there is not", g.Name, n.Group)}
		case !slices.Contains([]string{"ok", "any", "failed", "started"}, n.Condition):
			return &model.SpecError{Text: fmt.Sprintf("group %q waits for %q of group %q: it is ok, any, failed or started", g.Name, n.Condition, n.Group)}
		}
	}
	if err := model.CheckElastic(spec, g); err != nil {
		return err
	}
	return topology.CheckWhere(spec, g)
}

// checkScope refuses groups that could never start together, or never at all.
func checkScope(spec *jobspec.Job) error {
	waits := slices.ContainsFunc(spec.Groups, func(g jobspec.Group) bool { return len(g.DependsOn) > 0 })
	switch {
	case spec.GangScope != "" && spec.GangScope != "group" && spec.GangScope != model.GangScopeJob:
		return &model.SpecError{Text: fmt.Sprintf("gang_scope is group or job, not %q", spec.GangScope)}
	case waits && model.OneGang(spec):
		return &model.SpecError{Text: `groups with depends_on in a job with gang_scope = "job" are not supported yet`}
	case waits && len(spec.Groups) == 1:
		return &model.SpecError{Text: fmt.Sprintf("group %q waits for itself", spec.Groups[0].Name)}
	case spec.Array != nil && len(spec.Groups) > 1 && !model.OneGang(spec):
		return &model.SpecError{Text: `an array of several groups is not supported yet unless gang_scope = "job"`}
	case model.OneGang(spec):
		workers := int64(0)
		for i := range spec.Groups {
			workers += int64(model.Most(&spec.Groups[i]))
		}
		if err := model.CheckOneElastic(spec); err != nil {
			return err
		}
		return model.Limit("the number of workers of all groups", workers, model.MaxWorkers, "")
	}
	names := map[string]bool{}
	for i := range spec.Groups {
		if name := spec.Groups[i].Name; names[name] && len(spec.Groups) > 1 {
			return &model.SpecError{Text: fmt.Sprintf("two groups have the name %q", name)}
		}
		names[spec.Groups[i].Name] = true
	}
	return checkRing(spec)
}

// checkRing refuses groups that wait for each other: it takes away what can start until nothing is
// left.
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
			return &model.SpecError{Text: "groups of the job wait for each other"}
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
		return &model.SpecError{Text: "an array has exactly one of indices, matrix and file"}
	case n == 0:
		return &model.SpecError{Text: fmt.Sprintf("the array has no elements, or more than %d", model.MaxArrayTasks)}
	case a.MaxParallel < 0:
		return &model.SpecError{Text: "max_parallel is negative"}
	case a.Order != "" && a.Order != "index" && a.Order != "random":
		return &model.SpecError{Text: fmt.Sprintf("order of an array is index or random, not %q", a.Order)}
	}
	for _, row := range a.Rows {
		if len(row) != len(a.Columns) {
			return &model.SpecError{Text: fmt.Sprintf("a row of the array has %d values for %d columns", len(row), len(a.Columns))}
		}
	}
	return nil
}

func checkSize(g *jobspec.Group, r *jobspec.Resources) error {
	if g.Count < 0 || r.Cores < 0 || r.Memory < 0 || r.GPUs < 0 {
		return &model.SpecError{Text: "count, cores, memory and gpus are not negative"}
	}
	for _, l := range []error{
		model.Limit("the number of workers", int64(g.Count), model.MaxWorkers, ""),
		model.Limit("cores of a worker", int64(r.Cores), model.MaxCores, ""),
		model.Limit("memory of a worker", int64(r.Memory), int64(model.MaxMemory), "bytes"),
		model.Limit("gpus of a worker", int64(r.GPUs), model.MaxGPUsPerNode, ""),
	} {
		if l != nil {
			return l
		}
	}
	return nil
}

func checkRestart(r *jobspec.Restart) error {
	if r == nil {
		return nil
	}
	if r.Attempts < 0 || r.Delay < 0 || r.MaxDelay < 0 || r.Window < 0 {
		return &model.SpecError{Text: "the numbers of restart are not negative"}
	}
	return model.Limit("restart attempts", int64(r.Attempts), model.MaxAttempts, "")
}

// textSize adds up the texts of a job that have no small bound of their own.
func textSize(spec *jobspec.Job) int {
	n := len(spec.Name) + len(spec.Description) + len(spec.Workdir)
	n += sizeOfLists(spec.Tags, spec.Export, spec.Nodes, spec.ExcludeNodes, spec.Features)
	n += sizeOfMaps(spec.Meta, spec.ExportEnv)
	n += conditionsSize(spec.Constraints, spec.Affinities)
	for i := range spec.Dependencies {
		n += sizeOfLists(spec.Dependencies[i].Jobs)
	}
	for i := range spec.LogPolicies {
		n += len(spec.LogPolicies[i].Pattern)
	}
	if a := spec.Array; a != nil {
		n += len(a.Indices) + sizeOfLists(a.Columns) + sizeOfLists(a.Rows...)
		for i := range a.Matrix {
			n += len(a.Matrix[i].Name) + sizeOfLists(a.Matrix[i].Values)
		}
	}
	for i := range spec.Groups {
		g := &spec.Groups[i]
		n += len(g.Name) + sizeOfMaps(g.Meta) + sizeOfLists(g.DependsOn) + conditionsSize(g.Constraints, g.Affinities)
		for k := range g.Tasks {
			n += taskSize(&g.Tasks[k])
		}
	}
	return n
}

func taskSize(t *jobspec.Task) int {
	n := len(t.Script) + len(t.Image) + sizeOfLists(t.Command) + sizeOfMaps(t.Env)
	for _, m := range t.Mounts {
		n += len(m.Source) + len(m.Target)
	}
	for _, s := range t.Secrets {
		n += len(s.Source) + len(s.File)
	}
	return n
}

func conditionsSize(constraints []jobspec.Constraint, affinities []jobspec.Affinity) int {
	n := 0
	for i := range constraints {
		n += len(constraints[i].Value) + sizeOfLists(constraints[i].Values)
	}
	for i := range affinities {
		n += len(affinities[i].Value) + sizeOfLists(affinities[i].Values)
	}
	return n
}

func sizeOfLists(lists ...[]string) int {
	n := 0
	for _, list := range lists {
		for _, s := range list {
			n += len(s)
		}
	}
	return n
}

func sizeOfMaps(maps ...map[string]string) int {
	n := 0
	for _, m := range maps {
		for k, v := range m {
			n += len(k) + len(v)
		}
	}
	return n
}
