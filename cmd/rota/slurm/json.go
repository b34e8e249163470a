package slurm

import (
	"bufio"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/model"
)

// number is a number of Slurm's JSON, which may be unknown or without end.
type number struct {
	Set      bool  `json:"set"`
	Infinite bool  `json:"infinite"`
	Number   int64 `json:"number"`
}

func numberOf[N ~int | ~int64](n N) number { return number{Set: true, Number: int64(n)} }

// asNumber returns a member of JSON as a number.
func asNumber(value any) (float64, bool) {
	switch n := value.(type) {
	case number:
		return float64(n.Number), n.Set
	case int:
		return float64(n), true
	case int64:
		return float64(n), true
	case uint32:
		return float64(n), true
	case model.JobID:
		return float64(n), true
	}
	return 0, false
}

// member is a member of the JSON of a row: a field, or an object with members of its own.
type member[T any] struct {
	name  string
	field *field[T]
	inner []member[T]
}

// treeOf arranges fields by the paths that path returns, in order of their names. Fields without a
// path are left out.
func treeOf[T any](fields []field[T], path func(*field[T]) string) []member[T] {
	var tree []member[T]
	for i := range fields {
		if p := path(&fields[i]); p != "" {
			tree = graft(tree, p, &fields[i])
		}
	}
	return tree
}

func graft[T any](tree []member[T], path string, f *field[T]) []member[T] {
	name, rest, nested := strings.Cut(path, ".")
	at, found := slices.BinarySearchFunc(tree, name,
		func(m member[T], name string) int { return cmp.Compare(m.name, name) })
	if !found {
		tree = slices.Insert(tree, at, member[T]{name: name})
	}
	if nested {
		tree[at].inner = graft(tree[at].inner, rest, f)
	} else {
		tree[at].field = f
	}
	return tree
}

// appendObject appends the JSON of a row.
func appendObject[T any](b []byte, tree []member[T], row T) ([]byte, error) {
	var err error
	b = append(b, '{')
	for i := range tree {
		m := &tree[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), m.name...), '"', ':')
		switch {
		case m.field == nil:
			b, err = appendObject(b, m.inner, row)
		case m.field.value != nil:
			b, err = appendValue(b, m.field.value(row))
		default:
			b, err = appendValue(b, m.field.text(row))
		}
		if err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// appendValue appends the JSON of a value. What rows have most of is written without reflection.
func appendValue(b []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case string:
		if show.IsPlain(v) && !strings.ContainsAny(v, `"\<>&`) {
			return append(append(append(b, '"'), v...), '"'), nil
		}
	case number:
		b = strconv.AppendBool(append(b, `{"set":`...), v.Set)
		b = strconv.AppendBool(append(b, `,"infinite":`...), v.Infinite)
		return append(strconv.AppendInt(append(b, `,"number":`...), v.Number, 10), '}'), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case int:
		return strconv.AppendInt(b, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	}
	text, err := json.Marshal(value)
	return append(b, text...), err
}

// document writes the JSON of a command: a list under its name, as Slurm's data_parser v0.0.42 has it.
type document struct {
	out   *bufio.Writer
	count int
	buf   []byte // of the last row
}

// begin writes what is before the list.
func (d *document) begin(list string) {
	_, _ = d.out.WriteString("{\n  \"" + list + "\": [") // Flush returns the error
}

// add writes an item of the list.
func (d *document) add(item any) error {
	text, err := json.Marshal(item)
	if err == nil {
		d.write(text)
	}
	return err
}

// addRow writes an item that is a row.
func addRow[T any](d *document, tree []member[T], row T) error {
	text, err := appendObject(d.buf[:0], tree, row)
	if err == nil {
		d.buf = text
		d.write(text)
	}
	return err
}

func (d *document) write(text []byte) {
	if d.count++; d.count > 1 {
		_ = d.out.WriteByte(',')
	}
	_, _ = d.out.WriteString("\n    ")
	_, _ = d.out.Write(text)
}

// end writes what follows the list.
func (d *document) end(t *tool, cluster string) error {
	major, rest, _ := strings.Cut(release, ".")
	minor, micro, _ := strings.Cut(rest, ".")
	meta := map[string]any{
		"plugin": map[string]any{"type": "", "name": "", "data_parser": "data_parser/v0.0.42", "accounting_storage": ""},
		"slurm": map[string]any{"version": map[string]string{"major": major, "minor": minor, "micro": micro},
			"release": release, "cluster": cluster},
		"command": append([]string{t.name}, t.args...),
		"client":  map[string]any{"source": "", "user": "", "group": ""},
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	if d.count > 0 {
		_, _ = d.out.WriteString("\n  ")
	}
	_, _ = d.out.WriteString("],\n  \"meta\": " + string(text) + ",\n  \"errors\": [],\n  \"warnings\": []\n}\n")
	return d.out.Flush()
}

// exitCodeOf is an exit code in JSON.
func exitCodeOf(r *jobRow) any {
	status := []string{"SUCCESS"}
	signal := map[string]any{"id": number{}, "name": ""}
	switch {
	case !r.Code.Final():
		status = []string{"PENDING"}
	case r.Signal != 0:
		status = []string{"SIGNALED"}
		signal = map[string]any{"id": numberOf(r.Signal), "name": ""}
	case r.ExitCode != 0:
		status = []string{"ERROR"}
	}
	return map[string]any{"status": status, "return_code": numberOf(r.ExitCode), "signal": signal}
}

// splitSeconds is a processor time in JSON.
func splitSeconds(s float64) any {
	whole := int64(s)
	return map[string]any{"seconds": whole, "microseconds": int64((s - float64(whole)) * 1e6)}
}

// tresList is a list of resources in JSON, from cpu=8,mem=64G.
func tresList(text string) any {
	ids := map[string]int{"cpu": 1, "mem": 2, "node": 4, "billing": 5, "gres/gpu": 1001}
	list := []any{}
	for _, item := range strings.Split(text, ",") {
		key, count, ok := strings.Cut(item, "=")
		if !ok {
			continue
		}
		kind, name, _ := strings.Cut(key, "/")
		list = append(list, map[string]any{"type": kind, "name": name, "id": ids[key], "count": tresCount(count)})
	}
	return list
}
