package simulate

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rota-hpc/rota/controld/sim"
)

// decisionFile collects the decisions of all runs, for --decisions. Each run fills its own section.
type decisionFile struct {
	name     string
	sections [][]byte // one per result, in their order
}

// readDecisions reads --decisions.
func (s *simulation) readDecisions(name string) error {
	s.decisions = &decisionFile{name: name}
	return checkOutput("--decisions", name)
}

// record has a run append its decisions to the section of its result, after a line with workload,
// seed and policy.
func (f *decisionFile) record(result int, setup *sim.Setup, trace string) {
	if f == nil {
		return
	}
	section := &f.sections[result]
	*section = fmt.Appendf(nil, "# %s, seed %d, policy %s\n", filepath.Base(trace), setup.Seed, setup.Policy.String())
	setup.Decided = func(d sim.Decision) { *section = d.AppendLine(*section) }
}

// write writes the file, whole or not at all.
func (f *decisionFile) write() error {
	if f == nil {
		return nil
	}
	next, err := os.CreateTemp(filepath.Dir(f.name), ".rota-decisions-*")
	if err != nil {
		return fmt.Errorf("write decisions: %w", err)
	}
	_, err = next.Write(bytes.Join(f.sections, nil))
	if closed := next.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Chmod(next.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(next.Name(), f.name)
	}
	if err != nil {
		os.Remove(next.Name())
		return fmt.Errorf("write decisions: %w", err)
	}
	return nil
}
