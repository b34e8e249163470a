package introspect

import (
	"github.com/rota-hpc/rota/jobspec/convergence"
)

// # Weights
//
// Among jobs of one account on one node, jobs that still learn get longer turns than jobs that have
// converged. The weights are 2, 1.5 and 1, as in SpeCon. The sum for the account stays as it was,
// so that a class changes nothing for other accounts (A11).

// usualWeight is the weight of a job without regard to its class, in hundredths.
const usualWeight = 100

// Taker is a job that takes turns.
type Taker struct {
	GPUs  int64 // in thousandths
	Class convergence.Class
}

// Weights returns the weights of all jobs of one account that take turns on one node, in
// hundredths. Each weight counts times the GPUs of its job, and the sum is the same as without
// classes.
func Weights(jobs []Taker) []int {
	var gpus, weighted int64
	for _, j := range jobs {
		gpus += j.GPUs
		weighted += j.GPUs * j.Class.Weight()
	}
	weights := make([]int, len(jobs))
	left := usualWeight * gpus
	for i, j := range jobs {
		weights[i] = usualWeight
		if weighted > 0 {
			weights[i] = int(usualWeight * gpus * j.Class.Weight() / weighted)
		}
		left -= int64(weights[i]) * j.GPUs
	}
	for i, j := range jobs { // what rounding has left
		if j.GPUs > 0 && left >= j.GPUs {
			weights[i]++
			left -= j.GPUs
		}
	}
	return weights
}
