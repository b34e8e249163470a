package main

import (
	"bufio"
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
	out := bufio.NewWriter(w)
	shown := t.shown(wide)
	widths := t.widths(shown, header)
	if !wide {
		t.shrink(shown, widths)
	}
	if header {
		t.line(out, shown, widths, t.titles())
	}
	for _, row := range t.rows {
		t.line(out, shown, widths, row)
	}
	return out.Flush()
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

func (t *table) widths(shown []int, header bool) []int {
	widths := make([]int, len(t.columns))
	for _, i := range shown {
		if header {
			widths[i] = utf8.RuneCountInString(t.columns[i].title)
		}
		for _, row := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(clean(row[i])))
		}
	}
	return widths
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

func (t *table) line(out *bufio.Writer, shown, widths []int, cells []string) {
	var b strings.Builder
	for n, i := range shown {
		if n > 0 {
			b.WriteByte(' ')
		}
		cell := cut(clean(cells[i]), widths[i])
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		if t.columns[i].right {
			b.WriteString(pad + cell)
		} else {
			b.WriteString(cell + pad)
		}
	}
	fmt.Fprintln(out, strings.TrimRight(b.String(), " "))
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
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
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
