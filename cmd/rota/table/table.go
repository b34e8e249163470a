// Package table prints tables, and values as JSON and YAML.
package table

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/show"
)

// Screen is where a table is printed. The zero value is a file or a pipe, where nothing is cut or coloured.
type Screen struct {
	Width  int  // columns of the terminal; 0: there is none
	Colour bool // states and failures are coloured
}

// Column is one column of a table.
type Column struct {
	Title string
	Right bool // aligned to the right, for numbers
	Least int  // on a terminal it may be shortened to this width; 0: never
	// Rank says which columns a narrow terminal does not show: first those of the highest rank. Columns of
	// rank 0 are always shown.
	Rank  int
	Paint func(cell string) Paint // nil: it has no colour
}

// Table is rows of cells under titles.
type Table struct {
	Columns []Column
	Rows    [][]string
	// Keys is how many columns say what a row is about, at least one. A table that is too wide for a
	// terminal is printed in parts, and each begins with these.
	Keys int
}

// New returns a table with columns that are never shortened. A column whose title begins with ">"
// is aligned to the right, without that sign.
func New(titles ...string) *Table {
	t := &Table{}
	for _, title := range titles {
		name, right := strings.CutPrefix(title, ">")
		t.Columns = append(t.Columns, Column{Title: name, Right: right})
	}
	return t
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

// Print writes the table as text, as CSV, or as the names in its first column. The screen counts for text
// alone, and the wide format may be wider than that.
func (t *Table) Print(w io.Writer, s Screen, f Format, header bool) error {
	switch f {
	case CSV:
		return t.printCSV(w, header)
	case Names:
		return t.PrintNames(w)
	case Wide:
		s.Width = 0
	}
	return t.printText(w, s, header)
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

func (t *Table) printText(w io.Writer, s Screen, header bool) error {
	var out bytes.Buffer
	titles := t.titles()
	for n, p := range t.parts(t.widths(header), s.Width) {
		if n > 0 {
			_ = out.WriteByte('\n') // a buffer in memory takes everything
		}
		if header {
			t.line(&out, p, titles, false)
		}
		for _, row := range t.Rows {
			t.line(&out, p, row, s.Colour)
		}
	}
	_, err := out.WriteTo(w)
	return err
}

// widths returns the widths of the columns if no cell is shortened.
func (t *Table) widths(header bool) []int {
	widths := make([]int, len(t.Columns))
	if header {
		for i, c := range t.Columns {
			widths[i] = show.Width(c.Title)
		}
	}
	for _, row := range t.Rows {
		for i, cell := range row {
			widths[i] = max(widths[i], show.Width(cell))
		}
	}
	return widths
}

// line writes one line. The padding of a cell is written before the next one, so that no line ends
// in spaces.
func (t *Table) line(out *bytes.Buffer, p part, cells []string, colour bool) {
	spaces := 0
	for n, i := range p.columns {
		cell := cells[i]
		if n > 0 {
			spaces++
		}
		size := len(cell)
		if !show.IsPlain(cell) || size > p.widths[n] {
			cell = show.Cut(show.Clean(cell), p.widths[n])
			size = show.Width(cell)
		}
		pad := p.widths[n] - size
		if t.Columns[i].Right {
			spaces, pad = spaces+pad, 0
		}
		text := strings.TrimRight(cell, " ")
		trailing := len(cell) - len(text)
		if text != "" {
			writeSpaces(out, spaces)
			if paint := t.Columns[i].Paint; colour && paint != nil {
				text = paint(cells[i]).On(text)
			}
			_, _ = out.WriteString(text) // a buffer in memory takes everything
			spaces = 0
		}
		spaces += trailing + pad
	}
	_ = out.WriteByte('\n') // the same
}

// writeSpaces writes n spaces.
func writeSpaces(out *bytes.Buffer, n int) {
	const some = "                                "
	for ; n > 0; n -= len(some) {
		_, _ = out.WriteString(some[:min(n, len(some))]) // a buffer in memory takes everything
	}
}
