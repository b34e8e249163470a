package hclfile

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
	"github.com/rota-hpc/rota/jobspec/typo"
)

// didYouMean returns a hint with the known name nearest to the one written, or fallback when none
// is near.
func didYouMean(written string, known []string, fallback string) string {
	return cmp.Or(typo.Hint(written, slices.Sorted(slices.Values(known))), fallback)
}

// maxDiagnostics bounds the diagnostics of one file. Users do not read more.
const maxDiagnostics = 50

// add adds a diagnostic, unless it is there already: dynamic blocks repeat mistakes.
func (r *reader) add(at hcl.Range, code, hint, format string, args ...any) {
	r.mistakes++
	if len(r.diags) >= maxDiagnostics {
		return
	}
	one := told{at: at, text: fmt.Sprintf(format, args...)}
	if r.told[one] {
		return
	}
	r.told[one] = true
	r.diags = append(r.diags, r.diagnostic(at, code, hint, one.text))
}

// told is a message about a place.
type told struct {
	at   hcl.Range
	text string
}

func (r *reader) diagnostic(at hcl.Range, code, hint, text string) diagnostic.Diagnostic {
	src := r.sources[at.Filename]
	if src != nil && IsJSON(at.Filename, src) {
		at = diagnostic.JSONPlace(src, at)
	}
	d := diagnostic.Locate(src, at, src != nil && !r.isHidden(at))
	d.Code, d.Text, d.Hint = code, r.withoutSecrets(text), r.withoutSecrets(hint)
	return d
}

// argument is the text that the evaluator puts in front of the message of a function.
var argument = regexp.MustCompile(`^Invalid value for "\w+" parameter: `)

// addHCL adds the mistakes that the parser or the evaluator found.
func (r *reader) addHCL(code, hint string, found hcl.Diagnostics) {
	for _, one := range found {
		if one.Severity != hcl.DiagError {
			continue
		}
		at := hcl.Range{Filename: r.name}
		if one.Subject != nil {
			at = *one.Subject
		}
		text := strings.TrimSuffix(one.Summary, ".")
		if one.Detail != "" {
			text += ": " + argument.ReplaceAllString(one.Detail, "")
		}
		r.add(at, code, hint, "%s", strings.Join(strings.Fields(strings.TrimSuffix(text, ".")), " "))
	}
}
