package queries

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/show"
)

// sheet prints rows as the commands about accounts do.
type sheet[T any] struct {
	fields   []sheetField[T]
	columns  []sheetColumn[T]
	noHeader bool
	parsable bool // -p: values end in |
	bare     bool // -P: values are separated by |
}

// sheetField is a column that may be asked for.
type sheetField[T any] struct {
	title string
	width int // negative: to the left
	text  func(T) string
}

type sheetColumn[T any] struct {
	sheetField[T]
	width int
}

// sheetFlags adds the flags of all sheets.
func (s *sheet[T]) sheetFlags(f *pflag.FlagSet, format *string) {
	f.BoolVarP(&s.noHeader, "noheader", "n", false, "")
	f.BoolVarP(&s.parsable, "parsable", "p", false, "")
	f.BoolVarP(&s.bare, "parsable2", "P", false, "")
	f.StringVarP(format, "format", "o", "", "")
}

// choose reads a format: names of fields with commas, each with %WIDTH behind it if it has another
// width than usual.
func (s *sheet[T]) choose(format string) error {
	for _, word := range command.SplitList(format) {
		name, width, sized := strings.Cut(word, "%")
		i := slices.IndexFunc(s.fields, func(f sheetField[T]) bool {
			return strings.EqualFold(strings.ReplaceAll(f.title, " ", ""), strings.TrimSpace(name))
		})
		if i < 0 {
			return fmt.Errorf("Unknown field '%s': there are %s", name, s.names())
		}
		c := sheetColumn[T]{s.fields[i], s.fields[i].width}
		if sized {
			sign := 1
			if rest, left := strings.CutPrefix(width, "-"); left {
				sign, width = -1, rest
			}
			n, rest, ok := command.LeadingInt(width)
			if !ok || rest != "" || n < 1 || n > 8192 {
				return fmt.Errorf("the width of %q is not a number from 1 to 8192", word)
			}
			c.width = sign * int(n)
		}
		s.columns = append(s.columns, c)
	}
	if len(s.columns) == 0 {
		return errors.New("the format has no field")
	}
	return nil
}

func (s *sheet[T]) names() string {
	var all []string
	for _, f := range s.fields {
		all = append(all, strings.ReplaceAll(f.title, " ", ""))
	}
	return strings.Join(all, ", ")
}

// print writes the rows.
func (s *sheet[T]) print(out io.Writer, rows []T) error {
	if !s.noHeader {
		line := s.line(func(c sheetColumn[T]) string { return c.title })
		if !s.bare && !s.parsable {
			line += "\n" + s.line(func(c sheetColumn[T]) string { return strings.Repeat("-", max(c.width, -c.width)) })
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	for _, row := range rows {
		line := s.line(func(c sheetColumn[T]) string { return show.Clean(c.text(row)) })
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

// line writes one line. A value that is too long is cut, and marked with a '+'.
func (s *sheet[T]) line(value func(sheetColumn[T]) string) string {
	var b strings.Builder
	for i, c := range s.columns {
		text, wide := value(c), max(c.width, -c.width)
		switch {
		case s.bare && i > 0:
			b.WriteString("|" + text)
			continue
		case s.bare:
			b.WriteString(text)
			continue
		case s.parsable:
			b.WriteString(text + "|")
			continue
		}
		if utf8.RuneCountInString(text) > wide {
			text = string([]rune(text)[:wide-1]) + "+"
		}
		fmt.Fprintf(&b, "%*s ", c.width, text)
	}
	return b.String()
}
