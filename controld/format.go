package controld

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rota-hpc/rota/consensus/durable"
	"github.com/rota-hpc/rota/controld/fsm/state"
)

// checkDataFormat refuses a data directory whose log and snapshots have another format than this
// program reads, and marks a new one with [state.DataFormat].
func checkDataFormat(dir string) error {
	file := filepath.Join(dir, "format")
	text, err := os.ReadFile(file)
	found := strings.TrimSpace(string(text))
	switch {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("data directory: %w", err)
	case found == state.DataFormat:
		return nil
	case found == "":
		found = "of an earlier program"
	}
	if _, err := os.Stat(filepath.Join(dir, "raft")); err == nil {
		return fmt.Errorf("data directory %s has format %s, but this program needs format %s. Before release v0.1.0 "+
			"formats are not converted: let the jobs end under the program that wrote the directory, then move the directory "+
			"away and start again with an empty one", dir, found, state.DataFormat)
	}
	// A log on disk whose format was lost in a power cut would never be read again.
	if err := durable.Write(file, []byte(state.DataFormat+"\n")); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return nil
}
