package fields

import (
	"bufio"
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/model"
)

// number is a number in Slurm's JSON, which has flags for "unknown" and "infinite".
type number struct {
	Set      bool  `json:"set"`
	Infinite bool  `json:"infinite"`
	Number   int64 `json:"number"`
}

func numberOf[N ~int | ~int64](n N) number { return number{Set: true, Number: int64(n)} }

// asNumber converts a value to a JSON number with those flags.
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

// Member is a node of the JSON tree of a row: a field, or an object with members of its own.
type Member[T any] struct {
	name  string
	field *Field[T]
	inner []Member[T]
}

// treeOf arranges fields by the JSON paths that path returns, sorted by name. Fields without a path
// are left out.
func treeOf[T any](fields []Field[T], path func(*Field[T]) string) []Member[T] {
	var tree []Member[T]
	for i := range fields {
		if p := path(&fields[i]); p != "" {
			tree = graft(tree, p, &fields[i])
		}
	}
	return tree
}

func graft[T any](tree []Member[T], path string, f *Field[T]) []Member[T] {
	name, rest, nested := strings.Cut(path, ".")
	at, found := slices.BinarySearchFunc(tree, name,
		func(m Member[T], name string) int { return cmp.Compare(m.name, name) })
	if !found {
		tree = slices.Insert(tree, at, Member[T]{name: name})
	}
	if nested {
		tree[at].inner = graft(tree[at].inner, rest, f)
	} else {
		tree[at].field = f
	}
	return tree
}

// LiveTree is the JSON of a job in squeue and scontrol.
func LiveTree() []Member[*JobRow] {
	return treeOf(Jobs, func(f *Field[*JobRow]) string { return f.json })
}

// PastTree is the JSON of a job in sacct.
func PastTree() []Member[*JobRow] {
	return treeOf(Jobs, func(f *Field[*JobRow]) string { return f.past })
}

// NodeTree is the JSON tree of a node row in sinfo.
func NodeTree() []Member[*NodeRow] {
	return treeOf(Nodes, func(f *Field[*NodeRow]) string { return f.json })
}

// appendObject appends the JSON of a row.
func appendObject[T any](b []byte, tree []Member[T], row T) ([]byte, error) {
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

// appendValue appends the JSON of a value. The most common types are written without reflection.
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

// Document writes the JSON of a command: a list under its name, as Slurm's data_parser v0.0.42 has it.
type Document struct {
	out   *bufio.Writer
	count int
	buf   []byte // buffer of the last row
}

// NewDocument starts a document whose list has the given name.
func NewDocument(out *bufio.Writer, list string) *Document {
	_, _ = out.WriteString("{\n  \"" + list + "\": [") // Flush returns an error of the writer
	return &Document{out: out}
}

// Add writes an item of the list.
func (d *Document) Add(item any) error {
	text, err := json.Marshal(item)
	if err == nil {
		d.write(text)
	}
	return err
}

// AddRow writes an item that is a row.
func AddRow[T any](d *Document, tree []Member[T], row T) error {
	text, err := appendObject(d.buf[:0], tree, row)
	if err == nil {
		d.buf = text
		d.write(text)
	}
	return err
}

func (d *Document) write(text []byte) {
	if d.count++; d.count > 1 {
		_ = d.out.WriteByte(',')
	}
	_, _ = d.out.WriteString("\n    ")
	_, _ = d.out.Write(text)
}

// End writes the members after the list: the command line and the cluster that it asked.
func (d *Document) End(t *tool.Tool, cluster string) error {
	major, rest, _ := strings.Cut(tool.Release, ".")
	minor, micro, _ := strings.Cut(rest, ".")
	meta := map[string]any{
		"plugin": map[string]any{"type": "", "name": "", "data_parser": "data_parser/v0.0.42", "accounting_storage": ""},
		"slurm": map[string]any{"version": map[string]string{"major": major, "minor": minor, "micro": micro},
			"release": tool.Release, "cluster": cluster},
		"command": append([]string{t.Name}, t.Args...),
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

// exitCodeOf returns an exit code in the form of Slurm's JSON.
func exitCodeOf(r *JobRow) any {
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

// splitSeconds is processor time in JSON, as seconds and microseconds.
func splitSeconds(s float64) any {
	micro := int64(math.Round(s * 1e6))
	return map[string]any{"seconds": micro / 1e6, "microseconds": micro % 1e6}
}

// tresList converts a resource list such as cpu=8,mem=64G to JSON.
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
