package fit

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

var seedFlag = flag.Uint64("seed", 0, "play only the random case with this seed")

// eachSeed calls test with many seeds, or with the one that -seed names.
func eachSeed(t *testing.T, n uint64, test func(seed uint64) error) {
	t.Helper()
	first, last := uint64(1), n
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag
	}
	for seed := first; seed <= last; seed++ {
		if err := test(seed); err != nil {
			t.Fatalf("seed=%d: %v", seed, err)
		}
	}
}

// small is a random cluster of few nodes, part of which is taken and part claimed.
type small struct {
	random *rand.Rand
	state  *fsm.Machine
	index  uint64
}

var models = [...]string{"A100", "H100"}

func newSmall(seed uint64, ports int) *small {
	s := &small{random: rand.New(rand.NewPCG(seed, 1)), state: fsm.New(cluster.DefaultConfig())}
	for n := range 1 + s.random.IntN(4) {
		node := model.Node{
			Name: fmt.Sprintf("n%d", n), Addr: "127.0.0.1:1", BootID: "boot", Version: "test",
			Cores:  int64(1 + s.random.IntN(8)),
			Labels: map[string]string{"rack": fmt.Sprint(s.random.IntN(2))},
			Memory: jobspec.Bytes(1+s.random.IntN(8)) * jobspec.GiB, PortMin: 29000,
			PortMax: 28999 + max(1, s.random.IntN(ports+1)),
		}
		for i := range s.random.IntN(6) {
			node.GPUs = append(node.GPUs, model.GPU{UUID: fmt.Sprintf("GPU-%d-%d", n, i), Model: models[s.random.IntN(2)],
				Minor: -1, Healthy: s.random.IntN(8) > 0})
		}
		s.apply(fsm.RegisterNode{Node: node})
	}
	for range s.random.IntN(6) {
		s.occupy()
	}
	return s
}

func (s *small) apply(c fsm.Command) any {
	s.index++
	result, err := s.state.Apply(s.index, fsm.Entry{Stamp: model.Stamp{At: 1, Wall: 1}, Command: c})
	if err != nil {
		panic(fmt.Sprintf("%s: %v", c.Kind(), err))
	}
	return result
}

func (s *small) submit(workers, perNode int, r jobspec.Resources) *model.Job {
	return s.submitGroups(&jobspec.Job{}, group(workers, perNode, r))
}

func group(workers, perNode int, r jobspec.Resources) jobspec.Group {
	return jobspec.Group{Count: workers, MaxWorkersPerNode: perNode, Tasks: []jobspec.Task{{Name: "main",
		Command: []string{"true"}, Resources: r}}}
}

func (s *small) submitGroups(spec *jobspec.Job, groups ...jobspec.Group) *model.Job {
	spec.Name, spec.Workdir, spec.Groups = "j", "/", groups
	for i := range groups {
		groups[i].Name = fmt.Sprint("g", i)
	}
	c := fsm.SubmitJobs{Owner: model.Identity{UID: 1, User: "ada"}, Jobs: []*jobspec.Job{spec}}
	ids := s.apply(c).([]model.JobID)
	return s.state.View().Job(ids[0])
}

// occupy starts a job on a random node with random GPUs, or claims room there for it; the state
// refuses what does not fit.
func (s *small) occupy() {
	nodes := s.state.View().Nodes()
	n := nodes[s.random.IntN(len(nodes))]
	j := s.submit(1, 1, jobspec.Resources{Cores: 1 + s.random.IntN(3), Memory: jobspec.GiB, GPUs: s.random.IntN(3)})
	if s.random.IntN(4) == 0 {
		claim := model.Claim{Node: n.Name, Resources: j.Request.Active}
		s.apply(fsm.CommitPlan{Actions: []fsm.Action{&fsm.Reserve{Job: j.ID,
			Claims: []model.Claim{claim}, Until: 1000}}})
		return
	}
	gpus := s.random.Perm(max(1, len(n.GPUs)))[:min(int(j.Request.Active.GPUs/1000), len(n.GPUs))]
	port, _ := s.state.View().FreePort(n.Name)
	place := model.Place{Node: n.Name, GPUs: gpus}
	s.apply(fsm.CommitPlan{Actions: []fsm.Action{&fsm.StartJob{Job: j.ID,
		Places: []model.Place{place}, Port: port}}})
}

