package topology

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// texts are conditions and affinities as shapes have them.
var texts = []string{
	`node.cores >= "8"`, "node.label.rack = \"r1\"\nnode.gpus > \"1\"", model.OnlyNodes + `"n[1-3],n7"`,
	model.AvoidNodes + `"n2"`, "5 node.cores >= \"8\"\n-3 node.label.rack = \"r1\"", `7 node.gpus > "0"`,
	`node.label.rack = "none"`,
}

// machine is a random node.
func machine(r *rand.Rand, name string) *model.Node {
	n := &model.Node{Name: name, BootID: "b", Cores: int64(4 + 4*r.IntN(3)), Memory: 16 * jobspec.GiB,
		Labels: map[string]string{"rack": fmt.Sprint("r", r.IntN(3))}}
	for i := range r.IntN(4) {
		n.GPUs = append(n.GPUs, model.GPU{UUID: fmt.Sprint(i), Model: "M", Memory: jobspec.GiB, Healthy: r.IntN(3) > 0})
	}
	return n
}

// holds says by hand whether a condition or an affinity of texts holds on a node, and its score.
func holds(text string, n *model.Node) (int, bool) {
	score := 0
	switch slices.Index(texts, text) {
	case 0:
		return 0, n.Cores >= 8
	case 1:
		return 0, n.Labels["rack"] == "r1" && len(n.GPUs) > 1
	case 2:
		return 0, slices.Contains([]string{"n1", "n2", "n3", "n7"}, n.Name)
	case 3:
		return 0, n.Name != "n2"
	case 4:
		if n.Cores >= 8 {
			score += 5
		}
		if n.Labels["rack"] == "r1" {
			score -= 3
		}
		return score, true
	case 5:
		if len(n.GPUs) > 0 {
			score = 7
		}
		return score, true
	}
	return 0, false
}

func bit(words []uint64, i int) bool { return i/64 < len(words) && words[i/64]&(1<<(i%64)) != 0 }

// TestNodeSetsFollowTheNodes adds and changes nodes at random. Each set must have the nodes on which
// its text holds, and views must not change.
func TestNodeSetsFollowTheNodes(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 3))
		var nodes []*model.Node
		sets := NodeSets{}
		epoch := uint64(1)
		var before NodeSets
		var then []*model.Node
		for step := range 150 {
			if r.IntN(2) == 0 || len(nodes) == 0 {
				at := r.IntN(len(nodes) + 1)
				nodes = slices.Insert(slices.Clone(nodes), at, machine(r, fmt.Sprint("n", step)))
				sets.Update(at, nil, nodes, epoch)
			} else {
				i := r.IntN(len(nodes))
				old := nodes[i]
				nodes = slices.Clone(nodes)
				nodes[i] = machine(r, old.Name)
				sets.Update(i, old, nodes, epoch)
			}
			if k := r.IntN(4 * len(texts)); k < len(texts) {
				shape := model.Shape{Constraints: texts[k]}
				if k == 4 || k == 5 {
					shape = model.Shape{Affinities: texts[k]}
				}
				if sets.Keep(shape, nodes, epoch); sets.CheckKnown(shape) != nil {
					t.Errorf("%q is not kept", texts[k])
				}
			}
			if step%20 == 19 {
				if before.sets != nil {
					compareSets(t, &before, then)
				}
				before, then = sets.View(), nodes
				epoch++
			}
			if compareSets(t, &sets, nodes); t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
		if len(sets.sets) < len(texts)-1 {
			t.Errorf("seed %d: only %d sets", seed, len(sets.sets))
		}
	}
}

func compareSets(t *testing.T, sets *NodeSets, nodes []*model.Node) {
	t.Helper()
	sets.Check(nodes, func(err error) { t.Error(err) })
	for i, n := range nodes {
		sets.CheckNode(i, n, func(err error) { t.Error(err) })
	}
	for k, text := range texts {
		if k == 4 || k == 5 {
			levels := sets.ByAffinity(text, nodes)
			for i, n := range nodes {
				want, _ := holds(text, n)
				found := 0
				for _, l := range levels {
					if bit(l.Nodes, i) {
						if found++; l.Score != want {
							t.Errorf("%s scores %d by %q, want %d", n.Name, l.Score, text, want)
						}
					}
				}
				if found != 1 {
					t.Errorf("%s is on %d levels of %q", n.Name, found, text)
				}
			}
			if !slices.IsSortedFunc(levels, func(a, b AffinityLevel) int { return b.Score - a.Score }) {
				t.Errorf("the levels of %q are not the best first: %v", text, levels)
			}
			continue
		}
		eligible := sets.Eligible(text, nodes)
		if len(eligible) != (len(nodes)+63)/64 {
			t.Errorf("%d words for %d nodes", len(eligible), len(nodes))
		}
		for i, n := range nodes {
			if _, want := holds(text, n); bit(eligible, i) != want {
				t.Errorf("%q on %+v: %t", text, *n, !want)
			}
		}
	}
	if sets.Eligible("", nodes) != nil || sets.ByAffinity("", nodes) != nil {
		t.Error("no condition has nodes")
	}
}

