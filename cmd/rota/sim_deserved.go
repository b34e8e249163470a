package main

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sim/trace"
)

// readDeserved reads --deserved.
func (s *simulation) readDeserved(c *cli.Context) error {
	name := c.String("deserved")
	switch name {
	case "":
		return nil
	case "equal":
		s.setup.Deserved.Equal = true
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return &usageError{text: "--deserved: " + err.Error()}
	}
	defer closeQuietly(f)
	s.setup.Deserved.GPUs = map[string]int64{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		account, gpus, ok := strings.Cut(line, ",")
		thousandths, err := factor("the number of GPUs", strings.TrimSpace(gpus), cluster.MaxNodes*cluster.MaxGPUsPerNode)
		account = strings.TrimSpace(account)
		_, twice := s.setup.Deserved.GPUs[account]
		switch {
		case !ok || account == "":
			return usagef("%s, line %d: %q is not account,gpus", name, n, line)
		case err != nil:
			return usagef("%s, line %d: %v", name, n, err)
		case twice:
			return usagef("%s, line %d: account %s is there already", name, n, account)
		}
		s.setup.Deserved.GPUs[account] = thousandths
	}
	switch err := lines.Err(); {
	case err != nil:
		return &usageError{text: "--deserved: " + err.Error()}
	case len(s.setup.Deserved.GPUs) == 0:
		return usagef("--deserved %s has no line of account,gpus", name)
	}
	return nil
}

// checkDeserved refuses shares of accounts that none of the workloads has: nobody would get them.
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
		return usagef("--deserved: no job is of account %s; there are %s", account, text)
	}
	return nil
}

// accountsShown is how many accounts of a workload are named.
const accountsShown = 12
