package state

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/jobspec"
)

// step opens an entry of the log on the small cluster, changes something, and checks every invariant.
func (s *scene) step(t *testing.T, change func()) {
	t.Helper()
	if err := s.s.Begin(s.s.v.index+1, model.Stamp{At: s.s.v.at + 1000, Wall: s.s.v.wall + 1000}); err != nil {
		t.Fatal(err)
	}
	change()
	s.s.End()
	if err := errors.Join(s.auditor.Check(), s.s.Check()); err != nil {
		t.Fatal(err)
	}
}

// events lists what has happened since an index, without where and when.
func (s *scene) events(after uint64) string {
	var list []string
	for _, e := range s.s.v.Events(after) {
		list = append(list, strings.TrimSpace(fmt.Sprint(e.Type, " ", e.Node)))
	}
	return strings.Join(list, ", ")
}

// TestTheLogsClock never goes back, whatever a leader's clock says, and never shows 0.
func TestTheLogsClock(t *testing.T) {
	s := New(cluster.DefaultConfig())
	for i, c := range []struct {
		index uint64
		at    model.Instant
		fails bool
		want  model.Instant
	}{{5, 0, false, 1}, {6, 100, false, 100}, {6, 200, true, 100}, {5, 200, true, 100}, {7, 50, false, 100},
		{9, 101, false, 101}} {
		err := s.Begin(c.index, model.Stamp{At: c.at, Wall: model.UnixMS(i)})
		if errors.Is(err, model.ErrOldIndex) != c.fails || s.At() != c.want || s.v.At() != c.want || s.Now().At != c.want {
			t.Errorf("entry %d at %d: %d, %v", c.index, c.at, s.At(), err)
		}
		if !c.fails && (s.Index() != c.index || s.Now().Wall != model.UnixMS(i)) {
			t.Errorf("entry %d: index %d, stamp %+v", c.index, s.Index(), s.Now())
		}
	}
	if first, next := s.GiveIDs(3), s.GiveIDs(1); first != 1 || next != 4 || s.View().LastJob() != 4 {
		t.Errorf("ids from %d, then from %d; the last is %d", first, next, s.View().LastJob())
	}
	if a, b := s.NextSeq(), s.NextSeq(); a != 1 || b != 2 {
		t.Errorf("history numbers %d and %d", a, b)
	}
}

// TestAViewIsMadeOnce for each index, and a later one is another.
func TestAViewIsMadeOnce(t *testing.T) {
	s := newScene(t)
	first := s.s.View()
	if s.s.View() != first {
		t.Error("two views of one index")
	}
	s.step(t, func() { s.s.Unreserve(9) })
	if s.s.View() == first || len(first.Reservations()) != 1 || len(s.s.View().Reservations()) != 0 {
		t.Error("a view shows what came later")
	}
	if s.s.Present().Index() != s.s.View().Index() {
		t.Error("the present is not the newest view")
	}
}

// TestNodesThatRegister put nodes before, between and behind those that there are: what runs stays
// where it is, although positions change.
func TestNodesThatRegister(t *testing.T) {
	s := newScene(t)
	for _, name := range []string{"n9", "n0", "n22", "n1a"} {
		before := s.s.v.index
		s.step(t, func() {
			n := &model.Node{Name: name, Cores: 8, Memory: 16 * jobspec.GiB, GPUs: []model.GPU{{UUID: name, Healthy: true}},
				State: model.NodeDrained, Reason: "old", Drained: true}
			if err := s.s.AddNode(n); err != nil {
				t.Fatal(err)
			}
			if n.State != model.NodeUp || n.Reason != "" || n.Drained || n.Since.At != s.s.v.at {
				t.Errorf("%s is %+v", name, n)
			}
		})
		v := s.s.View()
		run := desired(v, "n1") + " " + desired(v, "n2") + " " + desired(v, "n3") + desired(v, name)
		if run != "1/0 1/1 4/0" {
			t.Errorf("after %s the nodes should run %s", name, run)
		}
		if got := s.events(before); !strings.HasSuffix(got, " "+name) {
			t.Errorf("events %s", got)
		}
		if v.NodeModified(name) != v.Index() || fmt.Sprint(v.PortsUsed("n1")) != "[20000]" {
			t.Errorf("%s has changed at %d; ports of n1 %v", name, v.NodeModified(name), v.PortsUsed("n1"))
		}
	}
	var names []string
	for _, n := range s.s.v.nodes {
		names = append(names, n.Name)
	}
	if got := strings.Join(names, " "); got != "n0 n1 n1a n2 n22 n3 n9" {
		t.Errorf("nodes %s", got)
	}
	if inv := s.s.v.inventory; inv.All.Cores != 96+4*8 || inv.Up.GPUs != 28_000 ||
		inv.WithGPUs.Memory != (3*256+4*16)*1024 {
		t.Errorf("nodes have %+v", *inv)
	}
	down := *s.s.v.nodes[0]
	down.State = model.NodeDown
	s.step(t, func() { s.s.ReplaceNode(0, &down) })
	if inv := s.s.v.inventory; inv.All.GPUs != 28_000 || inv.Up.GPUs != 27_000 || inv.Up.Cores != 96+3*8 {
		t.Errorf("with a node that is down, nodes have %+v", *inv)
	}
	s.s.v.nodes = make([]*model.Node, model.MaxNodes)
	var limit *model.LimitError
	if err := s.s.AddNode(&model.Node{Name: "one more"}); !errors.As(err, &limit) || limit.Asked != model.MaxNodes+1 {
		t.Errorf("a node too many: %v", err)
	}
}

