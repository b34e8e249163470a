package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/jobspec"
)

// stranger is a command without a row in the table.
type stranger struct{ TrimHistory }

func (stranger) Kind() Kind { return "stranger/1" }

func TestCommandsOutsideTheTable(t *testing.T) {
	one, two := row{kind: "one/1"}, row{kind: "two/1"}
	for name, c := range map[string]struct {
		declared []Kind
		table    []row
		fine     bool
	}{
		"all":        {[]Kind{"one/1", "two/1"}, []row{one, two}, true},
		"no row":     {[]Kind{"one/1", "two/1"}, []row{one}, false},
		"two rows":   {[]Kind{"one/1", "two/1"}, []row{one, two, two}, false},
		"undeclared": {[]Kind{"one/1"}, []row{one, two}, false},
		"twice":      {[]Kind{"one/1", "one/1"}, []row{one}, false},
	} {
		if err := checkTable(c.declared, c.table); (err == nil) != c.fine {
			t.Errorf("%s: %v", name, err)
		}
	}
	var unknown *UnknownKindError
	s := New(cluster.DefaultConfig())
	if _, err := s.Apply(1, Entry{Command: stranger{}}); !errors.As(err, &unknown) || s.Index() != 0 {
		t.Errorf("a command without a row is applied: %v", err)
	}
	if _, err := Encode(Entry{Command: stranger{}}); !errors.As(err, &unknown) {
		t.Errorf("a command without a row is written: %v", err)
	}
}

// TestEveryKindIsReadAsItWasWritten fills every field of every command of the table.
func TestEveryKindIsReadAsItWasWritten(t *testing.T) {
	for i := range commandTable {
		empty, err := commandTable[i].decode([]byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		c := reflect.New(reflect.TypeOf(empty)).Elem()
		fill(c, 0)
		want := Entry{Stamp: model.Stamp{At: 5, Wall: 6}, Command: c.Interface().(Command)}
		line, err := Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Decode(line); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as\n%+v, %v\nwant\n%+v", line, got, err, want)
		}
	}
}

// fill sets every exported field of a value to something. Specifications of jobs have tests of
// their own.
func fill(v reflect.Value, depth int) {
	switch {
	case v.Type() == reflect.TypeFor[*jobspec.Job]():
		v.Set(reflect.ValueOf(testSpec(2, 1)))
	case v.Type() == reflect.TypeFor[jobspec.NodeLoss]():
		v.Set(reflect.ValueOf(jobspec.NodeLossWait))
	case v.Type() == reflect.TypeFor[Action]():
		v.Set(reflect.ValueOf(&Settle{})) // for the others see TestEveryActionIsStored
	case v.Type() == reflect.TypeFor[ranges.Ranges]():
		v.Set(reflect.ValueOf(ranges.Span(2, 3)))
	case depth > 8:
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), depth+1)
		fill(v.Index(1), depth+1)
	case v.Kind() == reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth+1)
		fill(value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type().Field(i).Tag.Get("json") != "-" {
				fill(v.Field(i), depth+1)
			}
		}
	case v.Kind() == reflect.String:
		v.SetString("text")
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(7)
	case v.CanUint():
		v.SetUint(7)
	}
}

// unlisted returns a refusal of a command, or of one of its jobs or actions, that its row in the
// table does not have.
func unlisted(kind Kind, result any, err error) error {
	refused := []error{err}
	switch r := result.(type) {
	case []error:
		refused = append(refused, r...)
	case []model.ControlResult:
		for i := range r {
			refused = append(refused, r[i].Err)
		}
	}
	for _, err := range refused {
		if err != nil && !slices.ContainsFunc(kinds[kind].refusals,
			func(want error) bool { return errors.Is(err, want) || hasType(err, want) }) {
			return err
		}
	}
	return nil
}

// hasType reports whether an error, or one that it wraps, is of the type of want, which is a
// pointer to a structure.
func hasType(err, want error) bool {
	typ := reflect.TypeOf(want)
	return typ.Elem().PkgPath() != "errors" && typ.Elem().PkgPath() != "fmt" &&
		errors.As(err, reflect.New(typ).Interface())
}

// TestCommandsPage holds docs/commands.md against the table and the comments of the commands.
func TestCommandsPage(t *testing.T) {
	const file = "../../docs/commands.md"
	want := commandsPage(t)
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the table of commands says (%v): run make golden", file, err)
	}
}

// commandsPage writes a page about the commands of the table.
func commandsPage(t *testing.T) []byte {
	types := declarations(t)
	var b bytes.Buffer
	b.WriteString("# Commands of the replicated log\n\n" +
		"Each entry of the log is one command as JSON: its kind, the leader's clocks and a body. " +
		"`make golden` writes this page from controld/fsm.\n\nBelow each command stand the reasons for which it, or a " +
		"part of it, is refused. An unsettled cluster: " + generation.ErrUnsettled.Error() + ".\n")
	for i := range commandTable {
		row := &commandTable[i]
		c, err := row.decode([]byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		name := reflect.TypeOf(c).Name()
		spec := types[name]
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| field | meaning |\n| --- | --- |\n", row.kind, sentences(spec.doc))
		for _, f := range spec.fields {
			if f[1] == "" {
				t.Errorf("%s: the field %s needs a comment that says what it means", name, f[0])
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", f[0], f[1])
		}
		if len(row.refusals) == 0 {
			b.WriteString("\nNever refused.\n")
			continue
		}
		b.WriteString("\nRefused:\n\n")
		for _, r := range row.refusals {
			text := r.Error()
			if typ := reflect.TypeOf(r).Elem(); types[typ.Name()].doc != "" && typ.PkgPath() != "errors" &&
				typ.PkgPath() != "fmt" {
				text = strings.TrimSuffix(sentences(types[typ.Name()].doc), ".")
			}
			if errors.Is(r, generation.ErrUnsettled) {
				text = "the cluster is unsettled"
			}
			fmt.Fprintf(&b, "- %s\n", text)
		}
	}
	return b.Bytes()
}

// declaration is what the source says of a type: its comment, and of each field the name in JSON
// and the comment.
type declaration struct {
	doc    string
	fields [][2]string
}

// declarations returns the types of this package, and the errors of package model, by name.
func declarations(t *testing.T) map[string]declaration {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]declaration{}
	for _, name := range append(files, "../model/errors.go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, spec := range g.Specs {
				spec := spec.(*ast.TypeSpec)
				found := declaration{doc: g.Doc.Text()}
				if s, ok := spec.Type.(*ast.StructType); ok {
					found.fields = fieldsOf(s)
				}
				types[spec.Name.Name] = found
			}
		}
	}
	return types
}

var jsonName = regexp.MustCompile(`json:"([a-z_]+)`)

func fieldsOf(s *ast.StructType) [][2]string {
	var fields [][2]string
	for _, f := range s.Fields.List {
		if f.Tag == nil {
			continue
		}
		name := jsonName.FindStringSubmatch(f.Tag.Value)
		text := f.Doc.Text()
		if text == "" {
			text = f.Comment.Text()
		}
		if name != nil {
			fields = append(fields, [2]string{name[1], strings.ReplaceAll(sentences(text), "|", "\\|")})
		}
	}
	return fields
}

// sentences returns a comment in one line, without links.
func sentences(doc string) string {
	var p comment.Parser
	pr := comment.Printer{TextWidth: -1}
	return strings.Join(strings.Fields(string(pr.Text(p.Parse(doc)))), " ")
}
