package cluster

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

// charged returns a state in which a leaf has held one core, 1 MiB and one GPU in spans of the log's clock, charged when each ends.
func charged(t *testing.T, spans [][2]Instant) *State {
	t.Helper()
	cfg := DefaultConfig()
	s := New(cfg)
	for _, span := range spans {
		s.v.at = max(s.v.at, span[1])
		s.charge(Leaf{"team", "ann"}, Vector{Cores: 1, Memory: mib, GPUs: 1000}, span[0])
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	return s
}

func onlyUsage(t *testing.T, s *State) *Usage {
	t.Helper()
	all := s.v.sortedUsage()
	if len(all) != 1 || all[0].Leaf != (Leaf{"team", "ann"}) {
		t.Fatalf("usage is %+v", all)
	}
	return all[0]
}

func TestUsageIsKeptByTheHour(t *testing.T) {
	s := charged(t, [][2]Instant{{hourMS / 2, 2*hourMS + 1000}})
	want := []HourUse{
		{Hour: 0, Cores: hourMS / 2, Memory: hourMS / 2000, GPUs: hourMS / 2 * 1000},
		{Hour: 1, Cores: hourMS, Memory: hourMS / 1000, GPUs: hourMS * 1000},
		{Hour: 2, Cores: 1000, Memory: 1, GPUs: 1_000_000},
	}
	got := onlyUsage(t, s).Hours
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("hours are %+v, want %+v", got, want)
	}
}

func TestUsageIsKeptForAWeek(t *testing.T) {
	s := charged(t, [][2]Instant{{0, 400 * hourMS}})
	if u := onlyUsage(t, s); len(u.Hours) != usedHours-1 || u.Hours[0].Hour != 400-usedHours+1 {
		t.Errorf("%d hours from %d", len(u.Hours), u.Hours[0].Hour)
	}
	s.v.at = 1000 * hourMS
	s.forgetUsage()
	if !s.v.usage.empty() || len(s.usageAt) != 0 {
		t.Error("what was used six weeks ago is still known")
	}
}

// TestUsageDoesNotDependOnWhenItWasCharged: a span that is charged at once, in pieces, or not yet, is the same to whoever reads.
func TestUsageDoesNotDependOnWhenItWasCharged(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		begin := 1000 * r.Int64N(200*hourMS/1000)
		end := begin + 1000*(1+r.Int64N(200*hourMS/1000))
		var pieces [][2]Instant
		for at := begin; at < end; {
			next := min(end, at+1000*(1+r.Int64N(50*hourMS/1000)))
			pieces = append(pieces, [2]Instant{Instant(at), Instant(next)})
			at = next
		}
		d := NewDecay(Instant(end), []int64{0, hourMS / 3, 5 * hourMS, 100 * hourMS}[r.IntN(4)])
		whole, _, WholeGPU := d.Of(onlyUsage(t, charged(t, [][2]Instant{{Instant(begin), Instant(end)}})))
		parts, _, partsGPU := d.Of(onlyUsage(t, charged(t, pieces)))
		if whole != parts || WholeGPU != partsGPU {
			t.Fatalf("seed %d: at once %d and %d, in %d pieces %d and %d", seed, whole, WholeGPU, len(pieces), parts, partsGPU)
		}
		if running := d.Since(Instant(begin)) / 1000; math.Abs(float64(running-whole)) > usedHours {
			t.Fatalf("seed %d: charged %d s, still running %d s, from %d to %d", seed, whole, running, begin, end)
		}
	}
}

func TestUsageHalvesInItsHalfLife(t *testing.T) {
	for half := range int64(100) {
		half = (half + 1) * hourMS / 7
		for age := int64(0); age < usedHours*hourMS; age += hourMS {
			got, want := float64(halved(age, half))/weightOne, math.Exp2(-float64(age)/float64(half))
			if math.Abs(got-want) > 0.003*want+1e-8 {
				t.Fatalf("after %d ms of half-life %d: weight %g, want %g", age, half, got, want)
			}
		}
	}
}

func TestUsageSurvivesASnapshot(t *testing.T) {
	s := charged(t, [][2]Instant{{0, 3 * hourMS}, {hourMS, 5 * hourMS}})
	s.charge(Leaf{"another", "bob"}, Vector{GPUs: 4000}, hourMS)
	var b, again bytes.Buffer
	if err := s.View().WriteSnapshot(&b); err != nil {
		t.Fatal(err)
	}
	restored, err := ReadSnapshot(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if err := restored.View().WriteSnapshot(&again); err != nil {
		t.Fatal(err)
	}
	if b.String() != again.String() || !bytes.Contains(b.Bytes(), []byte(`"usage":{"account":"another","user":"bob"`)) {
		t.Errorf("written\n%s\nrestored\n%s", b.String(), again.String())
	}
	if err := restored.Check(); err != nil {
		t.Error(err)
	}
	fork := Fork(restored.View())
	fork.v.at = 6 * hourMS
	fork.charge(Leaf{"another", "bob"}, Vector{GPUs: 1}, hourMS)
	if err := fork.Check(); err != nil {
		t.Error(err)
	}
	again.Reset()
	if err := restored.View().WriteSnapshot(&again); err != nil || b.String() != again.String() {
		t.Errorf("what a fork used is charged to what it was made from: %v", err)
	}
}

// TestActiveTime: an account is active while a job of any of its users is; a user while one of his own is.
func TestActiveTime(t *testing.T) {
	cfg := DefaultConfig()
	s := New(cfg)
	job := func(id JobID, user string, state JobState) *Job {
		return &Job{ID: id, Account: "team", Owner: Identity{User: user}, State: state}
	}
	step := func(at Instant, old, next *Job) {
		s.v.at = at
		s.updateActive(old, next)
	}
	step(1000, nil, job(1, "ann", Pending))
	step(2000, nil, job(2, "bob", Pending))
	step(3000, job(1, "ann", Pending), job(1, "ann", Cancelled))
	step(7000, job(2, "bob", Pending), job(2, "bob", Cancelled))
	step(hourMS+9000, nil, job(3, "ann", Pending))
	s.v.at += 4000
	d := NewDecay(s.v.at, 0)
	for user, want := range map[string]int64{"ann": 2 + 4, "bob": 5, "": 6 + 4} {
		u, _ := s.v.usage.get(s.usageAt[Leaf{"team", user}])
		if got := d.Active(u); got != want {
			t.Errorf("%q was active for %d s, want %d: %+v", user, got, want, u)
		}
	}
}
