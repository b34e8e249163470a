package hostlist

import (
	"slices"
	"strings"
	"testing"
)

func TestForms(t *testing.T) {
	for short, names := range map[string][]string{
		"":                 nil,
		"n1":               {"n1"},
		"n[1-3]":           {"n1", "n2", "n3"},
		"gpu[01-02,07],a":  {"gpu01", "gpu02", "gpu07", "a"},
		"n[9],n[10-11]":    nil, // read only: one name is written without brackets
		"n[3,1-2]":         {"n3", "n1", "n2"},
		"rack1-n[1-2],b-c": {"rack1-n1", "rack1-n2", "b-c"},
	} {
		if names == nil && short != "" {
			continue
		}
		if got := Compress(names); got != short {
			t.Errorf("Compress(%q) = %q, want %q", names, got, short)
		}
		if got, err := Expand(short); err != nil || !slices.Equal(got, names) {
			t.Errorf("Expand(%q) = %q, %v; want %q", short, got, err, names)
		}
	}
	if got, err := Expand("n[9-11]"); err != nil || !slices.Equal(got, []string{"n9", "n10", "n11"}) {
		t.Errorf("Expand of a range that grows in width: %q, %v", got, err)
	}
}

func TestRefused(t *testing.T) {
	for _, bad := range []string{"n[", "n]", "n[1-", "n[2-1]", "n[a]", ",n", "n,", "n,,m", "n[1][2]", "n[0-999999999]",
		"n[1-2"} {
		if got, err := Expand(bad); err == nil {
			t.Errorf("Expand(%q) = %q, want an error", bad, got)
		}
	}
}

func FuzzRoundTrip(f *testing.F) {
	f.Add("n1,n2,n10")
	f.Add("a01,a02,b,a03")
	f.Fuzz(func(t *testing.T, list string) {
		_, _ = Expand(list) // any text: no panic
		if strings.ContainsAny(list, "[]") {
			return
		}
		names := strings.Split(list, ",")
		if slices.Contains(names, "") {
			return
		}
		short := Compress(names)
		got, err := Expand(short)
		if err != nil || !slices.Equal(got, names) {
			t.Fatalf("%q became %q and then %q, %v", names, short, got, err)
		}
	})
}

func TestNumbers(t *testing.T) {
	for want, in := range map[string][]int{"": nil, "3": {3}, "0-2,5": {5, 2, 1, 0}, "1,3": {1, 3, 3}} {
		if got := Numbers(in); got != want {
			t.Errorf("Numbers(%v) = %q, want %q", in, got, want)
		}
	}
}

func TestCounts(t *testing.T) {
	for want, counts := range map[string][]int{"2(x3),1": {2, 2, 2, 1}, "1": {1}, "1,2,1(x2)": {1, 2, 1, 1}, "": {}} {
		if got := Counts(counts); got != want {
			t.Errorf("%v: %s, not %s", counts, got, want)
		}
	}
}
