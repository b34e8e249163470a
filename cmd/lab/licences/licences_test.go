package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFileIsCurrent compares the modules in the document with those that the programs link now.
func TestFileIsCurrent(t *testing.T) {
	const root = "../../.."
	text, err := os.ReadFile(filepath.Join(root, "packaging/THIRD_PARTY_LICENSES.md"))
	if err != nil {
		t.Fatal(err)
	}
	modules, err := linkedModules(root)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range modules {
		want = append(want, strings.TrimSpace(m.path+" "+m.version))
	}
	if got := listedModules(string(text)); !slices.Equal(got, want) {
		t.Errorf("the file is out of date: make third-party\nit has\n%s\nwant\n%s", strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
}

func TestRecognise(t *testing.T) {
	const bsd = "Redistribution and use in\nsource and binary forms, with or without modification. "
	for _, test := range []struct{ text, want string }{
		{"Apache License\n   Version 2.0, January 2004", "Apache-2.0"},
		{"Mozilla Public License Version 2.0\n not in the public domain", "MPL-2.0"},
		{"Permission is hereby granted, free of charge, to any person\nobtaining a copy of this software and", "MIT"},
		{bsd, "BSD-2-Clause"},
		{bsd + "The names may not be used to\nendorse or promote products", "BSD-3-Clause"},
		{bsd + "Permission is hereby granted, free of charge, to any person obtaining a copy of this software",
			"MIT BSD-2-Clause"},
		{"This file is in the Public Domain.", "public domain"},
		{"All rights reserved.", ""},
	} {
		if got := strings.Join(recognise(test.text), " "); got != test.want {
			t.Errorf("%.40q: %q, want %q", test.text, got, test.want)
		}
	}
}

// TestReadLicences: texts beside a linked package and above it count, others do not, and an unknown
// one is an error.
func TestReadLicences(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const mit = "Permission is hereby granted, free of charge, to any person obtaining a copy of this software"
	write("LICENSE", "Mozilla Public License, version 2.0 \r\n")
	write("NOTICE", "a notice")
	write("LICENSE-LOGO", "a picture")
	write("inner/pkg/COPYING", mit)
	write("other/LICENSE", "All rights reserved.")
	m := module{path: "example.org/m", version: "v1", dir: dir, linked: []string{dir, filepath.Join(dir, "inner/pkg")}}
	if err := m.readLicences(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(m.licences, " "); got != "MIT MPL-2.0" {
		t.Errorf("licences %s", got)
	}
	again := m
	again.path = "example.org/n"
	text := document([]module{m, again})
	if strings.Count(text, mit) != 1 ||
		!strings.Contains(text, "## example.org/m, example.org/n\n\n````text\na notice\n````\n") {
		t.Errorf("each text is there once, with its modules:\n%s", text)
	}
	if got := strings.Join(listedModules(text), ", "); got != "example.org/m v1, example.org/n v1" {
		t.Errorf("read back: %s", got)
	}
	bad := module{path: "example.org/bad", dir: dir, linked: []string{filepath.Join(dir, "other")}}
	if err := bad.readLicences(); err == nil || !strings.Contains(err.Error(), "no rule recognises") {
		t.Errorf("an unknown licence: %v", err)
	}
	none := module{path: "example.org/none", dir: t.TempDir()}
	if err := none.readLicences(); err == nil {
		t.Error("a module without a licence was taken")
	}
}

// listedModules reads the table of a document back: "module version" for each row.
func listedModules(document string) (list []string) {
	_, table, _ := strings.Cut(document, "|---|---|---|\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			break
		}
		list = append(list, strings.TrimSpace(strings.TrimSpace(cells[1])+" "+strings.TrimSpace(cells[2])))
	}
	return list
}
