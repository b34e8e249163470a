package noded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rota-hpc/rota/noded/datafile"
)

// formatFile is the file that marks a data directory with its format.
const formatFile = "version"

// ErrNewer means that a later version has written the data directory.
var ErrNewer = errors.New("written by a newer version of rota")

// checkFormat refuses a data directory of a later version, because its records might be misread. It
// marks a directory that has no mark, or that of an earlier version, which must not read what this one
// is going to write.
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
	if v.Format > DataFormat {
		return fmt.Errorf("--data-dir %s: %w: it has format %d, but this version reads formats up to %d: install the newer "+
			"version again",
			dir, ErrNewer, v.Format, DataFormat)
	}
	if v.Format < DataFormat {
		return writeFormat(path)
	}
	return nil
}

// clusterFile names the cluster that the containers of a data directory are of.
const clusterFile = "cluster"

// noteCluster notes for which cluster a data directory works. If its containers belong to another
// one, because the node has joined another cluster since, it returns that one. The file keeps the
// old one as long as the directory has containers.
func noteCluster(dir, cluster string, containers bool) (foreign string, err error) {
	path := filepath.Join(dir, clusterFile)
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("--data-dir %s: %w", dir, err)
	}
	before := string(bytes.TrimSpace(text))
	switch {
	case before == cluster:
		return "", nil
	case before != "" && containers:
		return before, nil
	}
	return "", datafile.Write(path, cluster+"\n")
}

// writeFormat writes the mark, whole or not at all.
func writeFormat(path string) error {
	return datafile.Write(path, fmt.Sprintf("{\"format\":%d}\n", DataFormat))
}
