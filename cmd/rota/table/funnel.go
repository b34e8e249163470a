package table

import (
	"fmt"
	"io"

	"github.com/rota-hpc/rota/controld/api"
)

// PrintFunnel prints how many nodes remain after each requirement.
func PrintFunnel(out io.Writer, steps []api.FunnelStep) error {
	t := &Table{Columns: []Column{{Title: "NODES", Right: true}, {Title: "THAT", Least: 20}}}
	for _, step := range steps {
		t.Add(fmt.Sprint(step.Nodes), step.What)
	}
	return t.Print(out, AsTable, true)
}
