package rota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestImportTable wants a reason in each rule, and prints the rules as a table with -v.
func TestImportTable(t *testing.T) {
	for name, r := range rules {
		if strings.TrimSpace(r.why) == "" {
			t.Errorf("%s: the rule has no reason", name)
		}
	}
	t.Log("\n" + importTable())
}

// importTable returns the rules as a table, without packages that only tests use.
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
