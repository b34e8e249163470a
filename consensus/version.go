package consensus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rota-hpc/rota/consensus/boltfile"
	"github.com/rota-hpc/rota/consensus/durable"
)

// format is the layout of a directory that this version writes and reads.
const format = 1

// version is the content of the version file.
type version struct {
	Format int `json:"format"`
}

// checkVersion refuses a directory of a newer version, and marks a new directory.
func checkVersion(dir string) error {
	path := filepath.Join(dir, versionFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return markVersion(dir)
	}
	if err != nil {
		return fmt.Errorf("state directory %s: %w", dir, err)
	}
	var v version
	if err := json.Unmarshal(text, &v); err != nil || v.Format < 1 {
		return corrupt(path, fmt.Errorf("%q is not a version", bytes.TrimSpace(text)))
	}
	if v.Format > format {
		return fmt.Errorf("state directory %s: %w: it has format %d, but this daemon reads formats up to %d (install the "+
			"newer version again)", dir, ErrNewer, v.Format, format)
	}
	return nil
}

// markVersion writes the version file before all other files. A log without a version file was
// tampered with.
func markVersion(dir string) error {
	path := filepath.Join(dir, versionFile)
	if _, err := os.Stat(filepath.Join(dir, logFile)); err == nil {
		return corrupt(path, errors.New("missing, although a log exists"))
	}
	text, err := json.Marshal(version{Format: format})
	if err != nil {
		return err
	}
	if err := durable.Write(path, append(text, '\n')); err != nil {
		return notWritable(dir, err)
	}
	return nil
}

// checkLog refuses an incomplete log file.
func checkLog(path string) error {
	err := boltfile.Check(path)
	if damage := boltfile.DamageError(""); errors.As(err, &damage) {
		return corrupt(path, damage)
	}
	if err != nil {
		return notWritable(filepath.Dir(path), err)
	}
	return nil
}
