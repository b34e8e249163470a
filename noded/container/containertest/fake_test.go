package containertest

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

func TestFake(t *testing.T) {
	Contract(t, func(*testing.T) *Harness {
		kinds := map[container.ID]Kind{}
		w := &World{Program: func(id container.ID) Program { return program(kinds[id]) }}
		return &Harness{
			Runtime:  w.Open(),
			Bundle:   func(t *testing.T, id container.ID, k Kind) string { kinds[id] = k; return t.TempDir() },
			Ready:    func(*testing.T, container.ID) {},
			Restart:  func(*testing.T) container.Runtime { return w.Open() },
			KillShim: func(_ *testing.T, id container.ID) { w.KillShim(id) },
		}
	})
}

func program(k Kind) Program {
	switch k {
	case Exits0:
		return Program{Exit: &container.Exit{}}
	case Exits7:
		return Program{Exit: &container.Exit{Code: 7}}
	case DiesBy11:
		return Program{Exit: &container.Exit{Signal: 11}}
	case TasksFail:
		return Program{Exit: &container.Exit{Code: 3, Why: "its prestart task ended with exit code 3"}}
	case Saves, TasksSave:
		return Program{Signals: map[int]*container.Exit{int(unix.SIGTERM): {Code: 85}}}
	case Ignores:
		return Program{Signals: map[int]*container.Exit{int(unix.SIGTERM): nil}}
	case Pauses:
		return Program{Pauses: true, Signals: map[int]*container.Exit{int(unix.SIGTERM): {Code: 85}}}
	case Stuck:
		return Program{Pauses: true, Stuck: true}
	}
	return Program{}
}
