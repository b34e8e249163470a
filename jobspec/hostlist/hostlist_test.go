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
		"n[3,1-2]":         {"n3", "n1", "n2"},
		"rack1-n[1-2],b-c": {"rack1-n1", "rack1-n2", "b-c"},
	} {
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

// TestAsSlurm compares with what scontrol show hostlist and show hostnames of Slurm 24.11 print.
func TestAsSlurm(t *testing.T) {
	for names, want := range map[string]string{
		"n9 n10": "n[9-10]", "n1 n2 n3 n10": "n[1-3,10]", "n08 n9 n10": "n[08,9-10]", "n8 n09 n10": "n[8,09-10]",
		"n01 n1": "n[01,1]", "n099 n100 n0101": "n[099-100,0101]", "a b1 b2 a": "a,b[1-2],a", "n1 m1 n2": "n1,m1,n2",
		"n1 n1": "n[1,1]", "n10 n9": "n[10,9]", "gpu1-2 gpu1-3": "gpu1-[2-3]", "n1x n2x": "n1x,n2x",
		"n000000001 n2": "n[000000001,2]", "r1b1 r1b2 r2b1 r2b2": "r1b[1-2],r2b[1-2]",
		"n1234567890123 n1234567890124": "n[1234567890123-1234567890124]", "a1 a3 a2 a5": "a[1,3,2,5]",
	} {
		if got := Compress(strings.Fields(names)); got != want {
			t.Errorf("Compress(%s) = %s, want %s", names, got, want)
		}
		if got, err := Expand(want); err != nil || strings.Join(got, " ") != names {
			t.Errorf("Expand(%s) = %s, %v; want %s", want, got, err, names)
		}
	}
	for list, want := range map[string]string{"rack[0-1]_blade[0-1]": "rack0_blade0 rack0_blade1 rack1_blade0 " +
		"rack1_blade1",
		"n1,n2,,n3": "n1 n2 n3", ",n1": "n1", "n1,": "n1", "n[1,2-3,07]": "n1 n2 n3 n07",
		"n[1-2]x[3-4]y": "n1x3y n1x4y n2x3y n2x4y"} {
		if got, err := Expand(list); err != nil || strings.Join(got, " ") != want {
			t.Errorf("Expand(%s) = %s, %v; want %s", list, got, err, want)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, bad := range []string{"n[", "n]", "n[1-", "n[2-1]", "n[a]", ",", ",,", "n[0-999999999]",
		"n[0-99][0-99][0-99]",
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
