// Command rota-plot draws the result of a simulation. `rota sim --plot FILE.svg` runs it: the
// result comes as JSON on standard input, the drawing goes to standard output. It is a program of
// its own, so that no other command loads the drawing packages.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/rota-hpc/rota/controld/sim"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "rota-plot: %v\n", err)
		os.Exit(1)
	}
}

// run reads a result with its story and draws it.
func run(in io.Reader, out io.Writer) error {
	var told struct {
		Result *sim.Result `json:"result"`
		Story  *sim.Story  `json:"story"`
	}
	if err := json.NewDecoder(in).Decode(&told); err != nil {
		return fmt.Errorf("read the result of a simulation from standard input: %w", err)
	}
	if told.Result == nil || told.Story == nil {
		return fmt.Errorf("standard input has no result of a simulation: rota sim --plot FILE.svg gives one")
	}
	told.Result.Story = told.Story
	return writePlot(out, told.Result)
}
