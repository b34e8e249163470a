package session

import (
	"bufio"
	"os/exec"
	"testing"

	"github.com/rota-hpc/rota/noded/container"
)

// TestExternUse notices what processes beside the ranks use and is not counted: while they run, of their
// children, when they have ended; and what is counted twice.
func TestExternUse(t *testing.T) {
	var u Extern
	u.Await() // of none
	if got := u.Spent(); got != (container.Spent{}) {
		t.Errorf("of none %+v", got)
	}
	const burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sh -c '"+burn+"'; echo done; read line")
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	ended := u.Begin(cmd.Process.Pid)
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	live := u.Spent()
	if live.UserMS < 20 || live.PeakMem != 0 {
		t.Errorf("of one that runs %+v", live)
	}
	check(t, in.Close())
	_ = cmd.Wait() // read has failed
	state := cmd.ProcessState
	ended(state)
	u.Await()
	want := container.Spent{UserMS: state.UserTime().Milliseconds(), SystemMS: state.SystemTime().Milliseconds(),
		PeakMem: LargestProcess(state)}
	if got := u.Spent(); got != want || got.PeakMem < 1<<18 || got.UserMS+20 < live.UserMS {
		t.Errorf("%+v, not %+v; %+v before", got, want, live)
	}
	u.Begin(1)(state)
	if got := u.Spent(); got.UserMS < 2*want.UserMS || got.UserMS > 2*want.UserMS+1 || got.PeakMem != want.PeakMem {
		t.Errorf("of two %+v, of one %+v", got, want)
	}
	if _, _, err := processTime(1 << 30); err == nil {
		t.Error("a process that is not there has a time")
	}
}
