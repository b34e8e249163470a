package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
)

// The checkpoint folder of a job is removed between two attempts. The next attempt starts all the
// same and finds nothing; its steps begin anew, and status says that this is behind what was saved.
func TestACheckpointFolderVanishes(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 1, GPUs: 1})
	dir := w.scratch("vanishes")
	kept := filepath.Join(dir, "checkpoints")
	w.must(os.Mkdir(kept, 0o777))
	w.must(os.Chmod(kept, 0o777))
	id := w.submit(onGPUs("train", 1, fmt.Sprintf("checkpoint {\n path = %q\n }", kept), fmt.Sprintf(
		`if [ $ROTA_ATTEMPT = 1 ]; then
        echo 450 >$ROTA_CHECKPOINT_FILE/step
        trap 'while [ ! -e %[1]s/gone ]; do sleep 0.05; done; exit 85' TERM
        echo '{"step": 500, "saved_step": 450}' >>$ROTA_PROGRESS_FILE
        while :; do sleep 0.05; done
      fi
      cat $ROTA_CHECKPOINT_FILE/step >>%[1]s/found 2>/dev/null || echo nothing >>%[1]s/found
      echo '{"step": 3}' >>$ROTA_PROGRESS_FILE
      while [ ! -e %[1]s/end ]; do sleep 0.05; done`, dir)))
	w.until(id, "it has saved", func(j api.Job) bool { return j.Steps == 500 && j.SavedStep == 450 })
	w.ok("requeue", id)
	w.must(os.RemoveAll(kept))
	w.must(os.WriteFile(filepath.Join(dir, "gone"), nil, 0o644))
	j := w.until(id, "its second attempt has come to a step", func(j api.Job) bool { return j.Steps == 3 })
	if j.Attempt != 2 || j.SavedStep != 0 {
		t.Errorf("attempt %d, saved %d", j.Attempt, j.SavedStep)
	}
	w.says(w.ok("status", id), `attempt 2 is at step 3, but an earlier attempt had saved step 450`)
	if got := w.lines(filepath.Join(dir, "found"), 1); got != "nothing\n" {
		t.Errorf("the program found %q", got)
	}
	w.must(os.WriteFile(filepath.Join(dir, "end"), nil, 0o644))
	if j := w.ends(id); j.Code != "CD" || len(j.Attempts) != 2 {
		t.Errorf("it ended as %s after %d attempts", j.Code, len(j.Attempts))
	}
	w.ok("check")
}
