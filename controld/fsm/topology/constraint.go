package topology

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hostlist"
)

// where is a text of whereOf that can be asked of nodes. It never changes.
type where []Condition

// Condition is one line of it.
type Condition struct {
	Text  string
	Asks  *jobspec.Condition // nil for a list of nodes
	Holds func(*jobspec.NodeFacts) bool
}

// ParseWhere parses the canonical text of constraints, as [model.WhereOf] writes it.
func ParseWhere(text string) (where, error) {
	var w where
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" {
			continue
		}
		c, err := parseCondition(line)
		if err != nil {
			return nil, err
		}
		w = append(w, c)
	}
	return w, nil
}

func parseCondition(line string) (Condition, error) {
	for _, list := range []struct {
		prefix string
		want   bool
	}{{model.OnlyNodes, true}, {model.QueueNodes, true}, {model.AvoidNodes, false}} {
		if quoted, ok := strings.CutPrefix(line, list.prefix); ok {
			return parseNodes(line, quoted, list.want)
		}
	}
	constraint, err := jobspec.ParseConstraint(line)
	if err != nil {
		return Condition{}, err
	}
	asks, err := constraint.Compile()
	if err != nil {
		return Condition{}, fmt.Errorf("constraint %s: %w", line, err)
	}
	return Condition{Text: line, Asks: asks, Holds: asks.Holds}, nil
}

func parseNodes(line, quoted string, want bool) (Condition, error) {
	list, err := strconv.Unquote(quoted)
	if err != nil {
		return Condition{}, fmt.Errorf("%s: %w", line, err)
	}
	names, err := hostlist.Expand(list)
	if err != nil {
		return Condition{}, err
	}
	among := make(map[string]bool, len(names))
	for _, name := range names {
		among[name] = true
	}
	return Condition{Text: line, Holds: func(n *jobspec.NodeFacts) bool { return among[n.Name] == want }}, nil
}

func (w where) holds(n *jobspec.NodeFacts) bool {
	for i := range w {
		if !w[i].Holds(n) {
			return false
		}
	}
	return true
}

// SetFacts makes f what conditions may ask of a node. It reuses what f has grown to. Of GPUs the
// healthy ones count, unless there are none: one that has failed may not even tell its name.
func SetFacts(f *jobspec.NodeFacts, n *model.Node) {
	*f = jobspec.NodeFacts{
		Name: n.Name, BootID: n.BootID, Cores: n.Cores, Memory: n.Memory, GPUs: int64(len(n.GPUs)), Labels: n.Labels,
		Models: f.Models[:0], GPUMemory: f.GPUMemory[:0],
	}
	usable := model.Healthy(n)
	for i := range n.GPUs {
		if usable == 0 || usable&(1<<i) != 0 {
			f.Models = append(f.Models, n.GPUs[i].Model)
			f.GPUMemory = append(f.GPUMemory, n.GPUs[i].Memory)
		}
	}
}
