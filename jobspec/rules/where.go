package rules

import (
	"slices"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hostlist"
)

func (c *checker) constraints(where string, list []jobspec.Constraint) {
	c.atMost(where, len(list), jobspec.MaxConstraints, "constraints")
	for i := range list {
		c.constraint(at(where, i), &list[i])
	}
}

func (c *checker) constraint(where string, one *jobspec.Constraint) {
	if one.Attribute == "" {
		c.required(where+".attribute", "", `write attribute = "node.gpu.model"`)
		return
	}
	_, err := one.Compile()
	bad, ok := err.(jobspec.Problem) //nolint:errorlint // Compile returns a Problem or nil
	if !ok {
		return
	}
	field := map[string]string{jobspec.CodeAttribute: ".attribute", jobspec.CodeOperator: ".operator",
		jobspec.CodeConstraint: ".value", jobspec.CodePattern: ".value"}[bad.Code]
	c.addAt(where+field, bad)
}

func (c *checker) affinities(where string, list []jobspec.Affinity) {
	c.atMost(where, len(list), jobspec.MaxConstraints, "affinities")
	for i := range list {
		c.constraint(at(where, i), &list[i].Constraint)
		c.between(at(where, i)+".weight", list[i].Weight, -100, 100)
		if list[i].Weight == 0 && !c.scheduling {
			c.add(jobspec.CodeRequired, at(where, i)+".weight", "write 1 to 100 to prefer such nodes, -1 to -100 to avoid them",
				"weight is missing or 0, which has no effect")
		}
	}
}

// nodeNames checks lists of node names.
func (c *checker) nodeNames(j *jobspec.Job) {
	named, excluded := c.nodeList("nodes", j.Nodes), c.nodeList("exclude_nodes", j.ExcludeNodes)
	left := func(name string) bool { return !slices.Contains(excluded, name) }
	if len(named) > 0 && len(excluded) > 0 && len(named) <= 1000 && len(excluded) <= 1000 &&
		!slices.ContainsFunc(named, left) {
		c.add(jobspec.CodeNodeNames, "exclude_nodes", "exclude fewer nodes", "all nodes that the job may use are excluded")
	}
	c.atMost("features", len(j.Features), jobspec.MaxFeatures, "features")
	taken := map[string]bool{}
	for i, key := range j.Features {
		if slices.Contains(strings.Split(key, "|"), "") || len(key) > 253 || strings.ContainsAny(key, " \t\n\r\x00=,") {
			c.add(jobspec.CodeText, at("features", i), "write the key of a label exactly as the operator set it",
				"%q is not the key of a label", key)
		}
		if taken[key] {
			c.add(jobspec.CodeDuplicate, at("features", i), "name it once", "%q is given twice", key)
		}
		taken[key] = true
	}
}

func (c *checker) nodeList(where string, lists []string) []string {
	c.atMost(where, len(lists), jobspec.MaxNodeLists, "entries")
	var all []string
	for i, list := range lists {
		names, err := jobspec.ExpandNodes([]string{list})
		if err != nil {
			c.add(jobspec.CodeNodeNames, at(where, i), `write names and ranges such as "gpu[01-04,07]"`, "%v", err)
		}
		if all = append(all, names...); len(all) > hostlist.MaxHosts {
			c.atMost(where, len(all), hostlist.MaxHosts, "nodes")
			return nil
		}
	}
	return all
}