// TestNodeSetChecksFindDamage damages what is known of one node.
func TestNodeSetChecksFindDamage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var nodes []*model.Node
	for i := range 70 {
		nodes = append(nodes, machine(r, fmt.Sprint("n", i)))
	}
	for name, damage := range map[string]func([]AffinityLevel) []AffinityLevel{
		"a node too many": func(l []AffinityLevel) []AffinityLevel { l[0].Nodes[1] |= 1 << 3; return l },
		"a node too few":  func(l []AffinityLevel) []AffinityLevel { l[0].Nodes[1] &^= 1 << 3; return l },
		"no nodes":        func([]AffinityLevel) []AffinityLevel { return nil },
		"another score":   func(l []AffinityLevel) []AffinityLevel { l[0].Score++; return l },
	} {
		sets := NodeSets{}
		shape := model.Shape{Constraints: texts[0]}
		nodes[67].Cores = 8
		if name == "a node too many" {
			nodes[67].Cores = 4
		}
		sets.Keep(shape, nodes, 1)
		set := sets.sets[texts[0]]
		set.Levels = damage(set.Levels)
		whole, one := 0, 0
		sets.Check(nodes, func(error) { whole++ })
		sets.CheckNode(67, nodes[67], func(error) { one++ })
		if whole == 0 || one == 0 {
			t.Errorf("%s: %d and %d complaints", name, whole, one)
		}
	}
	var none NodeSets
	if none.CheckKnown(model.Shape{Constraints: texts[0]}) == nil || none.CheckKnown(model.Shape{}) != nil {
		t.Error("what is known of no set")
	}
}

// TestTooManyConditions fills the sets: those that no waiting job needs make room.
func TestTooManyConditions(t *testing.T) {
	n := []*model.Node{machine(rand.New(rand.NewPCG(1, 1)), "n1")}
	text := func(i int) string { return fmt.Sprintf("node.cores >= %q", fmt.Sprint(i+1)) }
	spec := func(cores int) *jobspec.Job {
		return &jobspec.Job{Groups: []jobspec.Group{{Constraints: []jobspec.Constraint{{Attribute: "node.cores",
			Operator: ">=", Value: fmt.Sprint(cores)}}}}}
	}
	first := model.WhereOf(spec(1), &spec(1).Groups[0])
	if first != text(0) {
		t.Fatalf("the text of a condition is %q, want %q", first, text(0))
	}
	var sets NodeSets
	for i := range MaxNodeSets - 1 {
		sets.Keep(model.Shape{Constraints: text(i)}, n, 1)
	}
	waiting := func(most int) iter.Seq[model.Shape] {
		return func(yield func(model.Shape) bool) {
			for i := range most {
				if !yield(model.Shape{Constraints: text(i)}) {
					return
				}
			}
		}
	}
	if err := sets.Admit(spec(1<<20), waiting(0), 1); err != nil || len(sets.sets) != MaxNodeSets-1 {
		t.Errorf("there is room for one more: %v, %d sets", err, len(sets.sets))
	}
	sets.Keep(model.Shape{Constraints: text(MaxNodeSets - 1)}, n, 1)
	var limit *model.LimitError
	if err := sets.Admit(spec(1<<20), waiting(MaxNodeSets), 1); !errors.As(err, &limit) || limit.Asked != MaxNodeSets+1 ||
		limit.Max != MaxNodeSets {
		t.Errorf("there is no room: %v", err)
	}
	if err := sets.Admit(spec(7), waiting(MaxNodeSets), 1); err != nil {
		t.Errorf("it is one of them: %v", err)
	}
	if err := sets.Admit(&jobspec.Job{Groups: []jobspec.Group{{}}}, waiting(MaxNodeSets), 1); err != nil {
		t.Errorf("it has no condition: %v", err)
	}
	if err := sets.Admit(spec(1<<20), waiting(3), 1); err != nil || len(sets.sets) != 3 {
		t.Errorf("most are not used any more: %v, %d are left", err, len(sets.sets))
	}
}

