package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fenced returns the text of a document's code blocks of some kind.
func fenced(text, kind string) []string {
	var blocks []string
	for _, part := range strings.Split(text, "```"+kind+"\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, block)
	}
	return blocks
}

// Every command in the documents is one that the program takes, with these options.
func TestCommandsInDocuments(t *testing.T) {
	all := commands()
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	u := used{}
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, block := range append(fenced(string(text), "sh"), fenced(string(text), "bash")...) {
			for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", " ")) {
				for _, words := range calls(strings.TrimSuffix(line, "\n")) {
					n++
					u.note(t, all, words)
				}
			}
		}
		if n == 0 && filepath.Base(file) == "from-slurm.md" {
			t.Errorf("%s has no command", file)
		}
	}
}
