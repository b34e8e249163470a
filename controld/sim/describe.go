package sim

import "fmt"

// Known describes the policies that can be simulated: a line for each, and a line for each of its
// parameters.
func Known() []string {
	var list []string
	for _, row := range policyRows {
		list = append(list, fmt.Sprintf("%-16s %s", row.name, row.what))
		for _, k := range row.keys {
			list = append(list, fmt.Sprintf("  %-14s %s", k.name, k.what))
		}
	}
	list = append(list, fmt.Sprintf("%-16s %s", "of every policy", "how jobs share nodes"))
	for _, k := range sharingKeys {
		list = append(list, fmt.Sprintf("  %-14s %s", k.name, k.what))
	}
	return list
}
