package pki

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Files returns the files of the credential by name, keys included, for a backup.
func (c *Credential) Files() (map[string][]byte, error) {
	c.mu.Lock() // what is trusted and the keys belong together
	defer c.mu.Unlock()
	list, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, e := range list {
		if !e.Type().IsRegular() || filepath.Ext(e.Name()) == ".next" || e.Name() == fileFounder {
			continue
		}
		if files[e.Name()], err = os.ReadFile(filepath.Join(c.dir, e.Name())); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// InstallFiles writes the files of a credential to dir, which must have none, and loads it.
func InstallFiles(dir string, files map[string][]byte) (*Credential, error) {
	if err := vacant(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for name, text := range files {
		if name != filepath.Base(name) || name == "." || name == ".." {
			return nil, fmt.Errorf("%q is not the name of a key", name)
		}
		if name != fileCert {
			if err := write(dir, name, text, 0o600); err != nil {
				return nil, err
			}
		}
	}
	if files[fileCert] == nil {
		return nil, errors.New("the keys include no certificate")
	}
	if err := write(dir, fileCert, files[fileCert], 0o600); err != nil { // last: without it there is no credential
		return nil, err
	}
	return Load(dir)
}
