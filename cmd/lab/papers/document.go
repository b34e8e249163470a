package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// document is a text with tables in it.
type document struct {
	lines  []string
	blocks []*block
}

// block is one table. In the document it looks like this:
//
//	## Title
//	```sh
//	rota sim --trace gen:fitgpp --nodes 4x8c --policy fifo --compare fitgpp
//	```
//	<!-- table policy
//	TE p95 | classes.te.slowdown.p95 | 2
//	against FIFO | classes.te.slowdown.p95 | 1 change fifo
//	theirs fifo | 33.4 |
//	name fifo | FIFO
//	goal fitgpp | against FIFO | <= -95
//	-->
//	...
//	<!-- end -->
//
// The first line says what names the rows: policy, trace, or both. A line with two bars is a
// column: its title, the path of the number in the JSON of a result, and its format. The format is
// a number of digits, then "/N" to divide, then "of ROW" or "change ROW" for percentages of another
// row. "times ROW" stands for how many times smaller a number is than that of the other row. ROW is
// a policy on the same trace, or the name of a row. theirs has the numbers of a paper, in the order
// of the columns. name gives a row another name. goal is reported below the table as met or missed.
type block struct {
	title    string
	commands [][]string // in words
	by       []string
	columns  []column
	theirs   []theirs
	names    map[string]string
	goals    []goal
	from, to int // lines of the table in the document
	table    []string
}

// column is one column of numbers.
type column struct {
	title  string
	path   []string
	digits int
	divide float64
	how    string // "", "of", "change" or "times"
	base   string // the row with which it is compared
}

// theirs is a row from a paper.
type theirs struct {
	row   string
	cells []string
}

// goal is a bound on a number of the table.
type goal struct {
	row    string
	column int
	least  bool // the bound is the least, not the most
	bound  float64
	text   string
}

// itself is this program in a command: it has simulations that rota sim has not.
const itself = "rota-papers"

const (
	tableMark = "<!-- table "
	endMark   = "<!-- end -->"
)

// parse reads a document. An error names the line.
func parse(text string) (*document, error) {
	d := &document{lines: strings.Split(text, "\n")}
	title, fence := "", []string(nil)
	for i := 0; i < len(d.lines); i++ {
		line := d.lines[i]
		switch {
		case strings.HasPrefix(line, "#"):
			title, fence = strings.TrimSpace(strings.TrimLeft(line, "#")), nil
		case line == "```sh":
			end := next(d.lines, i+1, "```")
			if end < 0 {
				return nil, fmt.Errorf("line %d: the code block does not end", i+1)
			}
			fence, i = d.lines[i+1:end], end
		case strings.HasPrefix(line, tableMark):
			b := &block{title: title, commands: commands(fence), by: strings.Fields(line)[2:], names: map[string]string{}}
			end, err := b.read(d.lines, i)
			if err != nil {
				return nil, err
			}
			d.blocks, i = append(d.blocks, b), end
		}
	}
	return d, nil
}

// next returns the index of the next line that is text, -1 if there is none.
func next(lines []string, from int, text string) int {
	for i := from; i < len(lines); i++ {
		if lines[i] == text {
			return i
		}
	}
	return -1
}

// commands splits the lines of a code block into words. A line may continue after a backslash.
func commands(fence []string) [][]string {
	var list [][]string
	for line := range strings.SplitSeq(strings.ReplaceAll(strings.Join(fence, "\n"), "\\\n", " "), "\n") {
		if words := strings.Fields(line); len(words) > 1 && (words[0] == "rota" || words[0] == itself) {
			list = append(list, words)
		}
	}
	return list
}

// read reads the comment at a line, finds the table that follows, and returns the last line of the
// table.
func (b *block) read(lines []string, at int) (int, error) {
	if len(b.commands) == 0 {
		return 0, fmt.Errorf("line %d: no command before the table", at+1)
	}
	for _, by := range b.by {
		if by != "policy" && by != "trace" {
			return 0, fmt.Errorf("line %d: rows are named by policy or trace, not %q", at+1, by)
		}
	}
	end := next(lines, at+1, "-->")
	b.to = next(lines, at+1, endMark)
	if end < 0 || b.to < end {
		return 0, fmt.Errorf("line %d: the comment or its table does not end", at+1)
	}
	b.from = end + 1
	b.table = lines[b.from:b.to]
	for i := at + 1; i < end; i++ {
		if err := b.line(lines[i]); err != nil {
			return 0, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	return b.to, nil
}

// line reads one line of the comment.
func (b *block) line(text string) error {
	parts := strings.Split(text, "|")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	verb, row, _ := strings.Cut(parts[0], " ")
	switch {
	case verb == "theirs":
		if len(parts)-1 > len(b.columns) {
			return fmt.Errorf("%d numbers for %d columns", len(parts)-1, len(b.columns))
		}
		b.theirs = append(b.theirs, theirs{row, parts[1:]})
		return nil
	case verb == "name" && len(parts) == 2:
		b.names[row] = parts[1]
		return nil
	case verb == "goal" && len(parts) == 3:
		return b.goal(row, parts[1], parts[2])
	case len(parts) == 3:
		return b.column(parts)
	}
	return fmt.Errorf("%q is not column, theirs, name or goal", text)
}

func (b *block) column(parts []string) error {
	c := column{title: parts[0], path: strings.Split(parts[1], "."), divide: 1}
	words := strings.Fields(parts[2])
	if len(words) == 0 {
		return errors.New("a column needs a number of digits")
	}
	var err error
	if c.digits, err = strconv.Atoi(words[0]); err != nil || c.digits < 0 {
		return fmt.Errorf("%q is not a number of digits", words[0])
	}
	for i := 1; i < len(words); i++ {
		switch rest, divide := strings.CutPrefix(words[i], "/"); {
		case divide:
			if c.divide, err = strconv.ParseFloat(rest, 64); err != nil || c.divide == 0 {
				return fmt.Errorf("%q cannot be a divisor", words[i])
			}
		case slices.Contains([]string{"of", "change", "times"}, words[i]) && i+1 < len(words):
			end := i + 1
			for end < len(words) && !strings.HasPrefix(words[end], "/") {
				end++
			}
			c.how, c.base = words[i], strings.Join(words[i+1:end], " ")
			i = end - 1
		default:
			return fmt.Errorf("%q is not an option of a column", words[i])
		}
	}
	b.columns = append(b.columns, c)
	return nil
}

func (b *block) goal(row, title, bound string) error {
	i := slices.IndexFunc(b.columns, func(c column) bool { return c.title == title })
	sign, number, _ := strings.Cut(bound, " ")
	f, err := strconv.ParseFloat(number, 64)
	if i < 0 || err != nil || sign != "<=" && sign != ">=" {
		return fmt.Errorf("a goal needs a row, the title of a column above, and <= or >= with a number")
	}
	b.goals = append(b.goals, goal{row: row, column: i, least: sign == ">=", bound: f, text: number})
	return nil
}

// String returns the document with its present tables.
func (d *document) String() string {
	var out []string
	at := 0
	for _, b := range d.blocks {
		out = append(append(out, d.lines[at:b.from]...), b.table...)
		at = b.to
	}
	return strings.Join(append(out, d.lines[at:]...), "\n")
}
