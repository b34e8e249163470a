// Package listing prints lists of the API in every format, with the columns, order and filter that
// the user asks for.
package listing

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/complete"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
)

// A view shows a list: its columns write one item each, and its options are the same for all lists.

// Style says how cells are written.
type Style struct {
	UTC  bool
	Full bool // cells are not shortened
}

// Cell is one column of a list of items of type T.
type Cell[T any] struct {
	Name string // name for --columns and --sort
	table.Column
	wide   bool     // shown only in the wide format and in CSV
	rare   bool     // shown only if --columns names it
	Needs  []string // fields of T's JSON that Text and Number read
	Text   func(*T, Style) string
	Number func(*T) int64 // sort key; nil: the text
}

// ListFormats are the formats of every list. A template follows an equals sign.
var ListFormats = []table.Format{table.AsTable, table.Wide, table.JSON, table.YAML, table.CSV, table.Names,
	table.Template}

// ViewFlags returns flags of a command that prints a list, followed by those of every such command.
func ViewFlags(own ...cli.Flag) []cli.Flag {
	return command.WithCommon(append(own,
		command.Text("columns", "show only these `COLUMNS`, comma-separated and in full; \"help\" lists them"),
		command.Text("sort", "sort by `COLUMNS`; a minus sign means descending, as in -gpus,id"),
		command.Text("filter", "show only items that match `EXPR`, such as 'gpus > 4 and code == \"R\"'; "+
			"names as in -o json"),
		command.Switch("no-header", "omit the header"))...)
}

// Options says how a list is printed.
type Options struct {
	Format   table.Format
	Template string
	columns  []string
	sort     []sortKey
	Filter   string
	Header   bool
	Style
}

// sortKey is a column to sort by.
type sortKey struct {
	name       string
	descending bool
}

// Open returns the view that the flags of a command ask for, and a session to fetch the list. The
// command has no arguments.
func Open[T any](env *command.Env, c *cli.Context, cells []Cell[T]) (*View[T], *command.Session, error) {
	if err := command.RefuseArguments(c); err != nil {
		return nil, nil, err
	}
	o, err := readOptions(env, c)
	if err != nil {
		return nil, nil, err
	}
	v, err := newView(o, cells)
	if err != nil {
		return nil, nil, err
	}
	session, err := env.Dial(c)
	if err == nil {
		session.AsJSON = v.Format == table.JSON
	}
	return v, session, err
}

// readOptions reads the flags of a command that prints a list. --long is the same as -o wide.
func readOptions(env *command.Env, c *cli.Context) (*Options, error) {
	o := &Options{columns: command.SplitList(c.String("columns")), Filter: c.String("filter"),
		Header: !c.Bool("no-header")}
	text := cmp.Or(c.String("output"), env.Getenv("ROTA_OUTPUT"))
	if body, ok := strings.CutPrefix(text, string(table.Template)+"="); ok {
		o.Format, o.Template = table.Template, body
		if err := checkTemplate(body); err != nil {
			return nil, err
		}
	} else {
		form, err := env.Format(c, ListFormats...)
		if err != nil {
			return nil, err
		}
		if form == table.Template {
			return nil, exit.Usagef("-o template needs a template: -o 'template={{.id}} {{.name}}'")
		}
		o.Format = form
	}
	if o.Format == table.AsTable && c.Bool("long") {
		o.Format = table.Wide
	}
	for _, name := range command.SplitList(c.String("sort")) {
		bare := strings.TrimLeft(name, "+-")
		o.sort = append(o.sort, sortKey{name: bare, descending: strings.HasPrefix(name, "-")})
	}
	o.Style = Style{UTC: c.Bool("utc"), Full: o.Format != table.AsTable}
	return o, nil
}

// AsReceived reports whether the controller's JSON can be printed as it is.
func (o *Options) AsReceived() bool {
	return o.Format == table.JSON && o.Filter == "" && len(o.sort) == 0
}

// Structured reports whether the format shows whole items, with their fields.
func (o *Options) Structured() bool {
	return o.Format == table.JSON || o.Format == table.YAML
}

// View prints a list of items of type T.
type View[T any] struct {
	*Options
	Cells []Cell[T]
	shown []int
	sorts []int // columns to sort by, as indices of Cells
}

// newView returns a view with the columns that the options name.
func newView[T any](o *Options, cells []Cell[T]) (*View[T], error) {
	v := &View[T]{Options: o, Cells: cells}
	if len(o.columns) == 1 && o.columns[0] == "help" {
		return nil, exit.Usagef("available columns: %s", strings.Join(v.Names(), ", "))
	}
	for _, name := range o.columns {
		i, err := v.find("--columns", name)
		if err != nil {
			return nil, err
		}
		v.shown = append(v.shown, i)
	}
	for i, c := range cells {
		if len(o.columns) == 0 && !c.rare && (!c.wide || o.Format == table.Wide || o.Format == table.CSV) {
			v.shown = append(v.shown, i)
		}
	}
	for _, key := range o.sort {
		i, err := v.find("--sort", key.name)
		if err != nil {
			return nil, err
		}
		v.sorts = append(v.sorts, i)
	}
	return v, nil
}

