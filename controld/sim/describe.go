package sim

import "fmt"

// about says what each policy does, in a line.
var about = map[string]string{
	"rota":      "the default: classes, preemption at least cost, turns by attained service, reservations",
	"fairshare": "accounts and users in turn by what they hold of what they are due; reclaim",
	"standard":  "class, priority, age; whole gangs, best fit, bounded bypass; displaces nobody",
	"fifo":      "strictly in order: nobody passes the first that does not fit",
	"backfill":  "in order, and everybody may pass those that do not fit",
	"easy":      "backfill that does not delay the first blocked job, by time limits (--estimates)",
	"sjf":       "the shortest first; is told how long jobs run",
	"srtf":      "the least remaining first, displacing others; is told how long jobs run",
	"las":       "the least attained service first, displacing others",
	"spread":    "every worker to the emptiest node, as Kubernetes does by default",
	"fitgpp":    "the FitGpp paper's: the victim of least size and grace on whose node the job then fits",
	"lrtp":      "its comparison: the victims with most left to run; is told how long jobs run",
	"rand":      "its comparison: victims at random",
	"elastic":   "grows and shrinks elastic jobs by weight, tipping point included",
	"static":    "elastic jobs at the size that they ask for",
	"dragon":    "elastic jobs as DRAGON's scheduler for Kubeflow has it",
}

// Known describes the policies that can be simulated, a line for each and one for each of its parameters.
func Known() []string {
	var list []string
	for i := range policyRows {
		list = append(list, fmt.Sprintf("%-16s %s", policyRows[i].name, about[policyRows[i].name]))
		for _, k := range policyRows[i].keys {
			list = append(list, fmt.Sprintf("  %-14s %s", k.name, k.what))
		}
	}
	return list
}
