package main

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/lab/training"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// TestASeedIsAPlan: what a seed found can be tried again, and another seed is another plan.
func TestASeedIsAPlan(t *testing.T) {
	const length = 3 * time.Minute
	one := makePlan(1, length)
	if !reflect.DeepEqual(one, makePlan(1, length)) {
		t.Error("seed 1 gives two plans")
	}
	if reflect.DeepEqual(one, makePlan(2, length)) {
		t.Error("seeds 1 and 2 give one plan")
	}
	seen := map[int]bool{}
	for i, a := range one.arrivals {
		seen[a.kind] = true
		if a.at >= length || i > 0 && a.at < one.arrivals[i-1].at {
			t.Errorf("arrival %d comes at %v", i, a.at)
		}
	}
	if len(seen) != len(kinds) {
		t.Errorf("of %d kinds of jobs, %d come", len(kinds), len(seen))
	}
	if len(one.kills) < 5 {
		t.Errorf("leaders are killed %d times", len(one.kills))
	}
}

func at(ms int) time.Time { return time.UnixMilli(int64(ms)) }

// story is the record of a run of one training job of a kind. Its attempts begin at 1,000 ms, are
// assigned 100 ms before they beat, and follow each other.
func story(k kind, lives ...training.Life) *found {
	f := &found{lives: map[model.JobID][]training.Life{7: lives}, history: map[model.JobID]*api.Job{},
		assigned: map[attemptID]api.Event{}, stopping: map[attemptID]api.Event{}, ended: map[attemptID]api.Event{}}
	f.trained = []trained{{id: 7, kind: k}}
	j := &api.Job{ID: 7, Code: model.Completed, Attempt: len(lives)}
	for i, l := range lives {
		id := attemptID{7, l.Attempt}
		f.assigned[id] = event(uint64(i), l.First.Add(-100*time.Millisecond), "")
		f.ended[id] = event(uint64(i), l.Last, "")
		j.GPUSeconds += int64((l.Last.Sub(l.First) + 100*time.Millisecond) / time.Second)
		j.Attempts = append(j.Attempts, api.Attempt{N: l.Attempt})
	}
	f.history[7] = j
	return f
}

func event(index uint64, when time.Time, cause model.Cause) api.Event {
	return api.Event{Index: index, At: &api.Time{Time: when}, Job: 7, Attempt: 1, Cause: cause}
}

func life(n, from, to, begin, end int) training.Life {
	return training.Life{Attempt: n, From: from, To: to, First: at(begin), Last: at(end),
		Workers: map[int]training.Span{0: {First: at(begin), Last: at(end)}}}
}

// TestEachPropertyIsNoticed breaks one property after the other.
func TestEachPropertyIsNoticed(t *testing.T) {
	short := kinds[0]
	left := func(f *found) *found {
		f.history[7].Attempts[0].ExitCode = model.DefaultCkptCode
		return f
	}
	asked := func(f *found, when int) *found {
		f.stopping[attemptID{7, 1}] = event(1, at(when), model.CauseTE)
		return f
	}
	charged := func(f *found, s int64) *found {
		f.history[7].GPUSeconds = s
		return f
	}
	right := story(short, life(1, 0, 120, 1000, 101_000), life(2, 100, 400, 102_000, 202_000))
	away := func(to, from int) *found {
		return story(short, life(1, 0, to, 0, 5000), life(2, from, 150, 6000, 7000))
	}
	cases := map[string]struct {
		f     *found
		check func(*proof, *found)
		bad   bool
	}{
		"all attempts are told":  {right, (*proof).ends, false},
		"one after the other":    {right, (*proof).alone, false},
		"from the checkpoint":    {right, (*proof).steps, false},
		"charged what was held":  {right, (*proof).ledger, false},
		"gone in time":           {asked(right, 90_000), (*proof).grace, false},
		"two at once":            {story(short, life(1, 0, 9, 0, 5000), life(2, 0, 9, 4900, 6000)), (*proof).alone, true},
		"from the beginning":     {away(120, 0), (*proof).steps, true},
		"not where it had left":  {left(away(99, 50)), (*proof).steps, true},
		"a step that it saves":   {away(100, 50), (*proof).steps, false},
		"charged too little":     {charged(story(short, life(1, 0, 9, 0, 200_000)), 195), (*proof).ledger, true},
		"charged too much":       {charged(story(short, life(1, 0, 9, 0, 200_000)), 205), (*proof).ledger, true},
		"two seconds after that": {asked(story(short, life(1, 0, 9, 0, 32_000)), 10_000), (*proof).grace, true},
		"a job that failed":      {failed(story(short, life(1, 0, 9, 0, 32_000))), (*proof).ends, true},
	}
	for name, c := range cases {
		var p proof
		c.check(&p, c.f)
		if (p.violated > 0) != c.bad {
			t.Errorf("%s: %d violations", name, p.violated)
		}
	}
}

