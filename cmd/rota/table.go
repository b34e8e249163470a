package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tableWidth is what a table keeps within; cells that do not fit end in an ellipsis. The wide format has no limit.
const tableWidth = 100

// column is one column of a table.
type column struct {
	title string
	right bool // numbers stand on the right
	least int  // may be cut to this width; 0: never cut
	wide  bool // only in the wide format and in csv
}

// table is rows under titles.
type table struct {
	columns []column
	rows    [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// format is how a list is printed.
type format string

const (
	formatTable    format = "table"
	formatWide     format = "wide"
	formatJSON     format = "json"
	formatYAML     format = "yaml"
	formatCSV      format = "csv"
	formatName     format = "name"
	formatTemplate format = "template"
)

// parseFormat reads -o for a command that knows allowed.
func parseFormat(text string, allowed ...format) (format, error) {
	if slices.Contains(allowed, format(text)) {
		return format(text), nil
	}
	names := make([]string, len(allowed))
	for i, f := range allowed {
		names[i] = string(f)
	}
	e := usagef("-o %s is not a format of this command: it has %s", text, strings.Join(names, ", "))
	if near := nearest(text, names); near != "" {
		e.hint = fmt.Sprintf("did you mean -o %s?", near)
	}
	return "", e
}

// print writes the table in one of the formats that are made of cells.
func (t *table) print(w io.Writer, f format, header bool) error {
	switch f {
	case formatCSV:
		return t.printCSV(w, header)
	case formatName:
		return t.printNames(w)
	}
	return t.printText(w, f == formatWide, header)
}

func (t *table) printCSV(w io.Writer, header bool) error {
	out := csv.NewWriter(w)
	if header {
		if err := out.Write(t.titles()); err != nil {
			return err
		}
	}
	if err := out.WriteAll(t.rows); err != nil {
		return err
	}
	return out.Error()
}

func (t *table) printNames(w io.Writer) error {
	out := bufio.NewWriter(w)
	for _, row := range t.rows {
		fmt.Fprintln(out, row[0])
	}
	return out.Flush()
}

func (t *table) titles() []string {
	titles := make([]string, len(t.columns))
	for i, c := range t.columns {
		titles[i] = c.title
	}
	return titles
}

func (t *table) printText(w io.Writer, wide, header bool) error {
	var out bytes.Buffer
	shown := t.shown(wide)
	widths := t.widths(shown, header)
	if !wide {
		t.shrink(shown, widths)
	}
	if header {
		t.line(&out, shown, widths, t.titles())
	}
	for _, row := range t.rows {
		t.line(&out, shown, widths, row)
	}
	_, err := out.WriteTo(w)
	return err
}

// shown lists the columns of the format, by index.
func (t *table) shown(wide bool) []int {
	var shown []int
	for i, c := range t.columns {
		if wide || !c.wide {
			shown = append(shown, i)
		}
	}
	return shown
}

// widths is how wide the columns are without being cut.
func (t *table) widths(shown []int, header bool) []int {
	widths := make([]int, len(t.columns))
	if header {
		for i, c := range t.columns {
			widths[i] = utf8.RuneCountInString(c.title)
		}
	}
	for _, row := range t.rows {
		for _, i := range shown {
			widths[i] = max(widths[i], width(row[i]))
		}
	}
	return widths
}

// width is how many characters clean leaves of s.
func width(s string) int {
	if isPlain(s) {
		return len(s)
	}
	return utf8.RuneCountInString(clean(s))
}

// isPlain reports whether s is printable ASCII, of which every byte is one character.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// shrink takes from the widest column that may be cut until the table fits.
func (t *table) shrink(shown, widths []int) {
	total := len(shown) - 1
	for _, i := range shown {
		total += widths[i]
	}
	for ; total > tableWidth; total-- {
		widest := -1
		for _, i := range shown {
			if least := t.columns[i].least; least > 0 && widths[i] > least && (widest < 0 || widths[i] > widths[widest]) {
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
func (t *table) line(out *bytes.Buffer, shown, widths []int, cells []string) {
	spaces := 0
	for n, i := range shown {
		if n > 0 {
			spaces++
		}
		cell := cells[i]
		size := len(cell)
		if !isPlain(cell) || size > widths[i] {
			cell = cut(clean(cell), widths[i])
			size = utf8.RuneCountInString(cell)
		}
		pad := widths[i] - size
		if t.columns[i].right {
			spaces, pad = spaces+pad, 0
		}
		text := strings.TrimRight(cell, " ")
		if text != "" {
			fill(out, spaces)
			_, _ = out.WriteString(text) // an error stays in the writer until Flush
			spaces = 0
		}
		spaces += len(cell) - len(text) + pad
	}
	_ = out.WriteByte('\n') // an error stays in the writer until Flush
}

// fill writes n spaces.
func fill(out *bytes.Buffer, n int) {
	const some = "                                "
	for ; n > 0; n -= len(some) {
		_, _ = out.WriteString(some[:min(n, len(some))]) // an error stays in the writer until Flush
	}
}

// cut shortens s to n characters, the last an ellipsis.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	if n < 1 {
		return ""
	}
	runes := []rune(s)
	return string(runes[:n-1]) + "…"
}

// clean keeps what others wrote from moving the cursor or breaking the table.
func clean(s string) string {
	if isPlain(s) || strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// printJSON writes v indented, as every -o json does.
func printJSON(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(v)
}
