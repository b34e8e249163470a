// Package logpath expands the patterns of paths for output. The node daemon needs the path to write to it, and
// the command line to show it.
package logpath

import (
	"fmt"
	"strconv"
	"strings"
)

// textLetters are the letters of patterns whose values are text, even where it is made of digits.
const textLetters = "xuNJ"

// mostPadding is to how many digits a number in a pattern is filled up at most, as in Slurm.
const mostPadding = 10

// Worker is what the letters of task.log stand for.
type Worker struct {
	Job       int64
	Array     int64 // job id of the array; 0: the job is no array task
	Index     int   // of the array task
	Name      string
	User      string
	Workdir   string
	Number    int    // in the attempt
	Node      string // that it runs on
	Restarts  int
	FirstRank int // of its tasks
}

// noIndex is the index of a job that is no array task, as in Slurm: a script for arrays may be submitted
// without one.
const noIndex = "4294967294"

// Expand expands a pattern of task.log as Slurm does. The letters are %j (job), %x (its name), %u
// (user), %n (worker), %N (node), %r (restarts), %s (step) and %t (first rank). %A is the array's
// job id (the job's own if it is no array task), and %a the array index. A relative path is below
// the working directory.
func (w Worker) Expand(pattern string) (string, error) {
	decimal := func(n int64) string { return strconv.FormatInt(n, 10) }
	values := map[byte]string{
		'j': decimal(w.Job), 'A': decimal(w.Job), 'a': noIndex, 'x': w.Name, 'u': w.User, 'n': strconv.Itoa(w.Number),
		'N': w.Node, 'r': strconv.Itoa(w.Restarts), 's': "0", 't': strconv.Itoa(w.FirstRank),
	}
	if w.Array != 0 {
		values['A'], values['a'] = decimal(w.Array), strconv.Itoa(w.Index)
	}
	path, err := Expand(pattern, values)
	if err != nil {
		return "", fmt.Errorf("log path: %w; use %%j, %%x, %%u, %%n, %%N, %%r, %%t, %%A or %%a", err)
	}
	if !strings.HasPrefix(path, "/") {
		path = strings.TrimSuffix(w.Workdir, "/") + "/" + path
	}
	return path, nil
}

// Expand replaces the letters of a pattern of a path for output by their values, as Slurm does. %%
// is a percent sign. A number in between, as in %4j, pads numbers with zeros. Other letters than
// those with a value are refused.
func Expand(pattern string, values map[byte]string) (string, error) {
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
