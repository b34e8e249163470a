package sched

import (
	"maps"
	"slices"
)

// Policies returns the names that [cluster.Policy].Name can have, in order; "" is also one, the default.
func Policies() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(policies)), func(name string) bool { return name == "" })
}
