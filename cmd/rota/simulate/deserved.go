package simulate

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace"
)

// readDeserved reads --deserved.
func (s *simulation) readDeserved(name string) error {
	if name == "equal" {
		s.setup.Deserved.Equal = true
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return exit.Usagef("--deserved: %v", err)
	}
	defer f.Close()
	if s.setup.Deserved.GPUs, err = readShares(f); err != nil {
		return exit.Usagef("--deserved %s: %v", name, err).WithHint("equal, or a file with lines of account,gpus")
	}
	return nil
}

// readShares reads lines of account,gpus into thousandths of a GPU. A line that begins with # is a
// comment.
func readShares(r io.Reader) (map[string]int64, error) {
	shares := map[string]int64{}
	lines := bufio.NewScanner(r)
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff"))
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		account, gpus, ok := strings.Cut(line, ",")
		account, gpus = strings.TrimSpace(account), strings.TrimSpace(gpus)
		if !ok || account == "" || gpus == "" {
			return nil, fmt.Errorf("line %d: %q is not account,gpus", n, line)
		}
		if _, twice := shares[account]; twice {
			return nil, fmt.Errorf("line %d: account %s is given twice", n, account)
		}
		thousandths, err := factor("the number of GPUs", gpus, 0.001, model.MaxNodes*model.MaxGPUsPerNode)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		shares[account] = thousandths
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d: longer than %d bytes", n+1, bufio.MaxScanTokenSize)
	case err != nil:
		return nil, err
	case len(shares) == 0:
		return nil, errors.New("no line with an account's quota")
	}
	return shares, nil
}

// checkDeserved refuses quotas of accounts that no workload has.
func (s *simulation) checkDeserved(workloads []*trace.Trace) error {
	known := map[string]bool{}
	for _, t := range workloads {
		for i := range t.Jobs {
			known[t.Jobs[i].Account] = true
		}
	}
	for _, account := range slices.Sorted(maps.Keys(s.setup.Deserved.GPUs)) {
		if known[account] {
			continue
		}
		names := slices.Sorted(maps.Keys(known))
		text := strings.Join(names[:min(len(names), accountsShown)], ", ")
		if len(names) > accountsShown {
			text += fmt.Sprintf(" and %d more", len(names)-accountsShown)
		}
		return exit.Usagef("--deserved: unknown account %s: the accounts of the jobs are %s", account, text)
	}
	return nil
}

// accountsShown is how many accounts an error names.
const accountsShown = 12
