package diagnostic

import (
	"slices"
)

// Report is what is wrong with files, as the Language Server Protocol has it: lines and characters
// start at 0, and characters are UTF-16 units. `--format json` prints it.
type Report struct {
	Files []FileReport `json:"files"`
}

// FileReport is what is wrong with one file.
type FileReport struct {
	File        string             `json:"file"`
	Diagnostics []EditorDiagnostic `json:"diagnostics"`
}

// EditorDiagnostic is a Diagnostic of the Language Server Protocol.
type EditorDiagnostic struct {
	Range    EditorRange `json:"range"`
	Severity int         `json:"severity"` // 1: an error, 2: a warning
	Code     string      `json:"code"`
	Source   string      `json:"source"` // rota
	Message  string      `json:"message"`
	Hint     string      `json:"hint,omitempty"` // beyond the protocol: what to write instead
}

// EditorRange is a part of a text; End is behind its last character.
type EditorRange struct {
	Start EditorPosition `json:"start"`
	End   EditorPosition `json:"end"`
}

// EditorPosition is a place in a text.
type EditorPosition struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

// Severities of the protocol.
const (
	severityError   = 1
	severityWarning = 2
)

// Report returns d for editors and programs, as errors. A mistake without a place, such as a value
// on the command line, is at the start of its file.
func (d Diagnostics) Report() Report {
	report := Report{Files: []FileReport{}}
	report.add(d, severityError)
	return report
}

// Warn adds warnings to a report, behind what is in it of the same file.
func (r *Report) Warn(d Diagnostics) { r.add(d, severityWarning) }

func (r *Report) add(d Diagnostics, severity int) {
	for _, one := range slices.Clone(d).InOrder() {
		n := slices.IndexFunc(r.Files, func(f FileReport) bool { return f.File == one.File })
		if n < 0 {
			n = len(r.Files)
			r.Files = append(r.Files, FileReport{File: one.File})
		}
		r.Files[n].Diagnostics = append(r.Files[n].Diagnostics, one.forEditor(severity))
	}
}

func (d Diagnostic) forEditor(severity int) EditorDiagnostic {
	message := d.Text
	if d.Hint != "" {
		message += "; " + d.Hint
	}
	return EditorDiagnostic{
		Range:    EditorRange{Start: editorPosition(d.Start, d.start), End: editorPosition(d.End, d.end)},
		Severity: severity, Code: d.Code, Source: "rota", Message: message, Hint: d.Hint,
	}
}

// editorPosition is a place with its UTF-16 units; a diagnostic that was made elsewhere has only
// its column.
func editorPosition(p Pos, units int) EditorPosition {
	if units == 0 {
		units = max(0, p.Column-1)
	}
	return EditorPosition{Line: max(0, p.Line-1), Character: units}
}
