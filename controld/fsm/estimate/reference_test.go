package estimate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// charge is something that was held.
type charge struct {
	leaf        model.Association
	held        model.Vector
	since, till model.Instant
}

// during is how much of a span lies within another, in ms.
func during(since, till, from, to model.Instant) int64 {
	return max(0, int64(min(till, to)-max(since, from)))
}

// TestUsageAgainstReference charges leaves at random, and compares what is known of each hour with
// the sum of all charges. Views must not change.
func TestUsageAgainstReference(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		table, epoch := UsageTable{}, uint64(1)
		var all []charge
		now := model.Instant(1)
		jobs := map[string]*model.Job{} // the active one of each leaf, or nil
		var active []charge             // spans in which a leaf was active
		since := map[string]model.Instant{}
		var view UsageTable
		seen := ""
		for step := range 120 {
			now += model.Instant(r.Int64N(3 * HourMS))
			m := Moment{At: now, Epoch: epoch}
			user := fmt.Sprint("u", r.IntN(3))
			leaf := model.Association{Account: "a", User: user}
			if r.IntN(3) > 0 {
				c := charge{leaf, model.Vector{Cores: r.Int64N(5), Memory: jobspec.Bytes(r.Int64N(4)) * 1000 * model.Mib,
					GPUs: 500 * r.Int64N(4)}, now - model.Instant(r.Int64N(20*HourMS)), now}
				c.since = max(0, c.since)
				all = append(all, c)
				table.Charge(c.leaf, c.held, c.since, m)
			} else {
				old := jobs[user]
				next := &model.Job{Account: "a", Owner: model.Identity{User: user}, State: model.Pending,
					Spec: &jobspec.Job{Groups: []jobspec.Group{{}}}}
				if old != nil && old.State == model.Pending {
					next.State = model.Cancelled
					active = append(active, charge{leaf: leaf, since: since[user], till: now})
				} else {
					since[user] = now
				}
				table.UpdateActive(old, next, m)
				jobs[user] = next
			}
			if step%10 == 9 {
				if seen != "" && sayUsage(&view) != seen {
					t.Fatalf("seed %d: a view has changed from\n%s\nto\n%s", seed, seen, sayUsage(&view))
				}
				view = table.View()
				seen = sayUsage(&view)
				epoch++
			}
		}
		oldest := int64(now)/HourMS - UsedHours + 1
		for _, leaf := range []model.Association{{Account: "a", User: "u0"}, {Account: "a", User: "u1"},
			{Account: "a", User: "u2"}} {
			u := table.Of(leaf)
			if u == nil {
				continue
			}
			for hour := max(0, oldest); hour <= int64(now)/HourMS; hour++ {
				want := HourUse{Hour: hour}
				from, to := model.Instant(hour*HourMS), model.Instant((hour+1)*HourMS)
				for _, c := range all {
					if c.leaf == leaf {
						ms := during(c.since, c.till, from, to)
						want.Cores += c.held.Cores * ms
						want.Memory += int64(c.held.Memory) / model.Mib * ms / 1000
						want.GPUs += c.held.GPUs * ms
					}
				}
				for _, a := range active {
					if a.leaf == leaf {
						want.Active += during(a.since, a.till, from, to)
					}
				}
				i := slices.IndexFunc(u.Hours, func(h HourUse) bool { return h.Hour == hour })
				got := HourUse{Hour: hour}
				if i >= 0 {
					got = u.Hours[i]
				}
				if got != want {
					t.Fatalf("seed %d: hour %d of %v is %+v, want %+v", seed, hour, leaf, got, want)
				}
			}
			j := jobs[leaf.User]
			busy := j != nil && j.State == model.Pending
			if (u.Active == 1) != busy || busy && u.Since != since[leaf.User] || !busy && u.Since != 0 {
				t.Errorf("seed %d: %v has %d active jobs since %d", seed, leaf, u.Active, u.Since)
			}
			compareDecay(t, r, u, now, busy, since[leaf.User])
		}
		table.Check(maps.Values(jobs), func(err error) {
			if err != nil {
				t.Error(err)
			}
		})
		latest := table.View()
		fork := latest.Fork()
		fork.Charge(model.Association{Account: "new"}, model.Vector{Cores: 1}, 0, Moment{At: now, Epoch: 1 << 40})
		if table.Of(model.Association{Account: "new"}) != nil || fork.Of(model.Association{Account: "new"}) == nil {
			t.Error("a fork is not its own")
		}
	}
}

