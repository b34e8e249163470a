package measure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/progress"
)

// TestTheStepRateOfJobs notices a rate that is missing, early or reported twice. Elastic jobs have a
// rate, and gangs that could move; other jobs have none.
func TestTheStepRateOfJobs(t *testing.T) {
	saves := func(workers int, c *jobspec.Checkpoint) *jobspec.Job {
		return &jobspec.Job{Checkpoint: c, Groups: []jobspec.Group{{Name: "main", Count: workers}}}
	}
	elastic := &jobspec.Job{Groups: []jobspec.Group{{Name: "first"}, {Name: "main", Elastic: &jobspec.Elastic{}}}}
	begin := time.Now().Add(-time.Hour)
	after := time.Duration(model.RateAfter(elastic.Groups[1].Elastic)) * time.Millisecond
	for name, c := range map[string]struct {
		spec  *jobspec.Job
		group int
		want  int64
	}{
		"elastic": {elastic, 1, 100 * 1_000_000 / after.Milliseconds()}, "the other group": {elastic, 0, 0},
		"a gang that saves": {saves(2, &jobspec.Checkpoint{}), 0, 100 * 1_000_000 / after.Milliseconds()},
		"one that does not": {saves(2, nil), 0, 0}, "a single worker": {saves(1, &jobspec.Checkpoint{}), 0, 0},
		"no specification": {nil, 0, 0}, "a group that is not there": {elastic, 2, 0},
	} {
		path := filepath.Join(t.TempDir(), "steps")
		m := meterOf(Config{Bundles: reads{from: &progress.Source{Path: path}}},
			running(1, &api.Alloc{Job: 1, Attempt: 1, Spec: c.spec, Group: c.group}))
		var text string
		for _, line := range []struct {
			step  int
			after time.Duration
		}{{50, 0}, {140, after - time.Millisecond}, {150, after}, {900, 2 * after}} {
			text += fmt.Sprintf("{\"step\":%d}\n", line.step)
			if err := errors.Join(os.WriteFile(path, []byte(text), 0o600),
				os.Chtimes(path, begin, begin.Add(line.after))); err != nil {
				t.Fatal(err)
			}
			if got := m.NewProgress(wid(1)); len(got) != 1 || got[0].Step != int64(line.step) {
				t.Errorf("%s: step %d: %+v", name, line.step, got)
			}
			reports := m.Outbox.Pending()
			switch {
			case line.after < after || c.want == 0:
				if len(reports) > 0 {
					t.Errorf("%s: at step %d it reports %+v", name, line.step, reports)
				}
			case len(reports) != 1 || reports[0].Rate != c.want || reports[0].State != model.WorkerRunning ||
				reports[0].Job != 1:
				t.Errorf("%s: at step %d it reports %+v, not a rate of %d", name, line.step, reports, c.want)
			}
		}
		if got := m.NewProgress(wid(2)); got != nil {
			t.Errorf("a worker that is gone: %+v", got)
		}
	}
}

// silent mounts a file system whose server never answers, and returns its directory.
func silent(t *testing.T) (dir string, giveUp func()) {
	t.Helper()
	dir = t.TempDir()
	server, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no file system can be served here: %v", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", server.Fd())
	if err := unix.Mount("silent", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		server.Close()
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir, func() { server.Close() }
}

// TestProgressFileThatHangs shows that a file that hangs delays neither the progress of others nor
// the end of its worker. Reading goes on once its server answers.
func TestProgressFileThatHangs(t *testing.T) {
	dir, giveUp := silent(t)
	from := &progress.Source{File: &container.ProgressFile{Dir: dir, Path: "steps.jsonl"}}
	m := meterOf(Config{Bundles: reads{from: from}}, running(1, nil))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 { // the first waits for a while, the others do not
			m.NewProgress(wid(1))
		}
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Error("reading waits for the file")
	}
	giveUp()
	<-done
	good := filepath.Join(t.TempDir(), "steps.jsonl")
	if err := os.WriteFile(good, []byte("{\"step\":7}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	from = &progress.Source{Path: good}
	m.Bundles = reads{from: from}
	for deadline := time.Now().Add(30 * time.Second); ; {
		if got := m.NewProgress(wid(1)); len(got) == 1 && got[0].Step == 7 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no progress is read any more")
		}
	}
}
