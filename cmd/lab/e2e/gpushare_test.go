package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/noded/container"
)

// usesGPU is a program that declares how many MiB it uses of its GPU: what a file says, as often as
// that changes. It copies its notice, and ends when a file is there.
const usesGPU = `#!/usr/bin/python3
import fcntl, os, shutil, time
at = os.environ["AT"]
declared = open("/run/rota/gpus/" + os.environ["ROTA_JOB_ID"], "w")
fcntl.lockf(declared, fcntl.LOCK_EX)
print("share", os.environ["ROTA_GPU_SHARE"], "memory", os.environ["ROTA_GPU_MEMORY"], flush=True)
said = ""
while not os.path.exists(at + ".end"):
    mib = open(at + ".use").read()
    if mib != said:
        declared.seek(0)
        declared.write("%s %08d 050\n" % (os.environ["ROTA_GPU_UUIDS"], int(mib)))
        declared.flush()
        said = mib
        print("uses", mib, flush=True)
    if os.path.exists(os.environ["ROTA_NOTICE_FILE"]):
        shutil.copy(os.environ["ROTA_NOTICE_FILE"], at + ".notice.new")
        os.rename(at + ".notice.new", at + ".notice")
        open(at + ".told", "w").close()
    elif os.path.exists(at + ".told"):
        os.rename(at + ".told", at + ".untold")
    time.sleep(0.05)
`

// TestJobsShareAGPU runs jobs with parts of one simulated GPU in real containers. It notices jobs
// that do not run at the same time, and a third job that gets more than is left. It notices a job
// over its memory that is not told, is stopped although it has freed some, or is not stopped. It
// also notices a neighbour that suffers.
func TestJobsShareAGPU(t *testing.T) {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("needs /usr/bin/python3, which holds the lock behind a job's use of a simulated GPU")
	}
	w := start(t, lab.Options{Controllers: 1, Nodes: 1, GPUs: 1})
	dir := w.scratch("gpu")
	write := func(name, text string) {
		w.must(os.WriteFile(filepath.Join(dir, name+".new"), []byte(text), 0o644))
		w.must(os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name)))
	}
	submit := func(name, gpus string) string {
		write(name+".use", "1024")
		return w.submit(fmt.Sprintf(`job %q {
  task "t" {
    resources {
      cores  = 1
      memory = "128MiB"
      %s
    }
    env { AT = %q }
    script = <<-EOS
%s    EOS
  }
}`, name, gpus, filepath.Join(dir, name), usesGPU))
	}
	exists := func(name string) func() bool {
		return func() bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
	}
	good := submit("good", "gpus = 0.5")
	bad := submit("bad", `gpu {
        share      = 0.4
        max_memory = "10GiB"
      }`)
	for _, id := range []string{good, bad} {
		w.until(id, "it runs", func(j api.Job) bool { return j.Code == "R" })
	}
	late := submit("late", "gpus = 0.125")
	if j := w.status(late); j.Code != "PD" || j.GPUs != 1 || j.GPUThousandths != 125 {
		t.Fatalf("0.1 of the GPU is left, and a job with 0.125 is %+v", j)
	}
	w.wants(w.ok("queue"), "0.5 ", "0.4 ", "0.125")
	write("good.use", "40960") // all of its half
	write("bad.use", "12000")
	w.wait("the job is told", exists("bad.told"))
	var notice container.Notice
	text, err := os.ReadFile(filepath.Join(dir, "bad.notice"))
	w.must(err)
	w.must(json.Unmarshal(text, &notice))
	if notice.Reason != "gpu_memory" || !strings.Contains(notice.Message, "it uses 12000 MiB of the memory of GPU 0, but "+
		"declared 10240 MiB") {
		t.Errorf("notice %s", text)
	}
	write("bad.use", "10240")
	w.wait("the notice goes", exists("bad.untold"))
	write("bad.use", "79000")
	if j := w.ends(bad); j.Code != "OOM" || !strings.Contains(j.Reason.Text, "declared 10240 MiB") {
		t.Errorf("it used seven times what it declared: %s %+v", j.Code, j.Reason)
	}
	w.until(late, "it gets the room", func(j api.Job) bool { return j.Code == "R" })
	if j := w.status(good); j.Code != "R" || j.Attempt != 1 || exists("good.notice")() {
		t.Errorf("the neighbour is %s in attempt %d", j.Code, j.Attempt)
	}
	var nodes struct{ Items []api.Node }
	w.must(json.Unmarshal([]byte(w.ok("nodes", "-o", "json")), &nodes))
	if g := nodes.Items[0].GPUs[0]; !g.Healthy || len(g.Jobs) != 2 {
		t.Errorf("the GPU: %+v", g)
	}
	for _, name := range []string{"good", "late"} {
		write(name+".end", "")
	}
	for name, id := range map[string]string{"good": good, "late": late} {
		if j := w.ends(id); j.Code != "CD" {
			t.Errorf("%s: %s %+v\n%s", name, j.Code, j.Reason, w.ok("logs", id))
		}
	}
	w.wants(w.ok("logs", good), "share 0.5 memory 42949672960", "uses 40960")
	w.ok("check")
}
