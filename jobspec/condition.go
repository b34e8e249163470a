package jobspec

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// NodeFacts is what conditions ask of a node.
type NodeFacts struct {
	Name      string
	BootID    string
	Cores     int64
	Memory    Bytes
	GPUs      int64
	Models    []string // of each GPU that works
	GPUMemory []Bytes  // of each GPU that works
	Labels    map[string]string
}

// NodeAttribute is something that a constraint may be about.
type NodeAttribute struct {
	Name string // as in node.cores; node.label. stands for all labels
	Kind string // text, number, size, or label: a text that is compared as what the value looks like
	Doc  string
}

// NodeAttributes lists what constraints and affinities may be about, in the order in which
// documentation shows it. What is said of a GPU is said of each GPU of the node, so a node with
// GPUs of several models is chosen only if all of them will do.
func NodeAttributes() []NodeAttribute {
	return []NodeAttribute{
		{"node.name", "text", "the node's name"},
		{"node.cores", "number", "its cores"},
		{"node.memory", "size", "its memory"},
		{"node.gpus", "number", "how many GPUs it has"},
		{"node.gpu.model", "text", "the model of its GPUs; with glob, the whole name or any word of it"},
		{"node.gpu.memory", "size", "the memory of each of its GPUs"},
		{"node.boot_id", "text", "which boot it is in"},
		{labelPrefix, "label", "the value of a label that its operator gave it, by key"},
	}
}

const labelPrefix = "node.label."

// Operators of a constraint, in the order in which documentation shows them.
var operators = [...]string{"=", "!=", "<", "<=", ">", ">=", "regexp", "version", "in", "not_in", "glob", "is_set"}

// maxOperand bounds the text of one constraint's values.
const maxOperand = 4096

// ConditionError says why a constraint cannot be asked of any node.
type ConditionError struct {
	Code string // CodeAttribute, CodeOperator, CodeConstraint or CodePattern
	Text string
	Hint string
}

// Error implements error.
func (e *ConditionError) Error() string {
	if e.Hint == "" {
		return e.Text
	}
	return e.Text + "; " + e.Hint
}

// Condition is a constraint that can be asked of nodes. It never changes.
type Condition struct {
	text  string
	gets  func(*NodeFacts) []fact
	holds func(fact) bool
	every bool // a node without the attribute meets it too: the condition only rules values out
}

// fact is one value of an attribute.
type fact struct {
	text   string
	number int64
}

// Compile checks a constraint and makes it ready to be asked. The error is a *[ConditionError].
func (c Constraint) Compile() (*Condition, error) {
	c = c.plain()
	attribute, err := lookUp(c.Attribute)
	if err != nil {
		return nil, err
	}
	if err := c.checkOperands(); err != nil {
		return nil, err
	}
	holds, err := c.test(attribute.Kind)
	if err != nil {
		return nil, err
	}
	return &Condition{
		text: c.String(), gets: getter(c.Attribute), holds: holds, every: c.Operator == "!=" || c.Operator == "not_in",
	}, nil
}

// plain writes a constraint in one way: without ${ }, with its operator, with the values of lists
// in order.
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

// String writes a constraint in one line. Constraints that say the same in the same words are
// written alike.
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

// ParseConstraint reads what [Constraint.String] has written.
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

// checkOperands refuses an operator that there is not, and values where it takes none or others.
func (c Constraint) checkOperands() error {
	if !slices.Contains(operators[:], c.Operator) {
		return &ConditionError{CodeOperator, fmt.Sprintf("there is no operator %q", c.Operator),
			"write one of " + strings.Join(operators[:], " ")}
	}
	list := c.Operator == "in" || c.Operator == "not_in"
	length := len(c.Value)
	for _, v := range c.Values {
		length += len(v)
	}
	switch {
	case length > maxOperand:
		return &ConditionError{CodeConstraint,
			fmt.Sprintf("its values have %d bytes, at most %d are allowed", length, maxOperand), ""}
	case list && (len(c.Values) == 0 || c.Value != ""):
		return &ConditionError{CodeConstraint, c.Operator + " compares with a list", "write values = [...] and no value"}
	case !list && len(c.Values) > 0:
		return &ConditionError{CodeConstraint, c.Operator + " compares with one value", "write value, or use in or not_in"}
	case c.Operator == "is_set" && c.Value != "":
		return &ConditionError{CodeConstraint, "is_set takes no value", "leave value out"}
	}
	return nil
}

