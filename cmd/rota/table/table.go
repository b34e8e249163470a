// Package table prints tables, and values as JSON and YAML.
package table

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/rota-hpc/rota/cmd/rota/show"
)

// MaxWidth is what a table keeps within; cells that do not fit end in an ellipsis. The wide format has no limit.
const MaxWidth = 100

// Column is one column of a table.
type Column struct {
	Title string
	Right bool // numbers stand on the right
	Least int  // may be cut to this width; 0: never cut
	Wide  bool // only in the wide format and in csv
}

// Table is rows under titles.
type Table struct {
	Columns []Column
	Rows    [][]string
}

func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Format is how a list is printed.
type Format string

const (
	AsTable  Format = "table"
	Wide     Format = "wide"
	JSON     Format = "json"
	YAML     Format = "yaml"
	CSV      Format = "csv"
	Names    Format = "name"
	Template Format = "template"
)

// Print writes the table in one of the formats that are made of cells.
func (t *Table) Print(w io.Writer, f Format, header bool) error {
	switch f {
	case CSV:
		return t.printCSV(w, header)
	case Names:
		return t.PrintNames(w)
	}
	return t.printText(w, f == Wide, header)
}

func (t *Table) printCSV(w io.Writer, header bool) error {
	out := csv.NewWriter(w)
	if header {
		if err := out.Write(t.titles()); err != nil {
			return err
		}
	}
	if err := out.WriteAll(t.Rows); err != nil {
		return err
	}
	return out.Error()
}

func (t *Table) PrintNames(w io.Writer) error {
	out := bufio.NewWriter(w)
	for _, row := range t.Rows {
		fmt.Fprintln(out, row[0])
	}
	return out.Flush()
}

func (t *Table) titles() []string {
	titles := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		titles[i] = c.Title
	}
	return titles
}

func (t *Table) printText(w io.Writer, wide, header bool) error {
	var out bytes.Buffer
	shown := t.shown(wide)
	widths := t.widths(shown, header)
	if !wide {
		t.shrink(shown, widths)
	}
	if header {
		t.line(&out, shown, widths, t.titles())
	}
	for _, row := range t.Rows {
		t.line(&out, shown, widths, row)
	}
	_, err := out.WriteTo(w)
	return err
}

// shown lists the columns of the format, by index.
func (t *Table) shown(wide bool) []int {
	var shown []int
	for i, c := range t.Columns {
		if wide || !c.Wide {
			shown = append(shown, i)
		}
	}
	return shown
}

// widths is how wide the columns are without being cut.
func (t *Table) widths(shown []int, header bool) []int {
	widths := make([]int, len(t.Columns))
	if header {
		for i, c := range t.Columns {
			widths[i] = utf8.RuneCountInString(c.Title)
		}
	}
	for _, row := range t.Rows {
		for _, i := range shown {
			widths[i] = max(widths[i], width(row[i]))
		}
	}
	return widths
}

// width is how many characters clean leaves of s.
func width(s string) int {
	if show.IsPlain(s) {
		return len(s)
	}
	return utf8.RuneCountInString(show.Clean(s))
}

// shrink takes from the widest column that may be cut until the table fits.
func (t *Table) shrink(shown, widths []int) {
	total := len(shown) - 1
	for _, i := range shown {
		total += widths[i]
	}
	for ; total > MaxWidth; total-- {
		widest := -1
		for _, i := range shown {
			if least := t.Columns[i].Least; least > 0 && widths[i] > least && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

// line writes one line of the table. A cell's padding comes when the next one is written, so that no line ends in spaces.
func (t *Table) line(out *bytes.Buffer, shown, widths []int, cells []string) {
	spaces := 0
	for n, i := range shown {
		if n > 0 {
			spaces++
		}
		cell := cells[i]
		size := len(cell)
		if !show.IsPlain(cell) || size > widths[i] {
			cell = shorten(show.Clean(cell), widths[i])
			size = utf8.RuneCountInString(cell)
		}
		pad := widths[i] - size
		if t.Columns[i].Right {
			spaces, pad = spaces+pad, 0
		}
		text := strings.TrimRight(cell, " ")
		if text != "" {
			writeSpaces(out, spaces)
			_, _ = out.WriteString(text) // an error stays in the writer until Flush
			spaces = 0
		}
		spaces += len(cell) - len(text) + pad
	}
	_ = out.WriteByte('\n') // an error stays in the writer until Flush
}

// writeSpaces writes n spaces.
func writeSpaces(out *bytes.Buffer, n int) {
	const some = "                                "
	for ; n > 0; n -= len(some) {
		_, _ = out.WriteString(some[:min(n, len(some))]) // an error stays in the writer until Flush
	}
}

// shorten shortens s to n characters, the last an ellipsis.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	if n < 1 {
		return ""
	}
	runes := []rune(s)
	return string(runes[:n-1]) + "…"
}
