package hclfile

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/jobspec/typo"
)

// didYouMean returns a hint with the known name nearest to the one written, or fallback when none is near.
func didYouMean(written string, known []string, fallback string) string {
	best := typo.Nearest(written, slices.Sorted(slices.Values(known)))
	if best == "" {
		return fallback
	}
	return fmt.Sprintf("did you mean %q?", best)
}
