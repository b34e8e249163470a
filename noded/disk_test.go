package noded

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
)

// TestWhatAKilledDaemonLeft: nothing of an ended container stays but its log, however far the last daemon came; what is still to be made
// or reported stays.
func TestWhatAKilledDaemonLeft(t *testing.T) {
	d, _ := testDisk(t)
	j, err := journal.Open(filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	ended := journal.Record{Op: journal.Final, Final: &cluster.WorkerReport{State: cluster.WorkerExited}}
	for job, records := range map[int64][]journal.Record{
		1: {{Op: journal.Intend}, {Op: journal.Started}, ended}, // was being removed
		2: {{Op: journal.Intend}, ended},                        // could not be made
		3: {{Op: journal.Intend}, {Op: journal.Forget}},
		4: {{Op: journal.Intend}}, // is to be made
		5: {{Op: journal.Intend}, {Op: journal.Started}},
	} {
		id := container.ID{Job: job, Attempt: 1}
		dir := filepath.Join(d.containers, id.String())
		if err := container.WriteBundle(dir, container.Bundle{Settings: container.Settings{ID: id}, Tasks: []container.TaskBundle{{Script: "x"}}}); err != nil {
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
	shims, err := container.NewShims(container.Config{Dir: d.containers})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.sweep(t.Context(), shims, j); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"containers/1.1.0": false, "logs/1.1.0": true, "containers/2.1.0": false, "containers/3.1.0": false, "containers/4.1.0/config.json": true,
		"containers/5.1.0/config.json": true,
	} {
		if _, err := os.Stat(filepath.Join(filepath.Dir(d.containers), path)); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}
