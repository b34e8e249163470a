package show

import (
	"github.com/rota-hpc/rota/jobspec/hostlist"
)

// Hosts writes a list of node names with ranges in brackets, each name once.
func Hosts(names []string) string { return hostlist.Compress(Distinct(names)) }

// Distinct returns names without repetitions, in order.
func Distinct(names []string) []string {
	seen := make(map[string]bool, len(names))
	var out []string
	for _, n := range names {
		if !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	return out
}
