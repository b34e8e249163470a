package launch_test

import (
	"testing"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/oci/launch"
)

// TestTheWordsAreThoseOfJobFiles notices a word that a job file may have and rota-init does not know.
func TestTheWordsAreThoseOfJobFiles(t *testing.T) {
	if launch.ToScript != jobspec.SignalScript || launch.ToPrograms != jobspec.SignalPrograms {
		t.Errorf("rota-init knows %q and %q", launch.ToScript, launch.ToPrograms)
	}
}