// TestAnInventoryKeepsWhatIsInUse: a node that says it has less than its workers hold is not
// believed, as long as it is of the same boot.
func TestAnInventoryKeepsWhatIsInUse(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(n *model.Node) // n1, on which job 1 holds 4 cores, 8 GiB and GPUs 0 and 1
		want string
	}{
		{"the same", func(*model.Node) {}, ""},
		{"less, but enough", func(n *model.Node) { n.Cores, n.Memory, n.GPUs = 4, 8*jobspec.GiB, n.GPUs[:2] }, ""},
		{"another GPU that is free", func(n *model.Node) { n.GPUs[2].UUID = "new" }, ""},
		{"a core too few", func(n *model.Node) { n.Cores = 3 }, "the node has fewer cores or less memory than its jobs hold"},
		{"a byte too few", func(n *model.Node) { n.Memory = 8*jobspec.GiB - 1 }, "fewer cores or less memory"},
		{"a GPU too few", func(n *model.Node) { n.GPUs = n.GPUs[:1] }, "GPU 1 (n1-1) is in use, but missing at its index"},
		{"another GPU in its place", func(n *model.Node) { n.GPUs[0].UUID = "new" }, "GPU 0 (n1-0) is in use, but missing"},
		{"two GPUs that changed places", func(n *model.Node) { n.GPUs[1], n.GPUs[2] = n.GPUs[2], n.GPUs[1] }, "GPU 1 (n1-1)"},
	} {
		s := newScene(t)
		next := *s.s.v.nodes[0]
		next.GPUs = slices.Clone(next.GPUs)
		c.edit(&next)
		err := s.s.CheckHeld(0, &next)
		var refused *model.InventoryError
		if (err == nil) != (c.want == "") || err != nil && (!errors.As(err, &refused) || refused.Node != "n1" ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil {
			s.step(t, func() { s.s.ReplaceNode(0, &next) })
		}
	}
}

// TestAShorterLease counts for what is told of it: what was told before may run as long as before.
func TestAShorterLease(t *testing.T) {
	s := newScene(t)
	n := s.s.v.nodes[0] // silent since 1,000
	config := func(lease int64, version int) {
		s.step(t, func() {
			before := s.s.v.config
			cfg := *before
			cfg.LeaseMS, cfg.Version = lease, version
			s.s.SetConfig(&cfg)
			s.s.AddConfigVersion(before, "root", "")
		})
	}
	if at := s.s.v.LostAt(n); at != 1000+630_000 {
		t.Errorf("at first it is lost at %d", at)
	}
	config(900_000, 3)
	if at := s.s.v.LostAt(n); at != 1000+930_000 || s.s.v.leasedUntil != 0 {
		t.Errorf("with a longer lease it is lost at %d", at)
	}
	config(100_000, 2)
	if at := s.s.v.LostAt(n); at != 13_000+930_000 || s.s.v.config.Version != 3 {
		t.Errorf("with a shorter one at %d; version %d", at, s.s.v.config.Version)
	}
	config(50_000, 3)
	if at := s.s.v.LostAt(n); at != 13_000+930_000 {
		t.Errorf("with an even shorter one at %d", at)
	}
	empty := New(cluster.DefaultConfig())
	cfg := *empty.v.config
	cfg.LeaseMS = 1
	if empty.SetConfig(&cfg); empty.v.leasedUntil != 0 {
		t.Errorf("without any attempt leases last until %d", empty.v.leasedUntil)
	}
}

