package jobspec

import "cmp"

// TextBytes returns the length of all texts of a job that have no small limit of their own, in
// bytes. Defaults do not change the sum.
func (j *Job) TextBytes() int {
	var n textBytes
	// The job's own texts and lists.
	n.add(j.Name, j.Workdir)
	for _, text := range []*string{j.Description, j.Comment} {
		if text != nil {
			n.add(*text)
		}
	}
	for _, list := range [][]string{j.Tags, j.Export, j.Nodes, j.ExcludeNodes, j.Features} {
		n.add(list...)
	}
	n.addMap(j.Meta)
	n.addMap(j.ExportEnv)
	n.addConditions(j.Constraints, j.Affinities)
	for i := range j.Dependencies {
		n.add(j.Dependencies[i].Jobs...)
	}
	for i := range j.LogPolicies {
		n.add(j.LogPolicies[i].Pattern)
	}
	// The array's parameters.
	if a := j.Array; a != nil {
		n.add(a.Indices)
		n.add(a.Columns...)
		for _, row := range a.Rows {
			n.add(row...)
		}
		for i := range a.Matrix {
			n.add(a.Matrix[i].Name)
			n.add(a.Matrix[i].Values...)
		}
	}
	for i := range j.Groups {
		n.addGroup(&j.Groups[i])
	}
	return int(n)
}

// textBytes is a sum of lengths.
type textBytes int

func (n *textBytes) add(texts ...string) {
	for _, s := range texts {
		*n += textBytes(len(s))
	}
}

func (n *textBytes) addMap(m map[string]string) {
	for k, v := range m {
		n.add(k, v)
	}
}

func (n *textBytes) addConditions(constraints []Constraint, affinities []Affinity) {
	for i := range constraints {
		n.add(constraints[i].String())
	}
	for i := range affinities {
		n.add(affinities[i].String())
	}
}

// addGroup adds the texts of a group and its tasks. A name that Default would fill in counts, so
// that the sum stays the same.
func (n *textBytes) addGroup(g *Group) {
	n.add(cmp.Or(g.Name, DefaultGroup))
	n.add(g.DependsOn...)
	n.addMap(g.Meta)
	n.addConditions(g.Constraints, g.Affinities)
	for k := range g.Tasks {
		t := &g.Tasks[k]
		n.add(t.Script, t.Image)
		n.add(t.Command...)
		n.addMap(t.Env)
		for i := range t.Mounts {
			n.add(withoutSlash(t.Mounts[i].Source), withoutSlash(t.Mounts[i].Target))
		}
		for i := range t.Secrets {
			n.add(t.Secrets[i].Source, t.Secrets[i].SecretFile())
		}
	}
}
