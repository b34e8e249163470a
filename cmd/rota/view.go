package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"

	"github.com/rota-hpc/rota/controld/api"
)

// Every list is shown by a view: columns that know how to write one item, and the options that all lists have in common.

// style is how cells are written.
type style struct {
	utc  bool
	full bool // nothing has to be short
}

// cell is one column of a list of T.
type cell[T any] struct {
	name string // by which --columns and --sort know it
	column
	rare   bool     // shown only when --columns asks for it
	needs  []string // members of T's JSON that text and number read
	text   func(*T, style) string
	number func(*T) int64 // what it is sorted by; nil: its text
}

// listFormats are what every list can be printed in; template takes its text behind an equals sign.
var listFormats = []format{formatTable, formatWide, formatJSON, formatYAML, formatCSV, formatName, formatTemplate}

// viewFlags are those of the commands that print lists.
func viewFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "columns", Usage: "show these `COLUMNS` in full, with commas between them; \"help\" lists them"},
		&cli.StringFlag{Name: "sort", Usage: "sort by `COLUMNS`, descending behind a minus sign, such as -gpus,id"},
		&cli.StringFlag{Name: "filter", Usage: "show what `EXPR` holds of, such as 'gpus > 4 and code == \"R\"'; names are those of -o json"},
	}, listFlags()...)
}

// viewOptions is how a list is to be shown.
type viewOptions struct {
	form     format
	template string
	columns  []string
	sort     []sortKey
	filter   string
	header   bool
	style
}

// sortKey is one column to sort by.
type sortKey struct {
	name       string
	descending bool
}

// viewOptions reads the flags of a command that prints a list. Long is its own way to say -o wide.
func (w *world) viewOptions(c *cli.Context) (*viewOptions, error) {
	o := &viewOptions{columns: splitList(c.String("columns")), filter: c.String("filter"), header: !c.Bool("no-header")}
	text := cmp.Or(c.String("output"), w.getenv("ROTA_OUTPUT"))
	if body, ok := strings.CutPrefix(text, string(formatTemplate)+"="); ok {
		o.form, o.template = formatTemplate, body
		if err := checkTemplate(body); err != nil {
			return nil, err
		}
	} else {
		form, err := w.format(c, listFormats...)
		if err != nil {
			return nil, err
		}
		if form == formatTemplate {
			return nil, usagef("-o template needs its text: -o 'template={{.id}} {{.name}}'")
		}
		o.form = form
	}
	if o.form == formatTable && c.Bool("long") {
		o.form = formatWide
	}
	for _, name := range splitList(c.String("sort")) {
		bare := strings.TrimLeft(name, "+-")
		o.sort = append(o.sort, sortKey{name: bare, descending: strings.HasPrefix(name, "-")})
	}
	o.style = style{utc: c.Bool("utc"), full: o.form != formatTable}
	return o, nil
}

// plain reports whether a list goes out as the controller wrote it.
func (o *viewOptions) plain() bool { return o.form == formatJSON && o.filter == "" && len(o.sort) == 0 }

// whole reports whether items are needed with all members, and not only what the columns read.
func (o *viewOptions) whole() bool {
	return o.filter != "" || o.form == formatJSON || o.form == formatYAML || o.form == formatTemplate
}

// view is a list of T ready to be shown.
type view[T any] struct {
	*viewOptions
	cells []cell[T]
	shown []int
	sorts []int // positions of the columns in sort
}

