package jobspec

import (
	"errors"
	"math/rand/v2"
	"testing"
)

var someNode = NodeFacts{
	Name: "gpu07", BootID: "b1", Cores: 64, Memory: 512 * GiB, GPUs: 2,
	Models:    []string{"NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"},
	GPUMemory: []Bytes{80 * GiB, 80 * GiB},
	Labels: map[string]string{"rack": "a", "driver": "550.54.15", "weight": "9.5", "scratch": "2TiB", "empty": "",
		"kernel": "6.8.0-51-generic"},
}

func TestConditions(t *testing.T) {
	mixed := NodeFacts{Name: "mixed", GPUs: 2, Models: []string{"A100", "T4"}, GPUMemory: []Bytes{40 * GiB, 16 * GiB}}
	none := NodeFacts{Name: "cpu01", Cores: 8, Memory: 32 * GiB}
	tests := []struct {
		c    Constraint
		n    *NodeFacts
		want bool
	}{
		{Constraint{Attribute: "node.name", Value: "gpu07"}, &someNode, true},
		{Constraint{Attribute: "${node.name}", Operator: "=", Value: "gpu08"}, &someNode, false},
		{Constraint{Attribute: "node.boot_id", Value: "b1"}, &someNode, true},
		{Constraint{Attribute: "node.cores", Operator: ">=", Value: "64"}, &someNode, true},
		{Constraint{Attribute: "node.cores", Operator: ">", Value: "64"}, &someNode, false},
		{Constraint{Attribute: "node.cores", Operator: "!=", Value: "8"}, &none, false},
		{Constraint{Attribute: "node.cores", Operator: "in", Values: []string{"8", "16"}}, &none, true},
		{Constraint{Attribute: "node.memory", Operator: ">=", Value: "512GiB"}, &someNode, true},
		{Constraint{Attribute: "node.memory", Operator: "=", Value: "524288MiB"}, &someNode, true},
		{Constraint{Attribute: "node.memory", Operator: "<", Value: "0.5TiB"}, &someNode, false},
		{Constraint{Attribute: "node.gpus", Operator: "=", Value: "0"}, &none, true},
		{Constraint{Attribute: "node.gpu.model", Operator: "glob", Value: "h100"}, &someNode, true},
		{Constraint{Attribute: "node.gpu.model", Operator: "glob", Value: "H1?0"}, &someNode, true},
		{Constraint{Attribute: "node.gpu.model", Operator: "glob", Value: "*h100*"}, &someNode, true},
		{Constraint{Attribute: "node.gpu.model", Operator: "glob", Value: "h10"}, &someNode, false},
		{Constraint{Attribute: "node.gpu.model", Operator: "glob", Value: "*"}, &none, false},
		{Constraint{Attribute: "node.gpu.model", Value: "A100"}, &mixed, false},
		{Constraint{Attribute: "node.gpu.model", Operator: "in", Values: []string{"T4", "A100"}}, &mixed, true},
		{Constraint{Attribute: "node.gpu.model", Operator: "!=", Value: "T4"}, &mixed, false},
		{Constraint{Attribute: "node.gpu.model", Operator: "!=", Value: "T4"}, &none, true},
		{Constraint{Attribute: "node.gpu.model", Operator: "is_set"}, &none, false},
		{Constraint{Attribute: "node.gpu.memory", Operator: ">=", Value: "40GiB"}, &mixed, false},
		{Constraint{Attribute: "node.gpu.memory", Operator: "<=", Value: "40GiB"}, &mixed, true},
		{Constraint{Attribute: "node.label.rack", Operator: "in", Values: []string{"a", "b"}}, &someNode, true},
		{Constraint{Attribute: "node.label.rack", Operator: "not_in", Values: []string{"a", "b"}}, &someNode, false},
		{Constraint{Attribute: "node.label.none", Operator: "not_in", Values: []string{"a", "b"}}, &someNode, true},
		{Constraint{Attribute: "node.label.none", Value: ""}, &someNode, false},
		{Constraint{Attribute: "node.label.empty", Operator: "is_set"}, &someNode, true},
		{Constraint{Attribute: "node.label.gone|empty", Operator: "is_set"}, &someNode, true},
		{Constraint{Attribute: "node.label.gone|lost", Operator: "is_set"}, &someNode, false},
		{Constraint{Attribute: "node.label.gone|rack", Value: "a"}, &someNode, false},
		{Constraint{Attribute: "node.label.empty", Value: ""}, &someNode, true},
		{Constraint{Attribute: "node.label.weight", Operator: "<", Value: "10"}, &someNode, true},
		{Constraint{Attribute: "node.label.rack", Operator: "<", Value: "10"}, &someNode, false},
		{Constraint{Attribute: "node.label.scratch", Operator: ">=", Value: "1500GiB"}, &someNode, true},
		{Constraint{Attribute: "node.label.driver", Operator: "version", Value: ">= 550, < 600"}, &someNode, true},
		{Constraint{Attribute: "node.label.driver", Operator: "version", Value: ">= 550.54.16"}, &someNode, false},
		{Constraint{Attribute: "node.label.driver", Operator: "version", Value: "550.54.15.0"}, &someNode, true},
		{Constraint{Attribute: "node.label.driver", Operator: "version", Value: "!=550"}, &someNode, true},
		{Constraint{Attribute: "node.label.kernel", Operator: "version", Value: "> 6.8, < 6.9"}, &someNode, true},
		{Constraint{Attribute: "node.label.rack", Operator: "version", Value: "> 0"}, &someNode, false},
		{Constraint{Attribute: "node.name", Operator: "regexp", Value: "^gpu0[0-9]$"}, &someNode, true},
		{Constraint{Attribute: "node.name", Operator: "glob", Value: "GPU*"}, &someNode, true},
	}
	for _, test := range tests {
		c, err := test.c.Compile()
		if err != nil {
			t.Errorf("%s: %v", test.c, err)
			continue
		}
		if got := c.Holds(test.n); got != test.want {
			t.Errorf("%s on %s: %v", test.c, test.n.Name, got)
		}
		back, err := ParseConstraint(c.String())
		if err != nil || back.String() != c.String() {
			t.Errorf("%s is read back as %s, %v", c, back, err)
		}
	}
}

