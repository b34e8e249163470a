package trace

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// describe is a line for each run of nodes that are alike but for their names.
func describe(nodes []model.Node) string {
	var runs []string
	last, first, n := "", "", 0
	flush := func() {
		if n > 0 {
			runs = append(runs, fmt.Sprintf("%s+%d %s", first, n-1, last))
		}
	}
	for i := range nodes {
		d := &nodes[i]
		text := fmt.Sprintf("%dc %v %d", d.Cores, d.Memory, len(d.GPUs))
		if len(d.GPUs) > 0 {
			text += d.GPUs[0].Model
		}
		if rack := d.Labels[RackLabel]; rack != "" {
			text += "@" + rack
		}
		if text != last {
			flush()
			last, first, n = text, d.Name, 0
		}
		n++
	}
	flush()
	return strings.Join(runs, "; ")
}

func TestParseNodes(t *testing.T) {
	for _, test := range []struct{ spec, want string }{
		{"84x32c/256g/8gpu", "n01+83 32c 256GiB 8Simulated"},
		{"32c", "n1+0 32c 128GiB 0"},
		{"2x64c/8xH100@r1,3x64c/512GiB/8gpu:A100-80@r2", "n1+1 64c 256GiB 8H100@r1; n3+2 64c 512GiB 8A100-80@r2"},
		{"8xH100/64c", "n1+0 64c 256GiB 8H100"},
		{"9x1c/512m,1x2c/1TB", "n01+8 1c 512MiB 0; n10+0 2c 1TiB 0"},
		{"4gpu/2x8xT4", ""},
		{"2x4gpu:T4/8c/16g", "n1+1 8c 16GiB 4T4"},
		{"1x0gpu/8c/16G", "n1+0 8c 16GiB 0"},
		{"240x1c", "n001+239 1c 4GiB 0"},
	} {
		nodes, err := ParseNodes(test.spec)
		if test.want == "" {
			if err == nil {
				t.Errorf("%s: read as %s, want an error", test.spec, describe(nodes))
			}
			continue
		}
		if got := describe(nodes); err != nil || got != test.want {
			t.Errorf("%s: %s, %v; want %s", test.spec, got, err, test.want)
		}
	}
}

// TestNodesFit registers what a spec describes in a state, which checks inventories.
func TestNodesFit(t *testing.T) {
	nodes, err := ParseNodes("12x32c/256g/8gpu@r1,2x64c/8xH100")
	if err != nil {
		t.Fatal(err)
	}
	s := fsm.New(cluster.DefaultConfig())
	for i, n := range nodes {
		out, err := s.Apply(uint64(i+1), fsm.Entry{Command: fsm.RegisterNode{Node: n}})
		if err != nil {
			t.Fatalf("%s: %v (%v)", n.Name, err, out)
		}
	}
	if got := Capacity(nodes); got != (model.Vector{Cores: 12*32 + 128, Memory: (12*256 + 512) * jobspec.GiB,
		GPUs: 14 * 8 * gpu}) {
		t.Errorf("capacity %+v", got)
	}
}

func TestParseNodesRefuses(t *testing.T) {
	for _, test := range []struct {
		spec   string
		column int
		want   string
	}{
		{"", 1, "is not an amount"},
		{"8gpu", 1, "has no cores"},
		{"32c,", 5, "is not an amount"},
		{"0x32c", 1, "number of nodes is zero"},
		{"99999x32c", 1, "99999 is more than 16384"},
		{"10000x1c,10000x1c", 10, "more than 16384 nodes"},
		{"0c/8gpu", 1, "is zero"},
		{"32c/0g", 5, "is zero"},
		{"32c/-4g", 5, "is not an amount"},
		{"32c/65gpu", 5, "65 is more than 64"},
		{"32c/8q", 5, `unknown unit "q"`},
		{"32c/8", 5, `unknown unit ""`},
		{"32c/64c", 5, "cores are given twice"},
		{"32c/4gpu/8xT4", 10, "GPUs are given twice"},
		{"32c/1g/2g", 8, "sizes of memory are given twice"},
		{"32c/8x", 5, "not the name of a GPU model"},
		{"32c/8gpu:", 5, "not the name of a GPU model"},
		{"32c/8gpu:H 100", 5, "not the name of a GPU model"},
		{"4x32c@", 7, "not the name of a rack"},
		{"4x32c@a/b", 7, "not the name of a rack"},
		{"1x32c,4x32c/9999999999g", 13, "more than 1048576"},
		{"99999999999999999999c", 1, "absurd"},
	} {
		_, err := ParseNodes(test.spec)
		var bad *SpecError
		if !errors.As(err, &bad) || bad.Column != test.column || !strings.Contains(bad.Problem, test.want) {
			t.Errorf("%q: error %v, want one with %q in column %d", test.spec, err, test.want, test.column)
		}
	}
}