// TestNearestFit explains why shapes do not fit on any node.
func TestNearestFit(t *testing.T) {
	node := func(name string, cores, gpus int, rack string) *model.Node {
		n := &model.Node{Name: name, BootID: "b", Cores: int64(cores), Memory: 64 * jobspec.GiB,
			Labels: map[string]string{"rack": rack}}
		for i := range gpus {
			n.GPUs = append(n.GPUs, model.GPU{UUID: fmt.Sprint(i), Model: []string{"A", "B"}[i%2], Healthy: true})
		}
		return n
	}
	nodes := []*model.Node{node("n1", 8, 2, "r1"), node("n2", 16, 0, "r1"), node("n3", 8, 4, "r2")}
	shape := func(workers int, cores, gpus int64, where ...string) model.Shape {
		r := model.Vector{Cores: cores, Memory: jobspec.GiB, GPUs: gpus * 1000}
		return model.Shape{Request: model.Request{Active: r, Resident: model.Vector{Memory: r.Memory}}, Workers: workers,
			PerNode: 1, Constraints: strings.Join(where, "\n")}
	}
	shared := shape(9, 1, 0)
	shared.PerNode, shared.Request.Active.GPUs = 8, 500
	wide := shape(1, 1, 0)
	wide.Request.Resident.Memory = 65 * jobspec.GiB
	for _, c := range []struct {
		name  string
		shape model.Shape
		ok    bool
		want  model.Reason // but for its code, needs and room
		have  int64        // cores of the node that comes nearest
	}{
		{"one on each", shape(3, 8, 0), true, model.Reason{}, 0},
		{"as many as a node may hold", shared, true, model.Reason{}, 0},
		{"more workers than nodes", shape(4, 8, 0), false, model.Reason{Want: 4, Fit: 3, Node: "n3"}, 8},
		{"too many cores", shape(1, 17, 0), false, model.Reason{Want: 1, Node: "n3"}, 8},
		{"too many GPUs", shape(2, 1, 3), false, model.Reason{Want: 2, Fit: 1, Node: "n3"}, 8},
		{"too much memory while suspended", wide, false, model.Reason{Want: 1, Node: "n3"}, 8},
		{"on some nodes alone", shape(2, 9, 0, `node.label.rack = "r1"`), false,
			model.Reason{Want: 2, Fit: 1, Node: "n2"}, 16},
		{"a rack that there is not", shape(1, 1, 0, `node.label.rack = "r9"`), false, model.Reason{Want: 1,
			Text: "no node has label.rack r9; there are r1 (2 nodes), r2 (1 node)"}, 0},
		{"all but one condition", shape(1, 1, 0, `node.cores > "8"`, `node.label.rack = "r2"`), false, model.Reason{Want: 1,
			Text: "1 node meets all but cores > 8"}, 0},
		{"all but another", shape(1, 1, 0, `node.cores >= "8"`, `node.gpus > "2"`, `node.label.rack = "r1"`), false,
			model.Reason{Want: 1, Text: "2 nodes meet all but gpus > 2"}, 0},
		{"no two conditions", shape(1, 1, 0, `node.cores > "8"`, `node.gpus > "3"`, `node.label.rack is_set`,
			`node.label.rack = "r2"`), false, model.Reason{Want: 1, Text: "1 node meets all but cores > 8"}, 0},
		{"its nodes are not there", shape(1, 1, 0, model.OnlyNodes+`"n[7-9]"`), false, model.Reason{Want: 1,
			Text: "none of its nodes is in the cluster: n[7-9]"}, 0},
		{"it excludes all", shape(1, 1, 0, model.AvoidNodes+`"n[1-3]"`), false, model.Reason{Want: 1,
			Text: "it excludes all nodes: n[1-3]"}, 0},
	} {
		var sets NodeSets
		ok, why := sets.NearestFit(nodes, c.shape)
		if ok != c.ok || why.Text != c.want.Text || why.Node != c.want.Node || why.Want != c.want.Want ||
			why.Fit != c.want.Fit || why.Have.Cores != c.have {
			t.Errorf("%s: %t, %+v, want %+v", c.name, ok, why, c.want)
		}
		if !ok && (why.Code != model.ReasonBadConstraint || (why.Need == model.Vector{}) != (c.want.Node == "")) {
			t.Errorf("%s: %+v", c.name, why)
		}
		if got := sets.CouldHoldAll(nodes, c.shape, nil); got != c.ok {
			t.Errorf("%s: the nodes could hold it: %t", c.name, got)
		}
	}
	for n, want := range map[int]string{4: "r0 (1 node), r1 (1 node), r2 (1 node), r3 (1 node)",
		6: "r0 (1 node), r1 (1 node), r2 (1 node), r3 (1 node), 2 more"} {
		var many []*model.Node
		for i := range n {
			many = append(many, node(fmt.Sprint("n", i), 8, 0, fmt.Sprint("r", i)))
		}
		if got := UnmetConstraints(many, `node.label.rack = "r9"`); got != "no node has label.rack r9; there are "+want {
			t.Errorf("of %d racks: %s", n, got)
		}
	}
	var sets NodeSets
	if ok, _ := sets.NearestFit(nil, shape(1, 99, 0)); !ok {
		t.Error("without nodes nothing is impossible")
	}
	if sets.CouldHoldAll(nodes, shape(3, 8, 0), []string{"n2"}) ||
		!sets.CouldHoldAll(nodes, shape(2, 8, 0), []string{"n2"}) {
		t.Error("an excluded node counts")
	}
}

