package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api/pki"
)

// smallDisk puts a file system of some size over a directory; grow makes it larger.
func (w *world) smallDisk(dir, size string) (grow func(size string)) {
	w.t.Helper()
	if err := unix.Mount("rota-test", dir, "tmpfs", 0, "mode=1777,size="+size); err != nil {
		w.t.Skipf("a tmpfs cannot be mounted here: %v", err)
	}
	w.disks = append(w.disks, dir)
	return func(size string) {
		w.t.Helper()
		w.must(unix.Mount("rota-test", dir, "tmpfs", unix.MS_REMOUNT, "size="+size))
	}
}

// smallData is smallDisk for the data directory of a daemon that is down. It is still a member of the
// cluster, and has nothing else.
func (w *world) smallData(dir, size string) (grow func(size string)) {
	w.t.Helper()
	member, err := os.MkdirTemp(w.Dir, "member-")
	w.must(err)
	w.must(os.CopyFS(member, os.DirFS(pki.Dir(dir))))
	grow = w.smallDisk(dir, size)
	w.must(os.Chmod(dir, 0o711))
	w.must(os.CopyFS(pki.Dir(dir), os.DirFS(member)))
	files, err := filepath.Glob(filepath.Join(pki.Dir(dir), "*"))
	w.must(err)
	for _, f := range files {
		w.must(os.Chmod(f, 0o600))
	}
	w.must(os.Chmod(pki.Dir(dir), 0o700))
	return grow
}

// full reports whether nothing more can be written to the file system of dir.
func (w *world) full(dir string) bool {
	w.t.Helper()
	var st unix.Statfs_t
	w.must(unix.Statfs(dir, &st))
	return st.Bavail == 0
}

// wait polls until a condition holds.
func (w *world) wait(what string, ok func() bool) {
	w.t.Helper()
	for !ok() {
		select {
		case <-w.ctx.Done():
			w.t.Fatalf("never came true: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// A job whose output finds no room runs on; what was lost is told in the log.
func TestDiskFullWhileLogging(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 1})
	node := w.Nodes[0]

	t.Run("to a path of the user's", func(t *testing.T) {
		small := filepath.Join(w.shared, "small")
		w.must(os.Mkdir(small, 0o777))
		w.smallDisk(small, "256k")
		text := simple("loud", "head -c 1M /dev/zero | tr '\\0' x; echo done > "+w.shared+"/loud; exit 6", "")
		text = strings.Replace(text, "kill_timeout", "log {\n      stdout = \""+small+"/out\"\n    }\n    kill_timeout", 1)
		if j := w.ends(w.submit(text)); j.Code != "F" || j.ExitCode != 6 {
			t.Errorf("ended as %s, exit %d: %s", j.Code, j.ExitCode, j.Reason.Text)
		}
		if _, err := os.Stat(w.shared + "/loud"); err != nil || !w.full(small) {
			t.Errorf("the job did not go on, or the disk was not full: %v", err)
		}
	})
	t.Run("to the node", func(t *testing.T) {
		node.Term()
		grow := w.smallData(node.Data, "2m")
		w.must(node.Start())
		w.must(w.Ready(w.ctx))
		id := w.submit(simple("loud", "head -c 4M /dev/zero | tr '\\0' x; echo done > "+w.shared+"/written; "+
			"until [ -e "+w.shared+"/go ]; do sleep 0.05; done; echo after", ""))
		w.lines(w.shared+"/written", 1)
		if !w.full(node.Data) {
			t.Error("the disk was not full")
		}
		w.wait("a job that runs with a full disk", func() bool { return w.status(id).Code == "R" })
		grow("32m")
		w.must(os.WriteFile(w.shared+"/go", nil, 0o644))
		if j := w.ends(id); j.Code != "CD" {
			t.Errorf("ended as %s: %s", j.Code, j.Reason.Text)
		}
		out := w.ok("logs", id)
		w.wants(out[max(0, len(out)-500):], "bytes of output lost: no space left for the log", "\nafter\n")
	})
}

// A controller that cannot write its log says so and stops. When there is room again everything
// acknowledged is there.
func TestDiskFullWhileCommitting(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 1})
	controller, node := w.Controllers[0], w.Nodes[0]
	node.Term()
	controller.Term()
	grow := w.smallData(controller.Data, "4m") // without a log: a new cluster
	w.must(os.WriteFile(filepath.Join(pki.Dir(controller.Data), "founder"), nil, 0o600))
	w.must(os.Chmod(controller.Data, 0o700))
	w.must(controller.Start())
	w.must(node.Start())
	w.must(w.Ready(w.ctx))
	acknowledged, refusal := w.fill(100_000)
	if len(acknowledged) == 0 {
		t.Fatalf("nothing was ever acknowledged: %s", refusal)
	}
	t.Logf("%d acknowledged, then: %s", len(acknowledged), refusal)
	w.wait("the controller has stopped", func() bool { return !controller.Running() })
	if code := controller.ExitCode(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	w.wants(controller.LogTail(1500), "rota-controld: ", "no space left on device", controller.Data)
	grow("64m")
	w.must(controller.Start())
	w.must(w.Ready(w.ctx))
	for _, id := range acknowledged {
		if j := w.status(id); j.Code != "PD" {
			t.Errorf("job %s is %s", id, j.Code)
		}
	}
}

// fill submits held jobs with scripts of some size until that fails, and returns the ids that were
// acknowledged and the failure.
func (w *world) fill(size int) (ids []string, refusal string) {
	w.t.Helper()
	seed := rand.Uint64()
	w.t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 200 {
		var noise strings.Builder
		for noise.Len() < size {
			fmt.Fprintf(&noise, "%016x", random.Uint64())
		}
		path := w.file(w.t, fmt.Sprintf("big-%d.hcl", i), simple("big", "true "+noise.String(), "hold = true"))
		out, errs, code := w.rota("submit", "--parsable", path)
		if code != 0 {
			return ids, errs
		}
		ids = append(ids, strings.TrimSpace(out))
	}
	w.t.Fatal("the disk does not fill up")
	return nil, ""
}
