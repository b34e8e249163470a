package slurm

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// Wanted is the parsed value of --constraint.
type Wanted struct {
	Features []string // each clause must hold on each node; a clause is a feature, or alternatives separated by |
	Same     bool     // all nodes must share one of the alternatives
	Counts   []int    // numbers of nodes that must have a feature
}

// Features parses a value of --constraint: features joined by & and |, parentheses around either,
// and brackets around the whole. A count follows the feature that so many nodes must have.
func Features(text string) (Wanted, *Error) {
	p := &featureReader{rest: strings.ReplaceAll(text, " ", "")}
	w := Wanted{}
	if inner, found := strings.CutPrefix(p.rest, "["); found && strings.HasSuffix(inner, "]") {
		p.rest = strings.TrimSuffix(inner, "]")
		w.Same = strings.Contains(inner, "|")
	}
	if strings.ContainsAny(p.rest, "[]!") {
		return w, unsupported("write a constraint in a job file",
			"%q: brackets inside of others, and !, are not supported", cut(text))
	}
	clauses, err := p.expression(text)
	if err == nil && p.rest != "" {
		err = p.incomplete(text)
	}
	if err != nil {
		return w, err
	}
	for _, c := range clauses {
		slices.Sort(c)
		if f := strings.Join(slices.Compact(c), "|"); !slices.Contains(w.Features, f) {
			w.Features = append(w.Features, f)
		}
	}
	w.Counts = p.counts
	return w, nil
}

// featureReader parses an expression of features into clauses; one feature of each clause must
// hold.
type featureReader struct {
	rest   string
	depth  int
	counts []int
}

func (p *featureReader) incomplete(text string) *Error {
	return bad("write a&b, a|b or a&(b|c)", "%q: a feature or a parenthesis is missing", cut(text))
}

// expression parses terms joined by one operator.
func (p *featureReader) expression(text string) ([][]string, *Error) {
	all, err := p.term(text)
	for between := byte(0); err == nil && p.rest != "" && strings.IndexByte("&,|", p.rest[0]) >= 0; {
		op := p.rest[0]
		if op == ',' {
			op = '&'
		}
		if between != 0 && op != between {
			return nil, unsupported("write parentheses around terms that belong together: a&(b|c)",
				"%q: & and | are mixed without parentheses", cut(text))
		}
		between, p.rest = op, p.rest[1:]
		var more [][]string
		if more, err = p.term(text); err != nil {
			break
		}
		if op == '&' {
			all = append(all, more...)
		} else {
			all = either(all, more)
		}
		if len(all) > jobspec.MaxFeatures || len(all) > 0 && len(all[0]) > jobspec.MaxFeatures {
			return nil, bad("", "%q: there are more than %d features", cut(text), jobspec.MaxFeatures)
		}
	}
	return all, err
}

// either returns the clauses that hold if the clauses of a or of b hold.
func either(a, b [][]string) (both [][]string) {
	for _, x := range a {
		for _, y := range b {
			both = append(both, slices.Concat(x, y))
		}
	}
	return both
}

// term parses a feature, or an expression in parentheses, with an optional count after it.
func (p *featureReader) term(text string) (clauses [][]string, err *Error) {
	if inner, found := strings.CutPrefix(p.rest, "("); found {
		if p.depth++; p.depth > 8 {
			return nil, p.incomplete(text)
		}
		p.rest = inner
		if clauses, err = p.expression(text); err != nil {
			return nil, err
		}
		if p.rest, found = strings.CutPrefix(p.rest, ")"); !found {
			return nil, p.incomplete(text)
		}
		p.depth--
	} else {
		end := strings.IndexAny(p.rest+")", "&,|()*")
		name := p.rest[:end]
		if p.rest = p.rest[end:]; name == "" {
			return nil, p.incomplete(text)
		}
		clauses = [][]string{{name}}
	}
	if after, found := strings.CutPrefix(p.rest, "*"); found {
		end := strings.IndexAny(after+")", "&,|()*")
		n, wrong := strconv.Atoi(after[:end])
		if p.rest = after[end:]; wrong != nil || n < 1 {
			return nil, bad("write a*2", "%q: a count of nodes is missing after *", cut(text))
		}
		p.counts = append(p.counts, n)
	}
	return clauses, nil
}

// cut shortens a text for a message.
func cut(text string) string {
	if len(text) > 60 {
		return text[:60] + "..."
	}
	return text
}
