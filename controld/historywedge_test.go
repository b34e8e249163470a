package controld

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// logText is what a controller has logged.
type logText struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logText) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf.Reset()
}

func (l *logText) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.buf.String(), text)
}

// wedge is a cluster whose history and log do not fit each other.
type wedge struct {
	*testing.T
	servers []*running
	logs    []*logText
}

// startWedge runs n controllers that drop ended jobs from the state as soon as they are stored.
func startWedge(t *testing.T, n int) *wedge {
	w := &wedge{T: t}
	change := func(cfg *Config) {
		text := &logText{}
		w.logs = append(w.logs, text)
		cfg.KeepRecords, cfg.KeepFor, cfg.Logger = 0, time.Hour, slog.New(slog.NewTextHandler(text, nil))
	}
	if n == 3 {
		w.servers = startThree(t, change)
		return w
	}
	cfg := controller(t, "c1")
	change(&cfg)
	w.servers = []*running{start(t, cfg)}
	return w
}

// end submits and cancels n jobs, and waits until they have left the state.
func (w *wedge) end(n int) {
	w.Helper()
	leader, _ := leaderOf(w.T, w.servers)
	leader.ready()
	c := leader.client(user(1000))
	jobs := make([]*jobspec.Job, n)
	for i := range jobs {
		jobs[i] = job(fmt.Sprint("j", i))
	}
	if _, err := c.SubmitAll(w.Context(), api.NewKey(), jobs); err != nil {
		w.Fatal(err)
	}
	if _, err := c.CancelMany(w.Context(), api.CancelRequest{User: "u1000"}); err != nil {
		w.Fatal(err)
	}
	eventually(w.T, "all jobs to leave the state", func() error {
		list, _, err := c.Jobs(w.Context(), api.JobFilter{All: true}, api.Read{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d are left", len(list.Items))
		}
		return err
	})
}

func (w *wedge) stop() {
	for _, s := range w.servers {
		s.stop()
	}
}

func (w *wedge) restart() {
	for i, s := range w.servers {
		w.servers[i] = start(w.T, s.cfg)
	}
}

// replace has dir's parts taken from a copy of it, and those that the copy does not have removed.
func (w *wedge) replace(dir, from string, parts ...string) {
	w.Helper()
	for _, part := range parts {
		err := os.RemoveAll(filepath.Join(dir, part))
		if from != "" && err == nil {
			if info, statErr := os.Stat(filepath.Join(from, part)); statErr == nil && info.IsDir() {
				err = os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join(from, part)))
			} else if statErr == nil {
				var b []byte
				if b, err = os.ReadFile(filepath.Join(from, part)); err == nil {
					err = os.WriteFile(filepath.Join(dir, part), b, 0o600)
				}
			}
		}
		if err != nil {
			w.Fatal(err)
		}
	}
}

// copied returns a copy of a data directory.
func (w *wedge) copied(dir string) string {
	w.Helper()
	to := w.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		w.Fatal(err)
	}
	return to
}

// historyFiles are what the advice about a damaged file names.
var historyFiles = []string{"history.db", "history.db-wal", "history.db-shm"}

// damage overwrites a history, and checks that the controller refuses it with the advice.
func (w *wedge) damage(cfg Config) {
	w.Helper()
	noise := bytes.Repeat([]byte("noise"), 2000)
	if err := os.WriteFile(filepath.Join(cfg.DataDir, "history.db"), noise, 0o600); err != nil {
		w.Fatal(err)
	}
	err := Run(w.Context(), cfg)
	if !errors.Is(err, history.ErrCorrupt) || !strings.Contains(err.Error(), "-wal") {
		w.Fatalf("with a damaged history it ends with %v", err)
	}
}

// shown returns how many jobs each controller's history answers, and the warnings of the leader.
func (w *wedge) shown(s *running) (int, []string, error) {
	list, _, err := s.client(user(1000)).History(w.Context(), api.HistoryFilter{Limit: 1000}, api.Read{})
	if err != nil {
		return 0, nil, err
	}
	return len(list.Items), list.Warnings, nil
}