func sayUsage(v *UsageTable) string {
	var lines []string
	for u := range v.Values() {
		lines = append(lines, fmt.Sprintf("%v %d %d %v", u.Association, u.Since, u.Active, u.Hours))
	}
	return strings.Join(lines, "\n")
}

// compareDecay weighs hours one by one.
func compareDecay(t *testing.T, r *rand.Rand, u *PastUse, now model.Instant, busy bool, since model.Instant) {
	t.Helper()
	half := []int64{0, 5 * HourMS, 100 * HourMS}[r.IntN(3)]
	d := NewDecay(now, half)
	weight := func(hour int64) float64 {
		age := int64(now)/HourMS - hour
		switch {
		case age < 0 || age >= UsedHours:
			return 0
		case half == 0:
			return 1
		}
		return math.Exp2(-float64(age*HourMS) / float64(half))
	}
	var cores, memory, gpus, active float64
	for _, h := range u.Hours {
		cores += float64(h.Cores) * weight(h.Hour) / 1000
		memory += float64(h.Memory) * weight(h.Hour)
		gpus += float64(h.GPUs) * weight(h.Hour) / 1000
		active += float64(h.Active) * weight(h.Hour) / 1000
	}
	if busy {
		for hour := int64(since) / HourMS; hour <= int64(now)/HourMS; hour++ {
			active += float64(during(since, now, model.Instant(hour*HourMS), model.Instant((hour+1)*HourMS))) *
				weight(hour) / 1000
		}
	}
	c, m, g := d.PastUsage(u)
	for _, x := range [][2]float64{{float64(c), cores}, {float64(m), memory}, {float64(g), gpus},
		{float64(d.ActiveTime(u)), active}} {
		if math.Abs(x[0]-x[1]) > 0.004*x[1]+200 {
			t.Errorf("half-life %d: %g, want %g of %+v", half, x[0], x[1], u)
		}
	}
	if u.Empty() != (cores == 0 && memory == 0 && gpus == 0 && !slices.ContainsFunc(u.Hours, func(h HourUse) bool {
		return h.Cores+h.Memory+h.GPUs > 0
	})) {
		t.Errorf("nothing used: %t, %+v", u.Empty(), u)
	}
}

