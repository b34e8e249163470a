package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// mostTold is how many violations of one property are printed.
const mostTold = 12

// report prints a line for each property.
type report struct{ checked, violated int }

// tell prints what was found of a property: what is wrong, and what was measured.
func (r *report) tell(name string, wrong []string, measured string, args ...any) {
	r.checked++
	word := "ok"
	if len(wrong) > 0 {
		r.violated++
		word = "VIOLATION"
	}
	fmt.Printf("%-9s  %s: %s\n", word, name, fmt.Sprintf(measured, args...))
	for i, w := range wrong {
		if i == mostTold {
			fmt.Printf("             and %d more\n", len(wrong)-i)
			break
		}
		fmt.Printf("             %s\n", w)
	}
}

// remark prints what is worth to know and violates nothing.
func (r *report) remark(format string, args ...any) {
	fmt.Printf("remark     %s\n", fmt.Sprintf(format, args...))
}

// spread has the nearest-rank percentiles of times.
type spread []time.Duration

func (s spread) at(percent int) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}

// String tells how many there are and what they are like.
func (s spread) String() string {
	if len(s) == 0 {
		return "none"
	}
	return fmt.Sprintf("p50 %d ms, p99 %d ms, max %d ms of %d", s.at(50).Milliseconds(), s.at(99).Milliseconds(),
		s.at(100).Milliseconds(), len(s))
}

// complaints collects what is wrong.
type complaints []string

func (c *complaints) add(format string, args ...any) { *c = append(*c, fmt.Sprintf(format, args...)) }

// countText is a number with its noun.
func countText(n int, noun string) string {
	if n != 1 && !strings.HasSuffix(noun, "s") {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
