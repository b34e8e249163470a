package jobspec

import (
	"fmt"
	"strconv"
	"strings"
)

// textLetters are the letters of patterns whose values are text, even where it is made of digits.
const textLetters = "xuNJ"

// mostPadding is to how many digits a number in a pattern is filled up at most, as in Slurm.
const mostPadding = 10

// ExpandPath replaces the letters of a pattern of a path for output by their values, as Slurm does: %% is a
// percent sign, and a number in between, as in %4j, pads numbers with zeros. Other letters than those
// with a value are refused.
func ExpandPath(pattern string, values map[byte]string) (string, error) {
	var out strings.Builder
	for rest := pattern; ; {
		text, after, found := strings.Cut(rest, "%")
		out.WriteString(text)
		if !found {
			return out.String(), nil
		}
		letter := strings.TrimLeft(after, "0123456789")
		if letter == "" {
			return "", fmt.Errorf("the pattern %q ends in a %%", pattern)
		}
		width, _ := strconv.Atoi(after[:len(after)-len(letter)]) // no digits: no padding
		value, known := values[letter[0]]
		switch {
		case letter[0] == '%':
			value = "%"
		case !known:
			return "", fmt.Errorf("the pattern %q has an unknown letter: %%%c", pattern, []rune(letter)[0])
		case !strings.Contains(textLetters, letter[:1]):
			out.WriteString(strings.Repeat("0", max(0, min(width, mostPadding)-len(value))))
		}
		out.WriteString(value)
		rest = letter[1:]
	}
}
