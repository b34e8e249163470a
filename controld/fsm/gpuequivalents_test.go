package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// plainNode is a node of so many cores and GPUs with 8 GiB for each core.
func plainNode(name string, cores int64, gpus int) model.Node {
	n := testNode(name, gpus)
	n.Cores, n.Memory = cores, jobspec.Bytes(cores)*8*jobspec.GiB
	return n
}

func asking(cores int, gib jobspec.Bytes) func(*jobspec.Job) {
	return func(j *jobspec.Job) {
		r := &j.Groups[0].Tasks[0].Resources
		j.Class, r.Cores, r.Memory = jobspec.BE, cores, gib*jobspec.GiB
	}
}

// TestWorth counts jobs without GPUs by what comes with a GPU, however finely cores and memory are
// counted and whatever other nodes there are.
func TestWorth(t *testing.T) {
	eight, wide := plainNode("eight", 32, 8), plainNode("wide", 64, 8)
	wide.Memory = eight.Memory
	large := plainNode("large", 128, 0)
	var bares []model.Node
	for i := range 40 {
		bares = append(bares, plainNode(fmt.Sprint("bare", i), 32, 0))
	}
	for name, c := range map[string]struct {
		nodes []model.Node
		cores int
		gib   jobspec.Bytes
		gpus  int
		want  int64
	}{
		"four cores come with a GPU":              {[]model.Node{eight}, 4, 8, 0, 1000},
		"one of them":                             {[]model.Node{eight}, 1, 8, 0, 250},
		"its memory is more":                      {[]model.Node{eight}, 1, 64, 0, 2000},
		"halves of cores":                         {[]model.Node{wide}, 8, 8, 0, 1000},
		"of nodes with GPUs all count":            {[]model.Node{eight, plainNode("two", 48, 2)}, 8, 8, 0, 1000},
		"other nodes do not matter":               {[]model.Node{eight, large}, 4, 8, 0, 1000},
		"no GPU anywhere":                         {bares, 4, 8, 0, 1000},
		"no GPU anywhere, nodes that differ":      {append(slices.Clone(bares), large), 8, 8, 0, 1863},
		"no GPU and one node, of 256 parts":       {[]model.Node{large}, 1, 8, 0, 2000},
		"no GPU, as many cores in a few nodes":    {bares[:4], 1, 8, 0, 2000},
		"a job that has a GPU is counted by that": {[]model.Node{eight}, 32, 256, 1, 1000},
		"no node yet":                             {nil, 4, 8, 0, 4000},
		"more than could ever be":                 {[]model.Node{eight}, 1 << 20, 8, 0, 1 << 20 * 250},
		"a thousandth at least":                   {[]model.Node{plainNode("huge", 1<<16, 1)}, 1, 1, 0, 1},
		"a core that is no round part of a GPU":   {[]model.Node{plainNode("odd", 30, 7)}, 30, 8, 0, 7000},
		"three of those":                          {[]model.Node{plainNode("odd", 30, 7)}, 3, 8, 0, 700},
		"and counted in thirds, nine with eight":  {[]model.Node{plainNode("odd", 90, 7)}, 9, 8, 0, 700},
	} {
		w := newWorld(t)
		for _, n := range c.nodes {
			w.must(RegisterNode{Node: n})
		}
		j := w.job(w.submit(1, c.gpus, asking(c.cores, c.gib)))
		if got := j.GPUEquivalents(); got != c.want {
			t.Errorf("%s: a job of %d cores, %d GiB and %d GPUs counts for %d thousandths of a GPU, not %d", name, c.cores,
				c.gib, c.gpus, got, c.want)
		}
	}
}

// TestWorthStaysAsItWas: what a job has had is counted as when it was submitted, whatever nodes
// join, and so it is after a restart.
func TestWorthStaysAsItWas(t *testing.T) {
	w := pastWorld(t) // 32 cores and 256 GiB with 4 GPUs
	id := w.submit(1, 0, asking(16, 8))
	w.ok(w.start(id, "n1"))
	w.run(id)
	w.must(RegisterNode{Node: plainNode("n2", 1024, 4)})
	w.wait(3600)
	w.must(NodeReport{Node: "n1", BootID: "b1"})
	w.ok(w.control(model.VerbRequeue, 1000, false, id))
	w.report(id, 0, model.WorkerExited)
	const hour = 3_600_000
	for range 2 {
		j := w.job(id)
		if j.State != model.Pending || j.Attained() != 2*hour || j.ServiceLevel() != j.ServiceLevelAt(2*hour) ||
			j.RuntimeOf(2*hour) != hour || j.ServiceOf(hour) != 2*hour {
			t.Errorf("after an hour of half a node with 4 GPUs, in state %s, "+
				"a job has had %d ms of one, level %d, which takes it %d ms",
				j.State, j.Attained(), j.ServiceLevel(), j.RuntimeOf(2*hour))
		}
		restored, err := ReadSnapshot(strings.NewReader(string(w.snapshot())))
		w.ok(err)
		w.s = restored
	}
}

// TestWorthOfGroups counts each group of a job whose groups run one by one by what it asks for
// itself.
func TestWorthOfGroups(t *testing.T) {
	w := pastWorld(t)
	id, err := w.submit2(alice, nil, asking(8, 8), func(j *jobspec.Job) {
		j.Groups[0].Name, j.Groups[0].Tasks[0].Resources.GPUs = "first", 0
		second := j.Groups[0]
		second.Name = "second"
		second.Tasks = []jobspec.Task{{Command: []string{"true"}, Resources: jobspec.Resources{Cores: 8, Memory: 192 * jobspec.GiB}}}
		j.Groups = append(j.Groups, second)
	})
	w.ok(err)
	if a, b := w.job(id+1).GPUEquivalents(), w.job(id+2).GPUEquivalents(); a != 1000 || b != 3000 {
		t.Errorf("the groups count for %d and %d thousandths of a GPU, not 1000 and 3000", a, b)
	}
}
