package typo_test

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec/typo"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"memory", "memory", 0}, {"memroy", "memory", 1}, {"mem", "memory", 3},
		{"kitten", "sitting", 3}, {"ab", "ba", 1},
		{strings.Repeat("a", 65), strings.Repeat("a", 65), 64},
	} {
		if got, back := typo.Distance(c.a, c.b), typo.Distance(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("%q and %q: %d and %d, want %d", c.a, c.b, got, back, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"cores", "memory", "gpus", "gpu"}
	for written, want := range map[string]string{"memroy": "memory", "core": "cores", "gpux": "gpus", "swap": "", "": "",
		"mem": "", "Memory": "memory"} {
		if got := typo.Nearest(written, known); got != want {
			t.Errorf("%q: got %q, want %q", written, got, want)
		}
	}
}
