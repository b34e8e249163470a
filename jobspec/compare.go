package jobspec

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// test returns a function that reports whether a constraint holds for a value. The constraint must
// be plain, with the operands that its operator takes.
func (c Constraint) test(kind string) (func(fact) bool, error) {
	switch c.Operator {
	case "is_set":
		return func(fact) bool { return true }, nil
	case "=", "in":
		return c.among(kind, true)
	case "!=", "not_in":
		return c.among(kind, false)
	case "<", "<=", ">", ">=":
		return c.ordered(kind)
	}
	if kind != "text" && kind != "label" {
		return nil, badCondition(CodeOperator, "write = != < <= > or >=",
			"%s cannot be used with %s, which is a %s", c.Operator, c.Attribute, kind)
	}
	switch c.Operator {
	case "regexp":
		re, err := CompilePattern(c.Value)
		if err != nil {
			return nil, err
		}
		return func(f fact) bool { return re.MatchString(f.text) }, nil
	case "version":
		return c.versions()
	}
	return c.glob()
}

// among compares for equality with any of the operands.
func (c Constraint) among(kind string, want bool) (func(fact) bool, error) {
	if kind == "text" || kind == "label" {
		list := c.operands()
		return func(f fact) bool { return slices.Contains(list, f.text) == want }, nil
	}
	var list []int64
	for _, v := range c.operands() {
		n, err := c.number(kind, v)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return func(f fact) bool { return slices.Contains(list, f.number) == want }, nil
}

// ordered compares by size. The label is parsed in the operand's type: a number or a size. The
// constraint does not hold for a label that cannot be parsed.
func (c Constraint) ordered(kind string) (func(fact) bool, error) {
	order := ordering(c.Operator)
	switch kind {
	case "text":
		return nil, badCondition(CodeOperator, "write = != in not_in regexp or glob",
			"%s cannot be used with %s, which is text", c.Operator, c.Attribute)
	case "label":
		return c.orderedLabel(order)
	}
	than, err := c.number(kind, c.Value)
	if err != nil {
		return nil, err
	}
	return func(f fact) bool { return order(cmp.Compare(f.number, than)) }, nil
}

func (c Constraint) orderedLabel(order func(int) bool) (func(fact) bool, error) {
	if than, err := strconv.ParseFloat(c.Value, 64); err == nil {
		return func(f fact) bool {
			n, err := strconv.ParseFloat(f.text, 64)
			return err == nil && n == n && order(cmp.Compare(n, than))
		}, nil
	}
	than, err := ParseSize(c.Value)
	if err != nil {
		return nil, badCondition(CodeConstraint, `write 10, "64GiB", or operator = "version" with value = ">= 550"`,
			"%q is neither a number nor a size", c.Value)
	}
	return func(f fact) bool {
		n, err := ParseSize(f.text)
		return err == nil && order(cmp.Compare(n, than))
	}, nil
}

func ordering(operator string) func(int) bool {
	switch operator {
	case "<":
		return func(n int) bool { return n < 0 }
	case "<=":
		return func(n int) bool { return n <= 0 }
	case ">":
		return func(n int) bool { return n > 0 }
	case ">=":
		return func(n int) bool { return n >= 0 }
	case "!=":
		return func(n int) bool { return n != 0 }
	}
	return func(n int) bool { return n == 0 }
}

// number parses an operand of a numeric or size attribute.
func (c Constraint) number(kind, text string) (int64, error) {
	if kind == "size" {
		n, err := ParseSize(text)
		if err != nil {
			return 0, badCondition(CodeConstraint, "", "%s is a size, but %v", c.Attribute, err)
		}
		return int64(n), nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, badCondition(CodeConstraint, "", "%s is a whole number, but %q is not", c.Attribute, text)
	}
	return n, nil
}

// glob matches the whole value and ignores case. A pattern for a GPU model may also match a single
// word: the driver says "NVIDIA H100 80GB HBM3", users write H100.
func (c Constraint) glob() (func(fact) bool, error) {
	pattern := strings.ToLower(c.Value)
	if pattern == "" {
		return nil, badCondition(CodeConstraint, `write value = "h100*"`, "glob needs a pattern, but the value is empty")
	}
	re := globPattern(pattern)
	return func(f fact) bool {
		text := strings.ToLower(f.text)
		return re.MatchString(text) ||
			c.Attribute == "node.gpu.model" && slices.ContainsFunc(strings.FieldsFunc(text, betweenWords), re.MatchString)
	}, nil
}

func betweenWords(r rune) bool { return r == ' ' || r == '-' || r == '_' }

// globPattern compiles a glob: * is any text and ? any character.
func globPattern(pattern string) *regexp.Regexp {
	return regexp.MustCompile("(?s)^" + globSigns.Replace(regexp.QuoteMeta(pattern)) + "$")
}

var globSigns = strings.NewReplacer(`\*`, ".*", `\?`, ".")

// versions tests a version such as 550.54.15 against conditions such as ">= 550, < 600"; all must
// hold. A value that is no version does not hold.
func (c Constraint) versions() (func(fact) bool, error) {
	type bound struct {
		order func(int) bool
		than  version
	}
	var bounds []bound
	for part := range strings.SplitSeq(c.Value, ",") {
		operator, text := cutOperator(strings.TrimSpace(part))
		v, ok := parseVersion(text)
		if !ok {
			return nil, badCondition(CodeConstraint, `write value = ">= 550, < 600"`,
				"%q is not a condition on a version", strings.TrimSpace(part))
		}
		bounds = append(bounds, bound{ordering(operator), v})
	}
	return func(f fact) bool {
		v, ok := parseVersion(f.text)
		if !ok {
			return false
		}
		for _, b := range bounds {
			if !b.order(v.compare(b.than)) {
				return false
			}
		}
		return true
	}, nil
}

func cutOperator(text string) (operator, rest string) {
	for _, op := range []string{"<=", ">=", "!=", "<", ">", "="} {
		if rest, ok := strings.CutPrefix(text, op); ok {
			return op, strings.TrimSpace(rest)
		}
	}
	return "=", text
}

// version is a list of numbers and a suffix after a hyphen: 550.54.15, 6.8.0-51-generic.
type version struct {
	numbers []int64
	suffix  string
}

func parseVersion(text string) (version, bool) {
	text = strings.TrimPrefix(text, "v")
	head, suffix, _ := strings.Cut(text, "-")
	v := version{suffix: suffix}
	for part := range strings.SplitSeq(head, ".") {
		n, err := strconv.ParseUint(part, 10, 62)
		if err != nil {
			return version{}, false
		}
		v.numbers = append(v.numbers, int64(n))
	}
	return v, true
}

// compare orders versions by their numbers, then by their suffixes. A missing number counts as 0,
// and a version without suffix comes first.
func (v version) compare(o version) int {
	for i := range max(len(v.numbers), len(o.numbers)) {
		if c := cmp.Compare(v.at(i), o.at(i)); c != 0 {
			return c
		}
	}
	return cmp.Compare(v.suffix, o.suffix)
}

func (v version) at(i int) int64 {
	if i < len(v.numbers) {
		return v.numbers[i]
	}
	return 0
}
