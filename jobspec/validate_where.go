package jobspec

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/jobspec/hostlist"
)

// Limits of what a job says about nodes.
const (
	MaxConstraints = 64
	MaxNodeLists   = 1000
	MaxFeatures    = 32
)

func (c *checker) constraints(where string, list []Constraint) {
	c.atMost(where, len(list), MaxConstraints, "constraints")
	for i := range list {
		c.constraint(at(where, i), &list[i])
	}
}

func (c *checker) constraint(where string, one *Constraint) {
	if one.Attribute == "" {
		c.required(where+".attribute", "", `write attribute = "node.gpu.model"`)
		return
	}
	_, err := one.Compile()
	if bad := new(ConditionError); errors.As(err, &bad) {
		field := map[string]string{CodeAttribute: ".attribute", CodeOperator: ".operator", CodeConstraint: ".value", CodePattern: ".value"}[bad.Code]
		hint := bad.Hint
		if near := didYouMean(one.Attribute, attributeNames()); bad.Code == CodeAttribute && near != "" {
			hint = near
		}
		c.add(bad.Code, where+field, hint, "%s", bad.Text)
	}
}

func attributeNames() []string {
	var names []string
	for _, a := range NodeAttributes() {
		names = append(names, a.Name)
	}
	return names
}

func (c *checker) affinities(where string, list []Affinity) {
	c.atMost(where, len(list), MaxConstraints, "affinities")
	for i := range list {
		c.constraint(at(where, i), &list[i].Constraint)
		c.between(at(where, i)+".weight", list[i].Weight, -100, 100)
		if list[i].Weight == 0 {
			c.add(CodeRequired, at(where, i)+".weight", "write 1 to 100 to prefer such nodes, -1 to -100 to avoid them", "weight is missing, or 0, which changes nothing")
		}
	}
}

// nodes checks lists of nodes by name.
func (c *checker) nodes(j *Job) {
	named, excluded := c.nodeList("nodes", j.Nodes), c.nodeList("exclude_nodes", j.ExcludeNodes)
	left := func(name string) bool { return !slices.Contains(excluded, name) }
	if len(named) > 0 && len(excluded) > 0 && len(named) <= 1000 && len(excluded) <= 1000 && !slices.ContainsFunc(named, left) {
		c.add(CodeNodeNames, "exclude_nodes", "leave a node over", "all nodes that the job may run on are excluded")
	}
	c.atMost("features", len(j.Features), MaxFeatures, "features")
	taken := map[string]bool{}
	for i, key := range j.Features {
		if key == "" || len(key) > 253 || strings.ContainsAny(key, " \t\n\r\x00=,") {
			c.add(CodeText, at("features", i), "write the key of a label as its operator gave it", "%q is not the key of a label", key)
		}
		if taken[key] {
			c.add(CodeDuplicate, at("features", i), "name it once", "%q is there twice", key)
		}
		taken[key] = true
	}
}

func (c *checker) nodeList(where string, lists []string) []string {
	c.atMost(where, len(lists), MaxNodeLists, "entries")
	var all []string
	for i, list := range lists {
		names, err := ExpandNodes([]string{list})
		if err != nil {
			c.add(CodeNodeNames, at(where, i), `write names and ranges such as "gpu[01-04,07]"`, "%v", err)
		}
		if all = append(all, names...); len(all) > hostlist.MaxHosts {
			c.atMost(where, len(all), hostlist.MaxHosts, "nodes")
			return nil
		}
	}
	return all
}

// ExpandNodes returns the names that lists such as gpu[01-04] stand for, in their order.
func ExpandNodes(lists []string) ([]string, error) {
	var all []string
	for _, list := range lists {
		names, err := hostlist.Expand(list)
		switch {
		case err != nil:
			return nil, err
		case len(names) == 0:
			return nil, errors.New("a host list is empty")
		}
		for _, name := range names {
			if name == "" || len(name) > 253 || strings.ContainsAny(name, " \t\r\n\x00/") {
				return nil, fmt.Errorf("host list %q: %q is no name", list, name)
			}
		}
		if all = append(all, names...); len(all) > hostlist.MaxHosts {
			return nil, fmt.Errorf("host lists: more than %d hosts", hostlist.MaxHosts)
		}
	}
	return all, nil
}
