package fields

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/command"
)

// AcctColumns reads fields of sacct, each with an optional width as State%20 or NodeList%-256. A part
// of a name that begins one is enough. table: in columns of their own width.
func AcctColumns(text string, table bool) ([]Column[*JobRow], error) {
	var columns []Column[*JobRow]
	for _, word := range command.SplitList(text) {
		name, form, has := strings.Cut(word, "%")
		f := acctField(name)
		if f == nil {
			return nil, fmt.Errorf("Invalid field requested: %q", name)
		}
		width := cmp.Or(f.width, 10)
		if has {
			n, err := strconv.Atoi(form)
			if err != nil || n < -maxWidth || n > maxWidth {
				return nil, fmt.Errorf("Invalid field width: %q", word)
			}
			width = n
		}
		c := Column[*JobRow]{Field: f, title: f.acct}
		if table {
			c.width, c.right, c.marked, c.after = max(width, -width), width > 0, true, " "
		}
		columns = append(columns, c)
	}
	if columns == nil {
		return nil, fmt.Errorf("no field requested: %q", text)
	}
	return columns, nil
}

// acctField returns the field of a name, or the first whose name begins with it.
func acctField(name string) *Field[*JobRow] {
	var near *Field[*JobRow]
	for i := range Jobs {
		f := &Jobs[i]
		switch {
		case f.acct == "" || name == "":
		case strings.EqualFold(f.acct, name):
			return f
		case near == nil && len(f.acct) > len(name) && strings.EqualFold(f.acct[:len(name)], name):
			near = f
		}
	}
	return near
}

// AcctNames are the names of the fields of sacct.
func AcctNames() []string {
	var all []string
	for i := range Jobs {
		if name := Jobs[i].acct; name != "" {
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

// Separate puts a text behind every column, behind the last one only if that is asked for.
func Separate[T any](columns []Column[T], text string, last bool) {
	for i := range columns {
		if last || i < len(columns)-1 {
			columns[i].after = text
		}
	}
}
