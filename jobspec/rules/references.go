package rules

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/template"
	"github.com/rota-hpc/rota/jobspec/typo"
)

// references refuses references of a template that would have no value, or a surprising one.
func (c *checker) references(where string, t *jobspec.Task, g *jobspec.Group, a *jobspec.Array) {
	if !t.Template {
		return
	}
	for place, text := range t.Texts() {
		for _, name := range template.References(*text) {
			if g.Loose() {
				c.looseReference(where+"."+place, name)
			} else {
				c.reference(where+"."+place, name, a)
			}
		}
		if inContainer(place) && len(template.References(*text)) > 0 {
			c.add(jobspec.CodePath, where+"."+place, "write the path out",
				"a path in the container cannot depend on a value that is only known once the job runs")
		}
	}
}

// inContainer reports whether a text is a path in the container. Such paths are checked before the
// values of references are known.
func inContainer(place string) bool {
	field := path.Ext(place)
	return strings.HasPrefix(place, "mounts[") && field == ".target" ||
		strings.HasPrefix(place, "secrets[") && field == ".file"
}

// looseReference checks a reference in a worker that starts separately. Such a worker is an array
// element, and its number is the index.
func (c *checker) looseReference(where, name string) {
	switch name {
	case "worker.index":
		c.add(jobspec.CodeConflict, where, "write array.index",
			"${worker.index} is 0 for all workers: with gang = false every worker is an array element with a group of its own")
	case "worker.count":
		c.add(jobspec.CodeConflict, where, "write the number",
			"${worker.count} is 1 for all workers: with gang = false every worker is an array element with a group of its own")
	default:
		c.reference(where, name, &jobspec.Array{})
	}
}

func (c *checker) reference(where, name string, a *jobspec.Array) {
	parameter, isArray := strings.CutPrefix(name, "array.")
	switch {
	case !isArray:
		return
	case a == nil:
		c.add(jobspec.CodeNoParameter, where, "add array { indices = \"0-9\" }", "${%s} has no value: the job is not an "+
			"array",
			name)
	case parameter != "index" && !slices.Contains(a.Names(), parameter):
		known := append([]string{"index"}, a.Names()...)
		hint := typo.Hint(parameter, known)
		if hint == "" {
			hint = fmt.Sprintf("the array has %s", strings.Join(known, ", "))
		}
		c.add(jobspec.CodeNoParameter, where, hint, "${%s} has no value: the array has no parameter %q", name, parameter)
	}
}
