package trace

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace/field"
	"github.com/rota-hpc/rota/jobspec"
)

// ReadNodes reads a file of nodes, gzip or plain, in one of two formats. A table whose header has
// the columns sn, cpu_milli, memory_mib, gpu and model has a node on each line. That is the list of
// the openb trace; a column rack may be added. Any other file has "NAME GROUP" on each line, where
// GROUP is as in [ParseNodes] without a count, or just "SPEC"; # begins a comment.
//
// A missing node would change every result, so one bad line refuses the file. The error is a
// *[SpecError], unless it is about the file as a whole.
func ReadNodes(r io.Reader) ([]model.Node, error) {
	b, err := open(r)
	if err != nil {
		return nil, err
	}
	list := &nodeList{names: map[string]int{}}
	start, _ := b.Peek(peekBytes)
	first, _, _ := strings.Cut(string(start), "\n")
	if strings.Contains(first, "cpu_milli") {
		err = list.table(&lines{r: b})
	} else {
		err = list.specs(&lines{r: b})
	}
	if err != nil {
		return nil, err
	}
	if len(list.nodes) == 0 {
		return nil, errNoNodes
	}
	return list.nodes, nil
}

type nodeList struct {
	nodes []model.Node
	names map[string]int // line of each name
}

// add adds a node with a name that is not used yet.
func (n *nodeList) add(node model.Node, line int) error {
	if first, twice := n.names[node.Name]; twice {
		return fmt.Errorf("node %s was on line %d already", node.Name, first)
	}
	if len(n.nodes) >= model.MaxNodes {
		return fmt.Errorf("more than %d nodes", model.MaxNodes)
	}
	n.names[node.Name] = line
	n.nodes = append(n.nodes, node)
	return nil
}

func (n *nodeList) table(l *lines) error {
	var t Trace
	required := []string{"sn", "cpu_milli", "memory_mib", "gpu", "model"}
	err := table(l, &t, required, []string{RackLabel}, func(r *row) error {
		m := machine{
			cores:  r.whole("cpu_milli", 1000, MaxCores*1000) / 1000,
			memory: jobspec.Bytes(r.whole("memory_mib", 1, MaxMemory>>20)) * jobspec.MiB,
			gpus:   r.whole("gpu", 0, MaxGPUs), model: r.text("model"), rack: r.text(RackLabel),
		}
		for _, c := range []string{"sn", "model", RackLabel} {
			if (c == "sn" || r.has(c)) && !isWord(r.text(c)) {
				r.fail(c, fmt.Errorf("%q is not a name: letters, digits, dots, hyphens and underscores", field.Shorten(r.text(c))))
			}
		}
		if m.model == "" {
			m.model = DefaultModel
		}
		if r.err != nil {
			return r.err
		}
		return n.add(m.node(r.text("sn")), r.line)
	})
	if err != nil {
		return fmt.Errorf("nodes: %w", err)
	}
	if t.Bad > 0 {
		return &SpecError{Line: t.Skipped[0].N, Problem: t.Skipped[0].Why}
	}
	return nil
}

func (n *nodeList) specs(l *lines) error {
	for l.next() {
		text, _, _ := strings.Cut(l.text, "#")
		if strings.TrimSpace(text) == "" && !l.long {
			continue
		}
		if l.long {
			return &SpecError{Line: l.n, Problem: fmt.Sprintf("longer than %d bytes", maxLine)}
		}
		if err := n.line(text, l.n); err != nil {
			return err
		}
	}
	return l.err
}

// line reads "NAME GROUP" or "SPEC".
func (n *nodeList) line(text string, line int) error {
	words := strings.Fields(text)
	spec := words[len(words)-1]
	at := strings.LastIndex(text, spec)
	if len(words) > 2 || len(words) == 2 && !isWord(words[0]) {
		return &SpecError{Line: line, Column: 1,
			Problem: "a line must be NAME GROUP, such as n01 32c/256g/8gpu@r1, or a spec alone"}
	}
	nodes, err := parseAt(spec, at, line)
	if err != nil {
		return err
	}
	if len(words) == 2 && len(nodes) != 1 {
		return &SpecError{Line: line, Column: at + 1, Problem: fmt.Sprintf("one name stands for %d nodes", len(nodes))}
	}
	for i := range nodes {
		name := fmt.Sprintf("n%05d", len(n.nodes)+1)
		if len(words) == 2 {
			name = words[0]
		}
		if err := n.add(renamed(nodes[i], name), line); err != nil {
			return &SpecError{Line: line, Problem: err.Error()}
		}
	}
	return nil
}

// parseAt is ParseNodes for a text at byte at of a line.
func parseAt(spec string, at, line int) ([]model.Node, error) {
	nodes, err := ParseNodes(spec)
	var bad *SpecError
	if errors.As(err, &bad) {
		return nil, &SpecError{Line: line, Column: at + bad.Column, Problem: bad.Problem}
	}
	return nodes, err
}

// renamed returns a node with another name, and with GPUs named after it.
func renamed(n model.Node, name string) model.Node {
	n.Name = name
	for i := range n.GPUs {
		n.GPUs[i].UUID = fmt.Sprintf("GPU-SIM-%s-%d", name, i)
	}
	return n
}
