package trace

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace/field"
	"github.com/rota-hpc/rota/jobspec"
)

// Values of nodes whose spec does not give them.
const (
	DefaultModel  = "Simulated"      // GPU model
	gpuMemory     = 80 * jobspec.GiB // of each GPU
	memoryPerCore = 4 * jobspec.GiB
	RackLabel     = "rack" // key of the label that @ sets
)

// SpecError is a fault in a description of nodes, with its position.
type SpecError struct {
	Line    int // of a file, from 1; 0 if the text is not a file
	Column  int // byte from 1; 0: the whole line
	Problem string
}

// Error implements error.
func (e *SpecError) Error() string {
	switch {
	case e.Line > 0 && e.Column > 0:
		return fmt.Sprintf("nodes, line %d, column %d: %s", e.Line, e.Column, e.Problem)
	case e.Line > 0:
		return fmt.Sprintf("nodes, line %d: %s", e.Line, e.Problem)
	}
	return fmt.Sprintf("nodes, column %d: %s", e.Column, e.Problem)
}

// machine describes the nodes of one group.
type machine struct {
	cores  int64
	memory jobspec.Bytes
	gpus   int64
	model  string
	rack   string
}

// node returns a machine as a node of the state.
func (m *machine) node(name string) model.Node {
	n := model.Node{Name: name, BootID: "simulated", Version: "simulated", Cores: m.cores, Memory: m.memory,
		State: model.NodeUp, Suspends: true}
	if m.memory == 0 {
		n.Memory = min(MaxMemory, memoryPerCore*jobspec.Bytes(m.cores))
	}
	if m.rack != "" {
		n.Labels = map[string]string{RackLabel: m.rack}
	}
	for i := range m.gpus {
		n.GPUs = append(n.GPUs, model.GPU{
			UUID: fmt.Sprintf("GPU-SIM-%s-%d", name, i), Model: m.model, Memory: gpuMemory, Minor: -1, Healthy: true,
		})
	}
	return n
}

// ParseNodes reads a description of nodes on one line:
//
//	spec   = group { "," group } .
//	group  = [ count "x" ] part { "/" part } [ "@" rack ] .
//	part   = number "c"                     cores; each group needs them
//	       | size                           memory, such as 256g or 256GiB; without it 4 GiB a core
//	       | number "gpu" [ ":" model ]     GPUs
//	       | number "x" model .             the same: 8xH100 is 8gpu:H100
//	size   = number ( "m" | "g" | "t" ) [ "b" | "ib" ] .    binary units; small or capital letters
//
// Each part may stand once in a group, in any order. 84x32c/256g/8gpu is 84 nodes of 32 cores, 256
// GiB and 8 GPUs; 4x64c/8xH100@r1,4x64c/8xA100@r2 is two racks of different nodes. Rack and model
// consist of letters, digits, dots, hyphens and underscores. Nodes are called n1, n2 and so on with
// leading zeros, across all groups in order. The error is a *[SpecError].
func ParseNodes(spec string) ([]model.Node, error) {
	var machines []machine
	at := 0
	for group := range strings.SplitSeq(spec, ",") {
		count, m, err := parseGroup(group, at)
		if err != nil {
			return nil, err
		}
		if int64(len(machines))+count > model.MaxNodes {
			return nil, &SpecError{Column: at + 1, Problem: fmt.Sprintf("more than %d nodes", model.MaxNodes)}
		}
		for range count {
			machines = append(machines, m)
		}
		at += len(group) + 1
	}
	width := len(fmt.Sprint(len(machines)))
	nodes := make([]model.Node, len(machines))
	for i := range machines {
		nodes[i] = machines[i].node(fmt.Sprintf("n%0*d", width, i+1))
	}
	return nodes, nil
}