// TestUsageIsLoadedOnce refuses what a snapshot may not have.
func TestUsageIsLoadedOnce(t *testing.T) {
	ann := model.Association{Account: "a", User: "ann"}
	hours := func(h ...HourUse) *PastUse { return &PastUse{Association: ann, Hours: h} }
	for name, u := range map[string]*PastUse{
		"out of order": hours(HourUse{Hour: 2}, HourUse{Hour: 1}), "twice": hours(HourUse{Hour: 2}, HourUse{Hour: 2}),
		"negative cores": hours(HourUse{Cores: -1}), "negative memory": hours(HourUse{Memory: -1}),
		"negative GPUs": hours(HourUse{GPUs: -1}), "negative time": hours(HourUse{Active: -1}),
		"longer than an hour": hours(HourUse{Active: HourMS + 1}),
	} {
		var table UsageTable
		if err := table.Load(u, 1); !errors.Is(err, model.ErrSnapshot) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var table UsageTable
	job := &model.Job{Account: "a", Owner: model.Identity{User: "ann"}, State: model.Pending,
		Spec: &jobspec.Job{Groups: []jobspec.Group{{}}}}
	table.UpdateActive(nil, job, Moment{At: 5, Epoch: 1, Loading: true})
	u := hours(HourUse{Hour: 1, Cores: 1, Active: HourMS})
	u.Since = 3
	if err := table.Load(u, 10); err != nil || table.Of(ann).Active != 1 || table.Of(ann).Since != 3 {
		t.Errorf("%v, %+v", err, table.Of(ann))
	}
	if err := table.Load(hours(HourUse{Hour: 1}), 10); !errors.Is(err, model.ErrSnapshot) {
		t.Errorf("loaded twice: %v", err)
	}
	other := &PastUse{Association: model.Association{Account: "a", User: "bob"}, Hours: []HourUse{{Hour: 200}}}
	if err := table.Load(other, 10); err != nil {
		t.Error(err)
	}
	names := func(now model.Instant) (names []string) {
		for _, u := range table.Sorted(now) {
			names = append(names, u.Account+"/"+u.User)
		}
		return names
	}
	if got := fmt.Sprint(names(0)); got != "[a/ann a/bob]" { // of the account nothing is known but that it is active
		t.Errorf("sorted: %s", got)
	}
	if got := fmt.Sprint(names((200 + UsedHours) * HourMS)); got != "[a/ann a/bob]" {
		t.Errorf("a week after bob's hour: %s", got)
	}
	if got := fmt.Sprint(names((201 + UsedHours) * HourMS)); got != "[a/ann]" {
		t.Errorf("later: %s", got)
	}
}

// TestCountersAgainstReference moves jobs of leaves at random and compares with the sum of all.
func TestCountersAgainstReference(t *testing.T) {
	type job struct {
		leaf   model.Association
		run    *LiveAttempt
		demand Demand
	}
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 5))
		table, epoch := UsageCounterTable{}, uint64(1)
		var jobs []*job
		random := func() (*LiveAttempt, Demand) {
			amounts := func() model.Amounts {
				return model.Amounts{Cores: r.Int64N(9), Memory: r.Int64N(9), GPUs: 1000 * r.Int64N(3),
					Models: []int64{r.Int64N(2)}}
			}
			switch r.IntN(3) {
			case 0:
				return &LiveAttempt{Since: model.Instant(r.Int64N(5 * HourMS)), Held: amounts()}, Demand{}
			case 1:
				return nil, Demand{Attempts: r.Int64N(4), Each: amounts()}
			}
			return nil, Demand{}
		}
		var view UsageCounterTable
		seen := ""
		for range 200 {
			if len(jobs) == 0 || r.IntN(3) == 0 {
				j := &job{leaf: model.Association{Account: "a", User: fmt.Sprint("u", r.IntN(3))}}
				jobs = append(jobs, j)
			}
			j := jobs[r.IntN(len(jobs))]
			run, demand := random()
			table.Move(j.leaf, j.run, run, j.demand, demand, epoch)
			j.run, j.demand = run, demand
			want := UsageCounterTable{}
			for _, j := range jobs {
				want.Move(j.leaf, nil, j.run, Demand{}, j.demand, 1)
			}
			leaves := map[model.Association]*UsageCounter{}
			for _, j := range jobs {
				if j.run == nil && j.demand.Attempts == 0 {
					continue
				}
				c := leaves[j.leaf]
				if c == nil {
					c = &UsageCounter{Association: j.leaf}
					leaves[j.leaf] = c
				}
				c.Jobs++
				if j.run != nil {
					c.Held.Add(&j.run.Held, 1)
				} else {
					c.Requested.Add(&j.demand.Each, j.demand.Attempts)
				}
			}
			for leaf, c := range leaves {
				got := table.Of(leaf)
				if got == nil || got.Jobs != c.Jobs || !got.Held.Equal(&c.Held) || !got.Requested.Equal(&c.Requested) {
					t.Fatalf("seed %d: %v is %+v, want %+v", seed, leaf, got, c)
				}
			}
			if table.Size() != len(leaves) || len(slices.Collect(table.Values())) != len(leaves) {
				t.Fatalf("seed %d: %d leaves, want %d", seed, table.Size(), len(leaves))
			}
			latest := table.View()
			epoch++
			fork := latest.Fork()
			for _, counters := range []*UsageCounterTable{&table, &fork} {
				counters.Check(&want, func(err error) {
					if err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
				})
			}
			fork.Move(model.Association{Account: "new"}, nil, &LiveAttempt{}, Demand{}, Demand{}, 1<<40)
			if table.Of(model.Association{Account: "new"}) != nil || fork.Size() != len(leaves)+1 {
				t.Fatal("a fork is not its own")
			}
			if r.IntN(8) == 0 {
				say := func() string {
					text := ""
					for c := range view.Values() {
						text += fmt.Sprintf("%+v\n", *c)
					}
					return text
				}
				if seen != "" && say() != seen {
					t.Fatalf("seed %d: a view has changed", seed)
				}
				view = table.View()
				seen = say()
			}
		}
	}
}

