package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// packaged is what packages install, made from the program: the manual and the shells' completions.
func packaged(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, p := range manPages(commands(system())) {
		files[filepath.Join("man", p.file)] = string(p.text)
	}
	for _, s := range shells {
		files[filepath.Join("completions", s.file)] = s.script
	}
	return files
}

// What lies in packaging is what the program says of itself.
func TestPackaging(t *testing.T) {
	root := "../../packaging"
	want := packaged(t)
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
	there, err := filepath.Glob(root + "/*/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range there {
		if name, err := filepath.Rel(root, path); err != nil || want[name] == "" {
			t.Errorf("%s belongs to nothing", path)
		}
	}
}

func TestMan(t *testing.T) {
	dir := t.TempDir()
	s := session{t: t}
	if got := s.run("man", dir); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	for name, text := range packaged(t) {
		if kind, file := filepath.Split(name); kind == "man/" {
			if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(got) != text {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	if got := s.run("man"); got.code != exitUsage {
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
	for _, p := range manPages(commands(system())) {
		path := filepath.Join(dir, p.file)
		if err := os.WriteFile(path, p.text, 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), check[0], append(check[1:], path)...).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", p.file, err, out)
		}
		if strings.Contains(string(p.text), "\n\n") {
			t.Logf("%s has empty lines", p.file)
		}
	}
}