// TestHistoryIsTrimmed drops finished jobs, and tells those that follow the changes.
func TestHistoryIsTrimmed(t *testing.T) {
	s := newScene(t)
	s.s.TrackChanges()
	weight := s.s.v.Weight()
	s.step(t, func() { s.s.TrimHistory(0) })
	if s.s.v.Trimmed() != 0 || s.s.v.Job(2) == nil {
		t.Error("nothing was to be trimmed")
	}
	s.step(t, func() { s.s.TrimHistory(100) })
	if s.s.v.Trimmed() != 1 || s.s.v.Job(2) != nil || len(s.s.v.Finished(0)) != 0 || s.s.v.Weight() != weight-1 {
		t.Errorf("trimmed up to %d, weight %d", s.s.v.Trimmed(), s.s.v.Weight())
	}
	if ids, all := s.s.ChangedJobs(); fmt.Sprint(ids, all) != "[2] true" {
		t.Errorf("changed jobs %d, %t", ids, all)
	}
	if ids, all := s.s.ChangedJobs(); len(ids) != 0 || !all {
		t.Errorf("once more: %d, %t", ids, all)
	}
	for range maxChangedJobs {
		s.s.changedJobs.add(1)
	}
	if ids, all := s.s.ChangedJobs(); len(ids) != maxChangedJobs || !all {
		t.Errorf("as many as are remembered: %d, %t", len(ids), all)
	}
	for range maxChangedJobs + 2 {
		s.s.changedJobs.add(1)
	}
	if ids, all := s.s.ChangedJobs(); len(ids) != 0 || all {
		t.Errorf("more: %d, %t", len(ids), all)
	}
	if s.s.changedJobs.add(7); len(s.s.changedJobs.ids) != 1 {
		t.Error("after that nothing is remembered any more")
	}
	silent := newScene(t)
	silent.step(t, func() { silent.s.TrimHistory(1) })
	if ids, all := silent.s.ChangedJobs(); len(ids) != 0 || !all {
		t.Errorf("without being asked: %d, %t", ids, all)
	}
}

// TestRoomIsReservedOnce replaces the reservation of a job, and drops it.
func TestRoomIsReservedOnce(t *testing.T) {
	s := newScene(t)
	claim := func(node string, gpus int64) []model.Claim {
		return []model.Claim{{Node: node, Resources: model.Vector{GPUs: gpus}}}
	}
	claimed := func() string {
		g := s.s.v.grid
		return fmt.Sprint(g.Claimed(0).GPUs, " ", g.Claimed(1).GPUs, " ", g.Claimed(2).GPUs)
	}
	begin := s.s.v.index
	if got := claimed(); got != "0 0 1000" {
		t.Errorf("at first %s are claimed", got)
	}
	s.step(t, func() { s.s.Reserve(&model.Reservation{Job: 9, Claims: claim("n2", 2000), Until: 1 << 40}) })
	s.step(t, func() { s.s.Reserve(&model.Reservation{Job: 8, Claims: claim("n1", 3000), Until: 1 << 40}) })
	if got := claimed(); got != "3000 2000 0" || s.s.v.Reservations()[0].Job != 8 ||
		s.s.v.Reservation(9).Claims[0].Node != "n2" {
		t.Errorf("then %s", got)
	}
	lifted := s.s.v.LiftClaims(s.s.ownGrid(), 9) // those of the job itself, and of later ones, do not bind it
	if got := claimed(); !strings.HasSuffix(got, " 0 0") {
		t.Errorf("for job 9 %s are claimed", got)
	}
	if lifted.Restore(); claimed() != "3000 2000 0" {
		t.Errorf("afterwards %s", claimed())
	}
	s.step(t, func() { s.s.Unreserve(8); s.s.Unreserve(8); s.s.Unreserve(1) })
	s.step(t, func() { s.s.Unreserve(9) })
	if got := claimed(); got != "0 0 0" || len(s.s.v.Reservations()) != 0 {
		t.Errorf("in the end %s", got)
	}
	if got := s.events(begin); strings.Count(got, "reserved") != 4 || strings.Count(got, "unreserved") != 2 {
		t.Errorf("events %s", got)
	}
}

