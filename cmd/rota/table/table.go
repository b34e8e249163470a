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
}

// Table is rows of cells under titles.
type Table struct {
	Columns []Column
	Rows    [][]string
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
	widths := t.widths(header)
	if !wide {
		t.shrink(widths)
	}
	if header {
		t.line(&out, widths, t.titles())
	}
	for _, row := range t.Rows {
		t.line(&out, widths, row)
	}
	_, err := out.WriteTo(w)
	return err
}

// widths returns the widths of the columns if no cell is shortened.
func (t *Table) widths(header bool) []int {
	widths := make([]int, len(t.Columns))
	if header {
		for i, c := range t.Columns {
			widths[i] = utf8.RuneCountInString(c.Title)
		}
	}
	for _, row := range t.Rows {
		for i, cell := range row {
			widths[i] = max(widths[i], width(cell))
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
func (t *Table) shrink(widths []int) {
	total := len(widths) - 1
	for _, n := range widths {
		total += n
	}
	for ; total > MaxWidth; total-- {
		widest := -1
		for i, c := range t.Columns {
			if least := c.Least; least > 0 && widths[i] > least && (widest < 0 || widths[i] > widths[widest]) {
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
func (t *Table) line(out *bytes.Buffer, widths []int, cells []string) {
	spaces := 0
	for i, cell := range cells {
		if i > 0 {
			spaces++
		}
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
