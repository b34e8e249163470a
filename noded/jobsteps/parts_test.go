package jobsteps

import (
	"testing"

	"github.com/rota-hpc/rota/noded/container"
)

// TestPartStates: a part only moves forward, it lives up to its end, and its tasks begin with its start. An unknown
// part does neither.
func TestPartStates(t *testing.T) {
	states := []container.State{"", container.Silent, container.Created, container.Running, container.Exited}
	for i, s := range states {
		wantLive := i > 0 && s != container.Exited
		wantBegun := i > 0 && s != container.Created
		if live(s) != wantLive || begun(s) != wantBegun {
			t.Errorf("%q: it lives %t, its tasks have begun %t", s, live(s), begun(s))
		}
		for k, other := range states {
			a, b := container.Status{State: s, Pid: 1}, container.Status{State: other, Pid: 2}
			want := a
			if k >= i { // of equal ones the newer list counts
				want = b
			}
			if got := later(a, b); got.Pid != want.Pid {
				t.Errorf("of %q and %q it is %q", s, other, got.State)
			}
		}
	}
	if live(container.Lost) || !begun(container.Lost) || len(partStates) != len(states) {
		t.Error("a lost part has ended, and every state has a row")
	}
}
