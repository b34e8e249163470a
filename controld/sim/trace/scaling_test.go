package trace

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func layout(perNode ...int) Layout { return Layout{PerNode: perNode} }

func TestDiminishing(t *testing.T) {
	d := Diminishing{Loss: 50_000}
	for n, want := range map[int]int64{0: 0, 1: 1_000_000, 2: 1_904_761, 4: 3_478_260, 8: 5_925_925} {
		if got := d.Rate(layout(n)); got != want {
			t.Errorf("%d workers: %d, want %d", n, got, want)
		}
	}
	if d.Rate(layout(3, 5)) != d.Rate(layout(8)) {
		t.Error("where workers are changes their speed")
	}
}

func TestCurve(t *testing.T) {
	c, err := ParseCurve("4=3.4 1=1 2=1.9")
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]int64{0: 0, 1: 1_000_000, 2: 1_900_000, 3: 2_650_000, 4: 3_400_000, 5: 3_400_000,
		4000: 3_400_000} {
		if got := c.Rate(layout(n)); got != want {
			t.Errorf("%d workers: %d, want %d", n, got, want)
		}
	}
	c, err = ParseCurve("4=2")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Rate(layout(1)); got != 500_000 {
		t.Errorf("one of four measured workers: %d, want a quarter of their rate", got)
	}
	for _, bad := range []string{"", "1", "x=1", "0=1", "1=0", "1=x", "1=-1", "1=1e9", "1=1 1=2", "4097=1", "1=1,2=2"} {
		if _, err := ParseCurve(bad); err == nil {
			t.Errorf("ParseCurve(%q) has no error", bad)
		}
	}
}

func TestLocality(t *testing.T) {
	l, err := ParseLocality("node=0.9 across=0.5")
	if err != nil {
		t.Fatal(err)
	}
	if l != (Locality{0, 900_000, 900_000, 500_000}) {
		t.Errorf("got %v: what is not named is as the nearer one", l)
	}
	j := Job{Workers: 2, Locality: l}
	for s, want := range map[Spread]int64{OneIsland: 1_000_000, OneNode: 900_000, OneRack: 900_000, Across: 500_000,
		Spread(9): 500_000} {
		if got := j.Rate(Layout{PerNode: []int{1, 1}, Spread: s}); got != want {
			t.Errorf("%v: %d, want %d", s, got, want)
		}
	}
	for _, bad := range []string{"node", "node=0", "node=1.1", "node=-1", "node=x", "nowhere=1", "rack=1 rack=1"} {
		if _, err := ParseLocality(bad); err == nil {
			t.Errorf("ParseLocality(%q) has no error", bad)
		}
	}
}

// TestLinear: without a speed in the trace, a job is as fast as it has workers.
func TestLinear(t *testing.T) {
	j := Job{Workers: 4}
	for n, want := range map[int]int64{0: 0, 1: 250_000, 4: FullRate, 8: 2 * FullRate} {
		if got := j.Rate(layout(n)); got != want {
			t.Errorf("%d workers: %d, want %d", n, got, want)
		}
	}
}

func TestAlone(t *testing.T) {
	for _, test := range []struct {
		j    Job
		want int64
	}{
		{Job{Work: 5000, Workers: 4}, 5000},
		{Job{Work: 5000, Workers: 2, Scaling: Diminishing{Loss: 50_000}}, 2625},
		{Job{Work: 5000, Workers: 2, Locality: Locality{0, 900_000, 500_000, 500_000}}, 5000},
		{Job{Work: 1, Workers: 100, Scaling: Curve{{1, FullRate}, {100, 100 * FullRate}}}, 1},
	} {
		if got := test.j.Alone(); got != test.want {
			t.Errorf("%+v alone takes %d ms, want %d", test.j, got, test.want)
		}
	}
}

