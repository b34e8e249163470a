package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/sim"
)

// outcome is the result of one policy on one trace, for every seed.
type outcome struct {
	policy, trace string
	runs          []map[string]any
}

// outcomes reads the output of rota sim: a result or a list of them, each with or without seeds.
func outcomes(out []byte) ([]*outcome, error) {
	var list []json.RawMessage
	if json.Unmarshal(out, &list) != nil {
		list = []json.RawMessage{out}
	}
	var all []*outcome
	for _, raw := range list {
		var r struct {
			Policy string
			Params map[string]string
			Trace  string
			Runs   []map[string]any
		}
		if err := json.Unmarshal(raw, &r); err != nil {
			return nil, fmt.Errorf("read a result: %w", err)
		}
		if r.Runs == nil {
			var one map[string]any
			if err := json.Unmarshal(raw, &one); err != nil {
				return nil, fmt.Errorf("read a result: %w", err)
			}
			r.Runs = []map[string]any{one}
		}
		p := sim.Policy{Name: r.Policy, Params: r.Params}
		all = append(all, &outcome{policy: p.String(), trace: filepath.Base(r.Trace), runs: r.Runs})
	}
	return all, nil
}

// number finds a number in a result.
func number(run map[string]any, path []string) (float64, error) {
	var v any = run
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return 0, fmt.Errorf("a result has no %s", strings.Join(path, "."))
		}
		v = m[key]
	}
	f, ok := v.(float64)
	if !ok {
		return 0, fmt.Errorf("%s is not a number in a result", strings.Join(path, "."))
	}
	return f, nil
}

// row returns the name of an outcome's row.
func (b *block) row(o *outcome) string {
	var words []string
	for _, by := range b.by {
		if by == "trace" {
			words = append(words, o.trace)
		} else {
			words = append(words, o.policy)
		}
	}
	return strings.Join(words, " ")
}

func (b *block) shown(row string) string {
	if name := b.names[row]; name != "" {
		return name
	}
	return row
}

// values are the numbers of a column for one outcome, one for each seed.
func (b *block) values(c *column, o *outcome, all []*outcome) ([]float64, error) {
	base := o
	if c.how != "" {
		i := slices.IndexFunc(all, func(x *outcome) bool {
			return b.row(x) == c.base || x.trace == o.trace && x.policy == c.base
		})
		if i < 0 {
			return nil, fmt.Errorf("column %s: no row %s to compare with", c.title, c.base)
		}
		base = all[i]
	}
	values := make([]float64, len(o.runs))
	for k, run := range o.runs {
		v, err := number(run, c.path)
		if err != nil {
			return nil, err
		}
		values[k] = v / c.divide
		if c.how == "" {
			continue
		}
		against, err := number(base.runs[min(k, len(base.runs)-1)], c.path)
		if err != nil {
			return nil, err
		}
		switch c.how {
		case "of":
			values[k] = 100 * v / against
		case "change":
			values[k] = 100*v/against - 100
		case "times":
			values[k] = against / v
		}
	}
	return values, nil
}

// render makes the table. Each row of a paper, if known, comes before our row.
func (b *block) render(all []*outcome) ([]string, error) {
	head, rule := "| |", "|---|"
	if len(b.theirs) > 0 {
		head, rule = "| | |", "|---|---|"
	}
	for i := range b.columns {
		head, rule = head+" "+b.columns[i].title+" |", rule+"---|"
	}
	lines := []string{"", head, rule}
	var judged []judgement
	used := map[string]bool{}
	for _, o := range all {
		name := b.row(o)
		if rows := b.paper(name); len(rows) > 0 && !used[name] {
			lines = append(lines, rows...)
		}
		used[name] = true
		cells := []string{b.shown(name)}
		if len(b.theirs) > 0 {
			cells = append(cells, "ours")
		}
		for i := range b.columns {
			values, err := b.values(&b.columns[i], o, all)
			if err != nil {
				return nil, err
			}
			mean, half := sim.Interval(values)
			cell := b.columns[i].text(mean, half)
			if base := b.columns[i].base; base != "" && (base == o.policy || base == name) {
				cell = "" // compared with itself
			}
			cells = append(cells, cell)
			judged = append(judged, b.judge(name, i, mean)...)
		}
		lines = append(lines, "| "+strings.Join(cells, " | ")+" |")
	}
	for _, t := range b.theirs {
		if !used[t.row] {
			return nil, fmt.Errorf("theirs %s: no result has this name", t.row)
		}
	}
	if len(judged) < len(b.goals) {
		return nil, fmt.Errorf("a goal names a missing row")
	}
	if len(judged) > 0 {
		lines = append(append(lines, ""), b.verdicts(judged)...)
	}
	return append(lines, ""), nil
}

// paper returns the rows of a paper for one of our rows.
func (b *block) paper(row string) []string {
	var lines []string
	for _, t := range b.theirs {
		if t.row == row {
			cells := slices.Clone(t.cells)
			for len(cells) < len(b.columns) {
				cells = append(cells, "")
			}
			lines = append(lines, "| "+b.shown(row)+" | paper | "+strings.Join(cells, " | ")+" |")
		}
	}
	return lines
}

// text formats a number with its interval.
func (c *column) text(mean, half float64) string {
	text := strconv.FormatFloat(mean, 'f', c.digits, 64)
	if c.how == "change" && mean > 0 {
		text = "+" + text
	}
	if width := strconv.FormatFloat(half, 'f', c.digits, 64); strings.Trim(width, "0.") != "" {
		text += " ± " + width
	}
	switch c.how {
	case "of", "change":
		text += " %"
	case "times":
		text += "x"
	}
	return text
}

// judgement is one goal of one row, met or missed.
type judgement struct {
	row  string
	goal string // such as "TE p95: at most 1.05"
	word string // met, or **missed**
}

// judge says which goals a number of a row meets or misses.
func (b *block) judge(row string, column int, mean float64) []judgement {
	var judged []judgement
	for _, g := range b.goals {
		if g.row != row || g.column != column {
			continue
		}
		word, bound := "met", "at most"
		if g.least {
			bound = "at least"
		}
		if g.least && mean < g.bound || !g.least && mean > g.bound {
			word = "**missed**"
		}
		goal := fmt.Sprintf("%s: %s %s", b.columns[column].title, bound, g.text)
		judged = append(judged, judgement{b.shown(row), goal, word})
	}
	return judged
}

// verdicts writes a line for each goal, and for each result of a goal that several rows have. The
// rows are named where there are several.
func (b *block) verdicts(judged []judgement) []string {
	several := slices.ContainsFunc(judged, func(j judgement) bool { return j.row != judged[0].row })
	var lines []string
	done := map[string]bool{}
	for _, j := range judged {
		line := fmt.Sprintf("- %s — %s", j.goal, j.word)
		if done[line] {
			continue
		}
		done[line] = true
		var rows []string
		for _, other := range judged {
			if several && other.goal == j.goal && other.word == j.word {
				rows = append(rows, other.row)
			}
		}
		if several {
			line += " by " + strings.Join(rows, "; ")
		}
		lines = append(lines, line)
	}
	return lines
}
