package leader

import (
	"testing"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/peers"
)

// TestIsForeign: a controller of another cluster is known by its voters. A learner is not foreign,
// even if its part of the log names only voters that were replaced since.
func TestIsForeign(t *testing.T) {
	of := func(names ...string) (list []consensus.Member) {
		for i := 0; i < len(names); i += 2 {
			list = append(list, consensus.Member{Name: names[i], Log: names[i+1]})
		}
		return list
	}
	voters, learners := of("c1", "a2", "c2", "b2"), of("c3", "c2")
	for what, test := range map[string]struct {
		name, log string
		voters    []consensus.Member
		want      bool
	}{
		"it knows no voters yet":                   {"c4", "d1", nil, false},
		"it knows one of the voters":               {"c4", "d1", of("c1", "a1", "c2", "b2"), false},
		"all voters that it knows were replaced":   {"c4", "d1", of("c1", "a1", "c2", "b1"), true},
		"other names with the same log":            {"c4", "d1", of("c2", "a2"), true},
		"a learner that knows voters of long ago":  {"c3", "c2", of("c1", "a1", "c2", "b1", "c3", "c1"), false},
		"a learner's name with another log":        {"c3", "c9", of("c1", "a1"), true},
		"another name with the log of the learner": {"c4", "c2", of("c1", "a1"), true},
	} {
		s := peers.State{Log: test.log, Voters: test.voters}
		if got := isForeign(test.name, s, voters, learners); got != test.want {
			t.Errorf("%s: foreign %t, want %t", what, got, test.want)
		}
	}
}