func failed(f *found) *found {
	f.history[7].Code = model.Failed
	return f
}

// TestAYoungerJobThatStartsFirstIsNoticed has two jobs that are alike and one of another account.
func TestAYoungerJobThatStartsFirstIsNoticed(t *testing.T) {
	job := func(id model.JobID, account string) trained {
		return trained{id: id, kind: kinds[0], arrival: arrival{account: account}}
	}
	for name, c := range map[string]struct {
		starts map[model.JobID]uint64
		bad    bool
	}{
		"in order":                  {map[model.JobID]uint64{1: 5, 2: 6, 3: 4}, false},
		"in one plan":               {map[model.JobID]uint64{1: 5, 2: 5, 3: 5}, false},
		"the younger one first":     {map[model.JobID]uint64{1: 6, 2: 5, 3: 4}, true},
		"the older one never":       {map[model.JobID]uint64{2: 5}, true},
		"the younger one never":     {map[model.JobID]uint64{1: 5}, false},
		"one of another account":    {map[model.JobID]uint64{3: 5}, false},
		"nothing ever, for no room": {nil, false},
	} {
		f := &found{trained: []trained{job(1, "a"), job(2, "a"), job(3, "b")}, assigned: map[attemptID]api.Event{}}
		for id, index := range c.starts {
			f.assigned[attemptID{id, 1}] = api.Event{Index: index}
		}
		var p proof
		p.order(f)
		if (p.violated > 0) != c.bad {
			t.Errorf("%s: %d violations", name, p.violated)
		}
	}
}

// TestLatencyBeginsWithTheLastVictim: a trial waits for the cluster from when its room is free.
func TestLatencyBeginsWithTheLastVictim(t *testing.T) {
	f := story(kinds[0], life(1, 0, 9, 0, 8000))
	f.assigned[attemptID{7, 1}] = api.Event{Index: 1, At: &api.Time{Time: at(0)}, Node: "n[1-2]"}
	f.assigned[attemptID{9, 1}] = api.Event{Index: 2, At: &api.Time{Time: at(8010)}, Node: "n2"}
	file := filepath.Join(t.TempDir(), "first")
	if err := os.WriteFile(file, []byte("8090\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.tried = []tried{{id: 9, asked: at(5000), file: file}}
	if w, wrong := f.waits(); len(wrong) > 0 || w.room.at(100) != 3090*time.Millisecond {
		t.Errorf("without a reservation nothing was in its way: %v, %v", w, wrong)
	}
	f.reserved = []model.JobID{9}
	if w, _ := f.waits(); w.room.at(100) != 90*time.Millisecond || len(w.quiet) != 1 {
		t.Errorf("since its victim was gone: %+v", w)
	}
	f.takeOvers = []takeOver{{at(4000), at(5100)}}
	if w, _ := f.waits(); len(w.quiet) != 0 {
		t.Error("a take-over is not noticed")
	}
}

func TestPercentilesAreNearestRank(t *testing.T) {
	s := spread{3 * time.Millisecond, time.Millisecond, 2 * time.Millisecond}
	if s.at(50) != 2*time.Millisecond || s.at(99) != 3*time.Millisecond || spread(nil).at(50) != 0 {
		t.Errorf("percentiles %v", s)
	}
}
