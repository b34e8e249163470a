package noded

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rota-hpc/rota/controld/cluster"
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
	ended := journal.Record{Op: journal.Final, Final: &cluster.WorkerReport{State: cluster.WorkerExited}}
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
	if err := sweepContainers(t.Context(), store.Containers, bundles, shims, j); err != nil {
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
