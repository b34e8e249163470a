package rota

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the table of imports in docs/architecture.md")

// TestImportsAreDocumented compares the table in docs/architecture.md with the rules.
func TestImportsAreDocumented(t *testing.T) {
	const file, begin, end = "docs/architecture.md", "## Who imports whom\n\n", "\n`noded` and `controld` never"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	table, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("%s has no table between %q and %q", file, begin, end)
	}
	want := importTable()
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want {
		t.Errorf("the table of %s is not that of the rules; go test . -update writes it:\n%s", file, want)
	}
}

// importTable writes the rules for readers, without what stands in for others in tests.
func importTable() string {
	var b strings.Builder
	b.WriteString("| package | may import of ours | technology | why |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		r := rules[name]
		if name == "." || strings.HasSuffix(name, "test") {
			continue
		}
		title := "`" + name + "`"
		if r.pure {
			title += " *pure*"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", title, listOr(r.ours, "–"), listOr(technologiesOf(name, r), "–"), r.why)
	}
	fmt.Fprintf(&b, "| `cmd/*` | anything | urfave/cli | %s |\n", trees["cmd/"])
	return b.String()
}

func listOr(names []string, none string) string {
	if len(names) == 0 {
		return none
	}
	return strings.Join(names, ", ")
}

// technologiesOf are those that are wrapped in a package.
func technologiesOf(name string, r rule) (names []string) {
	for _, tech := range technologies {
		if matches(name, tech.in) && slices.ContainsFunc(r.third, func(t string) bool { return within(t, tech.path) }) {
			names = append(names, strings.TrimPrefix(tech.path, "github.com/"))
		}
	}
	return names
}