// TestProfileByHand compares steps of the toy profile with values worked out by hand.
func TestProfileByHand(t *testing.T) {
	f := toyProfiles(t).ofApplication("toy")
	const ms = 1_000_000
	for _, test := range []struct {
		what    string
		perNode []int
		batch   int64
		want    int64 // ns
	}{
		{"nobody", nil, 64, 0},
		{"no worker on a node", []int{0}, 64, 0},
		{"as measured", []int{1}, 16, 200 * ms},
		{"half way between two batches", []int{1}, 12, 150 * ms},
		{"below the smallest batch", []int{4}, 4, 140 * ms},
		{"two passes of 16: the exchange once", []int{1}, 32, (200 + 199) * ms},
		{"the order of nodes does not matter", []int{0, 1, 0, 1}, 32, 280 * ms},
		{"three on a node: between two and four", []int{3}, 24, 130 * ms},
		{"five on one node count as four and one", []int{5}, 40, 190 * ms},
		{"six nodes: between four and eight", []int{1, 1, 1, 1, 1, 1}, 48, 250 * ms},
		{"more nodes than measured", []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 80, 300 * ms},
		{"between counts on many nodes", []int{2, 2, 2, 2, 2, 2, 2, 2}, 128, 400 * ms},
	} {
		got := f.iteration(test.perNode, test.batch)
		if got < test.want-2 || got > test.want+2 {
			t.Errorf("%s: %d ns, want %d", test.what, got, test.want)
		}
	}
}

// TestProfileFallsBack interpolates between placements when a number of nodes was not measured.
func TestProfileFallsBack(t *testing.T) {
	p := &Profiles{}
	if err := p.Add("x/placements.csv",
		strings.NewReader("placement,local_bsz,step_time,sync_time\n1,8,0.1,0\n1111,8,0.4,0.1\n")); err != nil {
		t.Fatal(err)
	}
	got := p.ofApplication("x").iteration([]int{1, 1}, 16)
	if got != 200_000_000 {
		t.Errorf("two nodes between one and four: %d ns, want 200 ms", got)
	}
}

func TestProfileRefuses(t *testing.T) {
	head := "placement,local_bsz,step_time,sync_time\n"
	for _, test := range []struct{ name, input, want string }{
		{"bert/placements.csv", head + "1,8,0.1,0.2\n", "line 2: column sync_time: is not less than step_time"},
		{"bert/placements.csv", head + "10,8,0.1,0\n", `line 2: column placement: "10"`},
		{"bert/placements.csv", head + "1,0,0.1,0\n", "local_bsz: is zero"},
		{"bert/placements.csv", head + "1,8,0,0\n", "step_time: is zero"},
		{"bert/placements.csv", head + "1,8,2000,0\n", "2000 is more than 1000"},
		{"bert/placements.csv", "placement\n", `column "local_bsz" is missing`},
		{"bert/scalability.csv", "num_nodes,num_replicas,local_bsz,step_time,sync_time\n8,4,8,1,0\n", "4 workers on 8 nodes"},
		{"bert/validation-12.csv", "progress,iteration\n1,10\n2,5\n", "line 3: iteration 5 after 10"},
		{"bert/validation-12.csv", "progress,iteration\n", "no epoch"},
		{"bert/validation-x.csv", "", "the batch in its name"},
		{"bert/notes.txt", "", "must be placements.csv"},
		{"placements.csv", head, "lacks the folder"},
	} {
		err := (&Profiles{}).Add(test.name, strings.NewReader(test.input))
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.name) {
			t.Errorf("%s %q: error %v, want one with %q", test.name, test.input, err, test.want)
		}
	}
}

// TestApps names applications by the folder of their files, and only those whose files were read.
func TestApps(t *testing.T) {
	p := toyProfiles(t)
	if err := p.Add("/a/b/other/validation-8.csv", strings.NewReader("iteration\n5\n")); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(slices.Sorted(maps.Keys(p.apps)), " "); got != "other toy" {
		t.Errorf("applications %q", got)
	}
	if err := p.Add("broken/placements.csv", strings.NewReader("x\n")); err == nil || len(p.apps) != 2 {
		t.Errorf("a refused file (%v) left %v", err, p.apps)
	}
}
