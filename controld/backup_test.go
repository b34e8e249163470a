package controld

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/backup"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/controld/recovery"
)

const passphrase = "a dozen ducklings dive"

// saved writes a backup of a controller by its socket.
func saved(t *testing.T, s *running, req api.BackupRequest) string {
	t.Helper()
	root, err := api.Dial("unix:" + s.cfg.Socket)
	if err != nil {
		t.Fatal(err)
	}
	body, _, err := root.Backup(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	b, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "backup")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func restored(t *testing.T, s *running, file, dir, pass string) (*recovery.Result, error) {
	return recovery.Restore(t.Context(), recovery.Restoration{File: file, Options: recovery.Options{DataDir: dir,
		Name: s.cfg.Name, User: "root"}, Passphrase: func() (string, error) { return pass, nil }})
}

// TestABackupIsRestored: running jobs go on in their attempts. Jobs started after the backup are
// neither run twice nor deleted, and no id is given twice.
func TestABackupIsRestored(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for which alone a backup is")
	}
	cfg := controller(t, "c1")
	cfg.Socket = filepath.Join(t.TempDir(), "s")
	s := start(t, cfg)
	leaderOf(t, []*running{s})
	c := s.client(user(1000))
	submit := func(name string) model.JobID {
		t.Helper()
		id, err := c.Submit(t.Context(), "", job(name))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	n := &follower{newNode(t, s.addrs.HTTP, "n1", 1), "0"}
	report := func(at *running, id model.JobID, state model.WorkerState) {
		t.Helper()
		eventually(t, "a report", func() error {
			_, err := n.at(at).Report(t.Context(), "n1", api.ReportRequest{BootID: n.node.BootID,
				Workers: []model.WorkerReport{{Job: id, Attempt: 1, State: state, Began: true}}})
			return err
		})
	}
	if _, err := n.at(s).Register(t.Context(), "n1", api.RegisterRequest{Node: n.node}); err != nil {
		t.Fatal(err)
	}
	done, runs := submit("done"), submit("runs")
	waitState(t, c, done, model.Configuring)
	report(s, done, model.WorkerExited)
	waitState(t, c, done, model.Completed)
	waitState(t, c, runs, model.Configuring)
	report(s, runs, model.WorkerRunning)
	waitState(t, c, runs, model.Running)
	held := job("later")
	held.Hold = true
	later, err := c.Submit(t.Context(), "", held)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = c.Backup(t.Context(), api.BackupRequest{})
	wantProblem(t, err, api.CodeDenied)
	bare, full := saved(t, s, api.BackupRequest{}), saved(t, s, api.BackupRequest{WithKeys: true, Passphrase: passphrase})
	after := submit("after")
	s.stop()

	dir := filepath.Join(t.TempDir(), "restored")
	whole, err := os.ReadFile(full)
	if err != nil {
		t.Fatal(err)
	}
	damaged := func(name string, b []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	flipped := slices.Clone(whole)
	flipped[len(flipped)/2] ^= 0x40
	for what, f := range map[string]struct{ file, pass, says string }{
		"wrong passphrase": {full, "a dozen ducklings drown", backup.ErrPassphrase.Error()},
		"no keys":          {bare, passphrase, "does not contain the keys of the cluster"},
		"cut off":          {damaged("cut", whole[:len(whole)*3/4]), passphrase, backup.ErrNotABackup.Error()},
		"flipped":          {damaged("flipped", flipped), passphrase, backup.ErrNotABackup.Error()},
		"foreign": {damaged("foreign", []byte(strings.Repeat("hello", 1000))), passphrase,
			backup.ErrNotABackup.Error()},
	} {
		if _, err := restored(t, s, f.file, dir, f.pass); err == nil || !strings.Contains(err.Error(), f.says) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("%s: something was written: %v", what, err)
		}
	}
	if _, err := restored(t, s, full, s.cfg.DataDir, passphrase); err == nil ||
		!strings.Contains(err.Error(), "is not empty") {
		t.Errorf("into the directory of a controller: %v", err)
	}
	cutOff := filepath.Join(dir, "restoring", "history.db") // a restore before was killed
	if err := os.MkdirAll(cutOff, 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := restored(t, s, full, dir, passphrase)
	if err != nil || r.Generation.Number != 1 || r.Live != 1 || r.Waiting != 1 || r.Nodes != 1 {
		t.Fatalf("restored: %+v, %v", r, err)
	}
	if _, err := os.Stat(filepath.Dir(cutOff)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of the restore is left: %v", err)
	}

	s.cfg.DataDir = dir
	again := start(t, s.cfg)
	again.ready()
	c = again.client(user(1000))
	name := func(id model.JobID) string { return fmt.Sprintf("%d.1.0", id) }
	n.generation = "0"
	n.follow(again, name(done), name(runs), name(later), name(after))
	if j := waitState(t, c, runs, model.Running); j.Attempt != 1 {
		t.Errorf("the running job is in attempt %d", j.Attempt)
	}
	if j := waitState(t, c, later, model.Pending); !strings.Contains(j.Reason.Text, "ran on node n1 after") {
		t.Errorf("a job that ran after the backup: %+v", j.Reason)
	}
	cl := generationOf(t, again)
	if g := cl.Generation; !g.Settled || g.Unknown != 1 || g.Held != 1 || g.Means != generation.MeansRestore {
		t.Errorf("rota cluster has %+v", g)
	}
	dropped, err := n.at(again).DropCheckpoints(t.Context(), "n1", api.KeptCheckpoints{BootID: n.node.BootID,
		IDs: []string{name(done), name(after), name(later)}})
	if err != nil || !slices.Equal(dropped.IDs, []string{name(done)}) ||
		!slices.Equal(dropped.Unknown, []string{name(after), name(later)}) {
		t.Errorf("of the folders, these go: %+v, %v", dropped, err)
	}
	if id := submit("new"); id <= after+generation.IDGap-10 {
		t.Errorf("after the restore a job has id %d", id)
	}
	eventually(t, "the job that had ended", func() error {
		list, _, err := c.History(t.Context(), api.HistoryFilter{}, api.Read{})
		if err == nil && (len(list.Items) != 1 || list.Items[0].ID != done) {
			err = errors.New("the history has other jobs")
		}
		return err
	})
}
