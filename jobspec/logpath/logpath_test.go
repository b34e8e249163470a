package logpath

import "testing"

// TestExpand: numbers are padded, text is not, and what has no value is refused.
func TestExpand(t *testing.T) {
	values := map[byte]string{'j': "7", 'x': "12", 'a': "4294967294", 'N': "gpu01"}
	for pattern, want := range map[string]string{
		"": "", "a.log": "a.log", "%x-%j.out": "12-7.out", "%4j": "0007", "%04j": "0007", "%0j": "7", "%99j": "0000000007",
		"%4x": "12", "%9N": "gpu01", "%2a": "4294967294", "100%%j%j": "100%j7", "%5%": "%", "é%j": "é7",
		"%99999999999999999999j": "0000000007",
	} {
		if got, err := Expand(pattern, values); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", pattern, got, err, want)
		}
	}
	for pattern, want := range map[string]string{
		"%": `the pattern "%" ends in a %`, "a%12": `the pattern "a%12" ends in a %`,
		"%j%q": `the pattern "%j%q" has an unknown letter: %q`, "%é": `the pattern "%é" has an unknown letter: %é`,
	} {
		if got, err := Expand(pattern, values); err == nil || err.Error() != want {
			t.Errorf("%q is %q, %v; want %s", pattern, got, err, want)
		}
	}
}

// TestWorker: the letters of task.log, of an array task and of a job that is none.
func TestWorker(t *testing.T) {
	w := Worker{Job: 42, Name: "train", User: "ada", Workdir: "/home/ada/run/", Number: 1, Node: "gpu02", Restarts: 2,
		FirstRank: 3}
	task := w
	task.Array, task.Index = 40, 7
	for _, test := range []struct {
		worker        Worker
		pattern, want string
	}{
		{w, "/shared/%x-%j.out", "/shared/train-42.out"},
		{w, "%n_%N_%r_%t_%u_%s%%", "/home/ada/run/1_gpu02_2_3_ada_0%"},
		{w, "%A_%a", "/home/ada/run/42_4294967294"},
		{task, "%A_%a_%j", "/home/ada/run/40_7_42"},
		{task, "%4a", "/home/ada/run/0007"},
	} {
		if got, err := test.worker.Expand(test.pattern); err != nil || got != test.want {
			t.Errorf("Expand(%q) = %q, %v; want %q", test.pattern, got, err, test.want)
		}
	}
}