// String is the constraint in one line, as [Constraint.String] writes it.
func (c *Condition) String() string { return c.text }

// Holds reports whether the condition holds on a node. Of an attribute that a node does not have,
// only != and not_in hold.
func (c *Condition) Holds(n *NodeFacts) bool {
	facts := c.gets(n)
	if len(facts) == 0 {
		return c.every
	}
	return !slices.ContainsFunc(facts, func(f fact) bool { return !c.holds(f) })
}

// Has returns the values that a node has of the attribute, as text.
func (c *Condition) Has(n *NodeFacts) []string {
	var values []string
	for _, f := range c.gets(n) {
		values = append(values, f.text)
	}
	return values
}

func lookUp(name string) (NodeAttribute, error) {
	all := NodeAttributes()
	for _, a := range all {
		if strings.ContainsAny(name, " \t\r\n") { // a constraint is kept as words of one line
			break
		}
		if a.Name == name && a.Kind != "label" ||
			a.Kind == "label" && strings.HasPrefix(name, a.Name) && len(name) > len(a.Name) {
			return a, nil
		}
	}
	var names []string
	for _, a := range all {
		names = append(names, a.Name)
	}
	names[len(names)-1] += "KEY"
	return NodeAttribute{}, &ConditionError{CodeAttribute, fmt.Sprintf("nodes have no attribute %q", name),
		"write one of " + strings.Join(names, ", ")}
}

// getter returns what reads an attribute of a node, which is known to exist.
func getter(name string) func(*NodeFacts) []fact {
	switch name {
	case "node.name":
		return func(n *NodeFacts) []fact { return []fact{{text: n.Name}} }
	case "node.boot_id":
		return func(n *NodeFacts) []fact { return []fact{{text: n.BootID}} }
	case "node.cores":
		return func(n *NodeFacts) []fact { return []fact{{strconv.FormatInt(n.Cores, 10), n.Cores}} }
	case "node.memory":
		return func(n *NodeFacts) []fact { return []fact{{n.Memory.String(), int64(n.Memory)}} }
	case "node.gpus":
		return func(n *NodeFacts) []fact { return []fact{{strconv.FormatInt(n.GPUs, 10), n.GPUs}} }
	case "node.gpu.model":
		return func(n *NodeFacts) []fact { return distinct(n.Models, func(m string) fact { return fact{text: m} }) }
	case "node.gpu.memory":
		return func(n *NodeFacts) []fact {
			return distinct(n.GPUMemory, func(m Bytes) fact { return fact{m.String(), int64(m)} })
		}
	}
	key := strings.TrimPrefix(name, labelPrefix)
	return func(n *NodeFacts) []fact {
		if v, ok := n.Labels[key]; ok {
			return []fact{{text: v}}
		}
		return nil
	}
}

// distinct turns values into facts, neighbours that are alike into one: the GPUs of a node mostly
// are.
func distinct[T comparable](values []T, make func(T) fact) []fact {
	var facts []fact
	for i, v := range values {
		if i == 0 || v != values[i-1] {
			facts = append(facts, make(v))
		}
	}
	return facts
}

// compileOperand compiles a regular expression in RE2's syntax.
func compileOperand(text string) (*regexp.Regexp, error) {
	re, err := CompilePattern(text)
	if p, bad := err.(Problem); bad { //nolint:errorlint // CompilePattern returns nothing else
		return nil, &ConditionError{p.Code, p.Text, p.Hint}
	}
	return re, nil
}