// AddColumns shows columns of the wide format in the table too, unless the user chose columns.
func (v *View[T]) AddColumns(names ...string) {
	if len(v.columns) > 0 || v.Format != table.AsTable {
		return
	}
	for i, c := range v.Cells {
		if slices.Contains(names, c.Name) && !slices.Contains(v.shown, i) {
			v.shown = append(v.shown, i)
		}
	}
	slices.Sort(v.shown)
}

// Names returns the names of the columns.
func (v *View[T]) Names() []string {
	names := make([]string, len(v.Cells))
	for i, c := range v.Cells {
		names[i] = c.Name
	}
	return names
}

func (v *View[T]) find(flag, name string) (int, error) {
	i := slices.IndexFunc(v.Cells, func(c Cell[T]) bool { return strings.EqualFold(c.Name, name) })
	if i >= 0 {
		return i, nil
	}
	return 0, exit.Usagef("%s: unknown column %q: must be one of %s", flag, name, strings.Join(v.Names(), ", ")).
		WithHint(command.DidYouMean("did you mean %s?", name, v.Names()))
}

// Fields returns the fields of T's JSON that the view reads, and always; nil means all fields.
func (v *View[T]) Fields(always ...string) []string {
	if v.Filter != "" || v.Structured() || v.Format == table.Template {
		return nil
	}
	fields := slices.Clone(always)
	for _, i := range slices.Concat(v.shown, v.sorts) {
		fields = append(fields, v.Cells[i].Needs...)
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// Show filters, sorts and prints a list.
func (v *View[T]) Show(env *command.Env, list *api.List[T]) error {
	var err error
	if list.Items, err = Filtered(list.Items, v.Filter); err != nil {
		return err
	}
	v.order(list.Items)
	switch v.Format {
	case table.JSON:
		return table.PrintJSON(env.Stdout, list)
	case table.YAML:
		return table.PrintYAML(env.Stdout, list)
	case table.Template:
		return PrintTemplate(env.Stdout, v.Template, list.Items)
	case table.Names:
		return v.printNames(env, list.Items)
	}
	return v.Table(list.Items).Print(env.Stdout, env.Screen(), v.Format, v.Header)
}

// order sorts items by the columns of --sort. Equal items keep their order.
func (v *View[T]) order(items []T) {
	if len(v.sorts) == 0 {
		return
	}
	slices.SortStableFunc(items, func(a, b T) int {
		for n, i := range v.sorts {
			c := &v.Cells[i]
			var d int
			if c.Number != nil {
				d = cmp.Compare(c.Number(&a), c.Number(&b))
			} else {
				d = strings.Compare(c.Text(&a, v.Style), c.Text(&b, v.Style))
			}
			if d != 0 && v.Options.sort[n].descending {
				return -d
			}
			if d != 0 {
				return d
			}
		}
		return 0
	})
}

// RowByRow reports whether rows can be made item by item, so that the items need not be kept.
func (v *View[T]) RowByRow() bool {
	return (v.Format == table.AsTable || v.Format == table.Wide || v.Format == table.CSV) && v.Filter == "" &&
		len(v.sorts) == 0
}

// Table returns a table with the shown cells of the items.
func (v *View[T]) Table(items []T) *table.Table {
	t := v.EmptyTable()
	for k := range items {
		v.AddRow(t, &items[k])
	}
	return t
}

// EmptyTable returns a table with the shown columns and no rows.
func (v *View[T]) EmptyTable() *table.Table {
	t := &table.Table{}
	for _, i := range v.shown {
		c := v.Cells[i].Column
		if len(v.columns) > 0 {
			c.Rank = 0
		}
		t.Columns = append(t.Columns, c)
	}
	return t
}

// AddRow adds the row of an item.
func (v *View[T]) AddRow(t *table.Table, item *T) {
	row := make([]string, len(v.shown))
	for n, i := range v.shown {
		row[n] = v.Cells[i].Text(item, v.Style)
	}
	t.Rows = append(t.Rows, row)
}

// printNames prints the first column of each item, one per line.
func (v *View[T]) printNames(env *command.Env, items []T) error {
	t := &table.Table{}
	for k := range items {
		t.Add(v.Cells[0].Text(&items[k], v.Style))
	}
	return t.PrintNames(env.Stdout)
}

// Completions returns completions for the flags of a list with these columns, and for more flags of
// the command.
func Completions[T any](cells []Cell[T], more map[string]command.Source) map[string]command.Source {
	columns := complete.Words((&View[T]{Cells: cells}).Names()...)
	formats := show.Words(ListFormats)
	formats[slices.Index(ListFormats, table.Template)] += "="
	values := map[string]command.Source{"columns": columns, "sort": columns, "output": complete.Words(formats...)}
	maps.Copy(values, more)
	return values
}
