// Package fields has the one table of the fields of jobs and nodes. It makes all lists under
// Slurm's names: columns, KEY=VALUE, and JSON.
package fields

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/show"
)

// Field is one thing that can be said of a row. It makes all forms: a letter of -o, a name of -O, a
// field of sacct, a key of scontrol show and a member in JSON.
type Field[T any] struct {
	letter byte   // in -o; 0: it has none
	long   string // in -O; "": it has none
	title  string // above the column of either; "": the long name in capitals
	acct   string // of sacct, which is its title there too; "": it is not there
	width  int    // of its column in sacct; 0: 10; negative: on the left
	key    string // in scontrol show; "": it is not there
	json   string // path of the member in JSON, with dots; "": it is not there
	past   string // the same for ended jobs, in the JSON of sacct
	needs  string // members of the API's JSON that it is made of, separated by spaces
	joins  bool   // rows that differ in it are one row, and it is made of all of them
	text   func(T) string
	value  func(T) any // in JSON; nil: the text, and "" for what Slurm writes in place of none
}

// Column is a field with its form in a line, or text between fields.
type Column[T any] struct {
	*Field[T]
	text   string // before it, or alone
	after  string
	title  string
	width  int  // 0: as wide as it is
	right  bool // to the right of its width
	even   bool // as wide as the widest value
	marked bool // cut with a '+' at the end
}

// maxWidth is the widest column that can be asked for.
const maxWidth = 8192

// readWidth reads a width.
func readWidth(text, format string) (n int, rest string, err error) {
	width, rest, ok := command.LeadingInt(text)
	switch {
	case !ok:
		return 0, text, nil
	case width > maxWidth:
		return 0, "", fmt.Errorf("the width %d of the format %q is above %d", width, format, maxWidth)
	}
	return int(width), rest, nil
}

// ParseLetters reads a format of -o, such as "%.18i %t".
func ParseLetters[T any](fields []Field[T], format string) ([]Column[T], error) {
	var columns []Column[T]
	for rest := format; rest != ""; {
		var c Column[T]
		var found bool
		c.text, rest, found = strings.Cut(rest, "%")
		if !found {
			columns = append(columns, c)
			break
		}
		rest, c.even = strings.CutPrefix(rest, "#")
		if rest, c.right = strings.CutPrefix(rest, "."); c.right && (rest == "" || rest[0] < '0' || rest[0] > '9') {
			return nil, fmt.Errorf("the format %q has a '.' without a width", format)
		}
		var err error
		if c.width, rest, err = readWidth(rest, format); err != nil {
			return nil, err
		}
		if rest == "" {
			return nil, fmt.Errorf("the format %q ends in a '%%'", format)
		}
		i := slices.IndexFunc(fields, func(f Field[T]) bool { return f.letter == rest[0] })
		if i < 0 {
			return nil, fmt.Errorf("%%%c of the format %q is not supported: %s are", []rune(rest)[0], format,
				letters(fields))
		}
		c.Field, c.title, rest = &fields[i], fields[i].header(), rest[1:]
		columns = append(columns, c)
	}
	return columns, nil
}

