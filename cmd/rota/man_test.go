package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/manual"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
)

// The pages in packaging are the program's own help.
func TestPackaging(t *testing.T) {
	root := "../../packaging"
	want := manual.Packaged(commands())
	for name, text := range want {
		path := filepath.Join(root, name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%s is not what the program says (%v): make it with \"make golden\"", path, err)
		}
	}
	var there []string
	for _, folder := range []string{"man", "completions"} {
		some, err := filepath.Glob(filepath.Join(root, folder, "*"))
		if err != nil {
			t.Fatal(err)
		}
		there = append(there, some...)
	}
	for _, path := range there {
		if name, err := filepath.Rel(root, path); err != nil || want[name] == "" {
			t.Errorf("%s belongs to nothing", path)
		}
	}
}

func TestMan(t *testing.T) {
	dir := t.TempDir()
	s := rotatest.Session{Commands: commands, T: t}
	if got := s.Run("man", dir); got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	for name, text := range manual.Packaged(commands()) {
		if kind, file := filepath.Split(name); kind == "man/" {
			if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(got) != text {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	if got := s.Run("man"); got.Code != exit.Usage {
		t.Errorf("%+v", got)
	}
}

// A formatter that knows its language finds nothing wrong.
func TestManIsRoff(t *testing.T) {
	var check []string
	for _, tool := range [][]string{{"mandoc", "-T", "lint", "-W", "error"}, {"groff", "-man", "-Tutf8", "-ww", "-z"}} {
		if _, err := exec.LookPath(tool[0]); err == nil {
			check = tool
			break
		}
	}
	if check == nil {
		t.Skip("needs mandoc or groff")
	}
	dir := t.TempDir()
	for name, text := range manual.Packaged(commands()) {
		if !strings.HasPrefix(name, "man/") {
			continue
		}
		path := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), check[0],
			append(check[1:], path)...).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if strings.Contains(text, "\n\n") {
			t.Logf("%s has empty lines", name)
		}
	}
}
