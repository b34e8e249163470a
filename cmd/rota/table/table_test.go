package table_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
)

// printed is a table as it is printed.
func printed(t *testing.T, tb *table.Table, f table.Format, header bool) string {
	t.Helper()
	var out bytes.Buffer
	if err := tb.Print(&out, table.Screen{}, f, header); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestTablesAsText notices columns that are not below each other, spaces at the end of a line, and
// characters that move the cursor.
func TestTablesAsText(t *testing.T) {
	tb := table.New("NAME", ">COUNT", "NOTE")
	tb.Add("größe", "7", "a\x1b[31m\nb")
	tb.Add("x", "1234567", "")
	tb.Add("", "", "end ")
	want := "NAME    COUNT NOTE\n" +
		"größe       7 a?[31m?b\n" +
		"x     1234567\n" +
		"              end\n"
	for _, f := range []table.Format{table.AsTable, table.Wide} {
		if got := printed(t, tb, f, true); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", f, got, want)
		}
	}
	if got := printed(t, tb, table.AsTable, false); got != want[strings.IndexByte(want, '\n')+1:] {
		t.Errorf("without a header:\n%s", got)
	}
	if got := printed(t, tb, table.Names, true); got != "größe\nx\n\n" {
		t.Errorf("names: %q", got)
	}
	if got := printed(t, tb, table.CSV, true); got != "NAME,COUNT,NOTE\ngröße,7,\"a\x1b[31m\nb\"\nx,1234567,\n,,end \n" {
		t.Errorf("CSV: %q", got)
	}
	if got := printed(t, tb, table.CSV, false); !strings.HasPrefix(got, "größe,") {
		t.Errorf("CSV without a header: %q", got)
	}
	if got := printed(t, &table.Table{}, table.AsTable, true); got != "\n" {
		t.Errorf("an empty table: %q", got)
	}
}

// TestTablesAreShortened: on a terminal the widest column that may be cut is cut first, and none below its
// least width. Elsewhere, and in the wide format, nothing is cut.
func TestTablesAreShortened(t *testing.T) {
	long := strings.Repeat("ä", 80)
	tb := &table.Table{Columns: []table.Column{{Title: "ID", Right: true}, {Title: "NAME", Least: 8}, {Title: "NODES",
		Least: 20}}}
	tb.Add("1", long, "gpu01")
	tb.Add("2", long, long)
	last := strings.Split(onScreen(t, tb, table.Screen{Width: 100}), "\n")[2]
	fields := strings.Fields(last)
	if utf8.RuneCountInString(last) != 100 || len(fields) != 3 || !strings.HasSuffix(fields[1], "ä…") ||
		!strings.HasSuffix(fields[2], "ä…") || utf8.RuneCountInString(fields[1])-utf8.RuneCountInString(fields[2]) > 1 {
		t.Errorf("the widest column is not cut first: %s", last)
	}
	for _, f := range []table.Format{table.AsTable, table.Wide} {
		if got := printed(t, tb, f, false); strings.Contains(got, "…") || strings.Count(got, long) != 3 {
			t.Errorf("%s is cut: %s", f, got)
		}
	}
	var wide bytes.Buffer
	if err := tb.Print(&wide, table.Screen{Width: 80}, table.Wide, false); err != nil || strings.Contains(wide.String(),
		"…") {
		t.Errorf("the wide format is cut: %v, %s", err, &wide)
	}
}

// failing refuses to be written to.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no space") }

// TestOutputThatCannotBeWritten notices a full disk that is taken for success.
func TestOutputThatCannotBeWritten(t *testing.T) {
	tb := table.New("A")
	tb.Add("x")
	for _, f := range []table.Format{table.AsTable, table.Wide, table.CSV, table.Names} {
		if err := tb.Print(failing{}, table.Screen{}, f, true); err == nil {
			t.Errorf("%s: no error", f)
		}
	}
	steps := []api.FunnelStep{{What: "are up", Nodes: 1}}
	for what, err := range map[string]error{"JSON": table.PrintJSON(failing{}, 1), "YAML": table.PrintYAML(failing{}, 1),
		"obstacles": table.PrintObstacles(failing{}, table.Screen{}, steps, "")} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if err := table.PrintYAML(&bytes.Buffer{}, func() {}); err == nil {
		t.Error("a function has no YAML")
	}
}