// TestAStartTakesAllRoomOrNone of its places, and hands back what it took when the last does not fit.
func TestAStartTakesAllRoomOrNone(t *testing.T) {
	s := newScene(t)
	place := func(node string, gpus ...int) model.Place { return model.Place{Node: node, GPUs: gpus} }
	free := func() string {
		g := s.s.v.grid
		return fmt.Sprint(g.Free(0).GPUs, " ", g.Free(1).GPUs, " ", g.Free(2).GPUs)
	}
	before := free()
	gang := *s.follows
	gang.Workers = 3
	var fit *model.FitError
	err := s.s.Occupy(&gang, 0, []model.Place{place("n1", 2), place("n2", 2), place("n3", 0)}, []int{0, 1, 2})
	if !errors.As(err, &fit) || fit.Job != 8 || free() != before {
		t.Errorf("a GPU that is in use: %v, free %s, %s before", err, free(), before)
	}
	if err := errors.Join(s.auditor.Check(), s.s.Check()); err != nil {
		t.Error(err)
	}
	all := []model.Place{place("n1", 2), place("n2", 2), place("n3", 1)}
	if err := s.s.Occupy(&gang, 0, all, []int{0, 1, 2}); err != nil || free() == before {
		t.Errorf("free GPUs: %v, free %s", err, free())
	}
	if err := grid.Fits(s.s.v.grid, 0, gang.RequestOf(0), []int{2}); err == nil {
		t.Error("what was taken is free")
	}
	// the room that is reserved for job 9 may be taken for it alone
	full := *s.follows
	full.Request.Active.GPUs, full.Request.Resident.GPUs = 6000, 6000
	rest := place("n3", 2, 3, 4, 5, 6, 7)
	if err := s.s.Occupy(&full, 0, []model.Place{rest}, []int{2}); !errors.As(err, &fit) {
		t.Errorf("room that is reserved for another job: %v", err)
	}
	if err := s.s.Occupy(&full, 9, []model.Place{rest}, []int{2}); err != nil {
		t.Errorf("room that is reserved for it: %v", err)
	}
}

// TestRoomThatIsHeld is noted on its node with its ports, in order, and given back.
func TestRoomThatIsHeld(t *testing.T) {
	s := newScene(t)
	if err := s.s.Begin(30, model.Stamp{At: 50_000}); err != nil {
		t.Fatal(err)
	}
	for _, h := range []struct {
		worker int
		ports  []int
	}{{5, []int{20003}}, {3, []int{20002, 20001}}, {4, nil}} {
		s.s.Hold(0, 1, h.worker, h.ports)
	}
	got := fmt.Sprint(s.s.v.HeldOn(0), s.s.v.PortsUsed("n1"))
	if got != "[{1 0} {1 3} {1 4} {1 5}] [20000 20001 20002 20003]" {
		t.Errorf("n1 holds %s", got)
	}
	if _, ok := s.s.v.FreePort("n1"); ok || s.s.v.NodeModified("n1") != 30 || s.s.v.NodeModified("n2") != 20 {
		t.Errorf("n1 has a port left, or has not changed: %d", s.s.v.NodeModified("n1"))
	}
	request := s.run.RequestOf(0)
	s.s.Vacate(s.run, 0, request, &s.run.Live().Workers[0].Place, true)
	if at := s.s.v.FreedAt(0); at != 1000 {
		t.Errorf("room that is taken again at once is free since %d", at)
	}
	s.s.Vacate(s.run, 1, request, &s.run.Live().Workers[1].Place, false)
	if at := s.s.v.FreedAt(1); at != 50_000 || len(s.s.v.HeldOn(1)) != 0 || s.s.v.grid.Free(1).GPUs != 8000 {
		t.Errorf("room is free since %d; %v", at, s.s.v.HeldOn(1))
	}
	s.s.FreePorts(s.run.Live())
	if got := fmt.Sprint(s.s.v.PortsUsed("n1")); got != "[20001 20002 20003]" {
		t.Errorf("ports %s are left", got)
	}
	if err := s.s.Begin(31, model.Stamp{At: 50_000}); err != nil {
		t.Fatal(err)
	}
	s.s.TouchNodesOf(s.task.Live())
	if a, b := s.s.v.NodeModified("n3"), s.s.v.NodeModified("n2"); a != 31 || b != 30 {
		t.Errorf("n3 has changed at %d, n2 at %d", a, b)
	}
}

