package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTheTableKeepsWhatWasNotMeasured measures a package anew, and one that no test runs.
func TestTheTableKeepsWhatWasNotMeasured(t *testing.T) {
	dir := t.TempDir()
	page, profile := filepath.Join(dir, "page.md"), filepath.Join(dir, "profile")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(page, "before\n"+tableBegins+"| package |\n|---|\n| `b` | 10 | 1 % | 2 % |\n| `c` | 10 | 3 % | 4 % |\n"+
		tableEnds+
		"after\n")
	measured := coverage{}
	for tests, text := range map[string]string{
		"m/a": "m/a/a.go:1.1,2.1 3 1\nm/a/a.go:2.1,3.1 1 0\nm/b/b.go:1.1,2.1 1 1\nm/d/d.go:1.1,2.1 5 0\n",
		"m/b": "m/a/a.go:1.1,2.1 3 0\nm/a/a.go:2.1,3.1 1 7\nm/b/b.go:1.1,2.1 1 0\nm/b/b.go:2.1,3.1 1 1\n",
	} {
		write(profile, "mode: set\n"+text)
		if err := measured.read(tests, profile); err != nil {
			t.Fatal(err)
		}
	}
	if err := rewrite(page, "m", []string{"m/a", "m/b", "m/d"}, measured); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := "| `a` | 4 | 75 % | 100 % |\n| `b` | 2 | 50 % | 100 % |\n| `c` | 10 | 3 % | 4 % |\n| `d` | 5 | 0 % | 0 % |\n"
	if !strings.Contains(string(text), want) || !strings.HasPrefix(string(text), "before\n") ||
		!strings.HasSuffix(string(text), tableEnds+"after\n") {
		t.Errorf("the page is\n%s", text)
	}
	write(page, "no table")
	if err := rewrite(page, "m", nil, measured); err == nil {
		t.Error("a page without a table is rewritten")
	}
}

// TestByModule: a pattern that covers both modules goes to both, and none is lost.
func TestByModule(t *testing.T) {
	for _, test := range []struct{ pattern, product, laboratory string }{
		{"./...", "./...", "./..."},
		{"./cmd/...", "./cmd/...", "./..."},
		{"./cmd/lab/...", "", "./..."},
		{"./cmd/lab", "", "./"},
		{"./cmd/lab/cover", "", "./cover"},
		{"./cmd/labels/...", "./cmd/labels/...", ""},
		{"./consensus", "./consensus", ""},
	} {
		got := byModule([]string{test.pattern})
		if strings.Join(got["."], " ") != test.product || strings.Join(got[laboratory], " ") != test.laboratory {
			t.Errorf("%s: %v", test.pattern, got)
		}
	}
	both := byModule([]string{"./consensus", "./cmd/lab/cover"})
	if modules := slices.Sorted(maps.Keys(both)); !slices.Equal(modules, []string{".", laboratory}) {
		t.Errorf("modules %v", modules)
	}
}
