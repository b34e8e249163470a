package jobspec

import "strings"

// Needs returns the groups that g waits for, and the condition for each: ok, any, failed or
// started.
func (g *Group) Needs() []GroupNeed {
	var needs []GroupNeed
	for _, text := range g.DependsOn {
		name, condition, found := strings.Cut(text, ":")
		if !found {
			condition = "ok"
		}
		needs = append(needs, GroupNeed{name, condition})
	}
	return needs
}

// GroupNeed is a group to wait for, and the condition that ends the wait.
type GroupNeed struct{ Group, Condition string }

// MainTasks returns the main tasks of all groups.
func (j *Job) MainTasks() []*Task {
	var list []*Task
	for i := range j.Groups {
		for k := range j.Groups[i].Tasks {
			if t := &j.Groups[i].Tasks[k]; t.Lifecycle == nil {
				list = append(list, t)
			}
		}
	}
	return list
}