func (s *small) gang() Gang {
	r := jobspec.Resources{Cores: 1 + s.random.IntN(2), Memory: jobspec.GiB, GPUs: s.random.IntN(4)}
	if s.random.IntN(4) == 0 {
		r.GPU = &jobspec.GPU{Model: models[s.random.IntN(2)]}
	}
	one, spec := group(1+s.random.IntN(5), 1+s.random.IntN(3), r), &jobspec.Job{}
	one.Exclusive = s.random.IntN(6) == 0
	if s.random.IntN(4) == 0 {
		spec.Constraints = []jobspec.Constraint{{Attribute: "node.label.rack", Value: "1"}}
	}
	if s.random.IntN(4) == 0 {
		spec.Affinities = []jobspec.Affinity{{Constraint: jobspec.Constraint{Attribute: "node.cores", Operator: ">",
			Value: "4"}, Weight: s.random.IntN(21) - 10}}
	}
	g := NewGang(s.state.View(), s.submitGroups(spec, one))
	if s.random.IntN(3) == 0 {
		g.Exclude = []int{s.random.IntN(len(s.state.View().Nodes()))}
	}
	return g
}

// fewest tries every way of spreading a gang's workers over the nodes, one after another. It
// returns the smallest sufficient number of nodes, 0 if none suffices. It knows nothing of buckets,
// order or preference.
func fewest(v *state.View, g Gang, node, left int, met bool) int {
	if left == 0 {
		if met || g.Workers == 1 {
			return 1 // one more than needed, so that 0 can mean none
		}
		return 0
	}
	if node == len(v.Nodes()) {
		return 0
	}
	best := fewest(v, g, node+1, left, met)
	if slices.Contains(g.Exclude, node) || !wanted(v.Nodes()[node], g.Constraints) {
		return best
	}
	_, port := v.FreePort(v.Nodes()[node].Name)
	for w := 1; w <= min(g.PerNode, left); w++ {
		if grid.Fits(v.Grid(), node, g.Request.Times(w), nil) != nil {
			break
		}
		if n := fewest(v, g, node+1, left-w, met || port); n > 0 && (best == 0 || n+1 < best) {
			best = n + 1
		}
	}
	return best
}

// wanted says of a node whether it meets what gang demands, by looking for the words of it.
func wanted(n *model.Node, where string) bool {
	for _, name := range models {
		other := slices.ContainsFunc(n.GPUs, func(g model.GPU) bool { return g.Healthy && g.Model != name })
		has := slices.ContainsFunc(n.GPUs, func(g model.GPU) bool { return g.Model == name })
		if strings.Contains(where, name) && (other || !has) {
			return false
		}
	}
	return !strings.Contains(where, "rack") || n.Labels["rack"] == "1"
}

// The search agrees with the one that tries everything, also where ports are short, and the state
// takes what it finds.
func TestPlaceAgainstReference(t *testing.T) {
	placed := 0
	eachSeed(t, 3000, func(seed uint64) error {
		ports := 50
		if seed%3 == 0 {
			ports = 2
		}
		s := newSmall(seed, ports)
		g := s.gang()
		v := s.state.View()
		room := NewRoom(v)
		spots, ok := room.Place(&g)
		want := fewest(v, g, 0, g.Workers, false) - 1
		if ok != (want > 0) || ok != room.Fits(&g) {
			return fmt.Errorf("placed %v, fits %v, the reference needs %d nodes for %+v", ok, room.Fits(&g), want, g)
		}
		if !ok {
			return nil
		}
		placed++
		nodes := map[int]bool{}
		for _, spot := range spots {
			nodes[spot.Node] = true
		}
		if ports == 50 && len(nodes) != want {
			return fmt.Errorf("%d nodes, %d would do, for %+v: %v", len(nodes), want, g, spots)
		}
		return s.commit(room, g, spots)
	})
	if *seedFlag == 0 && (placed < 500 || placed > 2900) {
		t.Errorf("only %d of 3000 cases were placed: they prove too little", placed)
	}
}

