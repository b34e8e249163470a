// Package typo finds the known word that a mistyped one stands for.
package typo

import "fmt"

// maxLength bounds the words that are compared, which takes time by the product of their lengths: a
// longer one is no typing error.
const maxLength = 64

// Nearest returns the known word that is most like word, the first of several equal ones, and "" if
// none is near. One letter may differ, and a third of the letters of longer words.
func Nearest(written string, known []string) string {
	best, distance := "", 1+max(1, len(written)/3)
	for _, word := range known {
		if d := Distance(written, word); d < distance {
			best, distance = word, d
		}
	}
	return best
}

// Distance counts the insertions, deletions, replacements and swaps of neighbours that turn a into
// b.
func Distance(a, b string) int {
	if len(a) > maxLength || len(b) > maxLength {
		return maxLength
	}
	var before, row [maxLength + 1]int // of the letters of a up to the last but one, and to the last
	for j := range len(b) + 1 {
		row[j] = j
	}
	for i := range len(a) {
		next := [maxLength + 1]int{i + 1}
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j+1]+1, next[j]+1, row[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}

// Hint asks for the known word that is nearest to the one written, "" when none is near.
func Hint(written string, known []string) string {
	best := Nearest(written, known)
	if best == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", best)
}
