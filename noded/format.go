package noded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// dataFormat is the format of a data directory that this version reads and writes.
const dataFormat = 1

// formatFile is the file that marks a data directory with its format.
const formatFile = "version"

// ErrNewer means that a later version has written the data directory.
var ErrNewer = errors.New("written by a newer version of rota")

// checkFormat refuses a data directory of a later version, because its records might be misread. It
// marks a directory that has no mark.
func checkFormat(dir string) error {
	path := filepath.Join(dir, formatFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return writeFormat(path)
	}
	if err != nil {
		return fmt.Errorf("--data-dir %s: %w", dir, err)
	}
	var v struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(text, &v); err != nil || v.Format < 1 {
		return fmt.Errorf("--data-dir %s: %q in the file %s is not a version: check the disk for errors; if no "+
			"job runs on this node, remove the file",
			dir, bytes.TrimSpace(text), formatFile)
	}
	if v.Format > dataFormat {
		return fmt.Errorf("--data-dir %s: %w: it has format %d, and this version reads formats up to %d: "+
			"install the newer version again",
			dir, ErrNewer, v.Format, dataFormat)
	}
	return nil
}

// writeFormat writes the mark, whole or not at all.
func writeFormat(path string) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("mark the data directory: %w", err)
	}
	_, err = fmt.Fprintf(f, "{\"format\":%d}\n", dataFormat)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return fmt.Errorf("mark the data directory: %w", err)
	}
	return nil
}