// TestRuntimesAgainstReference adds runtimes of random kinds, and compares with a map.
func TestRuntimesAgainstReference(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 7))
		var h RuntimeHistory
		want := map[JobKind][]int{}
		last := map[JobKind]int{}
		near := 0
		for step := range 600 {
			kind := JobKind{Account: fmt.Sprint("a", r.IntN(3)), User: fmt.Sprint("u", r.IntN(4)), Name: fmt.Sprint(r.IntN(3)),
				Size: r.Int64N(3)}
			ran := int64(1) << r.IntN(40)
			class := 0 // of 15 s, twice that, and so on
			for limit := int64(15_000); ran >= limit && class < 23; limit *= 2 {
				class++
			}
			if near = h.Add(near, &kind, ran, uint64(step/7)); h.List[near].Kind != kind {
				t.Fatalf("seed %d: %+v is said to be at %d", seed, kind, near)
			}
			if want[kind] == nil {
				want[kind] = make([]int, RuntimeClasses)
			}
			want[kind][class]++
			last[kind] = step
			sum := 0
			for _, n := range want[kind] {
				sum += n
			}
			if sum > 64 {
				for i := range want[kind] {
					want[kind][i] /= 2
				}
			}
			if r.IntN(2) == 0 {
				near = r.IntN(len(h.List) + 1)
			}
		}
		if err := h.Check(); err != nil || len(h.List) != len(want) {
			t.Fatalf("seed %d: %v, %d kinds for %d", seed, err, len(h.List), len(want))
		}
		for kind, counts := range want {
			at, known := h.Find(&kind)
			if !known {
				t.Fatalf("%+v is not known", kind)
			}
			for i, n := range counts {
				if int(h.List[at].Counts[i]) != n {
					t.Fatalf("seed %d: %+v has %v, want %v", seed, kind, h.List[at].Counts, counts)
				}
			}
			for other, step := range last {
				place, _ := h.Find(&other)
				if (h.List[at].Used < h.List[place].Used) != (last[kind] < step) {
					t.Fatalf("seed %d: which of %+v and %+v ended last", seed, kind, other)
				}
			}
		}
		text, err := json.Marshal(&h)
		if err != nil {
			t.Fatal(err)
		}
		var back RuntimeHistory
		if err := json.Unmarshal(text, &back); err != nil || back.Used != h.Used || len(back.List) != len(h.List) {
			t.Errorf("seed %d: read back %v, %d kinds", seed, err, len(back.List))
		}
	}
}

// TestTheOldestKindMakesRoom fills the history.
func TestTheOldestKindMakesRoom(t *testing.T) {
	var h RuntimeHistory
	kind := func(i int) *JobKind { return &JobKind{Name: fmt.Sprintf("%05d", (i*7919)%100_000)} }
	for i := range MaxRuntimeHistories {
		h.Add(0, kind(i), 1, 1)
	}
	h.Add(0, kind(0), 1, 1) // the oldest is not the first one now
	for i := range 50 {
		at := h.Add(i, kind(MaxRuntimeHistories+i), 1, 1)
		if h.List[at].Kind != *kind(MaxRuntimeHistories + i) {
			t.Fatalf("kind %d is said to be at %d", i, at)
		}
		if _, known := h.Find(kind(i + 1)); known || len(h.List) != MaxRuntimeHistories {
			t.Fatalf("kind %d is known still, %d kinds", i+1, len(h.List))
		}
		if _, known := h.Find(kind(i + 2)); !known {
			t.Fatalf("kind %d is forgotten", i+2)
		}
	}
	if _, known := h.Find(kind(0)); !known {
		t.Error("what ended again is forgotten")
	}
	if err := h.Check(); err != nil {
		t.Error(err)
	}
}

