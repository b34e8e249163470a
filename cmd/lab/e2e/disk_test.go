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
	"github.com/rota-hpc/rota/controld/api"
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
		id := w.submit(text)
		j := w.ends(id)
		if j.Code != "F" || j.ExitCode != 6 || j.Attempts[0].OutputLost < 512<<10 {
			t.Errorf("ended as %s, exit %d: %s; %+v", j.Code, j.ExitCode, j.Reason.Text, j.Attempts)
		}
		w.saysLoss(id, j)
		if _, err := os.Stat(w.shared + "/loud"); err != nil || !w.full(small) {
			t.Errorf("the job did not go on, or the disk was not full: %v", err)
		}
	})
	t.Run("by srun", func(t *testing.T) {
		small := filepath.Join(w.shared, "smaller")
		w.must(os.Mkdir(small, 0o777))
		w.smallDisk(small, "2m")
		_, id, out := w.script("bysrun", "#!/bin/bash\n#SBATCH --mem=256M\nsrun -o "+small+"/step sh -c "+
			`'head -c 4M /dev/zero | tr "\0" x; exit 3'`+"\necho code $?\n")
		j := w.ends(id)
		text, err := os.ReadFile(out)
		if err != nil || !strings.Contains(string(text), "code 3\n") || j.Code != "CD" || len(j.Attempts[0].Steps) != 1 {
			t.Fatalf("%v: %s\n%+v", err, text, j)
		}
		info, err := os.Stat(small + "/step")
		w.must(err)
		if n := j.Attempts[0].Steps[0].OutputLost; n+info.Size() != 4<<20 || j.Attempts[0].OutputLost != n {
			t.Errorf("%d bytes are lost of 4 MiB, and %d are there: %+v", n, info.Size(), j.Attempts)
		}
		w.wants(string(text), fmt.Sprintf("srun: error: %d bytes of output of StepId=%s.0 were lost: no space left on device",
			j.Attempts[0].OutputLost, id))
		shown, _, _ := w.slurm("scontrol", "show", "job", id)
		w.wants(shown, "SystemComment=")
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
		w.wait("a job that runs with a full disk, and output that is known to be lost", func() bool {
			j := w.status(id)
			return j.Code == "R" && j.Attempts[0].OutputLost > 1<<20
		})
		grow("32m")
		node.Kill() // the count is the shim's: it outlives the node daemon
		w.must(node.Start())
		w.must(os.WriteFile(w.shared+"/go", nil, 0o644))
		if j := w.ends(id); j.Code != "CD" {
			t.Errorf("ended as %s: %s", j.Code, j.Reason.Text)
		}
		out := w.ok("logs", id)
		w.wants(out[max(0, len(out)-500):], "bytes of output lost: no space left on device", "\nafter\n")
		j := w.status(id)
		w.saysLoss(id, j)
		if n := j.Attempts[0].OutputLost; n+int64(len(out)) < 4<<20 || n > 4<<20 {
			t.Errorf("%d bytes are lost, and %d are there, of 4 MiB", n, len(out))
		}
	})
}

// saysLoss notices a command that does not say how much output of a job was lost.
func (w *world) saysLoss(id string, j api.Job) {
	w.t.Helper()
	said := fmt.Sprintf("%d bytes of output of worker 0 were lost: no space left on device on node %s",
		j.Attempts[0].OutputLost, j.Attempts[0].Nodes[0])
	w.wants(w.ok("status", id), said)
	if _, errs, code := w.rota("logs", id); code != 0 || errs != "rota: "+said+"\n" {
		w.t.Errorf("rota logs: exit %d, %q, want %q", code, errs, said)
	}
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
