package exit

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
	"github.com/rota-hpc/rota/jobspec/script"
)

// FileError lists what is wrong in a job file or a script, with places.
type FileError struct {
	Name     string
	Diags    diagnostic.Diagnostics
	Problems script.Problems // for scripts
}

// Error implements error.
func (e *FileError) Error() string {
	return fmt.Sprintf("%s: %s", e.Name, show.Count(len(e.Diags)+len(e.Problems), "mistake", "mistakes"))
}

// Print writes all errors with their places; as JSON, a problem with the diagnostics.
func (e *FileError) Print(out io.Writer, colour, asJSON bool) error {
	if !asJSON {
		fmt.Fprint(out, e.Problems.Format(e.Name))
		return e.Diags.WriteText(out, colour)
	}
	b, err := json.Marshal(struct {
		*api.Problem
		Diagnostics diagnostic.Diagnostics  `json:"diagnostics,omitempty"`
		Files       []diagnostic.FileReport `json:"files,omitempty"` // the same in the form for editors
		Problems    script.Problems         `json:"problems,omitempty"`
	}{&api.Problem{Type: ProblemType(api.CodeInvalidJob), Title: "Invalid job file", Status: 422,
		Code: api.CodeInvalidJob, Detail: e.Error()}, e.Diags,
		e.Diags.Report().Files, e.Problems})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", b)
	return err
}
