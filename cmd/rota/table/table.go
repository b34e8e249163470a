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

// MaxWidth is the width of a table in characters. Cells that do not fit are shortened. The wide
// format has no limit.
const MaxWidth = 100

// Column is one column of a table.
type Column struct {
	Title string
	Right bool // aligned to the right, for numbers
	Least int  // may be shortened to this width; 0: never
	Wide  bool // shown only in the wide format and in CSV
}

// Table is rows of cells under titles.
type Table struct {
	Columns []Column
	Rows    [][]string
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Format is an output format.
type Format string

// Formats of output.
const (
	AsTable  Format = "table"
	Wide     Format = "wide"
	JSON     Format = "json"
	YAML     Format = "yaml"
	CSV      Format = "csv"
	Names    Format = "name"
	Template Format = "template"
)

// Print writes the table as text, as CSV, or as the names in its first column.
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

// PrintNames writes the first cell of each row, one per line.
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

// shown returns the indices of the columns that the format has.
func (t *Table) shown(wide bool) []int {
	var shown []int
	for i, c := range t.Columns {
		if wide || !c.Wide {
			shown = append(shown, i)
		}
	}
	return shown
}

// widths returns the widths of the columns if no cell is shortened.
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

// width returns how many characters Clean leaves of s.
func width(s string) int {
	if show.IsPlain(s) {
		return len(s)
	}
	return utf8.RuneCountInString(show.Clean(s))
}

// shrink narrows the widest column that may be shortened, until the table fits.
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

// line writes one line. The padding of a cell is written before the next one, so that no line ends
// in spaces.
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
			_, _ = out.WriteString(text) // the error is returned by Flush
			spaces = 0
		}
		spaces += len(cell) - len(text) + pad
	}
	_ = out.WriteByte('\n') // the error is returned by Flush
}

// writeSpaces writes n spaces.
func writeSpaces(out *bytes.Buffer, n int) {
	const some = "                                "
	for ; n > 0; n -= len(some) {
		_, _ = out.WriteString(some[:min(n, len(some))]) // the error is returned by Flush
	}
}

// shorten cuts s to n characters; the last one is an ellipsis.
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
