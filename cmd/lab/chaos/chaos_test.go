package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/lab/training"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// TestASeedIsASchedule: what a seed found can be tried again, and another seed is another schedule.
func TestASeedIsASchedule(t *testing.T) {
	const length = time.Hour
	one := schedule(seeded(1), onControllers, 3, faultMax, length)
	if !slices.Equal(one, schedule(seeded(1), onControllers, 3, faultMax, length)) {
		t.Error("seed 1 gives two schedules")
	}
	if slices.Equal(one, schedule(seeded(2), onControllers, 3, faultMax, length)) {
		t.Error("seeds 1 and 2 give one schedule")
	}
	seen, total := map[kind]bool{}, time.Duration(0)
	for _, f := range one {
		seen[f.kind], total = true, total+f.after+f.length
		if f.target < 0 || f.target > 2 || f.other < 0 || f.other > 2 || f.target == f.other {
			t.Errorf("%v hits machine %d of three, and %d", f, f.target, f.other)
		}
	}
	for _, k := range onControllers {
		if !seen[k] {
			t.Errorf("an hour has no %s", k)
		}
	}
	if total > length || total < length-time.Minute {
		t.Errorf("the schedule of an hour takes %v", total)
	}
	if got := schedule(seeded(1), nil, 3, faultMax, length); got != nil {
		t.Errorf("without kinds there are faults: %v", got)
	}
}

