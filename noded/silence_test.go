package noded

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
)

// lateList is a runtime whose list was made before something happened.
type lateList struct {
	container.Runtime
	meanwhile func()
	list      []container.Status
	err       error
}

func (l lateList) List(context.Context) ([]container.Status, error) {
	l.meanwhile()
	return l.list, l.err
}

func newJournal(t *testing.T) Journal {
	t.Helper()
	j, err := journal.Open(filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// TestAListThatIsOld notices a container that is taken for gone, or for not started, because the
// list was made before it was.
func TestAListThatIsOld(t *testing.T) {
	id := wid(1)
	a := NewAgent(Parts{Journal: newJournal(t), Log: slog.New(slog.DiscardHandler)})
	a.Runtime = lateList{meanwhile: func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.setStatus(a.workerOf(id), container.Status{ID: id, State: container.Created})
	}}
	inspect := func() {
		t.Helper()
		if err := a.inspectAll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if inspect(); a.workers[id] == nil || a.workers[id].Actual != container.Created {
		t.Errorf("a container that was made meanwhile: %+v", a.workers[id])
	}
	older := []container.Status{{ID: id, State: container.Created}}
	a.Runtime = lateList{list: older, meanwhile: func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.setStatus(a.workers[id], container.Status{ID: id, State: container.Running})
	}}
	if inspect(); a.workers[id].Actual != container.Running {
		t.Errorf("a container that was started meanwhile: %+v", a.workers[id])
	}
	a.Runtime = lateList{meanwhile: func() {}}
	if inspect(); a.workers[id].Actual != "" {
		t.Errorf("a container that is gone: %+v", a.workers[id])
	}
	a.Runtime = lateList{meanwhile: func() {}, err: errFault}
	if err := a.inspectAll(t.Context()); !errors.Is(err, errFault) || !strings.Contains(err.Error(), "list containers") {
		t.Errorf("without a list: %v", err)
	}
}

// TestKeptWorkersAreNoOnesBusiness notices a worker of another state whose end is reported, or that
// is stopped, because what the last state wanted of it is still believed.
func TestKeptWorkersAreNoOnesBusiness(t *testing.T) {
	a := NewAgent(Parts{Journal: newJournal(t), Log: slog.New(slog.DiscardHandler)})
	now := time.Now()
	alloc := func(start model.UnixMS, uid uint32) *api.Alloc {
		return &api.Alloc{Job: 1, Attempt: 1, Start: start, Owner: model.Identity{UID: uid}}
	}
	for name, c := range map[string]struct {
		listed []api.Alloc
		kept   bool
	}{
		"not listed":               {nil, true},
		"the same":                 {[]api.Alloc{*alloc(1000, 7)}, false},
		"another start":            {[]api.Alloc{*alloc(1001, 7)}, true},
		"the same of another's":    {[]api.Alloc{*alloc(1000, 8)}, true},
		"another worker is listed": {[]api.Alloc{{Job: 2, Attempt: 1, Start: 1000, Owner: model.Identity{UID: 7}}}, true},
	} {
		a.workers = map[container.ID]*worker{}
		w := a.workerOf(wid(1))
		w.Desired, w.KillAt, w.Kept = alloc(1000, 7), now, true
		a.index++
		if err := a.applyAllocs(&api.NodeAllocs{Index: a.index, Allocs: c.listed}, currentMoment(), now); err != nil {
			t.Fatal(err)
		}
		if w.Kept != c.kept || c.kept && (w.Desired != nil || !w.KillAt.IsZero() || !w.Confirmed) ||
			!c.kept && (w.Desired == nil || w.Confirmed) {
			t.Errorf("%s: %+v", name, w.Facts)
		}
	}
}