func TestReadNodes(t *testing.T) {
	table := "sn,cpu_milli,memory_mib,gpu,model\nnode-0,64000,262144,2,P100\nnode-1,96000,393216,8,G2\n"
	for _, test := range []struct{ name, input, want string }{
		{"table", table, "node-0+0 64c 256GiB 2P100; node-1+0 96c 384GiB 8G2"},
		{"table with racks", "sn,rack,cpu_milli,memory_mib,gpu,model\na,r1,8000,1024,0,\n", "a+0 8c 1GiB 0@r1"},
		{"names", "# the lab\n\nlogin 4c/8g # no GPUs\ng1  32c/8gpu@r1\n",
			"login+0 4c 8GiB 0; g1+0 32c 128GiB 8Simulated@r1"},
		{"specs", "2x4c/8g@r1\n2x8c/1gpu@r2\n", "n00001+1 4c 8GiB 0@r1; n00003+1 8c 32GiB 1Simulated@r2"},
	} {
		nodes, err := ReadNodes(strings.NewReader(test.input))
		if got := describe(nodes); err != nil || got != test.want {
			t.Errorf("%s: %s, %v; want %s", test.name, got, err, test.want)
		}
	}
	nodes, _ := ReadNodes(strings.NewReader("g1 4c/2gpu\n"))
	if len(nodes) != 1 || nodes[0].GPUs[1].UUID != "GPU-SIM-g1-1" {
		t.Errorf("GPUs of g1: %+v", nodes)
	}
}

func TestReadNodesRefuses(t *testing.T) {
	head := "sn,cpu_milli,memory_mib,gpu,model\n"
	for _, test := range []struct{ name, input, want string }{
		{"empty", "", "no node"},
		{"comments", "# nothing\n", "no node"},
		{"bad part", "n1 4c\nn2  4c/8q\n", `nodes, line 2, column 8: "8q": unknown unit "q"`},
		{"twice", "n1 4c\nn1 4c\n", "nodes, line 2: node n1 was on line 1 already"},
		{"three words", "n1 4c 8g\n", "nodes, line 1, column 1: a line must be NAME GROUP"},
		{"name for many", "n1 2x4c\n", "nodes, line 1, column 4: one name stands for 2 nodes"},
		{"bad name", "n/1 4c\n", "nodes, line 1, column 1"},
		{"cores in table", head + "a,500,1,0,\n", "nodes, line 2: column cpu_milli: 500 is less than 1000"},
		{"twice in table", head + "a,1000,1,0,\na,1000,1,0,\n", "nodes, line 3: node a was on line 2 already"},
		{"gpus in table", head + "a,1000,1,65,\n", "65 is more than 64"},
		{"name in table", head + "a b,1000,1,1,\n", "column sn"},
		{"columns of table", "sn,cpu_milli,zone\n", `unknown column "zone"`},
	} {
		_, err := ReadNodes(strings.NewReader(test.input))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.name, err, test.want)
		}
	}
}

// TestNodeNamesSorted keeps the order of nodes by name and by place the same.
func TestNodeNamesSorted(t *testing.T) {
	for _, spec := range []string{"9x1c", "10x1c", "101x1c,7x2c"} {
		nodes, err := ParseNodes(spec)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.IsSortedFunc(nodes, func(a, b model.Node) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("%s: names are not in order", spec)
		}
	}
}