// TestAHistoryThatDoesNotFitTheLog: whichever of the two is absent, damaged, older or newer, with one
// controller or three, later jobs are stored and leave the state, and the log says what is missing or
// was set aside.
func TestAHistoryThatDoesNotFitTheLog(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d controllers", n), func(t *testing.T) {
			t.Parallel() // it mostly waits
			tryHistories(startWedge(t, n))
		})
	}
}

func tryHistories(w *wedge) {
	const early, late, after = 20, 7, 5
	w.end(early)
	w.stop()
	before := w.copies()
	w.restart()
	w.end(late)
	w.stop()
	whole := w.copies()
	const missing, rolledBack = "missing from the history", "log is older than the history"
	for _, c := range []struct {
		what  string
		alone int // jobs that the history of a controller without others has at the end
		says  string
	}{
		{"absent", after, missing},
		{"damaged", after, missing},
		{"older", early + after, missing},
		{"newer", early + late + after, rolledBack},
	} {
		w.Logf("the history is %s", c.what)
		for i, s := range w.servers {
			w.replace(s.cfg.DataDir, whole[i], append(historyFiles, "raft")...)
			w.logs[i].clear()
		}
		victim := w.servers[0].cfg
		switch c.what {
		case "damaged":
			w.damage(victim)
			fallthrough
		case "absent":
			w.replace(victim.DataDir, "", historyFiles...)
		case "older":
			w.replace(victim.DataDir, before[0], historyFiles...)
		case "newer":
			for i, s := range w.servers {
				w.replace(s.cfg.DataDir, before[i], "raft")
			}
		}
		w.restart()
		alone := len(w.servers) == 1
		if alone { // no other can be asked for missing jobs, so none is waited for
			w.servers[0].ready()
			if _, _, err := w.shown(w.servers[0]); err != nil {
				w.Errorf("the only controller, just started: %v", err)
			}
		}
		w.end(after)
		if alone {
			w.check(c.alone, c.says == missing)
		} else {
			w.check(early+late+after, false)
		}
		for i, text := range w.logs {
			if said := text.has(c.says); said != (c.says == rolledBack || len(w.servers) == 1) {
				w.Errorf("the log of controller %d says %q: %t", i+1, c.says, said)
			}
		}
		w.stop()
	}
}

// copies returns a copy of every data directory.
func (w *wedge) copies() (dirs []string) {
	for _, s := range w.servers {
		dirs = append(dirs, w.copied(s.cfg.DataDir))
	}
	return dirs
}

// check waits until every controller's history has so many jobs, with or without a warning.
func (w *wedge) check(want int, warned bool) {
	w.Helper()
	for _, s := range w.servers {
		eventually(w.T, fmt.Sprintf("%d jobs in the history of %s", want, s.cfg.Name), func() error {
			got, warnings, err := w.shown(s)
			if err == nil && (got != want || (len(warnings) > 0) != warned) {
				err = fmt.Errorf("%d jobs, warnings %q", got, warnings)
			}
			return err
		})
	}
	leader, _ := leaderOf(w.T, w.servers)
	if check, _, err := leader.client(user(0)).Check(w.Context()); err != nil || !check.OK {
		w.Errorf("invariants: %+v, %v", check, err)
	}
}

// TestOldJobsArePruned in batches, the oldest first.
func TestOldJobsArePruned(t *testing.T) {
	records, err := history.Open(filepath.Join(t.TempDir(), "history.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	now := model.UnixMS(time.Now().UnixMilli())
	var jobs []*model.Job
	for seq := int64(1); seq <= 1200; seq++ {
		ended := model.Stamp{At: 1, Wall: now - model.UnixMS(1201-seq)*3_600_000}
		jobs = append(jobs, &model.Job{ID: model.JobID(seq), Seq: seq, State: model.Completed, Ended: ended})
	}
	if err := records.Append(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	d := &daemon{records: records, log: slog.New(slog.DiscardHandler)}
	d.pruneOlder(t.Context(), 0, now)
	if list, err := records.Range(t.Context(), 1, 1200, 0); err != nil || len(list) != 1200 {
		t.Errorf("without a setting %d jobs are left, %v", len(list), err)
	}
	d.pruneOlder(t.Context(), 48*time.Hour, now)
	if list, err := records.Range(t.Context(), 1, 1200, 0); err != nil || len(list) != 48 {
		t.Errorf("%d jobs of the last 48 hours are left, %v", len(list), err)
	}
}
