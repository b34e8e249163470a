package jobspec

import "testing"

// TestExpandPath: numbers are padded, text is not, and what has no value is refused.
func TestExpandPath(t *testing.T) {
	values := map[byte]string{'j': "7", 'x': "12", 'a': "4294967294", 'N': "gpu01"}
	for pattern, want := range map[string]string{
		"": "", "a.log": "a.log", "%x-%j.out": "12-7.out", "%4j": "0007", "%04j": "0007", "%0j": "7", "%99j": "0000000007",
		"%4x": "12", "%9N": "gpu01", "%2a": "4294967294", "100%%j%j": "100%j7", "%5%": "%", "é%j": "é7",
		"%99999999999999999999j": "0000000007",
	} {
		if got, err := ExpandPath(pattern, values); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", pattern, got, err, want)
		}
	}
	for pattern, want := range map[string]string{
		"%": `the pattern "%" ends in a %`, "a%12": `the pattern "a%12" ends in a %`,
		"%j%q": `the pattern "%j%q" has an unknown letter: %q`, "%é": `the pattern "%é" has an unknown letter: %é`,
	} {
		if got, err := ExpandPath(pattern, values); err == nil || err.Error() != want {
			t.Errorf("%q is %q, %v; want %s", pattern, got, err, want)
		}
	}
}
