package rules

import (
	"fmt"

	"github.com/rota-hpc/rota/jobspec/typo"
)

// didYouMean names the known word that is nearest to the one written, "" when none is near.
func didYouMean(written string, known []string) string {
	best := typo.Nearest(written, known)
	if best == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", best)
}
