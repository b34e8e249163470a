package jobspec

import "cmp"

// TextBytes returns the length of all texts of a job that have no small limit of their own, in
// bytes. Defaults do not change the sum.
func (j *Job) TextBytes() int {
	n := 0
	add := func(texts ...string) {
		for _, s := range texts {
			n += len(s)
		}
	}
	addMap := func(m map[string]string) {
		for k, v := range m {
			add(k, v)
		}
	}
	addConditions := func(constraints []Constraint, affinities []Affinity) {
		for i := range constraints {
			add(constraints[i].String())
		}
		for i := range affinities {
			add(affinities[i].String())
		}
	}
	// The job's own texts and lists.
	add(j.Name, j.Workdir)
	for _, text := range []*string{j.Description, j.Comment} {
		if text != nil {
			add(*text)
		}
	}
	for _, list := range [][]string{j.Tags, j.Export, j.Nodes, j.ExcludeNodes, j.Features} {
		add(list...)
	}
	addMap(j.Meta)
	addMap(j.ExportEnv)
	addConditions(j.Constraints, j.Affinities)
	for i := range j.Dependencies {
		add(j.Dependencies[i].Jobs...)
	}
	for i := range j.LogPolicies {
		add(j.LogPolicies[i].Pattern)
	}
	// The array's parameters.
	if a := j.Array; a != nil {
		add(a.Indices)
		add(a.Columns...)
		for _, row := range a.Rows {
			add(row...)
		}
		for i := range a.Matrix {
			add(a.Matrix[i].Name)
			add(a.Matrix[i].Values...)
		}
	}
	// Groups and tasks. A name that Default would fill in counts, so that the sum stays the same.
	for i := range j.Groups {
		g := &j.Groups[i]
		add(cmp.Or(g.Name, DefaultGroup))
		add(g.DependsOn...)
		addMap(g.Meta)
		addConditions(g.Constraints, g.Affinities)
		for k := range g.Tasks {
			t := &g.Tasks[k]
			add(t.Script, t.Image)
			add(t.Command...)
			addMap(t.Env)
			for i := range t.Mounts {
				add(withoutSlash(t.Mounts[i].Source), withoutSlash(t.Mounts[i].Target))
			}
			for i := range t.Secrets {
				add(t.Secrets[i].Source, t.Secrets[i].SecretFile())
			}
		}
	}
	return n
}
