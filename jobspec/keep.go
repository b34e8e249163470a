package jobspec

import (
	"fmt"
	"strconv"
	"strings"
)

// Keep says how many elements of an array go on when the others are cancelled. Either the share or
// the number is set.
type Keep struct {
	Percent int // 1 to 99
	Count   int // 1 or more
}

// ParseKeep reads "top 25%" or "top 4".
func ParseKeep(text string) (Keep, error) {
	bad := fmt.Errorf("%q is neither a share nor a number", text)
	word, amount, found := strings.Cut(text, " ")
	if !found || word != "top" {
		return Keep{}, bad
	}
	digits, percent := strings.CutSuffix(amount, "%")
	n, err := strconv.Atoi(digits)
	switch {
	case err != nil || !isDigits(digits) || n < 1 || n > MaxElements || percent && n > 99:
		return Keep{}, bad
	case percent:
		return Keep{Percent: n}, nil
	}
	return Keep{Count: n}, nil
}

// Of returns how many of n elements go on. A share is rounded up.
func (k Keep) Of(n int) int {
	if k.Count > 0 {
		return min(k.Count, n)
	}
	return min(n, max(1, (n*k.Percent+99)/100))
}
