package table

import (
	"fmt"
	"io"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
)

// PrintObstacles prints how many nodes remain after each requirement, and advice, each below an
// empty line if there is one.
func PrintObstacles(out io.Writer, s Screen, steps []api.FunnelStep, advice string) error {
	if len(steps) > 0 {
		fmt.Fprintln(out)
		if err := printFunnel(out, s, steps); err != nil {
			return err
		}
	}
	if advice != "" {
		fmt.Fprintf(out, "\n%s\n", strings.Join(show.Wrap(show.Clean(advice), s.Width), "\n"))
	}
	return nil
}

func printFunnel(out io.Writer, s Screen, steps []api.FunnelStep) error {
	t := &Table{Columns: []Column{{Title: "NODES", Right: true}, {Title: "THAT", Least: 20}}}
	for _, step := range steps {
		t.Add(fmt.Sprint(step.Nodes), step.What)
	}
	return t.Print(out, s, AsTable, true)
}
