package sim

import (
	"fmt"
	"slices"
)

// Known describes the policies that can be simulated: a line for each, and a line for each of its
// parameters.
func Known() []string {
	var list []string
	for i := range policyRows {
		list = append(list, fmt.Sprintf("%-16s %s", policyRows[i].name, policyRows[i].what))
		for _, k := range policyRows[i].keys {
			list = append(list, fmt.Sprintf("  %-14s %s", k.name, k.what))
		}
	}
	return list
}

// PolicyKeys returns the parameters of a policy, in order; nil for an unknown policy.
func PolicyKeys(name string) []string {
	row := rowOf(name)
	if row == nil {
		return nil
	}
	keys := make([]string, len(row.keys))
	for i := range keys {
		keys[i] = row.keys[i].name
	}
	slices.Sort(keys)
	return keys
}
