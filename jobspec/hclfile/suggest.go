package hclfile

import (
	"fmt"
	"slices"
)

// didYouMean returns a hint with the known name nearest to the one written, or fallback when none is near.
func didYouMean(written string, known []string, fallback string) string {
	best, distance := "", 1+max(1, len(written)/3)
	for _, name := range slices.Sorted(slices.Values(known)) {
		if d := editDistance(written, name); d < distance {
			best, distance = name, d
		}
	}
	if best == "" {
		return fallback
	}
	return fmt.Sprintf("did you mean %q?", best)
}

// maxNameCompared bounds the quadratic comparison; a longer name is no typo.
const maxNameCompared = 64

// editDistance counts the insertions, deletions, replacements and swaps of neighbours that turn a into b.
func editDistance(a, b string) int {
	if len(a) > maxNameCompared || len(b) > maxNameCompared {
		return maxNameCompared
	}
	before, last, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(last[j]+1, next[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, last, next = last, next, before
	}
	return last[len(b)]
}
