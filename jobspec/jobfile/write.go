package jobfile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hclfile"
)

// ParamsFile is the file that [Write] refers to, for an array whose parameters came from a file.
const ParamsFile = "params.csv"

// ErrNotWritable is returned by [Write] for a job that no job file can describe.
var ErrNotWritable = errors.New("a job file cannot express this")

// Write writes a job as a job file. [Parse] of the result returns the same job, with defaults
// filled in. Write omits defaults, exported variables, and the directory and host of the
// submission. Parse returns texts in Unicode normal form C.
func Write(j *jobspec.Job) ([]byte, error) {
	full, err := j.Clone()
	if err != nil {
		return nil, err
	}
	full.Default()
	w := &writer{}
	w.content(fileSchema, &file{job: full})
	if w.err != nil {
		return nil, w.err
	}
	text, err := hclfile.Format("job.hcl", []byte(w.text.String()))
	if err != nil {
		return nil, fmt.Errorf("write job %s: %w", full.Name, err)
	}
	return text, nil
}

// writer writes a file in one walk over the schema. The formatter adds spaces and indentation.
type writer struct {
	text       strings.Builder
	isTemplate bool // the texts of the current task hold references
	blocks     bool // this block has content already, so a blank line precedes the next block
	err        error
}

// content writes the attributes and blocks of a target.
func (w *writer) content(schema *hclfile.Block, target any) {
	for i := range schema.Attrs {
		a := &schema.Attrs[i]
		if value := writtenValue(a, target); value != nil {
			if text := expression(value, a.Deferred && w.isTemplate); text != "" {
				w.attr(a.Name, text)
			}
		}
	}
	for i := range schema.Blocks {
		w.nested(&schema.Blocks[i], target)
	}
}

// nested writes all blocks of one kind.
func (w *writer) nested(block *hclfile.Nested, parent any) {
	if block.Body != nil && block.Body.Free != nil {
		w.entries(block.Name, *block.Body.Free(parent), block.Body.Deferred && w.isTemplate)
	}
	if block.Written == nil {
		return
	}
	for _, one := range block.Written(parent) {
		if block.Template != nil {
			w.isTemplate = *block.Template(one.Target)
		}
		inner := &writer{isTemplate: w.isTemplate}
		inner.content(block.Body, one.Target)
		if inner.text.Len() > 0 || !block.Implied {
			w.block(block.Name, one.Label, inner.text.String())
		}
		w.err = cmp.Or(w.err, inner.err)
	}
}

func (w *writer) block(kind, label, content string) {
	if w.blocks {
		w.text.WriteByte('\n')
	}
	w.text.WriteString(kind)
	if label != "" {
		w.text.WriteString(" " + quoted(label))
	}
	w.text.WriteString(" {\n" + content + "}\n")
	w.blocks = true
}

func (w *writer) attr(name, value string) {
	w.text.WriteString(name + " = " + value + "\n")
	w.blocks = true
}

// writtenValue returns the value of an attribute to write, or nil if the target is the same without
// it.
func writtenValue(a *hclfile.Attr, target any) any {
	written := a.Written(target)
	if written == nil {
		return nil
	}
	field := reflect.ValueOf(written)
	if field.Kind() != reflect.Pointer {
		return written
	}
	if field.Elem().IsZero() || isDefault(a, target, field.Elem()) {
		return nil
	}
	return reflect.Indirect(field.Elem()).Interface()
}

// isDefault reports whether a field has its default: the value that the target's Default method
// sets.
func isDefault(a *hclfile.Attr, target any, field reflect.Value) bool {
	value := reflect.New(field.Type()).Elem()
	value.Set(field)
	field.SetZero()
	defer field.Set(value)
	bare := reflect.New(reflect.TypeOf(target).Elem())
	bare.Elem().Set(reflect.ValueOf(target).Elem())
	if known, ok := bare.Interface().(interface{ Default() }); ok {
		known.Default()
	}
	usual := reflect.ValueOf(a.Written(bare.Interface())).Elem()
	return reflect.DeepEqual(usual.Interface(), value.Interface())
}

// lines is a text that becomes a heredoc if it has several lines.
type lines string

// expression formats a value in HCL; "" for an unset value. References in a template's texts stay
// references.
func expression(value any, isTemplate bool) string {
	switch v := value.(type) {
	case lines:
		if text, ok := heredoc(string(v), isTemplate); ok {
			return text
		}
		return expression(string(v), isTemplate)
	case fmt.Stringer: // a duration or size
		if reflect.ValueOf(v).IsZero() {
			return ""
		}
		return quoted(v.String())
	case []string:
		if len(v) == 0 {
			return ""
		}
		return listed(v, isTemplate)
	case []int:
		return strings.Join(strings.Fields(fmt.Sprint(v)), ", ")
	case map[string]int:
		return counts(v)
	case []jobspec.Axis:
		return matrix(v)
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.String:
		if v.Len() == 0 {
			return ""
		}
		return quoted(opened(v.String(), isTemplate))
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Int, reflect.Int16, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'f', -1, 64)
	}
	panic(fmt.Sprintf("jobfile: no attribute can be written from a %T", value))
}

func listed(values []string, isTemplate bool) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = quoted(opened(v, isTemplate))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// counts writes a map of names to numbers.
func counts(values map[string]int) string {
	if len(values) == 0 {
		return ""
	}
	parts := make([]string, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		key := name
		if !jobspec.ValidParameter(name) {
			key = quoted(name)
		}
		parts = append(parts, key+" = "+strconv.Itoa(values[name]))
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

func matrix(axes []jobspec.Axis) string {
	if axes == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString("{\n")
	for _, axis := range axes {
		b.WriteString(axis.Name + " = " + listed(axis.Values, false) + "\n")
	}
	return b.String() + "}"
}

// entries writes a block of names and values.
func (w *writer) entries(kind string, values map[string]string, isTemplate bool) {
	if len(values) == 0 {
		return
	}
	inner := &writer{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !hclsyntax.ValidIdentifier(name) && w.err == nil {
			w.err = fmt.Errorf("%w: %s has the name %q", ErrNotWritable, kind, name)
		}
		inner.attr(name, quoted(opened(values[name], isTemplate)))
	}
	w.block(kind, "", inner.text.String())
}
