package lifecycle

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// LaunchBackOff returns the delay after so many launch failures.
func LaunchBackOff(failures int) jobspec.Seconds {
	return backOff(launchDelay, maxLaunchDelay, failures)
}

// RetryAfterFailure adds a failure at an instant to those of a job that its restart block counts.
// It returns the restart block if that allows another attempt, nil otherwise.
func RetryAfterFailure(j *model.Job, o Outcome, at model.Instant) *jobspec.Restart {
	r := restartOf(j, o)
	if r == nil || !retries(r, o) {
		return nil
	}
	window := at - model.Instant(cmp.Or(r.Window, 24*3600))*1000
	j.Failures = append(slices.DeleteFunc(slices.Clone(j.Failures), func(t model.Instant) bool { return t <= window }), at)
	if len(j.Failures) > r.Attempts {
		return nil
	}
	return r
}

// FailureBackOff returns the delay that a restart block asks for after so many failures.
func FailureBackOff(r *jobspec.Restart, failures int) jobspec.Seconds {
	delay, most := cmp.Or(r.Delay, 30), cmp.Or(r.MaxDelay, 600)
	if r.Backoff == "constant" {
		return delay
	}
	return backOff(delay, most, failures)
}

// retries reports whether a restart block covers an exit. A signal counts as 128 more than its
// number, lack of memory also as 253.
func retries(r *jobspec.Restart, o Outcome) bool {
	codes := []int{o.Code}
	if o.Signal != 0 {
		codes = append(codes, 128+o.Signal)
	}
	if o.Cause == model.CauseOOM {
		codes = append(codes, 253)
	}
	among := func(list []int) bool {
		return slices.ContainsFunc(codes, func(c int) bool { return slices.Contains(list, c) })
	}
	return !among(r.NoRetryOnExit) && (len(r.RetryOnExit) == 0 || among(r.RetryOnExit))
}

// backOff returns base doubled for each failure after the first, at most the greatest delay.
func backOff(base, most jobspec.Seconds, failures int) jobspec.Seconds {
	for ; failures > 1 && base < most; failures-- {
		base *= 2
	}
	return min(base, most)
}

const launchDelay = 5

const maxLaunchDelay = 600

// policyRestarts is how often a log policy restarts a job that has no restart block of its own.
const policyRestarts = 3

// restartOf returns the restart block for a failure. It is empty after a log policy called the
// failure final. After a log policy asked for a new beginning it exists in any case, whatever the
// exit code.
func restartOf(j *model.Job, o Outcome) *jobspec.Restart {
	r := j.Restart()
	if o.Over {
		return nil
	}
	switch o.policy {
	case model.PolicyFail:
		return nil
	case model.PolicyRestart:
		d := jobspec.Restart{Attempts: policyRestarts}
		if r != nil {
			d = *r
		}
		d.RetryOnExit, d.NoRetryOnExit = nil, nil
		return &d
	}
	return r
}