// TestWorkersOfOneNode counts what fits on an empty node.
func TestWorkersOfOneNode(t *testing.T) {
	room := model.Vector{Cores: 16, Memory: 64 * jobspec.GiB, GPUs: 4000}
	for _, c := range []struct {
		active, resident model.Vector
		perNode, want    int
	}{
		{model.Vector{Cores: 4}, model.Vector{}, 99, 4}, {model.Vector{Cores: 4}, model.Vector{}, 3, 3},
		{model.Vector{Cores: 5}, model.Vector{}, 99, 3}, {model.Vector{}, model.Vector{}, 7, 7},
		{model.Vector{Memory: 16 * jobspec.GiB}, model.Vector{}, 99, 4},
		{model.Vector{Memory: 16 * jobspec.GiB}, model.Vector{Memory: 32 * jobspec.GiB}, 99, 2},
		{model.Vector{GPUs: 1000}, model.Vector{}, 99, 4}, {model.Vector{GPUs: 2000}, model.Vector{}, 99, 2},
		{model.Vector{GPUs: 300}, model.Vector{}, 99, 12}, {model.Vector{Cores: 1, GPUs: 1}, model.Vector{}, 99, 16},
		{model.Vector{GPUs: 1}, model.Vector{}, 9999, 4000}, {model.Vector{Cores: 1}, model.Vector{}, 99, 16},
		{model.Vector{Cores: 17}, model.Vector{}, 99, 0},
	} {
		s := model.Shape{Request: model.Request{Active: c.active, Resident: c.resident}, PerNode: c.perNode}
		if got := workersIn(s, room); got != c.want {
			t.Errorf("%+v fits %d times, want %d", s, got, c.want)
		}
	}
}

// TestNearer prefers the node that has enough of more resources, then the larger one.
func TestNearer(t *testing.T) {
	need := model.Vector{Cores: 8, Memory: 8, GPUs: 8}
	order := []model.Vector{ // the nearest first
		{Cores: 8, Memory: 8, GPUs: 8}, {Cores: 8, Memory: 7, GPUs: 9}, {Cores: 7, Memory: 9, GPUs: 8},
		{Cores: 99, Memory: 8, GPUs: 7}, {Cores: 7, Memory: 7, GPUs: 9}, {Cores: 99, Memory: 7, GPUs: 7},
		{Cores: 7, Memory: 7, GPUs: 7}, {Cores: 6, Memory: 7, GPUs: 7}, {Cores: 7, Memory: 6, GPUs: 7},
	}
	for i, a := range order {
		for k, b := range order {
			if got := nearer(need, a, b); got != (i < k) {
				t.Errorf("%+v is nearer to %+v than %+v: %t", a, need, b, got)
			}
		}
	}
}

