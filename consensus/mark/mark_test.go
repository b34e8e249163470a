package mark

import "testing"

func TestMarks(t *testing.T) {
	m := Mark{Term: 5, Vote: 4, LastTerm: 3, Last: 20}
	for _, test := range []struct {
		o      Mark
		covers bool
		raised Mark
	}{
		{Mark{}, true, m},
		{m, true, m},
		{Mark{Term: 6}, false, Mark{6, 4, 3, 20}},
		{Mark{Vote: 5}, false, Mark{5, 5, 3, 20}},
		{Mark{LastTerm: 3, Last: 21}, false, Mark{5, 4, 3, 21}},
		{Mark{LastTerm: 4, Last: 1}, false, Mark{5, 4, 4, 1}},
		{Mark{LastTerm: 2, Last: 99}, true, m},
		{Mark{Term: 4, Vote: 3, LastTerm: 3, Last: 19}, true, m},
		{Mark{Term: 9, Vote: 9, LastTerm: 2, Last: 99}, false, Mark{9, 9, 3, 20}},
	} {
		if got := m.Covers(test.o); got != test.covers {
			t.Errorf("%v covers %v: %t", m, test.o, got)
		}
		if got := m.Raised(test.o); got != test.raised {
			t.Errorf("%v raised by %v: %v", m, test.o, got)
		}
	}
}
