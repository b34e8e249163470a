package shim

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// TestASlowDiskDelaysNoStop has the write of the notice hang at the end of a lease. It notices a signal, or
// a kill, that waits for the disk.
func TestASlowDiskDelaysNoStop(t *testing.T) {
	disk, asked := make(chan struct{}), make(chan struct{}, 1)
	before := writeNotice
	writeNotice = func(string, container.Notice) error {
		asked <- struct{}{}
		<-disk
		return nil
	}
	t.Cleanup(func() { writeNotice = before })
	defer close(disk)
	w := live(t, nil, script(`trap 'echo signalled' TERM; echo ready
while :; do read order <&3 && echo "got $order"; done`))
	w.start()
	w.says("", "ready")
	w.order(container.Order{Op: container.OpRenew, Lease: container.BootTime()})
	<-asked
	w.says("", `got {"signal":15,"stop":true}`)
	if e := w.end(); !e.Lease || e.Signal != 9 {
		t.Errorf("it ended as %+v", e)
	}
}

// standStill has the first process of a container stand still before its command, so that the loop of its
// supervisor waits for it when it is to start: as it waits for a disk that hangs.
func standStill(t *testing.T, pid int) {
	t.Helper()
	check(t, unix.Kill(pid, unix.SIGSTOP))
	t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGCONT) }) // a supervisor that waits for it could not end after a failure
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		check(t, err)
		if strings.Contains(string(b), ") T ") {
			return
		}
		if time.Since(begin) > 10*time.Second {
			t.Fatal("it does not stand still")
		}
	}
}

// send sends an order without waiting for its answer.
func (w *liveWorker) send(o container.Order) {
	w.t.Helper()
	check(w.t, json.NewEncoder(w.conn).Encode(o))
}

// TestALoopThatHangsEndsItsWorker has the supervisor's loop hang. It notices a kill, and the end of a lease,
// that wait for the loop.
func TestALoopThatHangsEndsItsWorker(t *testing.T) {
	for name, demand := range map[string]func(w *liveWorker){
		"a kill":             func(w *liveWorker) { w.send(container.Order{Op: container.OpKill}) },
		"the end of a lease": func(*liveWorker) {},
	} {
		t.Run(name, func(t *testing.T) {
			w := live(t, nil, script("exec sleep 100"))
			pid := w.order(container.Order{Op: container.OpStatus}).Pid
			if name != "a kill" {
				w.order(container.Order{Op: container.OpRenew, Lease: container.BootTime() + int64(50*time.Millisecond)})
			}
			standStill(t, pid)
			w.send(container.Order{Op: container.OpStart})
			demand(w)
			if e := w.exit(); e.Signal != 9 {
				t.Errorf("it ended as %+v", e)
			}
		})
	}
}

// TestADaemonThatReadsNothing has a daemon stand still whose socket is full. It notices a loop that waits for it.
func TestADaemonThatReadsNothing(t *testing.T) {
	ours, theirs := net.Pipe() // has no room
	defer theirs.Close()
	done := make(chan error, 1)
	go func() { done <- client{conn: ours}.send(container.Answer{}) }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("an answer without a reader was sent")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the loop waits for a daemon")
	}
}