// TestDamagedHistories are not read.
func TestDamagedHistories(t *testing.T) {
	counts := func(n ...int8) string {
		all := make([]int8, RuntimeClasses)
		copy(all, n)
		b, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	entry := func(name string, used int, counts string) string {
		return fmt.Sprintf(`{"kind":{"name":%q},"used":%d,"counts":%s}`, name, used, counts)
	}
	for name, text := range map[string]string{
		"":                 "[" + entry("a", 2, counts(60, 4)) + "," + entry("b", 1, counts(1)) + "]",
		"not in its place": "[" + entry("b", 1, counts(1)) + "," + entry("a", 2, counts(1)) + "]",
		"its place":        "[" + entry("a", 1, counts(1)) + "," + entry("a", 2, counts(1)) + "]",
		"is out of range":  "[" + entry("a", 1, counts(60, 5)) + "]", "out of range": "[" + entry("a", 1, counts(-1, 5)) +
			"]",
		"the end of the last job": "[" + entry("a", 0, counts(1)) + "]",
		"end of the last job":     "[" + entry("a", 1, counts(1)) + "," + entry("b", 1, counts(1)) + "]",
		"empty entry":             "[null]",
	} {
		var h RuntimeHistory
		err := json.Unmarshal([]byte(text), &h)
		if name == "" && err != nil || name != "" && (!errors.Is(err, model.ErrSnapshot) ||
			!strings.Contains(err.Error(), name)) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := json.Unmarshal([]byte(`{}`), &RuntimeHistory{}); err == nil {
		t.Error("an object is read as a list")
	}
}

// TestRemainingCost compares with every bound that jobs might be given.
func TestRemainingCost(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 9))
		var p RuntimeHistogram
		for range r.IntN(20) {
			p.Counts[r.IntN(12)]++
		}
		ran := r.Int64N(200_000)
		class := 0
		for limit := int64(15_000); ran >= limit; limit *= 2 {
			class++
		}
		left := int64(0)
		for _, n := range p.Counts[class:] {
			left += int64(n)
		}
		got, known := p.RemainingCost(ran)
		if known != (left >= FewestRuntimes) {
			t.Fatalf("seed %d: known: %t of %d", seed, known, left)
		}
		if !known {
			continue
		}
		best := int64(math.MaxInt64)
		for bound := class; bound < RuntimeClasses; bound++ { // each gets up to the end of this class
			spent, ended := int64(0), int64(0)
			for i := class; i < RuntimeClasses; i++ {
				begin, end := max(ran, int64(15_000)<<i/2), int64(15_000)<<i
				if i == class {
					begin = ran
				}
				switch n := int64(p.Counts[i]); {
				case i <= bound:
					spent += n * ((begin - ran) + (end-begin)/2)
					ended += n
				default:
					spent += n * (int64(15_000)<<bound - ran)
				}
			}
			if ended > 0 {
				best = min(best, spent/ended)
			}
		}
		if got != best {
			t.Fatalf("seed %d: %v after %d: %d, want %d", seed, p.Counts, ran, got, best)
		}
	}
}

// TestStopDurations counts by powers of two seconds.
func TestStopDurations(t *testing.T) {
	for took, class := range map[model.Instant]int{-5: 0, 0: 0, 999: 0, 1000: 1, 1999: 1, 2000: 2, 3999: 2, 4000: 3,
		1 << 40: 15} {
		var d StopDurations
		if d.Add(took); d.Counts[class] != 1 {
			t.Errorf("%d ms: %v, want class %d", took, d.Counts, class)
		}
	}
	var d StopDurations
	for range 19 {
		d.Add(500)
	}
	if _, known := d.P95(); known {
		t.Error("19 are enough")
	}
	d.Add(9000)
	if got, known := d.P95(); !known || got != 1000 {
		t.Errorf("19 of 20 took less than a second: %d, %t", got, known)
	}
	d.Add(9000)
	if got, _ := d.P95(); got != 16_000 {
		t.Errorf("19 of 21 took less than a second: %d", got)
	}
	for range 1024 - 21 {
		d.Add(500)
	}
	if d.Counts[0] != 1022 || d.Counts[4] != 2 {
		t.Errorf("1024 are kept: %v", d.Counts)
	}
	if d.Add(500); d.Counts[0] != 511 || d.Counts[4] != 1 {
		t.Errorf("1025 are halved: %v", d.Counts)
	}
}

// TestArrivalsByTheMinute learns the mean of minutes, and how far they are from it.
func TestArrivalsByTheMinute(t *testing.T) {
	a := Arrivals{From: 0, Sum: 3200, Mean: 256 * 320, Deviation: 64}
	b := a
	if b.closeMinutes(59_999); b.Sum != a.Sum || b.From != 0 || b.Mean != a.Mean {
		t.Errorf("before the minute is over: %+v", b)
	}
	b = a
	b.closeMinutes(60_000)
	miss := int64(3200-320) * 256
	if b.Sum != 0 || b.From != 60_000 || b.Mean != 256*320+miss/32 || b.Deviation != 64+(miss-64)/32 {
		t.Errorf("after a minute: %+v", b)
	}
	c := b
	c.closeMinutes(180_000)
	mean, deviation := b.Mean, b.Deviation
	for range 2 {
		deviation += (mean - deviation) / 32
		mean -= mean / 32
	}
	if c.From != 180_000 || math.Abs(float64(c.Mean-mean)) > 1 || math.Abs(float64(c.Deviation-deviation)) > 256 {
		t.Errorf("after two more without arrivals: %+v, want %d and %d", c, mean, deviation)
	}
	d := b
	if d.closeMinutes(60_000 + 24*60*60_000); d.Mean == 0 || d.From != 60_000+24*60*60_000 {
		t.Errorf("after a day: %+v", d)
	}
	d = b
	if d.closeMinutes(60_001 + 24*60*60_000); d.Mean != 0 || d.From != 60_001+24*60*60_000 {
		t.Errorf("after more than a day nothing is known: %+v", d)
	}
}