func TestFaultsAreChosenByName(t *testing.T) {
	if got := chosen(onControllers, "pause,cut,kill-node"); !slices.Equal(got, []kind{pause, cut}) {
		t.Errorf("chosen: %v", got)
	}
	if got := chosen(onNodes, ""); !slices.Equal(got, onNodes) {
		t.Errorf("without a list: %v", got)
	}
	if err := checkKinds("pause,kill-nodes"); err == nil || !strings.Contains(err.Error(), `"kill-nodes"`) {
		t.Errorf("an unknown fault: %v", err)
	}
	if err := checkKinds("kill-node"); err != nil {
		t.Error(err)
	}
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// TestTheModelOfARegister has histories that a register can have, and some that it cannot.
func TestTheModelOfARegister(t *testing.T) {
	write := func(client int, value string, call, done int) operation {
		return operation{client: client, register: 7, write: true, value: value, call: ms(call), done: ms(done),
			answered: true}
	}
	read := func(client int, value string, call, done int) operation {
		return operation{client: client, register: 7, value: value, call: ms(call), done: ms(done), answered: true}
	}
	lost := func(o operation) operation {
		o.answered = false
		return o
	}
	for name, c := range map[string]struct {
		history []operation
		right   bool
	}{
		"what was written is read": {[]operation{write(1, "a", 0, 1), read(2, "a", 2, 3)}, true},
		"before the first write":   {[]operation{read(2, initialName, 0, 1), write(1, "a", 2, 3)}, true},
		"an old value":             {[]operation{write(1, "a", 0, 1), write(1, "b", 2, 3), read(2, "a", 4, 5)}, false},
		"an old value while the new one is written": {
			[]operation{write(1, "a", 0, 1), write(1, "b", 2, 5), read(2, "a", 3, 4)}, true},
		"back and forth": {
			[]operation{write(1, "a", 0, 1), write(1, "b", 2, 9), read(2, "b", 3, 4), read(2, "a", 5, 6)}, false},
		"a write that is lost": {[]operation{write(1, "a", 0, 1), read(2, initialName, 2, 3)}, false},
		"a write without an answer that was done late": {
			[]operation{lost(write(1, "a", 0, 1)), read(2, initialName, 2, 3), read(2, "a", 4, 5)}, true},
		"a write without an answer that was never done": {
			[]operation{lost(write(1, "a", 0, 1)), read(2, initialName, 2, 3), read(2, initialName, 4, 5)}, true},
		"a read without an answer says nothing": {[]operation{lost(read(2, "", 0, 1)), read(2, initialName, 2, 3)}, true},
	} {
		wrong, unknown := checkLinearizable(c.history, time.Minute)
		if len(unknown) > 0 || (len(wrong) == 0) != c.right {
			t.Errorf("%s: wrong %v, unknown %v", name, wrong, unknown)
		}
	}
	other := write(1, "a", 0, 1)
	other.register = 8
	if wrong, _ := checkLinearizable([]operation{other, read(2, initialName, 2, 3)}, time.Minute); len(wrong) > 0 {
		t.Error("a write of one job is looked for in another")
	}
}

// beats writes a heartbeat file.
func beats(t *testing.T, lines string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "heartbeat")
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAttemptsThatOverlapOrForgetAreSeen(t *testing.T) {
	for name, c := range map[string]struct {
		lines string
		want  string // part of the violation
	}{
		"one after the other":      {"1 0 0 1000\n1 0 40 3000\n2 0 40 3001\n2 0 60 4000\n", ""},
		"from the last checkpoint": {"1 0 0 1000\n1 0 59 3000\n2 0 40 3500\n", ""},
		"at once":                  {"1 0 0 1000\n2 0 40 2500\n1 0 40 3000\n2 0 60 4000\n", "ran at once for 500ms"},
		"from the beginning":       {"1 0 0 1000\n1 0 99 3000\n2 0 0 3500\n", "begins at step 0"},
		"workers of one attempt":   {"1 0 0 1000\n1 1 0 1000\n1 1 20 2000\n1 0 20 2000\n", ""},
	} {
		all, err := training.Lives(beats(t, c.lines))
		if err != nil {
			t.Fatal(err)
		}
		var v judge
		v.attempts(trained{id: 3, steps: 100}, all)
		if got := strings.Join(v.violations, "; "); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if all, err := training.Lives(filepath.Join(t.TempDir(), "none")); err != nil || all != nil {
		t.Errorf("a job that never ran: %v, %v", all, err)
	}
	if _, err := training.Lives(beats(t, "1 0 x\n")); err == nil {
		t.Error("a line that is no heartbeat is taken")
	}
}

// TestTheLedgerIsCompared charges a job of 100 s by heartbeats.
func TestTheLedgerIsCompared(t *testing.T) {
	for _, c := range []struct {
		tooShort, tooLong time.Duration
		bad               bool
	}{{0, 0, false}, {0, 900 * time.Millisecond, false}, {2 * time.Second, 0, true}, {0, 1100 * time.Millisecond, true}} {
		var r report
		l := ledger{jobs: 1, beaten: 100 * time.Second, tooShort: c.tooShort, tooLong: c.tooLong}
		l.judge(&r)
		if (len(r.violations) > 0) != c.bad {
			t.Errorf("%v too short, %v too long: %v", c.tooShort, c.tooLong, r.violations)
		}
	}
}

// TestAFaultExplainsWhatIsLate: an end inside of a fault may be noticed until after it, and no longer.
func TestAFaultExplainsWhatIsLate(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	v := judge{windows: []window{{pause, at(10), at(14)}}}
	for _, c := range []struct {
		s     int
		begin bool
		want  time.Duration
	}{{5, false, 0}, {12, false, 8 * time.Second}, {12, true, 2 * time.Second}, {30, false, 0}} {
		if got := v.late(at(c.s), c.begin); got != c.want {
			t.Errorf("at %d s, begin %v: %v, want %v", c.s, c.begin, got, c.want)
		}
	}
}

// TestAnOutageEndsNoTraining: an end by its lease in an outage is a violation, unless a node failed nearby.
func TestAnOutageEndsNoTraining(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	outage := window{allDown, at(100), at(120)}
	for _, c := range []struct {
		others []window
		judged bool
	}{{nil, true}, {[]window{{killNode, at(60), at(70)}}, true}, {[]window{{killNode, at(70), at(90)}}, false},
		{[]window{{pauseNode, at(110), at(200)}}, false}, {[]window{{killLeader, at(90), at(95)}}, true}} {
		if got := quiet(append(c.others, outage)); (len(got) > 0) != c.judged {
			t.Errorf("beside %v: %v", c.others, got)
		}
	}
	end := func(s int) *api.Time { return &api.Time{Time: at(s)} }
	for _, c := range []struct {
		a   api.Attempt
		bad bool
	}{{api.Attempt{}, false}, {api.Attempt{End: end(125), Cause: model.CauseLease}, true},
		{api.Attempt{End: end(110), Cause: model.CauseNodeLost}, true},
		{api.Attempt{End: end(110), Cause: model.CauseFailed}, false},
		{api.Attempt{End: end(140), Cause: model.CauseLease}, false}} {
		if got := endedBy(outage, &c.a); got != c.bad {
			t.Errorf("%+v: %v", c.a, got)
		}
	}
}

// TestDamageHitsWhatTheFileHolds: most of a log is room that is taken and not used yet.
func TestDamageHitsWhatTheFileHolds(t *testing.T) {
	content := make([]byte, 64*page)
	for i := range 16 * page {
		content[i] = 7
	}
	for _, where := range []float64{0, 0.3, 0.999} {
		for name, damage := range map[string]func(string, float64) error{"tear": tear, "flip": flip} {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := damage(path, where); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil || bytes.Equal(got[:min(len(got), 16*page)], content[:16*page]) {
				t.Errorf("%s at %v harms nothing: %v", name, where, err)
			}
			if least := 13 * page; len(got) < least {
				t.Errorf("%s at %v leaves %d bytes of %d", name, where, len(got), 16*page)
			}
		}
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if tear(empty, 0) == nil || flip(empty, 0) == nil {
		t.Error("an empty file is damaged")
	}
}