func TestBadConstraints(t *testing.T) {
	tests := []struct {
		c    Constraint
		code string
	}{
		{Constraint{Attribute: "node.colour", Value: "red"}, CodeAttribute},
		{Constraint{Attribute: "node.label.", Value: "red"}, CodeAttribute},
		{Constraint{Attribute: "", Value: "red"}, CodeAttribute},
		{Constraint{Attribute: "node.cores", Operator: "~", Value: "1"}, CodeOperator},
		{Constraint{Attribute: "node.cores", Operator: "glob", Value: "1"}, CodeOperator},
		{Constraint{Attribute: "node.name", Operator: "<", Value: "x"}, CodeOperator},
		{Constraint{Attribute: "node.cores", Operator: ">", Value: "many"}, CodeConstraint},
		{Constraint{Attribute: "node.cores", Operator: ">", Value: "1.5"}, CodeConstraint},
		{Constraint{Attribute: "node.memory", Operator: ">", Value: "64"}, CodeConstraint},
		{Constraint{Attribute: "node.memory", Operator: "in", Values: []string{"64GiB", "x"}}, CodeConstraint},
		{Constraint{Attribute: "node.label.x", Operator: ">", Value: "1.2.3"}, CodeConstraint},
		{Constraint{Attribute: "node.label.x", Operator: "version", Value: ">= new"}, CodeConstraint},
		{Constraint{Attribute: "node.label.x", Operator: "version", Value: ""}, CodeConstraint},
		{Constraint{Attribute: "node.label.x", Operator: "in", Value: "a"}, CodeConstraint},
		{Constraint{Attribute: "node.label.x", Operator: "=", Values: []string{"a"}}, CodeConstraint},
		{Constraint{Attribute: "node.label.x", Operator: "is_set", Value: "a"}, CodeConstraint},
		{Constraint{Attribute: "node.label.x", Operator: "glob"}, CodeConstraint},
		{Constraint{Attribute: "node.label.x", Value: string(make([]byte, 5000))}, CodeConstraint},
		{Constraint{Attribute: "node.name", Operator: "regexp", Value: "(a"}, CodePattern},
	}
	for _, test := range tests {
		_, err := test.c.Compile()
		var bad Problem
		if !errors.As(err, &bad) || bad.Code != test.code {
			t.Errorf("%s: got %v, want %s", test.c, err, test.code)
		}
	}
}

// A pattern agrees with the plainest way to match it.
func TestGlob(t *testing.T) {
	var plain func(p, s string) bool
	plain = func(p, s string) bool {
		switch {
		case p == "":
			return s == ""
		case p[0] == '*':
			return plain(p[1:], s) || s != "" && plain(p, s[1:])
		}
		return s != "" && (p[0] == '?' || p[0] == s[0]) && plain(p[1:], s[1:])
	}
	r := rand.New(rand.NewPCG(1, 1))
	text := func(letters string) (s string) {
		for range r.IntN(8) {
			s += string(letters[r.IntN(len(letters))])
		}
		return s
	}
	matched := 0
	for range 20000 {
		pattern, s := text("ab*?"), text("ab")
		want := plain(pattern, s)
		if globPattern(pattern).MatchString(s) != want {
			t.Fatalf("%q and %q: want %v", pattern, s, want)
		}
		if want {
			matched++
		}
	}
	if matched < 1000 {
		t.Errorf("only %d matched", matched)
	}
	if !globPattern("日?語*").MatchString("日本語です") {
		t.Error("characters are not bytes")
	}
}