// TestWhatIsLearntOfEnds goes through which ends say something about a job.
func TestWhatIsLearntOfEnds(t *testing.T) {
	job := func(edit ...func(*model.Job)) *model.Job {
		j := &model.Job{Account: "a", Owner: model.Identity{User: "u"}, Class: jobspec.BE, Attempt: 1, State: model.Completed,
			Workers: 2, Request: model.Request{Active: model.Vector{Cores: 1, GPUs: 1000}},
			Ledger: model.Ledger{GPUMS: 2 * 1000 * 40_000}, Spec: &jobspec.Job{Name: "x", Groups: []jobspec.Group{{}}}}
		for _, e := range edit {
			e(j)
		}
		return j
	}
	for _, c := range []struct {
		name  string
		job   *model.Job
		kinds int
	}{
		{"it completed", job(), 6}, {"it failed", job(func(j *model.Job) { j.State = model.Failed }), 6},
		{"it has no name", job(func(j *model.Job) { j.Spec.Name = "" }), 4},
		{"trial and error", job(func(j *model.Job) { j.Class = jobspec.TE }), 0},
		{"it never ran", job(func(j *model.Job) { j.Attempt = 0 }), 0},
		{"its node failed", job(func(j *model.Job) { j.State = model.NodeFailed }), 0},
		{"it could not be launched", job(func(j *model.Job) { j.State = model.BootFailed }), 0},
		{"it is a parent", job(func(j *model.Job) { j.Children = &model.Children{} }), 0},
	} {
		var now *Statistics
		r := NewRecorder(&now)
		r.Moment = Moment{At: 1, Epoch: 1}
		r.Runtime(c.job)
		kinds := 0
		if now != nil && now.Runtimes != nil {
			kinds = len(now.Runtimes.List)
		}
		if kinds != c.kinds || now.Check() != nil {
			t.Errorf("%s: %d kinds are known, want %d", c.name, kinds, c.kinds)
		}
		if _, known := now.PredictRemaining(c.job, 0); known {
			t.Errorf("%s: one says something about the next", c.name)
		}
		for range FewestRuntimes {
			r.Epoch++
			r.Runtime(c.job)
		}
		if _, known := now.PredictRemaining(job(), 0); known != (c.kinds > 0) {
			t.Errorf("%s: several say something about the next: %t", c.name, known)
		}
	}
	var now *Statistics
	r := NewRecorder(&now)
	r.Moment = Moment{At: 1, Epoch: 1}
	r.Runtime(job())
	view := now.Runtimes
	list, used := slices.Clone(view.List), view.List[0].Used
	r.Epoch++
	r.Runtime(job(func(j *model.Job) { j.Account = "b" }))
	r.Runtime(job())
	if !slices.Equal(view.List, list) || view.List[0].Used != used || len(now.Runtimes.List) <= len(list) {
		t.Error("what a view has is changed")
	}
	now.Runtimes.List[0].Used = 0
	if now.Check() == nil {
		t.Error("damage is not found")
	}
	kinds, first := KindsOfJob(job(func(j *model.Job) { j.Request.Active.GPUs = 0 }))
	want := [6]JobKind{{"a", "u", "x", -2}, {"a", "u", "x", 0}, {"a", "u", "", -2}, {"a", "u", "", 0}, {Account: "a"}, {}}
	if kinds != want || first != 0 {
		t.Errorf("kinds %+v from %d", kinds, first)
	}
}

