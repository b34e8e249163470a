package jobspec

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec/typo"
)

// NodeFacts are the properties of a node that constraints can test.
type NodeFacts struct {
	Name      string
	BootID    string
	Cores     int64
	Memory    Bytes
	GPUs      int64
	Models    []string // of each working GPU
	GPUMemory []Bytes  // of each working GPU
	Labels    map[string]string
}

// nodeAttribute is a property of nodes that a constraint can test.
type nodeAttribute struct {
	name string                  // as in node.cores; node.label. stands for all labels
	kind string                  // text, number, size, or label (compared as the type of the operand)
	get  func(*NodeFacts) []fact // values on a node; key is set for a label
}

// nodeAttributes are the attributes for constraints and affinities, in the order of the
// documentation. A condition on GPUs must hold for every GPU of the node.
var nodeAttributes = []nodeAttribute{
	{"node.name", "text", func(n *NodeFacts) []fact { return []fact{{text: n.Name}} }},
	{"node.cores", "number", func(n *NodeFacts) []fact { return []fact{{strconv.FormatInt(n.Cores, 10), n.Cores}} }},
	{"node.memory", "size", func(n *NodeFacts) []fact { return []fact{{n.Memory.String(), int64(n.Memory)}} }},
	{"node.gpus", "number", func(n *NodeFacts) []fact { return []fact{{strconv.FormatInt(n.GPUs, 10), n.GPUs}} }},
	{"node.gpu.model", "text", func(n *NodeFacts) []fact {
		return distinct(n.Models, func(m string) fact { return fact{text: m} })
	}},
	{"node.gpu.memory", "size", func(n *NodeFacts) []fact {
		return distinct(n.GPUMemory, func(m Bytes) fact { return fact{m.String(), int64(m)} })
	}},
	{"node.boot_id", "text", func(n *NodeFacts) []fact { return []fact{{text: n.BootID}} }},
	{labelPrefix, "label", nil},
}

// AttributeNames lists the names of all node attributes; KEY stands for a label's key.
func AttributeNames() []string {
	names := attributeNames()
	names[len(names)-1] += "KEY"
	return names
}

func attributeNames() []string {
	var names []string
	for _, a := range nodeAttributes {
		names = append(names, a.name)
	}
	return names
}

const labelPrefix = "node.label."

// Operators of constraints, in the order of the documentation.
var operators = [...]string{"=", "!=", "<", "<=", ">", ">=", "regexp", "version", "in", "not_in", "glob", "is_set"}

// maxOperand bounds the length of a constraint's values in bytes.
const maxOperand = 4096

// badCondition returns why no node can be tested for a constraint, as a problem without a path.
func badCondition(code, hint, format string, args ...any) error {
	return Problem{Code: code, Text: fmt.Sprintf(format, args...), Hint: hint}
}

// Condition is a compiled constraint. It is immutable.
type Condition struct {
	text  string
	gets  func(*NodeFacts) []fact
	holds func(fact) bool
	every bool // holds on a node without the attribute too, because the condition only excludes values
}

// fact is one value of an attribute.
type fact struct {
	text   string
	number int64
}

// Compile checks a constraint and compiles it. The error is a [Problem] without a path.
func (c Constraint) Compile() (*Condition, error) {
	c = c.plain()
	attribute, err := lookUp(c.Attribute)
	if err != nil {
		return nil, err
	}
	if err := c.checkOperands(); err != nil {
		return nil, err
	}
	if c.Operator == "is_set" && attribute.kind == "label" { // a feature, or alternatives
		attribute.get = labels(strings.Split(strings.TrimPrefix(c.Attribute, labelPrefix), "|")...)
	}
	holds, err := c.test(attribute.kind)
	if err != nil {
		return nil, err
	}
	return &Condition{
		text: c.String(), gets: attribute.get, holds: holds, every: c.Operator == "!=" || c.Operator == "not_in",
	}, nil
}

// plain returns the normal form of the constraint: no ${ }, an explicit operator, sorted lists.
func (c Constraint) plain() Constraint {
	if name, ok := strings.CutPrefix(c.Attribute, "${"); ok {
		c.Attribute = strings.TrimSuffix(name, "}")
	}
	if c.Operator == "" {
		c.Operator = "="
	}
	if c.Operator == "in" || c.Operator == "not_in" {
		c.Values = slices.Clone(c.Values)
		slices.Sort(c.Values)
		c.Values = slices.Compact(c.Values)
	}
	return c
}

