// Package fields has one table with all fields of jobs and nodes that Slurm's commands print. Every
// list is made from it: columns, KEY=VALUE records, and JSON.
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

// Field is one value of a row and its name in each output format. The formats are: a letter of -o,
// a name of -O, a field of sacct, a key of scontrol show, and a member in JSON.
type Field[T any] struct {
	letter byte   // in -o; 0: the field has no letter
	long   string // in -O; "": the field has no name there
	title  string // title of the column for -o and -O; "": the long name in capitals
	acct   string // name and title in sacct; "": sacct does not know the field
	width  int    // width of the column in sacct; 0: 10; negative: aligned left
	key    string // key in scontrol show; "": not shown
	json   string // path of the member in JSON, with dots; "": not in JSON
	past   string // path in the JSON of sacct, for ended jobs
	needs  string // members of the API's JSON that the value needs, separated by spaces
	joins  bool   // nodes that differ in this field may share a row, whose value covers all of them
	text   func(T) string
	value  func(T) any // value in JSON; nil: the text, with "" where Slurm prints a word for none
}

// Column is a field with its width and alignment in a line, or literal text between fields.
type Column[T any] struct {
	*Field[T]
	text   string // text before the field, or the literal text
	after  string
	title  string
	width  int  // 0: the width of the value
	right  bool // aligned right
	even   bool // all rows get the width of the widest value
	marked bool // a cut value ends with '+'
}

// maxWidth is the greatest width that a format may request.
const maxWidth = 8192

// readWidth parses the width of a column.
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

// letters returns the fields that have a letter, by letter.
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

// longWidth is the default width of a column of -O.
const longWidth = 20

// ParseNames reads a format of -O: names separated by commas, each with an optional ":[.]WIDTH" and
// a text that follows the value.
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
		return nil, fmt.Errorf("the format %q has no field", format)
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

// Members returns the members of the API's JSON that columns need.
func Members[T any](columns []Column[T]) []string {
	var all []string
	for i := range columns {
		if f := columns[i].Field; f != nil {
			all = append(all, strings.Fields(f.needs)...)
		}
	}
	return all
}

// Shows reports whether columns include a field, named as in -O or sacct.
func Shows[T any](columns []Column[T], name string) bool {
	return slices.ContainsFunc(columns, func(c Column[T]) bool {
		return c.Field != nil && (c.long == name || c.acct == name)
	})
}

// Lines prints rows as columns.
type Lines[T any] struct {
	Columns []Column[T]
	Out     *bufio.Writer
}

// Header prints the titles. Titles that are too long are cut without the '+'.
func (l *Lines[T]) Header() {
	l.line(func(c *Column[T]) string {
		if title := []rune(c.title); c.width > 0 && len(title) > c.width {
			return string(title[:c.width])
		}
		return c.title
	})
}

// Row prints the values of a row.
func (l *Lines[T]) Row(r T) {
	l.line(func(c *Column[T]) string { return show.Clean(c.Field.text(r)) })
}

func (l *Lines[T]) line(value func(*Column[T]) string) {
	for i := range l.Columns {
		c := &l.Columns[i]
		_, _ = l.Out.WriteString(c.text) // Flush returns an error of the writer
		if c.Field != nil {
			c.write(l.Out, value(c))
		}
	}
	_ = l.Out.WriteByte('\n')
}

// write writes a value padded or cut to the width of its column.
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

// Fits reports whether a column takes the width of its widest value, so that all rows must be known
// before the first is printed.
func (l *Lines[T]) Fits() bool {
	return slices.ContainsFunc(l.Columns, func(c Column[T]) bool { return c.even })
}

// Fit sets the width of such columns to the widest value of the rows.
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

// SortKey is a field to sort rows by, and the direction.
type SortKey[T any] struct {
	*Field[T]
	down bool
}

// Members returns the members of the API's JSON that the sort key needs.
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

// SortRows sorts rows by the keys, the first key first.
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

// compare compares two values as numbers if both are numbers, otherwise as text.
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
