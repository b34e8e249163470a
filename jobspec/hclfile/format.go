package hclfile

import (
	"errors"

	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
	"github.com/rota-hpc/rota/jobspec/hclfile/layout"
)

// ErrFormat is returned by [Format] when the formatted text would not mean the same, which is a
// mistake of the formatter.
var ErrFormat = errors.New("the file cannot be formatted without changing its meaning")

// Format returns a file in HCL with the usual spaces and indentation. Only white space between
// words changes, and line ends become those of Unix. A file that does not parse, or is in JSON, is
// refused with [diagnostic.Diagnostics].
func Format(name string, src []byte) ([]byte, error) {
	if IsJSON(name, src) {
		return nil, diagnostic.Diagnostics{{Code: diagnostic.CodeUnsupported, File: name,
			Text: "JSON files are not formatted", Hint: "use a formatter for JSON, such as jq ."}}
	}
	r := newReader(name, src)
	if r.parse(name, src, &Block{}, false) == nil {
		return nil, r.diags.InOrder()
	}
	text, same := layout.Tidy(r.sources[name]) // as Unix has it
	if !same {
		return nil, ErrFormat
	}
	return text, nil
}
