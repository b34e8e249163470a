package state

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// charged returns a state in which a leaf has held one core, 1 MiB and one GPU in spans of the
// log's clock. Each span is charged at its end.
func charged(t *testing.T, spans [][2]model.Instant) *State {
	t.Helper()
	cfg := cluster.DefaultConfig()
	s := New(cfg)
	for _, span := range spans {
		s.v.at = max(s.v.at, span[1])
		s.v.usage.Charge(model.Association{Account: "team", User: "ann"},
			model.Vector{Cores: 1, Memory: model.Mib, GPUs: 1000}, span[0], s.moment())
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	return s
}

func onlyUsage(t *testing.T, s *State) *estimate.PastUse {
	t.Helper()
	all := s.v.usage.Sorted(s.v.at)
	if len(all) != 1 || all[0].Association != (model.Association{Account: "team", User: "ann"}) {
		t.Fatalf("usage is %+v", all)
	}
	return all[0]
}

func TestUsageIsKeptByTheHour(t *testing.T) {
	s := charged(t, [][2]model.Instant{{estimate.HourMS / 2, 2*estimate.HourMS + 1000}})
	want := []estimate.HourUse{
		{Hour: 0, Cores: estimate.HourMS / 2, Memory: estimate.HourMS / 2000, GPUs: estimate.HourMS / 2 * 1000},
		{Hour: 1, Cores: estimate.HourMS, Memory: estimate.HourMS / 1000, GPUs: estimate.HourMS * 1000},
		{Hour: 2, Cores: 1000, Memory: 1, GPUs: 1_000_000},
	}
	got := onlyUsage(t, s).Hours
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("hours are %+v, want %+v", got, want)
	}
}

func TestUsageIsKeptForAWeek(t *testing.T) {
	s := charged(t, [][2]model.Instant{{0, 400 * estimate.HourMS}})
	if u := onlyUsage(t, s); len(u.Hours) != estimate.UsedHours-1 || u.Hours[0].Hour != 400-estimate.UsedHours+1 {
		t.Errorf("%d hours from %d", len(u.Hours), u.Hours[0].Hour)
	}
}

// TestUsageDoesNotDependOnWhenItWasCharged: a span that is charged at once, in pieces, or not yet,
// reads the same.
func TestUsageDoesNotDependOnWhenItWasCharged(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		begin := 1000 * r.Int64N(200*estimate.HourMS/1000)
		end := begin + 1000*(1+r.Int64N(200*estimate.HourMS/1000))
		var pieces [][2]model.Instant
		for at := begin; at < end; {
			next := min(end, at+1000*(1+r.Int64N(50*estimate.HourMS/1000)))
			pieces = append(pieces, [2]model.Instant{model.Instant(at), model.Instant(next)})
			at = next
		}
		d := estimate.NewDecay(model.Instant(end), []int64{0, estimate.HourMS / 3, 5 * estimate.HourMS,
			100 * estimate.HourMS}[r.IntN(4)])
		whole, _, WholeGPU := d.PastUsage(onlyUsage(t,
			charged(t, [][2]model.Instant{{model.Instant(begin), model.Instant(end)}})))
		parts, _, partsGPU := d.PastUsage(onlyUsage(t, charged(t, pieces)))
		if whole != parts || WholeGPU != partsGPU {
			t.Fatalf("seed %d: at once %d and %d, in %d pieces %d and %d", seed, whole, WholeGPU, len(pieces), parts, partsGPU)
		}
		if running := d.TimeSince(model.Instant(begin)) / 1000; math.Abs(float64(running-whole)) > estimate.UsedHours {
			t.Fatalf("seed %d: charged %d s, still running %d s, from %d to %d", seed, whole, running, begin, end)
		}
	}
}

func TestUsageSurvivesASnapshot(t *testing.T) {
	s := charged(t, [][2]model.Instant{{0, 3 * estimate.HourMS}, {estimate.HourMS, 5 * estimate.HourMS}})
	s.v.usage.Charge(model.Association{Account: "another", User: "bob"}, model.Vector{GPUs: 4000}, estimate.HourMS,
		s.moment())
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
	fork.v.at = 6 * estimate.HourMS
	fork.v.usage.Charge(model.Association{Account: "another", User: "bob"}, model.Vector{GPUs: 1}, estimate.HourMS,
		fork.moment())
	if err := fork.Check(); err != nil {
		t.Error(err)
	}
	again.Reset()
	if err := restored.View().WriteSnapshot(&again); err != nil || b.String() != again.String() {
		t.Errorf("what a fork used is charged to what it was made from: %v", err)
	}
}

// TestActiveTime: an account is active while a job of any of its users is; a user while one of his
// own is.
func TestActiveTime(t *testing.T) {
	cfg := cluster.DefaultConfig()
	s := New(cfg)
	job := func(id model.JobID, user string, state model.JobState) *model.Job {
		return &model.Job{ID: id, Account: "team", Owner: model.Identity{User: user}, State: state}
	}
	step := func(at model.Instant, old, next *model.Job) {
		s.v.at = at
		s.v.usage.UpdateActive(old, next, s.moment())
	}
	step(1000, nil, job(1, "ann", model.Pending))
	step(2000, nil, job(2, "bob", model.Pending))
	step(3000, job(1, "ann", model.Pending), job(1, "ann", model.Cancelled))
	step(7000, job(2, "bob", model.Pending), job(2, "bob", model.Cancelled))
	step(estimate.HourMS+9000, nil, job(3, "ann", model.Pending))
	s.v.at += 4000
	d := estimate.NewDecay(s.v.at, 0)
	for user, want := range map[string]int64{"ann": 2 + 4, "bob": 5, "": 6 + 4} {
		u := s.v.usage.Of(model.Association{Account: "team", User: user})
		if got := d.ActiveTime(u); got != want {
			t.Errorf("%q was active for %d s, want %d: %+v", user, got, want, u)
		}
	}
}
