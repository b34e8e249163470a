package fields

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rota-hpc/rota/cmd/rota/command"
)

// Sheet prints rows in the format of sacct, sacctmgr, sshare and sstat. A table has titles and
// dashes, and a '+' ends a value that was cut at the width of its column. With -p or -P, a
// delimiter separates the values instead.
type Sheet[T any] struct {
	Columns   []Column[T]
	NoHeader  bool
	Delimiter string // between values with -p and -P
	ended     bool   // -p: a delimiter ends each line
	apart     bool   // -P: no delimiter at the end of a line
}

// Flags adds the flags -n, -p, -P and --delimiter.
func (s *Sheet[T]) Flags(f *pflag.FlagSet) {
	s.Delimiter = "|"
	f.BoolVarP(&s.ended, "parsable", "p", false, "")
	f.BoolVarP(&s.apart, "parsable2", "P", false, "")
}

// Titled is a field that only sheets print. A negative width aligns the value left; width 0 means
// 10. A format names the field by its title without blanks.
func Titled[T any](title string, width int, text func(T) string) Field[T] {
	return Field[T]{acct: title, width: width, text: text}
}

// Choose reads a format: names of fields with commas, each with an optional width, as State%20 or
// NodeList%-256. A prefix of a name is enough; ALL selects all fields.
func (s *Sheet[T]) Choose(fields []Field[T], format string) error {
	if strings.EqualFold(format, "all") {
		format = strings.Join(Titles(fields), ",")
	}
	for _, word := range command.SplitList(format) {
		name, form, has := strings.Cut(word, "%")
		f := titled(fields, name)
		if f == nil {
			return fmt.Errorf("Invalid field requested: %q: there are %s", name, strings.Join(Titles(fields), ", "))
		}
		width := cmp.Or(f.width, 10)
		if has {
			n, err := strconv.Atoi(form)
			if err != nil || n < -maxWidth || n > maxWidth {
				return fmt.Errorf("Invalid field width: %q", word)
			}
			width = n
		}
		s.Columns = append(s.Columns, Column[T]{Field: f, title: f.acct, width: max(width, -width), right: width > 0,
			marked: true, after: " "})
	}
	if s.Columns == nil {
		return fmt.Errorf("no field requested: %q", format)
	}
	return nil
}

// titled returns the field with this name, or the first field whose name starts with it.
func titled[T any](fields []Field[T], name string) *Field[T] {
	var near *Field[T]
	for i := range fields {
		title := fields[i].inFormats()
		switch {
		case title == "" || name == "":
		case strings.EqualFold(title, name):
			return &fields[i]
		case near == nil && len(title) > len(name) && strings.EqualFold(title[:len(name)], name):
			near = &fields[i]
		}
	}
	return near
}

// inFormats returns the name of a field as formats write it.
func (f *Field[T]) inFormats() string { return strings.ReplaceAll(f.acct, " ", "") }

// Titles returns the names of fields as formats write them.
func Titles[T any](fields []Field[T]) []string {
	var all []string
	for i := range fields {
		if name := fields[i].inFormats(); name != "" {
			all = append(all, name)
		}
	}
	return all
}

// PrintNames prints names of fields in order, four on a line.
func PrintNames(out io.Writer, all []string) {
	slices.Sort(all)
	for i, name := range all {
		end := " "
		if i%4 == 3 || i == len(all)-1 {
			end = "\n"
		}
		fmt.Fprintf(out, "%-19s%s", name, end)
	}
}

// Print prints rows.
func (s *Sheet[T]) Print(to io.Writer, rows iter.Seq[T]) error {
	out := bufio.NewWriterSize(to, 1<<16)
	l := Lines[T]{Columns: s.Columns, Out: out}
	if s.ended || s.apart {
		l.Columns = slices.Clone(s.Columns)
		for i := range l.Columns {
			c := &l.Columns[i]
			if c.width, c.after = 0, ""; s.ended || i < len(l.Columns)-1 {
				c.after = s.Delimiter
			}
		}
	}
	if !s.NoHeader {
		l.Header()
		if !s.ended && !s.apart {
			l.line(func(c *Column[T]) string { return strings.Repeat("-", c.width) })
		}
	}
	for r := range rows {
		l.Row(r)
	}
	return out.Flush()
}