// TestObstacles notices advice that is missing, or that passes on control characters.
func TestObstacles(t *testing.T) {
	steps := []api.FunnelStep{{What: "are up", Nodes: 12}, {What: "have a GPU", Nodes: 0}}
	head := "\nNODES THAT\n   12 are up\n    0 have a GPU\n"
	for _, c := range []struct {
		steps  []api.FunnelStep
		advice string
		want   string
	}{{nil, "", ""}, {steps, "", head}, {nil, "ask\x1b for less", "\nask? for less\n"}, {steps, "less", head +
		"\nless\n"}} {
		var out bytes.Buffer
		if err := table.PrintObstacles(&out, table.Screen{}, c.steps, c.advice); err != nil || out.String() != c.want {
			t.Errorf("%v: %q, want %q", err, &out, c.want)
		}
	}
}

// TestJSONAndYAML notices a value that is another one when it is read back.
func TestJSONAndYAML(t *testing.T) {
	value := map[string]any{"off": "OFF", "clock": "1:30", "range": "1:90", "html": "<a&b>", "yes": "yes",
		"number": "1e3", "empty": []int{}, "none": nil,
		"list":  []any{1, "two", true},
		"lines": "a\nb\n", "inner": map[string]any{"x": 1.5, "time": "2026-11-21T08:00:00.000Z"}, "tilde": "~"}
	var text, yaml bytes.Buffer
	if err := errors.Join(table.PrintJSON(&text, value), table.PrintYAML(&yaml, value)); err != nil {
		t.Fatal(err)
	}
	var back map[string]any
	if err := json.Unmarshal(text.Bytes(), &back); err != nil || !strings.Contains(text.String(), `"<a&b>"`) ||
		fmt.Sprint(back["list"]) != "[1 two true]" {
		t.Errorf("%v: %s", err, &text)
	}
	want := `clock: "1:30"
empty: []
html: <a&b>
inner:
  time: "2026-11-21T08:00:00.000Z"
  x: 1.5
lines: |
  a
  b
list:
  - 1
  - two
  - true
none: null
number: "1e3"
"off": "OFF"
range: 1:90
tilde: "~"
"yes": "yes"
`
	if yaml.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &yaml, want)
	}
}

// TestJSON shows what programs find at the top of a structure, and that a list is never null.
func TestJSON(t *testing.T) {
	type inner struct {
		Names []string          `json:"names"`
		Few   []string          `json:"few,omitempty"`
		Words map[string]string `json:"words"`
	}
	type Thing struct {
		inner
		More []inner         `json:"more"`
		One  *inner          `json:"one"`
		Raw  json.RawMessage `json:"raw,omitempty"`
	}
	for want, v := range map[string]any{
		`{"apiVersion":"v1","kind":"Thing","names":[],"words":{},"more":[{"names":[],"words":{}}],"one":null}`: Thing{
			More: []inner{{}}},
		`{"apiVersion":"v1","kind":"Thing","names":["a"],"words":{},"more":[],"one":{"names":[],"words":{}}}`: &Thing{
			inner: inner{Names: []string{"a"}}, One: &inner{}},
		`{"apiVersion":"v1","kind":"Empty"}`:        emptyShown{},
		`{"apiVersion":"v1","items":[],"kind":"X"}`: map[string]any{"apiVersion": "v1", "kind": "X", "items": []int{}},
		`{"schema":1}`: struct {
			Schema int `json:"schema"`
		}{1},
		`[]`: []int(nil),
	} {
		var out strings.Builder
		if err := table.PrintJSON(&out, v); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(strings.Fields(out.String()), ""); got != want {
			t.Errorf("%+v: %s, want %s", v, got, want)
		}
	}
}

type emptyShown struct{}