// TestConditionsInWords reads each kind of condition and says it again.
func TestConditionsInWords(t *testing.T) {
	for text, want := range map[string]string{
		`node.cores >= "8"`: "cores >= 8", `node.label.rack = "r1"`: "label.rack r1", `node.name glob "n*"`: "name n*",
		`node.label.ib is_set`: "label.ib", `node.label.rack in "a", "b"`: "label.rack in a, b",
		`node.label.rack not_in "a", "b"`: "label.rack not_in a, b",
		model.OnlyNodes + `"n[1-2]"`:      strings.TrimSpace(model.OnlyNodes) + " n[1-2]",
	} {
		w, err := ParseWhere("\n" + text + "\n")
		if err != nil || len(w) != 1 || w.Say() != want {
			t.Errorf("%q: %q, %v, want %q", text, w.Say(), err, want)
		}
	}
	for _, text := range []string{"node.cores >= ", `node.cores >= "many"`, "nonsense",
		model.OnlyNodes + "n1", model.OnlyNodes + `"n[1-"`} {
		if w, err := ParseWhere(text); err == nil {
			t.Errorf("%q is read as %q", text, w.Say())
		}
	}
	for _, text := range []string{"x node.cores > \"1\"", "101 node.cores > \"1\"", "-101 node.cores > \"1\"",
		"5 nonsense"} {
		if p, err := parsePrefer(text); err == nil {
			t.Errorf("%q is read as %v", text, p)
		}
	}
	for _, text := range []string{"100 node.cores > \"1\"", "-100 node.cores > \"1\""} {
		if p, err := parsePrefer(text); err != nil || len(p) != 1 {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestFactsOfBrokenGPUs leaves out those that are broken, unless all are.
func TestFactsOfBrokenGPUs(t *testing.T) {
	gpu := func(name string, healthy bool) model.GPU {
		return model.GPU{UUID: name, Model: name, Memory: jobspec.Bytes(len(name)), Healthy: healthy}
	}
	for _, c := range []struct {
		gpus []model.GPU
		want string
	}{
		{[]model.GPU{gpu("a", true), gpu("bb", false), gpu("ccc", true)}, "[a ccc] [1B 3B]"},
		{[]model.GPU{gpu("a", false), gpu("bb", false)}, "[a bb] [1B 2B]"}, {nil, "[] []"},
	} {
		var facts jobspec.NodeFacts
		facts.Models = []string{"stale"}
		SetFacts(&facts, &model.Node{Name: "n1", BootID: "b", Cores: 4, Memory: 8, GPUs: c.gpus, Labels: map[string]string{
			"k": "v"}})
		if got := fmt.Sprint(facts.Models, facts.GPUMemory); got != c.want || facts.GPUs != int64(len(c.gpus)) ||
			facts.Name != "n1" || facts.BootID != "b" || facts.Cores != 4 || facts.Memory != 8 || facts.Labels["k"] != "v" {
			t.Errorf("%s: %+v, want %s", got, facts, c.want)
		}
	}
}

// TestSameFacts changes one fact at a time.
func TestSameFacts(t *testing.T) {
	node := func() *model.Node {
		return &model.Node{Name: "n1", BootID: "b", Cores: 4, Memory: 8, GPUs: []model.GPU{{UUID: "x"}},
			Labels: map[string]string{"k": "v"}}
	}
	for name, change := range map[string]func(*model.Node){
		"boot": func(n *model.Node) { n.BootID = "c" }, "cores": func(n *model.Node) { n.Cores++ },
		"memory": func(n *model.Node) { n.Memory++ }, "GPUs": func(n *model.Node) { n.GPUs[0].Healthy = true },
		"labels": func(n *model.Node) { n.Labels["k"] = "w" },
	} {
		n := node()
		if change(n); SameFacts(node(), n) || !SameFacts(n, n) {
			t.Errorf("another %s is the same", name)
		}
	}
	if n := node(); func() bool { n.State = model.NodeDown; return !SameFacts(node(), n) }() {
		t.Error("the state is no such fact")
	}
}

// TestNodesOfAQueueAreSaid: a message tells the nodes of a queue from those that a job names.
func TestNodesOfAQueueAreSaid(t *testing.T) {
	nodes := []*model.Node{{Name: "n1"}, {Name: "n2"}}
	for text, want := range map[string]string{
		model.QueueNodes + `"x[1-2]"`: "none of its queue's nodes is in the cluster: x[1-2]",
		model.QueueNodes + `"n[1-2]"`: "",
	} {
		if got := UnmetConstraints(nodes, text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
