package fsm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// recorded is a line of testdata/histories.jsonl: an entry of a log and what became of it.
type recorded struct {
	History int             `json:"history"`
	Entry   json.RawMessage `json:"entry"`
	Outcome string          `json:"outcome"` // result, or refusal
	Events  []string        `json:"events,omitempty"`
}

// TestHistories keeps random histories as logs, with the outcome of each entry. A later version must
// come to the same: replicas of two versions would differ. Package state replays them too.
func TestHistories(t *testing.T) {
	const file = "testdata/histories.jsonl"
	var got bytes.Buffer
	lines := json.NewEncoder(&got)
	for i, c := range []*chaos{{stretchy: true}, {small: true}, {sharing: true}, {}} {
		c.Rand, c.s, c.at, c.seen = rand.New(rand.NewPCG(uint64(i), 13)), New(cluster.DefaultConfig()), 1, map[string]int{}
		audit := audited(t, c.s)
		for n := range uint64(220) {
			e := c.next()
			entry, err := Encode(e)
			if err != nil {
				t.Fatal(err)
			}
			result, err := c.s.Apply(n+1, e)
			if bad := audit.Check(); bad != nil {
				t.Fatalf("history %d, entry %d: %v", i, n+1, bad)
			}
			if err := lines.Encode(recorded{i, entry, outcome(result, err), eventsOf(c.s.v, n+1)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	theirs := bytes.SplitAfter(want, []byte("\n"))
	for i, line := range bytes.SplitAfter(got.Bytes(), []byte("\n")) {
		if i >= len(theirs) || !bytes.Equal(line, theirs[i]) {
			t.Fatalf("line %d is now\n%s\nif that is meant, run make golden", i+1, line)
		}
	}
}

// eventsOf lists what has happened in an entry.
func eventsOf(v *state.View, index uint64) []string {
	var list []string
	for _, e := range v.Events(index - 1) {
		list = append(list, fmt.Sprint(e.Type, " ", e.Job, " ", e.Attempt, " ", e.Node, " ", e.Cause, " ", e.For))
	}
	return list
}

func outcome(result any, err error) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%+v", result)
}
