package jobspec

import "fmt"

// didYouMean names the known word that is nearest to the one written, "" when none is near.
func didYouMean(written string, known []string) string {
	best, distance := "", 1+max(1, len(written)/3)
	for _, word := range known {
		if d := edits(written, word); d < distance {
			best, distance = word, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", best)
}

// edits counts the insertions, deletions and replacements that turn a into b; words too long to be typing errors are far from all.
func edits(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := min(row[j]+1, row[j+1]+1, corner+1)
			if a[i] == b[j] {
				next = min(next, corner)
			}
			corner, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