// TestServiceOfElasticJobs learns the mean of what completed ones took, the last of which count for
// most, and forgets the name that was seen longest ago.
func TestServiceOfElasticJobs(t *testing.T) {
	var now *Statistics
	r := NewRecorder(&now)
	job := func(name string, gpuMS int64) *model.Job {
		return &model.Job{Owner: model.Identity{User: "u"}, Ledger: model.Ledger{GPUMS: gpuMS}, Workers: 2,
			Spec: &jobspec.Job{Name: name, Groups: []jobspec.Group{{Elastic: &jobspec.Elastic{Min: 1, Max: 4}}}}}
	}
	rigid := job("x", 100)
	rigid.Spec.Groups[0].Elastic = nil
	r.Service(rigid)
	r.ElasticStart(rigid)
	if now.MeanService(rigid) != 0 || now.StepRatesOf(rigid) != nil {
		t.Error("a job of fixed size is noted")
	}
	mean := int64(0)
	for i, took := range []int64{100, 300, 800, 400, 400, 400, 400, 400, 1200, 400} {
		r.At, r.Epoch = model.Instant(i+1), r.Epoch+1
		before := now
		r.Service(job("x", took))
		mean += (took - mean) / min(int64(i+1), 8)
		if got := now.MeanService(job("x", 0)); got != mean {
			t.Errorf("after %d jobs: %d, want %d", i+1, got, mean)
		}
		if i > 0 && before.StepRates["u/x"].Ended != int64(i) {
			t.Error("what a view has is changed")
		}
	}
	r.StepRate(job("x", 0), &model.Attempt{Rate: 50, Workers: make([]model.Worker, 2)})
	if got := now.StepRatesOf(job("x", 0)); len(got) != 1 || got[0] != (StepRate{Size: 2, Rate: 50}) {
		t.Errorf("its rates are %+v", got)
	}
	if r.ElasticStart(job("x", 0)); now.LastElasticStart != r.At {
		t.Error("its start is not noted")
	}
	for i := range maxRatedNames {
		r.At, r.Epoch = model.Instant(100+i), r.Epoch+1
		r.Service(job(fmt.Sprint("y", i), 1))
	}
	if len(now.StepRates) != maxRatedNames || now.MeanService(job("x", 0)) != 0 || now.MeanService(job("y0", 0)) != 1 {
		t.Errorf("%d names are known", len(now.StepRates))
	}
}

// TestRequestsOfMix rounds up and counts no job for too much.
func TestRequestsOfMix(t *testing.T) {
	for n, want := range map[int64]int64{0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 6, 7: 8, 8: 8, 9: 12, 12: 12, 13: 16,
		17: 24, 24: 24, 25: 32, 1000: 1024} {
		if got := roundUpCoarse(n); got != want {
			t.Errorf("%d is rounded to %d, want %d", n, got, want)
		}
	}
	for gpus, want := range map[int64]int64{1: 10, 10: 10, 11: 20, 991: 1000, 999: 1000, 1000: 1000, 2000: 2000} {
		if got := roundedRequest(model.Vector{GPUs: gpus}).GPUs; got != want {
			t.Errorf("%d thousandths are rounded to %d, want %d", gpus, got, want)
		}
	}
	var now *Statistics
	r := NewRecorder(&now)
	r.Moment = Moment{At: 1, Epoch: 1}
	job := func(workers, children int, gpus int64) *model.Job {
		j := &model.Job{Class: jobspec.BE, Workers: workers,
			Request: model.Request{Active: model.Vector{Cores: 1, GPUs: gpus}}}
		if children > 0 {
			j.Children = &model.Children{Size: children}
		}
		return j
	}
	for _, j := range []*model.Job{job(3, 0, 1000), job(2, 5, 1000), job(1000, 0, 2000), job(9, 0, 0)} {
		r.Arrival(j)
	}
	want := []RequestCount{{model.Vector{Cores: 1, GPUs: 1000}, 13}, {model.Vector{Cores: 1, GPUs: 2000}, 64}}
	if !slices.Equal(now.Mix.Kinds, want) {
		t.Errorf("the mix is %+v", now.Mix.Kinds)
	}
	view := now.Mix
	r.Epoch++
	if r.Arrival(job(1, 0, 1000)); view.Kinds[0].Count != 13 || now.Mix.Kinds[0].Count != 14 {
		t.Error("what a view has is changed")
	}
	full := WorkloadMix{Kinds: []RequestCount{{model.Vector{Cores: 1}, 4000}, {model.Vector{Cores: 2}, 96}, {model.Vector{
		Cores: 3}, 0}}}
	full.Add(model.Vector{Cores: 3}, 1)
	if full.Kinds[0].Count != 2000 || full.Kinds[1].Count != 48 || len(full.Kinds) != 2 {
		t.Errorf("4097 workers are kept: %+v", full.Kinds)
	}
}

// TestTheRarestKindMakesRoom fills the mix.
func TestTheRarestKindMakesRoom(t *testing.T) {
	var m WorkloadMix
	for i := range maxRequestKinds {
		m.Add(model.Vector{Cores: int64(i)}, int64(2+i%3))
	}
	m.Add(model.Vector{Cores: 1000}, 5)
	if len(m.Kinds) != maxRequestKinds || m.Kinds[0].Worker.Cores != 1 || m.Kinds[len(m.Kinds)-1].Count != 5 {
		t.Errorf("%d kinds from %+v on", len(m.Kinds), m.Kinds[0])
	}
}

