package controld

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rota-hpc/rota/consensus/powertest"
	"github.com/rota-hpc/rota/controld/fsm/state"
)

// TestAPowerCutKeepsTheFormat notices a format file that is not on disk when the log begins. After
// a power cut the log would be mistaken for an earlier program's.
func TestAPowerCutKeepsTheFormat(t *testing.T) {
	dir, _ := powertest.Cut(t, 1, func(dir string, acknowledge func(string)) error {
		err := checkDataFormat(dir)
		acknowledge("the format is written")
		return err
	})
	got, err := os.ReadFile(filepath.Join(dir, "format"))
	if err != nil || string(got) != state.DataFormat+"\n" {
		t.Errorf("after a power cut: %q, %v", got, err)
	}
}
