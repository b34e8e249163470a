package table_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
)

// escapes are the sequences that colour a text.
var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// onScreen is a table as a terminal of this width shows it.
func onScreen(t *testing.T, tb *table.Table, s table.Screen) string {
	t.Helper()
	var out bytes.Buffer
	if err := tb.Print(&out, s, table.AsTable, true); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestNoTableIsWiderThanItsTerminal prints drawn tables on terminals of drawn widths. No line is too wide,
// nothing is cut where there is room, and colours change nothing but colours.
func TestNoTableIsWiderThanItsTerminal(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	texts := []string{"", "x", "COMPLETED", "größe", "测试-測試-テスト-한국어", "é̂ combined", "🚀 launch",
		"a very long name of a job"}
	for n := range 3000 {
		tb := &table.Table{Keys: r.IntN(4)}
		for i := range 1 + r.IntN(14) {
			tb.Columns = append(tb.Columns, table.Column{Title: fmt.Sprint("C", i), Right: r.IntN(3) == 0, Least: r.IntN(20),
				Rank: r.IntN(3), Paint: table.StateOf})
		}
		for range r.IntN(4) {
			row := make([]string, len(tb.Columns))
			for i := range row {
				row[i] = strings.Repeat(texts[r.IntN(len(texts))], r.IntN(4))
			}
			tb.Add(row...)
		}
		width := 20 + r.IntN(200)
		plain := onScreen(t, tb, table.Screen{Width: width})
		coloured := onScreen(t, tb, table.Screen{Width: width, Colour: true})
		if got := escapes.ReplaceAllString(coloured, ""); got != plain {
			t.Fatalf("table %d: in colour\n%s\nwithout\n%s", n, got, plain)
		}
		for line := range strings.Lines(plain) {
			if line = strings.TrimSuffix(line, "\n"); show.Width(line) > width {
				t.Fatalf("table %d: %d columns, the terminal has %d:\n%s", n, show.Width(line), width, line)
			}
		}
		whole := onScreen(t, tb, table.Screen{})
		if strings.Contains(whole, "…") {
			t.Fatalf("table %d: cut without a terminal:\n%s", n, whole)
		}
		if fits := !strings.Contains(tooWide(whole, width), "y"); fits && whole != plain {
			t.Fatalf("table %d fits in %d columns, and is changed:\n%s\nit was\n%s", n, width, plain, whole)
		}
	}
}

// tooWide has a letter for each line: y if it is wider than a terminal.
func tooWide(text string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if show.Width(strings.TrimSuffix(line, "\n")) > width {
			b.WriteByte('y')
		} else {
			b.WriteByte('n')
		}
	}
	return b.String()
}

// TestColumnsGoAndComeBack: a narrow terminal shows fewer columns, and a table without a rank in parts.
func TestColumnsGoAndComeBack(t *testing.T) {
	tb := &table.Table{Columns: []table.Column{{Title: "ID", Right: true}, {Title: "NAME", Least: 4},
		{Title: "CLASS", Rank: 2}, {Title: "LIMIT", Rank: 1}}}
	tb.Add("7", "training", "be", "1:00")
	for width, want := range map[int]string{
		30: "ID NAME     CLASS LIMIT\n 7 training be    1:00\n", 20: "ID NAME  CLASS LIMIT\n 7 trai… be    1:00\n",
		18: "ID NAME     LIMIT\n 7 training 1:00\n", 11: "ID NAME\n 7 training\n", 7: "ID NAME\n 7 tra…\n",
	} {
		if got := onScreen(t, tb, table.Screen{Width: width}); got != want {
			t.Errorf("%d columns:\n%swant\n%s", width, got, want)
		}
	}
	tb = table.New("POLICY", ">SD_P50", ">SD_P95", ">SD_P99")
	tb.Add("rota", "1.00", "2.00", "3.00")
	want := "POLICY SD_P50 SD_P95\nrota     1.00   2.00\n\nPOLICY SD_P99\nrota     3.00\n"
	if got := onScreen(t, tb, table.Screen{Width: 22}); got != want {
		t.Errorf("in parts:\n%swant\n%s", got, want)
	}
}