// TestAccountsAndTokensAreInOrder however they come.
func TestAccountsAndTokensAreInOrder(t *testing.T) {
	s := newScene(t)
	before := s.s.View()
	var accounts, tokens []string
	s.step(t, func() {
		for _, name := range []string{"m", "z", "a", "n"} {
			s.s.AddAccount(&cluster.CreatedAccount{Name: name})
			s.s.AddAPIToken(&trust.APIToken{ID: name, Digest: strings.Repeat("00", 32), Scope: "read",
				User: model.Identity{User: "u"}})
		}
		for _, g := range []cluster.GroupAccount{{GID: 7, Account: "gid-7"}, {GID: 2, Account: "a"}, {GID: 9, Account: "n"},
			{GID: 7, Account: "m"}} {
			s.s.SetGroupAccount(g)
		}
	})
	if got := fmt.Sprint(s.s.v.groupAccounts, before.GroupAccounts(), s.s.v.AccountOfGroup(7),
		s.s.v.AccountOfGroup(8)); got !=
		"[{2 a} {7 m} {9 n}] 0m" {
		t.Errorf("accounts of groups: %s", got)
	}
	s.step(t, func() { s.s.DropTokens(func(t *trust.APIToken) bool { return t.ID == "m" }) })
	for _, a := range s.s.v.CreatedAccounts() {
		accounts = append(accounts, a.Name)
	}
	for _, a := range s.s.v.APITokens() {
		tokens = append(tokens, a.ID)
	}
	if got := fmt.Sprint(accounts, tokens); got != "[a m n z] [a n z]" {
		t.Errorf("got %s", got)
	}
	v := s.s.v
	if v.APIToken("n").ID != "n" || v.APIToken("m") != nil || v.APIToken("zz") != nil || !v.KnowsAccount("m") ||
		v.KnowsAccount("b") || v.KnowsAccount("zz") || len(before.APITokens()) != 0 {
		t.Error("what is found is not what was added")
	}
	cfg := *v.config
	cfg.Accounts = map[string]cluster.Account{"b": {}}
	if s.s.v.config = &cfg; !s.s.v.KnowsAccount("b") {
		t.Error("a configured account is not known")
	}
}

// TestKeysAreKeptForADay finds a submission again by its key, refuses the key of another one, and
// forgets it.
func TestKeysAreKeptForADay(t *testing.T) {
	s := newScene(t)
	ids, err := s.s.SubmittedWithKey(1000, "k17", "d")
	if err != nil || fmt.Sprint(ids) != "[8]" {
		t.Errorf("%d, %v", ids, err)
	}
	if _, err := s.s.SubmittedWithKey(1000, "k17", "another"); !errors.Is(err, model.ErrKeyReused) {
		t.Errorf("another submission: %v", err)
	}
	if ids, err := s.s.SubmittedWithKey(1001, "k17", "d"); ids != nil || err != nil {
		t.Errorf("another user's key: %d, %v", ids, err)
	}
	s.step(t, func() { s.s.RememberKey(7, "new", "d", []model.JobID{8, 9}) })
	s.s.v.at += 24*3600*1000 - 1500
	s.step(t, s.s.ExpireKeys)
	old, _ := s.s.SubmittedWithKey(1000, "k17", "d")
	kept, _ := s.s.SubmittedWithKey(7, "new", "d")
	if old != nil || fmt.Sprint(kept) != "[8 9]" {
		t.Errorf("after a day: %d and %d", old, kept)
	}
}

