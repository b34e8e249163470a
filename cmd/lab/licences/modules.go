package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// programs are those that packages ship, each with the build tags and the setting of cgo that the
// Makefile gives it.
var programs = []struct {
	cgo, tags string
	paths     []string
}{
	{"0", "urfave_cli_no_docs", []string{"./cmd/rota", "./cmd/rota-controld", "./cmd/rota-init"}},
	{"1", "", []string{"./cmd/rota-noded", "./cmd/rota-shim"}},
}

// standardLibrary stands for the module of the packages that come with Go.
const standardLibrary = "Go standard library"

// module is a module that is linked into a program.
type module struct {
	path, version string
	dir           string
	linked        []string // folders of its packages that are linked
	licences      []string // names that the rules recognised, such as MIT
	texts         []licenceText
}

// linkedModules lists the modules of all packages in the programs, by path, with the standard
// library first.
func linkedModules(dir string) ([]module, error) {
	found := map[string]*module{}
	for _, p := range programs {
		cmd := exec.Command("go", append([]string{"list", "-deps", "-tags", p.tags, "-json=Dir,Standard,Module"},
			p.paths...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CGO_ENABLED="+p.cgo)
		var complaint bytes.Buffer
		cmd.Stderr = &complaint
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list: %w: %s", err, bytes.TrimSpace(complaint.Bytes()))
		}
		if err := addModules(found, out); err != nil {
			return nil, err
		}
	}
	list := make([]module, 0, len(found)+1)
	for _, m := range found {
		slices.Sort(m.linked)
		m.linked = slices.Compact(m.linked)
		list = append(list, *m)
	}
	slices.SortFunc(list, func(a, b module) int { return cmp.Compare(a.path, b.path) })
	root, err := goRoot(dir)
	if err != nil {
		return nil, err
	}
	return slices.Insert(list, 0, module{path: standardLibrary, dir: root, linked: []string{root}}), nil
}

// addModules adds the modules of what go list printed, the main module apart.
func addModules(found map[string]*module, out []byte) error {
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir      string
			Standard bool
			Module   *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the output of go list: %w", err)
		case p.Standard || p.Module == nil || p.Module.Main:
			continue
		}
		m := found[p.Module.Path]
		if m == nil {
			m = &module{path: p.Module.Path, version: p.Module.Version, dir: p.Module.Dir}
			found[p.Module.Path] = m
		}
		m.linked = append(m.linked, p.Dir)
	}
}

// goRoot is the folder in which Go is installed.
func goRoot(dir string) (string, error) {
	cmd := exec.Command("go", "env", "GOROOT")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// readLicences reads the licence files in the folders of the module's linked packages and in those
// above them.
func (m *module) readLicences() error {
	folders := map[string]bool{}
	for _, folder := range m.linked {
		for ; strings.HasPrefix(folder, m.dir); folder = filepath.Dir(folder) {
			folders[folder] = true
		}
	}
	var names []string
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !e.Type().IsRegular() || !isLicenceFile(e.Name()) {
				continue
			}
			content, err := os.ReadFile(filepath.Join(folder, e.Name()))
			if err != nil {
				return err
			}
			t := licenceText{text: tidy(string(content)), names: recognise(string(content))}
			if len(t.names) == 0 && !isNotice(e.Name()) {
				return fmt.Errorf("no rule recognises the licence in %s of %s: read it, and add a rule", e.Name(), m.path)
			}
			m.texts = append(m.texts, t)
			names = append(names, t.names...)
		}
	}
	slices.Sort(names)
	m.licences = slices.Compact(names)
	if len(m.licences) == 0 {
		return fmt.Errorf("module %s has no licence file", m.path)
	}
	return nil
}
