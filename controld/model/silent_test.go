package model

import "testing"

// TestSilentShims: what a node says of the shims of one worker, and of no other.
func TestSilentShims(t *testing.T) {
	notice := "/data is full; " + SilentNotice("7.2.0", "no answer in 10s") + "; " + SilentNotice("17.2.1", "refused") +
		"; and 3 more" + SilentAdvice
	for _, c := range []struct {
		notice          string
		job             JobID
		attempt, worker int
		want            string
		silent          bool
	}{
		{notice, 7, 2, 0, "no answer in 10s", true}, {notice, 17, 2, 1, "refused", true}, {notice, 7, 1, 0, "", false},
		{notice, 7, 2, 1, "", false}, {notice, 7, 2, 2, "", false}, {notice, 1, 2, 1, "", false}, {"", 7, 2, 0, "", false},
		{SilentNotice("7.2.0", "it hangs") + SilentAdvice, 7, 2, 0, "it hangs", true},
	} {
		if got, silent := SilentShim(c.notice, c.job, c.attempt, c.worker); got != c.want || silent != c.silent {
			t.Errorf("%+v: %q, %t", c, got, silent)
		}
	}
}