// TestModelsThatTheConfigurationNames count by themselves from then on.
func TestModelsThatTheConfigurationNames(t *testing.T) {
	s := newScene(t)
	for i, models := range [][]string{{"A", "A"}, {"B"}, {"A", "B", "C"}} {
		n := *s.s.v.nodes[i]
		n.GPUs = slices.Clone(n.GPUs)
		for k, name := range models {
			n.GPUs[k].Model = name
		}
		s.step(t, func() { s.s.ReplaceNode(i, &n) })
	}
	s.step(t, func() {
		before := s.s.v.config
		cfg := *before
		cfg.Accounts = map[string]cluster.Account{"x": {
			Terms: cluster.Terms{Limit: &cluster.Limit{Quota: cluster.Quota{Models: map[string]int64{"B": 1}}}},
			Users: map[string]cluster.Terms{"u": {Deserved: &cluster.Quota{Models: map[string]int64{"A": 1}}}}}}
		s.s.SetConfig(&cfg)
		s.s.AddConfigVersion(before, "root", "")
	})
	v := s.s.View()
	if got := fmt.Sprint(v.Models(), v.Inventory().All, v.HeldBy(s.run, s.run.Live()), v.RequestedBy(s.follows)); got !=
		"[A B] {96 786432 24000 [3000 2000]} {8 16384 4000 [2000 1000]} {4 8192 1000 [1000 1000]}" {
		t.Errorf("by model: %s", got)
	}
	ended := *s.run.Live()
	ended.Workers = slices.Clone(ended.Workers)
	ended.Workers[0].State = model.WorkerExited
	if got := fmt.Sprint(v.HeldBy(s.run, &ended)); got != "{4 8192 2000 [0 1000]}" {
		t.Errorf("when its first worker has ended, job 1 holds %s", got)
	}
}

// TestCoresOfAJobWithoutGPUs count as the part of the cluster that they take from jobs with GPUs.
func TestCoresOfAJobWithoutGPUs(t *testing.T) {
	s := newScene(t)
	job := func(cores int64, memory jobspec.Bytes, gpus int64) *model.Job {
		return &model.Job{Workers: 1, Request: model.Request{Active: model.Vector{Cores: cores, Memory: memory, GPUs: gpus}}}
	}
	// three nodes of 32 cores, 256 GiB and 8 GPUs: a quarter of a GPU for each core or 8 GiB
	for _, c := range []struct {
		job  *model.Job
		want int32
	}{
		{job(4, 8*jobspec.GiB, 0), 250_000}, {job(1, 32*jobspec.GiB, 0), 1_000_000}, {job(4, 64*jobspec.GiB, 0), 500_000},
		{job(4, 8*jobspec.GiB, 1000), 0}, {job(3, 0, 0), 250_000},
	} {
		if got := s.s.v.GPUEquivalentPerCore(c.job); got != c.want {
			t.Errorf("%+v: a core counts %d", c.job.Request.Active, got)
		}
	}
	if got := New(cluster.DefaultConfig()).v.GPUEquivalentPerCore(job(4, 0, 0)); got != 0 {
		t.Errorf("without nodes a core counts %d", got)
	}
}

// TestTheUnfinishedAreCounted by user, as jobs come and end.
func TestTheUnfinishedAreCounted(t *testing.T) {
	s := newScene(t)
	if got := s.s.Unfinished(1000); got != 8 {
		t.Fatalf("alice has %d unfinished jobs", got)
	}
	both := *s.follows // it waits for two jobs from now on, and is forgotten by both
	both.Dependencies = []model.OpenDependency{{Type: model.NeedAfterOK, Jobs: []model.JobID{1, 9}}}
	s.step(t, func() { s.s.Put(&both) })
	if a, b := s.s.DependentsOf(1), s.s.DependentsOf(9); fmt.Sprint(a, b) != "[8] [8]" {
		t.Errorf("on jobs 1 and 9 depend %d and %d", a, b)
	}
	ended := both
	ended.State, ended.Ended, ended.Dependencies = model.Cancelled, s.s.Now(), nil
	s.step(t, func() { ended.Seq = s.s.NextSeq(); s.s.Put(&ended) })
	if got := s.s.Unfinished(1000); got != 7 || s.s.Unfinished(7) != 0 {
		t.Errorf("alice has %d unfinished jobs", got)
	}
	if !s.s.v.NoDependencies() || len(s.s.v.Finished(1)) != 1 {
		t.Error("a job that has ended still depends on another")
	}
}