// String formats the normal form of a constraint in one line.
func (c Constraint) String() string {
	c = c.plain()
	s := c.Attribute + " " + c.Operator
	for i, v := range c.operands() {
		if i > 0 {
			s += ","
		}
		s += " " + strconv.Quote(v)
	}
	return s
}

// ParseConstraint parses the output of [Constraint.String].
func ParseConstraint(text string) (Constraint, error) {
	attribute, rest, _ := strings.Cut(text, " ")
	operator, rest, more := strings.Cut(rest, " ")
	c := Constraint{Attribute: attribute, Operator: operator}
	var values []string
	for more {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return Constraint{}, fmt.Errorf("%q is no constraint: %w", text, err)
		}
		value, _ := strconv.Unquote(quoted)
		values = append(values, value)
		rest, more = strings.CutPrefix(rest[len(quoted):], ", ")
	}
	if operator == "in" || operator == "not_in" {
		c.Values = values
	} else if len(values) > 0 {
		c.Value = values[0]
	}
	if c.String() != text {
		return Constraint{}, fmt.Errorf("%q is no constraint", text)
	}
	return c, nil
}

func (c Constraint) operands() []string {
	switch c.Operator {
	case "is_set":
		return nil
	case "in", "not_in":
		return c.Values
	}
	return []string{c.Value}
}

// checkOperands refuses unknown operators, and values that do not fit the operator.
func (c Constraint) checkOperands() error {
	if !slices.Contains(operators[:], c.Operator) {
		return badCondition(CodeOperator, "write one of "+strings.Join(operators[:], " "), "unknown operator %q",
			c.Operator)
	}
	list := c.Operator == "in" || c.Operator == "not_in"
	length := len(c.Value)
	for _, v := range c.Values {
		length += len(v)
	}
	switch {
	case length > maxOperand:
		return badCondition(CodeConstraint, "", "its values have %d bytes; at most %d are allowed", length, maxOperand)
	case list && (len(c.Values) == 0 || c.Value != ""):
		return badCondition(CodeConstraint, "write values = [...] instead of value", "%s compares with a list", c.Operator)
	case !list && len(c.Values) > 0:
		return badCondition(CodeConstraint, "write value, or use in or not_in", "%s compares with one value", c.Operator)
	case c.Operator == "is_set" && c.Value != "":
		return badCondition(CodeConstraint, "leave value out", "is_set takes no value")
	}
	return nil
}

// String returns the constraint as [Constraint.String] writes it.
func (c *Condition) String() string { return c.text }

// Holds reports whether the condition holds on a node. On a node without the attribute, only != and
// not_in hold.
func (c *Condition) Holds(n *NodeFacts) bool {
	facts := c.gets(n)
	if len(facts) == 0 {
		return c.every
	}
	return !slices.ContainsFunc(facts, func(f fact) bool { return !c.holds(f) })
}

// Has returns a node's values of the attribute, as text.
func (c *Condition) Has(n *NodeFacts) []string {
	var values []string
	for _, f := range c.gets(n) {
		values = append(values, f.text)
	}
	return values
}

// lookUp returns the attribute with this name.
func lookUp(name string) (nodeAttribute, error) {
	key, isLabel := strings.CutPrefix(name, labelPrefix)
	for _, a := range nodeAttributes {
		switch {
		case strings.ContainsAny(name, " \t\r\n"): // String writes a constraint as words of one line
		case a.kind != "label" && a.name == name:
			return a, nil
		case a.kind == "label" && isLabel && key != "":
			a.get = labels(key)
			return a, nil
		}
	}
	hint := cmp.Or(typo.Hint(name, attributeNames()), "write one of "+strings.Join(AttributeNames(), ", "))
	return nodeAttribute{}, badCondition(CodeAttribute, hint, "nodes have no attribute %q", name)
}

// labels returns a function that reads the node's label with one of the keys.
func labels(keys ...string) func(*NodeFacts) []fact {
	return func(n *NodeFacts) (facts []fact) {
		for _, k := range keys {
			if v, ok := n.Labels[k]; ok {
				facts = append(facts, fact{text: v})
			}
		}
		return facts
	}
}

// distinct turns values into facts. Equal neighbours become one fact, because the GPUs of a node
// are usually alike.
func distinct[T comparable](values []T, make func(T) fact) []fact {
	var facts []fact
	for i, v := range values {
		if i == 0 || v != values[i-1] {
			facts = append(facts, make(v))
		}
	}
	return facts
}
