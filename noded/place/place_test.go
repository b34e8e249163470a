package place

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/bundle"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/logs"
)

// TestWhatAKilledDaemonLeft shows that only the log of an ended container stays, wherever the last
// daemon was killed. Containers that are still to be created or reported stay.
func TestWhatAKilledDaemonLeft(t *testing.T) {
	base := t.TempDir()
	store := &logs.Store{Containers: filepath.Join(base, "containers"), Dir: filepath.Join(base, "logs")}
	if err := os.MkdirAll(store.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	bundles, err := bundle.Open(bundle.Config{Node: "n1", Logs: store, RootDir: filepath.Join(base, "root"),
		CgroupRoot: "/rota/n1"})
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	ended := journal.Record{Op: journal.Final, Final: &model.WorkerReport{State: model.WorkerExited}}
	for job, records := range map[int64][]journal.Record{
		1: {{Op: journal.Intend}, {Op: journal.Started}, ended}, // was being removed
		2: {{Op: journal.Intend}, ended},                        // could not be created
		3: {{Op: journal.Intend}, {Op: journal.Forget}},
		4: {{Op: journal.Intend}}, // is to be created
		5: {{Op: journal.Intend}, {Op: journal.Started}},
	} {
		id := container.ID{Job: job, Attempt: 1}
		dir := filepath.Join(store.Containers, id.String())
		if err := container.WriteBundle(dir, container.Bundle{Settings: container.Settings{ID: id},
			Tasks: []container.TaskBundle{{Script: "x"}}}); err != nil {
			t.Fatal(err)
		}
		if job == 1 {
			if err := os.Mkdir(container.LogDir(dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range records {
			r.ID = id.String()
			if err := j.Append(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	shims, err := container.NewShims(container.Config{Dir: store.Containers})
	if err != nil {
		t.Fatal(err)
	}
	if err := (&Places{Bundles: bundles, Runtime: shims}).Sweep(t.Context(), store.Containers, j); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"containers/1.1.0": false, "logs/1.1.0": true, "containers/2.1.0": false, "containers/3.1.0": false,
		"containers/4.1.0/config.json": true,
		"containers/5.1.0/config.json": true,
	} {
		if _, err := os.Stat(filepath.Join(base, path)); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// orders notes the order in which a place is cleared. It implements Bundles and Runtime.
type orders struct {
	list  []string
	fails string // the order that fails
}

func (o *orders) note(what string, id container.ID) error {
	o.list = append(o.list, what+" "+id.String())
	if o.list[len(o.list)-1] == o.fails {
		return errors.New("injected fault")
	}
	return nil
}

func (o *orders) Retire(id container.ID) error                     { return o.note("retire", id) }
func (o *orders) Remove(_ context.Context, id container.ID) error  { return o.note("remove", id) }
func (o *orders) List(context.Context) ([]container.Status, error) { return nil, nil }
func (o *orders) parts(worker container.ID) (list []container.ID) {
	return []container.ID{worker.OfStep(0)}
}
func (o *orders) socket(id container.ID) { _ = o.note("close", id) }

// TestAPlaceIsClearedInOrder notices a folder that goes before the log in it is kept or before the
// steps of its worker, and a socket that stays open.
func TestAPlaceIsClearedInOrder(t *testing.T) {
	id := container.ID{Job: 1, Attempt: 1}
	part := id.OfStep(0).String()
	all := []string{"close 1.1.0", "close " + part, "remove " + part, "retire 1.1.0", "remove 1.1.0"}
	for fails, want := range map[string][]string{"": all, "retire 1.1.0": all[:4], "remove " + part: all[:4]} {
		o := &orders{fails: fails}
		p := &Places{Bundles: o, Runtime: o, CloseSocket: o.socket, Parts: o.parts}
		if err := p.Clear(t.Context(), id); (err != nil) != (fails != "") {
			t.Errorf("%q fails: %v", fails, err)
		}
		if !slices.Equal(o.list, want) {
			t.Errorf("%q fails: %q, want %q", fails, o.list, want)
		}
	}
}

// TestOneRuleOfRemoval reads the node daemon. It notices a folder of a container that is removed past the one rule.
func TestOneRuleOfRemoval(t *testing.T) {
	call := regexp.MustCompile(`(?i)\b(runtime|shims)\.Remove\(`)
	var found []string
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasPrefix(path, "../container/") { // the rule is carried out there
			return err
		}
		text, err := os.ReadFile(path)
		if call.Match(text) {
			found = append(found, path)
		}
		return err
	})
	if err != nil || !slices.Equal(found, []string{"../place/place.go"}) {
		t.Errorf("containers are removed in %q, not in package place alone: %v", found, err)
	}
}