// newView finds the columns that the options name.
func newView[T any](o *viewOptions, cells []cell[T]) (*view[T], error) {
	v := &view[T]{viewOptions: o, cells: cells}
	if len(o.columns) == 1 && o.columns[0] == "help" {
		return nil, usagef("the columns are %s", strings.Join(v.names(), ", "))
	}
	for _, name := range o.columns {
		i, err := v.find("--columns", name)
		if err != nil {
			return nil, err
		}
		v.shown = append(v.shown, i)
	}
	for i, c := range cells {
		if len(o.columns) == 0 && !c.rare && (!c.wide || o.form == formatWide || o.form == formatCSV) {
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

func (v *view[T]) names() []string {
	names := make([]string, len(v.cells))
	for i, c := range v.cells {
		names[i] = c.name
	}
	return names
}

func (v *view[T]) find(flag, name string) (int, error) {
	i := slices.IndexFunc(v.cells, func(c cell[T]) bool { return strings.EqualFold(c.name, name) })
	if i >= 0 {
		return i, nil
	}
	e := usagef("%s: there is no column %q: the columns are %s", flag, name, strings.Join(v.names(), ", "))
	if near := nearest(name, v.names()); near != "" {
		e.hint = fmt.Sprintf("did you mean %s?", near)
	}
	return 0, e
}

// fields returns the members of T's JSON that showing the list reads; nil for all.
func (v *view[T]) fields(always ...string) []string {
	if v.whole() {
		return nil
	}
	fields := slices.Clone(always)
	for _, i := range slices.Concat(v.shown, v.sorts) {
		fields = append(fields, v.cells[i].needs...)
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// show prints the list.
func (v *view[T]) show(w *world, list *api.List[T]) error {
	var err error
	if list.Items, err = filtered(list.Items, v.filter); err != nil {
		return err
	}
	v.order(list.Items)
	switch v.form {
	case formatJSON:
		return printJSON(w.stdout, list)
	case formatYAML:
		return printYAML(w, list)
	case formatTemplate:
		return printTemplate(w.stdout, v.template, list.Items)
	case formatName:
		return v.printNames(w, list.Items)
	}
	return v.table(list.Items).print(w.stdout, v.form, v.header)
}

// order sorts items by the columns asked for, the first one first; those that are alike stay in order.
func (v *view[T]) order(items []T) {
	if len(v.sorts) == 0 {
		return
	}
	slices.SortStableFunc(items, func(a, b T) int {
		for n, i := range v.sorts {
			c := &v.cells[i]
			var d int
			if c.number != nil {
				d = cmp.Compare(c.number(&a), c.number(&b))
			} else {
				d = strings.Compare(c.text(&a, v.style), c.text(&b, v.style))
			}
			if d != 0 && v.viewOptions.sort[n].descending {
				return -d
			}
			if d != 0 {
				return d
			}
		}
		return 0
	})
}

// rows reports whether every item is a row of its own, whatever the others are, so that it need not be kept for longer than its row is made.
func (v *view[T]) rows() bool {
	return (v.form == formatTable || v.form == formatWide || v.form == formatCSV) && v.filter == "" && len(v.sorts) == 0
}

// table writes the items' shown cells.
func (v *view[T]) table(items []T) *table {
	t := v.emptyTable()
	for k := range items {
		v.addRow(t, &items[k])
	}
	return t
}

func (v *view[T]) emptyTable() *table {
	t := &table{}
	for _, i := range v.shown {
		c := v.cells[i].column
		c.wide = false // it is shown
		if len(v.columns) > 0 {
			c.least = 0 // and in full, as scripts want what they name
		}
		t.columns = append(t.columns, c)
	}
	return t
}

func (v *view[T]) addRow(t *table, item *T) {
	row := make([]string, len(v.shown))
	for n, i := range v.shown {
		row[n] = v.cells[i].text(item, v.style)
	}
	t.rows = append(t.rows, row)
}

// printNames prints what an item is called, one a line: its first column.
func (v *view[T]) printNames(w *world, items []T) error {
	t := &table{}
	for k := range items {
		t.add(v.cells[0].text(&items[k], v.style))
	}
	return t.printNames(w.stdout)
}

// printYAML prints what printJSON would in YAML. It goes by way of JSON, so that both have the same names and values.
func printYAML(w *world, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var node yaml.Node
	if err := yaml.Unmarshal(b, &node); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	blockStyle(&node)
	out := yaml.NewEncoder(w.stdout)
	out.SetIndent(2)
	if err := out.Encode(&node); err != nil {
		return err
	}
	return out.Close()
}

// blockStyle undoes the style of JSON, of which YAML is a superset, but for empty lists and objects.
func blockStyle(n *yaml.Node) {
	if len(n.Content) > 0 {
		n.Style &^= yaml.FlowStyle
	}
	if n.Kind == yaml.ScalarNode && n.Tag != "!!str" {
		n.Style = 0
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		n.Style &^= yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		blockStyle(c)
	}
}

// columnValues complete the flags of a command that prints a list with these columns, and more of its flags.
func columnValues[T any](cells []cell[T], more map[string]Source) map[string]Source {
	columns := CompleteWords((&view[T]{cells: cells}).names()...)
	formats := make([]string, len(listFormats))
	for i, f := range listFormats {
		formats[i] = string(f)
		if f == formatTemplate {
			formats[i] += "="
		}
	}
	values := map[string]Source{"columns": columns, "sort": columns, "output": CompleteWords(formats...)}
	maps.Copy(values, more)
	return values
}
