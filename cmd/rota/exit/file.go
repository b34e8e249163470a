package exit

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec/hclfile"
	"github.com/rota-hpc/rota/jobspec/jobfile"
	"github.com/rota-hpc/rota/jobspec/script"
)

// FileError is what is wrong with a job file or a script, place by place.
type FileError struct {
	Name     string
	Diags    jobfile.Diagnostics
	Problems script.Problems // of a script
}

// Error implements error.
func (e *FileError) Error() string {
	return fmt.Sprintf("%s: %s", e.Name, show.Count(len(e.Diags)+len(e.Problems), "mistake", "mistakes"))
}

// Print shows every mistake with its place; in JSON as a problem that has them as diagnostics too.
func (e *FileError) Print(out io.Writer, colour, asJSON bool) error {
	if !asJSON {
		fmt.Fprint(out, e.Problems.Format(e.Name))
		return e.Diags.WriteText(out, colour)
	}
	b, err := json.Marshal(struct {
		*api.Problem
		Diagnostics jobfile.Diagnostics  `json:"diagnostics,omitempty"`
		Files       []hclfile.FileReport `json:"files,omitempty"` // the same as editors want it
		Problems    script.Problems      `json:"problems,omitempty"`
	}{&api.Problem{Title: "Invalid job file", Status: 422, Code: api.CodeInvalidJob, Detail: e.Error()}, e.Diags, e.Diags.Report().Files, e.Problems})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", b)
	return err
}
