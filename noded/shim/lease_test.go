package shim

import (
	"errors"
	"testing"
	"time"

	"github.com/rota-hpc/rota/noded/container"
)

func TestALeaseThatHasEndedIsNotExtended(t *testing.T) {
	end := container.BootTime() + int64(30*time.Millisecond)
	l, err := newLease(end)
	if err != nil {
		t.Fatal(err)
	}
	defer l.timer.Close()
	if err := l.renew(end); err != nil {
		t.Fatalf("one that runs: %v", err)
	}
	for container.BootTime() < end { // like a machine that is suspended: the timer is not read meanwhile
	}
	if err := l.renew(end + int64(time.Hour)); !errors.Is(err, errLeaseOver) {
		t.Errorf("got %v", err)
	}
	select {
	case <-l.ended:
	case <-time.After(10 * time.Second):
		t.Error("its end is never signalled")
	}
}

func TestALeaseOfNoLengthNeverEnds(t *testing.T) {
	l, err := newLease(0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.timer.Close()
	if err := l.renew(container.BootTime() + int64(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := l.renew(0); err != nil {
		t.Fatal(err)
	}
}