// TestWaitsOfTrialAndError learns them as those of other jobs.
func TestWaitsOfTrialAndError(t *testing.T) {
	var now *Statistics
	r := NewRecorder(&now)
	r.Moment = Moment{At: 1_000_000, Epoch: 1}
	r.QueueWait(&model.Job{Class: jobspec.TE})
	if now.Waits != (QueueWaits{TE: WaitsUnit / WaitsMemory}) {
		t.Errorf("after one of them: %+v", now.Waits)
	}
	r.QueueWait(&model.Job{Class: jobspec.TE})
	if want := int64(WaitsUnit/WaitsMemory + (WaitsUnit-WaitsUnit/WaitsMemory)/WaitsMemory); now.Waits.TE != want {
		t.Errorf("after two: %d, want %d", now.Waits.TE, want)
	}
}

// TestActiveJobsAreChecked damages what is noted of one leaf.
func TestActiveJobsAreChecked(t *testing.T) {
	ann := model.Association{Account: "a", User: "ann"}
	job := &model.Job{Account: "a", Owner: model.Identity{User: "ann"}, State: model.Pending,
		Spec: &jobspec.Job{Groups: []jobspec.Group{{}}}}
	for name, damage := range map[string]func(*PastUse){
		"too many active jobs": func(u *PastUse) { u.Active++ },
		"active without a job": func(u *PastUse) { u.Active = 0 },
		"hours out of order":   func(u *PastUse) { u.Hours = []HourUse{{Hour: 2}, {Hour: 1}} },
	} {
		var table UsageTable
		table.UpdateActive(nil, job, Moment{At: 5, Epoch: 1})
		damage(table.Of(ann))
		whole, one := 0, 0
		table.Check(slices.Values([]*model.Job{job}), func(err error) {
			if err != nil {
				whole++
			}
		})
		table.CheckLeaf(ann, 1, func(err error) {
			if err != nil {
				one++
			}
		})
		if whole == 0 || one == 0 {
			t.Errorf("%s: %d and %d complaints", name, whole, one)
		}
	}
	var table UsageTable
	missing := 0
	table.CheckLeaf(ann, 1, func(error) { missing++ })
	table.CheckLeaf(ann, 0, func(error) { missing++ })
	if missing != 1 {
		t.Errorf("%d complaints about a leaf of which nothing is noted", missing)
	}
}

// TestRunsThatSayTheSame changes one thing at a time.
func TestRunsThatSayTheSame(t *testing.T) {
	run := func() *LiveAttempt {
		return &LiveAttempt{Number: 1, Displaced: []model.Instant{3}, Held: model.Amounts{Cores: 1}}
	}
	for name, change := range map[string]func(*LiveAttempt){
		"number": func(r *LiveAttempt) { r.Number++ }, "end": func(r *LiveAttempt) { r.Ends++ },
		"class": func(r *LiveAttempt) { r.BestEffort = true }, "stop": func(r *LiveAttempt) { r.Stopping = true },
		"assigned": func(r *LiveAttempt) { r.Since++ }, "started": func(r *LiveAttempt) { r.Started++ },
		"grace": func(r *LiveAttempt) { r.Grace++ }, "checkpoint": func(r *LiveAttempt) { r.CheckpointEvery++ },
		"worth": func(r *LiveAttempt) { r.GPUEquivalents++ }, "total": func(r *LiveAttempt) { r.Total.Cores++ },
		"displaced": func(r *LiveAttempt) { r.Displaced = nil }, "queue": func(r *LiveAttempt) { r.Queue = "q" },
		"held": func(r *LiveAttempt) { r.Held.GPUs++ },
	} {
		r := run()
		if change(r); r.Equal(run()) || !r.Equal(r) {
			t.Errorf("another %s is the same", name)
		}
	}
	for _, c := range []struct {
		spec  *jobspec.Job
		grace int64
		saves int64
	}{
		{&jobspec.Job{}, 30_000, -1}, {&jobspec.Job{Checkpoint: &jobspec.Checkpoint{}}, 30_000, 0},
		{&jobspec.Job{Preemption: &jobspec.Preemption{}, Checkpoint: &jobspec.Checkpoint{Interval: 7}}, 30_000, 7000},
		{&jobspec.Job{Preemption: &jobspec.Preemption{GracePeriod: 1}}, 1000, -1},
	} {
		if grace, saves := DeclaredGrace(c.spec), SavesEvery(c.spec); grace != c.grace || saves != c.saves {
			t.Errorf("%+v: grace %d, saves every %d", c.spec, grace, saves)
		}
	}
}
