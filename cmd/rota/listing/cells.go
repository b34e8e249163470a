package listing

import (
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
)

// TextCell makes a column of text. Its least width is 0 if it must not be shortened; needs names
// the fields of T that it reads.
func TextCell[T any](name, title string, least int, needs string, text func(*T) string) Cell[T] {
	return Cell[T]{Name: name, Column: table.Column{Title: title, Least: least}, Needs: strings.Fields(needs),
		Text: func(item *T, _ Style) string { return text(item) }}
}

// integer is any type that a column can sort by as a number.
type integer interface{ ~int | ~int64 | ~uint64 }

// AmountCell makes a column of amounts as text writes them, which sorts by the amounts.
func AmountCell[T any, N integer](name, title, needs string, amount func(*T) N, text func(N) string) Cell[T] {
	return TextCell(name, title, 0, needs, func(item *T) string { return text(amount(item)) }).AtRight().
		SortedBy(func(item *T) int64 { return int64(amount(item)) })
}

// NumberCell makes a column of numbers.
func NumberCell[T any, N integer](name, title, needs string, number func(*T) N) Cell[T] {
	return AmountCell(name, title, needs, number, func(n N) string { return strconv.FormatInt(int64(n), 10) })
}

// TimeCell makes a column with a time, which also sorts by it.
func TimeCell[T any](name, title, needs string, at func(*T) *api.Time) Cell[T] {
	return Cell[T]{Name: name, Column: table.Column{Title: title}, Needs: strings.Fields(needs),
		Text: func(item *T, s Style) string { return show.Time(at(item), s.UTC) },
		Number: func(item *T) int64 {
			if t := at(item); t != nil {
				return t.UnixMilli()
			}
			return 0
		}}
}

// Ranked leaves a column out on a narrow terminal, before those of lower rank.
func (c Cell[T]) Ranked(rank int) Cell[T] { c.Rank = rank; return c }

// Painted colours the cells of a column.
func (c Cell[T]) Painted(paint func(string) table.Paint) Cell[T] { c.Paint = paint; return c }

// InWide shows a column only in the wide format.
func (c Cell[T]) InWide() Cell[T] { c.wide = true; return c }

// OnDemand returns columns that are shown only if --columns names them.
func OnDemand[T any](cells ...Cell[T]) []Cell[T] {
	for i := range cells {
		cells[i].rare = true
	}
	return cells
}

// AtRight aligns a column to the right.
func (c Cell[T]) AtRight() Cell[T] { c.Right = true; return c }

// SortedBy sorts a column of text by a number.
func (c Cell[T]) SortedBy(number func(*T) int64) Cell[T] { c.Number = number; return c }

// Titled returns a column with another title and name.
func Titled[T any](c Cell[T], title, name string) Cell[T] {
	c.Title, c.Name = title, name
	return c
}
