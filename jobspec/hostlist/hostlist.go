// Package hostlist writes and reads lists of host names in the short form that Slurm's users know:
// gpu[01-04,07],login.
package hostlist

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxHosts bounds what Expand makes of a few characters.
const MaxHosts = 65536

// Compress writes names in the short form, in their order, as Slurm does: neighbours that differ only
// in a number at the end share brackets.
func Compress(names []string) string {
	var parts []string
	for i := 0; i < len(names); {
		prefix, digits := split(names[i])
		j := i + 1
		numbers := []string{digits}
		for digits != "" && j < len(names) {
			p, d := split(names[j])
			if p != prefix || d == "" {
				break
			}
			numbers = append(numbers, d)
			j++
		}
		if len(numbers) == 1 {
			parts = append(parts, names[i])
		} else {
			parts = append(parts, prefix+"["+runs(numbers)+"]")
		}
		i = j
	}
	return strings.Join(parts, ",")
}

// Numbers writes numbers in ascending order as the kernel does: 0-3,8.
func Numbers(numbers []int) string {
	var digits []string
	for _, n := range slices.Compact(slices.Sorted(slices.Values(numbers))) {
		digits = append(digits, strconv.Itoa(n))
	}
	return runs(digits)
}

// Counts writes counts in their order as Slurm does: 2(x3),1.
func Counts(counts []int) string {
	var parts []string
	for i := 0; i < len(counts); {
		k := i
		for k < len(counts) && counts[k] == counts[i] {
			k++
		}
		part := strconv.Itoa(counts[i])
		if k-i > 1 {
			part += "(x" + strconv.Itoa(k-i) + ")"
		}
		parts = append(parts, part)
		i = k
	}
	return strings.Join(parts, ",")
}

// maxDigits is how many digits an int certainly holds.
const maxDigits = 18

// split cuts off the digits at the end, at most [maxDigits].
func split(name string) (prefix, digits string) {
	i := len(name)
	for i > 0 && len(name)-i < maxDigits && name[i-1] >= '0' && name[i-1] <= '9' {
		i--
	}
	return name[:i], name[i:]
}

// runs writes ascending neighbours as ranges.
func runs(numbers []string) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && follows(numbers[j+1], numbers[j]) {
			j++
		}
		if j > i {
			parts = append(parts, numbers[i]+"-"+numbers[j])
		} else {
			parts = append(parts, numbers[i])
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// follows reports whether a range may go on from b to a: 10 follows 9, and 10 follows 09, but 010
// does not follow 9, since a range has as many digits as its first number at least.
func follows(a, b string) bool {
	return atoi(a) == atoi(b)+1 && (len(a) == len(b) || a[0] != '0' && b[0] != '0')
}

func atoi(digits string) int {
	n, _ := strconv.Atoi(digits) // split and expandRange hand over short digits only
	return n
}

// Expand reads the short form. As in Slurm a name may have several pairs of brackets, and commas that
// stand before, after or beside each other count once.
func Expand(list string) ([]string, error) {
	var names []string
	for rest := list; rest != ""; {
		part, next, err := cut(rest)
		if err == nil && part != "" {
			names, err = expand(names, "", part)
		}
		if err != nil {
			return nil, fmt.Errorf("host list %q: %w", list, err)
		}
		rest = next
	}
	if len(names) == 0 && list != "" {
		return nil, fmt.Errorf("host list %q: a name is missing", list)
	}
	return names, nil
}

// cut takes the text up to the first comma outside of brackets.
func cut(s string) (part, rest string, err error) {
	open := false
	for i, c := range s {
		switch {
		case c == '[' && !open:
			open = true
		case c == ']' && open:
			open = false
		case c == '[' || c == ']':
			return "", "", errors.New("brackets do not match")
		case c == ',' && !open:
			return s[:i], s[i+1:], nil
		}
	}
	if open {
		return "", "", errors.New("a bracket is not closed")
	}
	return s, "", nil
}

// expand appends the names that begin with prefix and go on with what rest stands for.
func expand(names []string, prefix, rest string) ([]string, error) {
	text, rest, bracket := strings.Cut(rest, "[")
	prefix += text
	if !bracket {
		if len(names) == MaxHosts {
			return nil, fmt.Errorf("more than %d hosts", MaxHosts)
		}
		return append(names, prefix), nil
	}
	inner, rest, _ := strings.Cut(rest, "]")
	for r := range strings.SplitSeq(inner, ",") {
		numbers, err := expandRange(r)
		if err != nil {
			return nil, err
		}
		for _, n := range numbers {
			if names, err = expand(names, prefix+n, rest); err != nil {
				return nil, err
			}
		}
	}
	return names, nil
}

func expandRange(r string) ([]string, error) {
	from, to, ok := strings.Cut(r, "-")
	if !ok {
		to = from
	}
	if !isNumber(from) || !isNumber(to) || len(to) < len(from) {
		return nil, fmt.Errorf("%q is not a number or a range of numbers", r)
	}
	first, last := atoi(from), atoi(to)
	if first > last || last-first >= MaxHosts {
		return nil, fmt.Errorf("range %q is descending, or longer than %d", r, MaxHosts)
	}
	var numbers []string
	for n := first; n <= last; n++ {
		numbers = append(numbers, fmt.Sprintf("%0*d", len(from), n))
	}
	return numbers, nil
}

func isNumber(s string) bool {
	return s != "" && len(s) <= maxDigits && !slices.ContainsFunc([]byte(s), func(c byte) bool {
		return c < '0' ||
			c > '9'
	})
}
