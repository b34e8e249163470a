package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// source is one package, parsed and with its types.
type source struct {
	name  string // import path inside the module
	fset  *token.FileSet
	text  map[string][]byte // of each file, by its name
	files []*ast.File
	types *types.Package
	info  *types.Info
}

// listed is what go list says about a package.
type listed struct {
	ImportPath string
	Dir        string
	Export     string // file with the compiled package's types
	GoFiles    []string
	CgoFiles   []string
	Standard   bool
	Module     *struct {
		Path string
		Main bool
	}
}

// productPackages loads the packages of the product that the module in dir has.
func productPackages(dir string) ([]*source, error) {
	all, err := list(dir)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, l := range all {
		exports[l.ImportPath] = l.Export
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("go list names no compiled package %s", path)
		}
		return os.Open(exports[path])
	})
	var packages []*source
	for _, l := range all {
		if l.Module == nil || !l.Module.Main {
			continue
		}
		name := strings.TrimPrefix(strings.TrimPrefix(l.ImportPath, l.Module.Path), "/")
		if !isProduct(name) || len(l.GoFiles)+len(l.CgoFiles) == 0 {
			continue
		}
		text := map[string][]byte{}
		for _, file := range append(l.GoFiles, l.CgoFiles...) {
			if text[file], err = os.ReadFile(filepath.Join(l.Dir, file)); err != nil {
				return nil, err
			}
		}
		s, err := load(fset, imports, name, text)
		if err != nil {
			return nil, fmt.Errorf("package %s: %w", l.ImportPath, err)
		}
		packages = append(packages, s)
	}
	if len(packages) == 0 {
		return nil, fmt.Errorf("no package of the product in %s", dir)
	}
	return packages, nil
}

// isProduct reports whether a package is part of what users run.
func isProduct(name string) bool {
	// The root holds no code, and packages such as gputest are for tests.
	return name != "" && !strings.HasPrefix(name+"/", "examples/") && !strings.HasSuffix(path.Base(name), "test")
}

// list runs go list over the packages of a module and all that they import.
func list(dir string) ([]listed, error) {
	cmd := exec.Command("go", "list", "-e", "-export", "-deps",
		"-json=ImportPath,Dir,Export,GoFiles,CgoFiles,Standard,Module", "./...")
	cmd.Dir = dir
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, bytes.TrimSpace(complaint.Bytes()))
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		err := d.Decode(&l)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the output of go list: %w", err)
		}
		all = append(all, l)
	}
}

// load parses the files of a package and finds what each identifier refers to.
func load(fset *token.FileSet, imports types.Importer, name string, text map[string][]byte) (*source, error) {
	s := &source{name: name, fset: fset, text: text, info: &types.Info{Uses: map[*ast.Ident]types.Object{}}}
	for file, content := range text {
		f, err := parser.ParseFile(fset, path.Join(name, file), content, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		s.files = append(s.files, f)
	}
	conf := types.Config{Importer: imports, FakeImportC: true}
	var err error
	s.types, err = conf.Check(name, fset, s.files, s.info)
	return s, err
}
