package jobfile

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hclfile"
)

// ParamsFile is the file that [Write] refers to for an array whose parameters came from a file. [WriteParams] writes its text.
const ParamsFile = "params.csv"

// ErrNotWritable is returned by [Write] for a job that no job file can describe.
var ErrNotWritable = errors.New("no job file can say this")

// Write writes a job as a job file: what [Parse] makes of it is the same job, with its defaults filled in. Defaults are left out. What
// belongs to one submission is left out as well: the variables that were exported, the directory and host. Texts are read again in
// Unicode's normal form C.
func Write(j *jobspec.Job) ([]byte, error) {
	full, err := j.Clone()
	if err != nil {
		return nil, err
	}
	full.Default()
	w := &writer{}
	w.block("job", full.Name, func() { w.job(full) })
	if w.err != nil {
		return nil, w.err
	}
	text, err := hclfile.Format("job.hcl", []byte(w.text.String()))
	if err != nil {
		return nil, fmt.Errorf("write job %s: %w", full.Name, err)
	}
	return text, nil
}

// WriteParams writes the parameters of an array as the file that they are read from.
func WriteParams(a *jobspec.Array) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	for _, row := range append([][]string{a.Columns}, a.Rows...) {
		if len(row) == 1 && row[0] == "" { // an empty line would be passed over
			w.Flush()
			b.WriteString("\"\"\n")
			continue
		}
		if err := w.Write(row); err != nil {
			return nil, fmt.Errorf("write %s: %w", ParamsFile, err)
		}
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

// writer collects a file. Spaces and indentation are left to the formatter.
type writer struct {
	text       strings.Builder
	isTemplate bool // the texts of the task that is being written hold references
	blocks     bool // something was written in this block, so the next block stands apart
	err        error
}

func (w *writer) block(kind, label string, content func()) {
	if w.blocks {
		w.text.WriteByte('\n')
	}
	w.blocks = false
	w.text.WriteString(kind)
	if label != "" {
		w.text.WriteString(" " + quoted(label))
	}
	w.text.WriteString(" {\n")
	content()
	w.text.WriteString("}\n")
	w.blocks = true
}

func (w *writer) attr(name, value string) {
	w.text.WriteString(name + " = " + value + "\n")
	w.blocks = true
}

// str writes a text, unless it is the one that is meant without it.
func (w *writer) str(name, value, without string) {
	if value != without {
		w.attr(name, quoted(value))
	}
}

// ref writes a text that may hold references.
func (w *writer) ref(name, value string) {
	if value != "" {
		w.attr(name, quoted(opened(value, w.isTemplate)))
	}
}

func (w *writer) num(name string, value, without int) {
	if value != without {
		w.attr(name, strconv.Itoa(value))
	}
}

func (w *writer) flag(name string, value, without bool) {
	if value != without {
		w.attr(name, strconv.FormatBool(value))
	}
}

func (w *writer) duration(name string, value, without jobspec.Seconds) {
	if value != without {
		w.attr(name, quoted(value.String()))
	}
}

func (w *writer) size(name string, value, without jobspec.Bytes) {
	if value != without {
		w.attr(name, quoted(value.String()))
	}
}

func (w *writer) list(name string, values []string) {
	if len(values) > 0 {
		w.attr(name, listed(values))
	}
}

func listed(values []string) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = quoted(v)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func (w *writer) numbers(name string, values []int) {
	if len(values) > 0 {
		w.attr(name, strings.Join(strings.Fields(fmt.Sprint(values)), ", "))
	}
}

// entries writes a block of names and values.
func (w *writer) entries(kind string, values map[string]string) {
	if len(values) == 0 {
		return
	}
	w.block(kind, "", func() {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if !hclsyntax.ValidIdentifier(name) && w.err == nil {
				w.err = fmt.Errorf("%w: %s has the name %q", ErrNotWritable, kind, name)
			}
			w.attr(name, quoted(opened(values[name], w.isTemplate && kind == "env")))
		}
	})
}