// letters names the fields that have one.
func letters[T any](fields []Field[T]) string {
	var all []string
	for i := range fields {
		if letter := fields[i].letter; letter != 0 {
			all = append(all, "%"+string(letter))
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// longWidth is the width of a column of -O that names none.
const longWidth = 20

// ParseNames reads a format of -O: names with commas, each with an optional ":[.]WIDTH" and what
// follows the value.
func ParseNames[T any](fields []Field[T], format string) ([]Column[T], error) {
	var columns []Column[T]
	for _, word := range strings.Split(format, ",") {
		if strings.TrimSpace(word) == "" {
			continue
		}
		name, form, has := strings.Cut(word, ":")
		name = strings.TrimSpace(name)
		i := slices.IndexFunc(fields, func(f Field[T]) bool { return f.long != "" && strings.EqualFold(f.long, name) })
		if i < 0 {
			return nil, fmt.Errorf("Invalid job format specification: %s: %s are supported", name, longNames(fields))
		}
		c := Column[T]{Field: &fields[i], title: fields[i].header(), width: longWidth}
		if has {
			form, c.right = strings.CutPrefix(form, ".")
			var err error
			if c.width, c.after, err = readWidth(form, format); err != nil {
				return nil, err
			}
		}
		columns = append(columns, c)
	}
	if columns == nil {
		return nil, fmt.Errorf("the format %q names no field", format)
	}
	return columns, nil
}

func longNames[T any](fields []Field[T]) string {
	var all []string
	for i := range fields {
		if fields[i].long != "" {
			all = append(all, fields[i].long)
		}
	}
	return strings.Join(all, " ")
}

func (f *Field[T]) header() string {
	if f.title != "" {
		return f.title
	}
	return strings.ToUpper(f.long)
}

// Members returns the members of the API's JSON that columns are made of.
func Members[T any](columns []Column[T]) []string {
	var all []string
	for i := range columns {
		if f := columns[i].Field; f != nil {
			all = append(all, strings.Fields(f.needs)...)
		}
	}
	return all
}

// Shows reports whether a field is among columns, by its name in -O or in sacct.
func Shows[T any](columns []Column[T], name string) bool {
	return slices.ContainsFunc(columns, func(c Column[T]) bool {
		return c.Field != nil && (c.long == name || c.acct == name)
	})
}

// Lines writes rows in columns.
type Lines[T any] struct {
	Columns []Column[T]
	Out     *bufio.Writer
}

// Header writes the titles. They are cut without a mark.
func (l *Lines[T]) Header() {
	l.line(func(c *Column[T]) string {
		if title := []rune(c.title); c.width > 0 && len(title) > c.width {
			return string(title[:c.width])
		}
		return c.title
	})
}

// Row writes the values of a row.
func (l *Lines[T]) Row(r T) {
	l.line(func(c *Column[T]) string { return show.Clean(c.Field.text(r)) })
}

func (l *Lines[T]) line(value func(*Column[T]) string) {
	for i := range l.Columns {
		c := &l.Columns[i]
		_, _ = l.Out.WriteString(c.text) // Flush returns the error
		if c.Field != nil {
			c.write(l.Out, value(c))
		}
	}
	_ = l.Out.WriteByte('\n')
}

// write writes a value in its width, cut off if it is longer.
func (c *Column[T]) write(out *bufio.Writer, value string) {
	space := 0
	if c.width > 0 {
		n := utf8.RuneCountInString(value)
		space = c.width - n
		if n > c.width {
			value = string([]rune(value)[:c.width])
			if c.marked {
				value = string([]rune(value)[:c.width-1]) + "+"
			}
		}
	}
	if c.right {
		pad(out, space)
	}
	_, _ = out.WriteString(value)
	if !c.right {
		pad(out, space)
	}
	_, _ = out.WriteString(c.after)
}

func pad(out *bufio.Writer, n int) {
	for range n {
		_ = out.WriteByte(' ')
	}
}

// Fits reports whether a column is to be as wide as its widest value: all rows must be there before the
// first is written.
func (l *Lines[T]) Fits() bool {
	return slices.ContainsFunc(l.Columns, func(c Column[T]) bool { return c.even })
}

// Fit makes columns as wide as their widest value that are to be.
func (l *Lines[T]) Fit(rows []T) {
	for i := range l.Columns {
		c := &l.Columns[i]
		if !c.even || c.Field == nil {
			continue
		}
		c.width = max(c.width, utf8.RuneCountInString(c.title))
		for _, r := range rows {
			c.width = max(c.width, utf8.RuneCountInString(show.Clean(c.Field.text(r))))
		}
	}
}

// SortKey is a field by which rows are sorted.
type SortKey[T any] struct {
	*Field[T]
	down bool
}

// Members are the members of the API's JSON by which the key sorts.
func (k SortKey[T]) Members() []string { return strings.Fields(k.needs) }

// ParseSort reads the value of --sort: letters of -o with commas, each with an optional + or -.
func ParseSort[T any](fields []Field[T], text string) ([]SortKey[T], error) {
	var keys []SortKey[T]
	for _, word := range command.SplitList(text) {
		letter := strings.TrimLeft(word, "+-")
		i := slices.IndexFunc(fields, func(f Field[T]) bool { return f.letter != 0 && letter == string(f.letter) })
		if i < 0 {
			return nil, fmt.Errorf("Invalid sort specification: %s: %s are supported", word, letters(fields))
		}
		keys = append(keys, SortKey[T]{&fields[i], strings.Contains(word[:len(word)-1], "-")})
	}
	return keys, nil
}

// SortRows sorts rows by the first key that differs.
func SortRows[T any](rows []T, keys []SortKey[T]) {
	slices.SortStableFunc(rows, func(a, b T) int {
		for _, k := range keys {
			c := k.compare(a, b)
			if k.down {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		return 0
	})
}

// compare compares by number where both have one, else by text.
func (f *Field[T]) compare(a, b T) int {
	if f.value != nil {
		x, isX := asNumber(f.value(a))
		y, isY := asNumber(f.value(b))
		if isX && isY {
			return cmp.Compare(x, y)
		}
	}
	x, y := f.text(a), f.text(b)
	if n, err := strconv.ParseFloat(x, 64); err == nil {
		if m, err := strconv.ParseFloat(y, 64); err == nil {
			return cmp.Compare(n, m)
		}
	}
	return strings.Compare(x, y)
}
