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
			Runtime: w.Open(),
			Bundle:  func(t *testing.T, id container.ID, k Kind) string { kinds[id] = k; return t.TempDir() },
			Saves:   func(*testing.T) container.Criu { return container.Criu{Path: "/usr/sbin/criu", Version: "4.1.1"} },
			BundleFrom: func(t *testing.T, id container.ID, k Kind, r container.Restore) string {
				kinds[id] = k
				dir := t.TempDir()
				b := container.Bundle{Settings: container.Settings{ID: id, Restore: &r}}
				must(t, container.WriteBundle(dir, b))
				return dir
			},
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
	case TasksSave:
		return Program{Signals: map[int]*container.Exit{int(unix.SIGTERM): {Code: 85}}, NoSave: "it has several tasks"}
	case Unsavable:
		return Program{Signals: map[int]*container.Exit{int(unix.SIGTERM): {Code: 85}}, NoSave: "it has a connection"}
	case Saves:
		return Program{Signals: map[int]*container.Exit{int(unix.SIGTERM): {Code: 85}}}
	case Ignores:
		return Program{Signals: map[int]*container.Exit{int(unix.SIGTERM): nil}}
	case Pauses:
		return Program{Pauses: true, Signals: map[int]*container.Exit{int(unix.SIGTERM): {Code: 85}},
			NoSave: "it uses its job socket"}
	case Stuck:
		return Program{Pauses: true, Stuck: true}
	}
	return Program{}
}