// parseGroup reads one group, which begins at byte at of the whole text.
func parseGroup(group string, at int) (int64, machine, error) {
	bad := func(offset int, format string, args ...any) (int64, machine, error) {
		return 0, machine{}, &SpecError{Column: at + offset + 1, Problem: fmt.Sprintf(format, args...)}
	}
	shape, rack, racked := strings.Cut(group, "@")
	if racked && !isWord(rack) {
		return bad(len(shape)+1, "%q is not the name of a rack: letters, digits, dots, hyphens and underscores",
			field.Shorten(rack))
	}
	count, offset := int64(1), 0
	if digits := leading(shape); digits != "" && strings.HasPrefix(shape[len(digits):], "x") && !isModelPart(shape) {
		n, err := field.Whole(digits, 1, model.MaxNodes)
		if err != nil {
			return bad(0, "the number of nodes %v", err)
		}
		count, offset = n, len(digits)+1
	}
	m := machine{rack: rack}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(shape[offset:], "/") {
		if err := m.part(part, seen); err != nil {
			return bad(offset, "%v", err)
		}
		offset += len(part) + 1
	}
	if m.cores == 0 {
		return bad(0, "%q has no cores: write it as 32c/256g/8gpu, with the cores first", field.Shorten(group))
	}
	return count, m, nil
}

// isModelPart reports whether a group begins with GPUs of a model (8xH100/64c), not with a number
// of nodes (8x64c).
func isModelPart(shape string) bool {
	first, _, _ := strings.Cut(shape, "/")
	rest := first[len(leading(first))+1:]
	return leading(rest) == ""
}

// part reads one part of a group into m.
func (m *machine) part(part string, seen map[string]bool) error {
	digits := leading(part)
	unit := part[len(digits):]
	if digits == "" {
		return fmt.Errorf("%q is not an amount such as 32c, 256g, 8gpu or 8xH100", field.Shorten(part))
	}
	kind, err := m.amount(digits, unit)
	if err != nil {
		return fmt.Errorf("%q: %w", field.Shorten(part), err)
	}
	if seen[kind] {
		return fmt.Errorf("%q: %s are given twice", field.Shorten(part), kind)
	}
	seen[kind] = true
	return nil
}

// amount sets the resource of a unit and returns its name.
func (m *machine) amount(digits, unit string) (kind string, err error) {
	model, isGPU := modelOf(unit)
	switch {
	case unit == "c":
		m.cores, err = field.Whole(digits, 1, MaxCores)
		return "cores", err
	case isGPU:
		if !isWord(model) {
			return "", fmt.Errorf("%q is not the name of a GPU model: letters, digits, dots, hyphens and underscores",
				field.Shorten(model))
		}
		m.model = model
		m.gpus, err = field.Whole(digits, 0, MaxGPUs)
		return "GPUs", err
	}
	shift, ok := map[string]int{"m": 20, "g": 30,
		"t": 40}[strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(unit), "b"), "i")]
	if !ok {
		return "", fmt.Errorf("unknown unit %q: write c (cores), m, g, t (memory), gpu or xMODEL", field.Shorten(unit))
	}
	n, err := field.Whole(digits, 1, MaxMemory>>shift)
	m.memory = jobspec.Bytes(n) << shift
	return "sizes of memory", err
}

// modelOf reads the unit of GPUs: gpu, gpu:MODEL or xMODEL.
func modelOf(unit string) (model string, ok bool) {
	if rest, ok := strings.CutPrefix(unit, "gpu"); ok {
		if rest == "" {
			return DefaultModel, true
		}
		return strings.CutPrefix(rest, ":")
	}
	return strings.CutPrefix(unit, "x")
}

func leading(text string) string {
	return text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
}

// isWord reports whether text can be the name of a rack, a node or a model.
func isWord(text string) bool {
	if text == "" || len(text) > MaxText {
		return false
	}
	for _, c := range []byte(text) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}

var errNoNodes = errors.New("no node in the list")

// Capacity is the sum of the healthy nodes.
func Capacity(nodes []model.Node) model.Vector {
	var v model.Vector
	for i := range nodes {
		v.Cores += nodes[i].Cores
		v.Memory += nodes[i].Memory
		for _, g := range nodes[i].GPUs {
			if g.Healthy {
				v.GPUs += gpu
			}
		}
	}
	return v
}