func (s *small) commit(room *Room, g Gang, spots []Spot) error {
	start := &fsm.StartJob{Job: g.For, Port: room.Take(&g, spots)}
	for _, spot := range spots {
		start.Places = append(start.Places, model.Place{Node: s.state.View().Nodes()[spot.Node].Name, GPUs: spot.GPUs,
			Port: spot.Port})
	}
	errs := s.apply(fsm.CommitPlan{Actions: []fsm.Action{start}}).([]error)
	if errs[0] != nil {
		return fmt.Errorf("the state refused %+v: %w", start, errs[0])
	}
	return s.state.Check()
}

// A single worker gets one of its preferred nodes: the one with the fewest sufficient free GPUs,
// then the first by name.
func TestPlaceBestFit(t *testing.T) {
	eachSeed(t, 1000, func(seed uint64) error {
		s := newSmall(seed, 50)
		g := s.gang()
		g.Workers, g.PerNode = 1, 1
		v := s.state.View()
		best := -1
		better := func(a, b int) bool {
			if x, y := score(g, v.Nodes()[a]), score(g, v.Nodes()[b]); x != y {
				return x > y
			}
			return v.Grid().Free(a).GPUs < v.Grid().Free(b).GPUs
		}
		for i, n := range v.Nodes() {
			if slices.Contains(g.Exclude, i) || !wanted(n, g.Constraints) || grid.Fits(v.Grid(), i, g.Request, nil) != nil {
				continue
			}
			if best < 0 || better(i, best) {
				best = i
			}
		}
		spots, ok := NewRoom(v).Place(&g)
		if ok != (best >= 0) || ok && spots[0].Node != best {
			return fmt.Errorf("got %v, want node %d", spots, best)
		}
		return nil
	})
}

// score reads the only preference that a gang can have.
func score(g Gang, n *model.Node) int {
	weight := 0
	if _, err := fmt.Sscanf(g.Affinities, "%d node.cores", &weight); err != nil || n.Cores <= 4 {
		return 0
	}
	return weight
}

func TestPick(t *testing.T) {
	tests := []struct {
		free []int
		n    int
		want []int
	}{
		{[]int{0, 1, 2, 3}, 2, []int{0, 1}},
		{[]int{0, 1, 2, 5, 6}, 2, []int{5, 6}},
		{[]int{0, 2, 3, 4}, 1, []int{0}},
		{[]int{0, 2, 4}, 2, []int{0, 2}},
		{[]int{1, 3, 4, 5}, 3, []int{3, 4, 5}},
		{[]int{1}, 2, nil},
		{[]int{1}, 0, nil},
	}
	for _, test := range tests {
		if got := pick(test.free, test.n); !slices.Equal(got, test.want) {
			t.Errorf("pick(%v, %d) = %v, want %v", test.free, test.n, got, test.want)
		}
	}
}

// The holder of a reservation sees the room that is claimed for it and by later reservations, and
// afterwards all is as before.
func TestLiftedClaims(t *testing.T) {
	eachSeed(t, 300, func(seed uint64) error {
		s := newSmall(seed, 50)
		v := s.state.View()
		for _, own := range v.Reservations() {
			room := NewRoom(v)
			var want grid.Grid
			want.CopyFrom(v.Grid())
			v.LiftClaims(&want, own.Job)
			lifted := room.Lift(own.Job)
			for i := range v.Nodes() {
				if room.grid.Claimed(i) != want.Claimed(i) {
					return fmt.Errorf("job %d, node %d: claimed %v, want %v", own.Job, i, room.grid.Claimed(i), want.Claimed(i))
				}
			}
			lifted.Restore()
			for i := range v.Nodes() {
				if room.grid.Claimed(i) != v.Grid().Claimed(i) {
					return fmt.Errorf("node %d: claimed %v after restoring, want %v", i, room.grid.Claimed(i), v.Grid().Claimed(i))
				}
			}
		}
		return nil
	})
}
