package e2e

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// block is one block of commands in a document, for some machines.
type block struct {
	on     string // their names, with commas
	script string
}

var fenced = regexp.MustCompile("(?ms)^```sh on=(\\S+)\n(.*?)^```$")

// blocksOf returns the commands of a document that say where they are run, in order.
func blocksOf(t *testing.T, file, section string) []block {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, part, ok := strings.Cut(string(text), "\n## "+section+"\n")
	if !ok {
		t.Fatalf("%s has no section %q", file, section)
	}
	part, _, _ = strings.Cut(part, "\n## ")
	var blocks []block
	for _, m := range fenced.FindAllStringSubmatch(part, -1) {
		blocks = append(blocks, block{m[1], m[2]})
	}
	return blocks
}

// TestFirstDay does what the document of the first day says, word for word, on two empty machines.
// TOKEN stands for what the block before it printed.
func TestFirstDay(t *testing.T) {
	blocks := blocksOf(t, "../../../docs/operating.md", "The first day")
	if len(blocks) < 5 {
		t.Fatalf("the first day has %d blocks of commands", len(blocks))
	}
	s := newSite(t, "head", "gpu1")
	begin := time.Now()
	var out string
	for _, b := range blocks {
		token := printedToken(out)
		if strings.Contains(b.script, "TOKEN") && token == "" {
			t.Fatal("no token was printed before it is used")
		}
		script := strings.ReplaceAll(b.script, "TOKEN", token)
		if slices.Contains(strings.Fields(script), "nodes") {
			s.until("head", "rota nodes", `(?s)\bidle\b.*\bidle\b`) // a reader looks again, too
		}
		out = s.run(b.on, script)
	}
	t.Logf("from installation to the end of the gang: %v", time.Since(begin).Round(time.Second))
	for _, want := range []string{"worker 0 of 2 on ", "worker 1 of 2 on "} {
		if !strings.Contains(out, want) {
			t.Errorf("the gang did not print %q: %s", want, out)
		}
	}
	if !strings.Contains(out, "COMPLETED") {
		t.Errorf("the gang did not complete: %s", out)
	}
	for _, name := range []string{"head", "gpu1"} {
		if !strings.Contains(out, name) {
			t.Errorf("no worker ran on %s: %s", name, out)
		}
	}
}

// printedToken is the last printed line that is one word.
func printedToken(text string) string {
	token := ""
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) == 1 {
			token = words[0]
		}
	}
	return token
}
