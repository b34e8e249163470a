package journal

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/rota-hpc/rota/consensus/powertest"
)

// kept opens the journal in dir and fails the test for every entry that is not there.
func kept(t *testing.T, dir string, ids []string) {
	t.Helper()
	j := open(t, filepath.Join(dir, "journal"))
	defer closed(t, j)
	for _, id := range ids {
		if _, ok := j.Entry(id); !ok {
			t.Errorf("%s was on disk, as Append said, and is lost", id)
		}
	}
}

// TestAPowerCutLosesNoRecord notices a journal without fsync, and one whose name was never synced:
// Append returned and the record is not on disk.
func TestAPowerCutLosesNoRecord(t *testing.T) {
	dir, ids := powertest.Cut(t, 40, func(dir string, acknowledge func(string)) error {
		j, err := Open(filepath.Join(dir, "journal"))
		for i := 0; err == nil; i++ {
			id := fmt.Sprintf("%d.1.0", i)
			if err = j.Append(Record{Op: Intend, ID: id}); err == nil {
				acknowledge(id)
			}
		}
		return err
	})
	kept(t, dir, ids)
}

// TestAPowerCutAfterARewriteLosesNoRecord notices that the new file is renamed over the old one
// before its content is on disk.
func TestAPowerCutAfterARewriteLosesNoRecord(t *testing.T) {
	dir, ids := powertest.Cut(t, 1, func(dir string, acknowledge func(string)) error {
		path := filepath.Join(dir, "journal")
		j, err := Open(path)
		if err != nil {
			return err
		}
		err = j.Append(Record{Op: Intend, ID: "1.1.0"}, Record{Op: Intend, ID: "2.1.0"}, Record{Op: Forget, ID: "2.1.0"})
		if err == nil {
			err = j.Close()
		}
		if err == nil {
			_, err = Open(path) // which writes only what is still needed
		}
		if err == nil {
			acknowledge("1.1.0")
		}
		return err
	})
	kept(t, dir, ids)
}
