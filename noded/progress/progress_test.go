package progress

import "testing"

func TestNewestLine(t *testing.T) {
	for text, want := range map[string]int64{"{\"step\":1}\n": 1, "{\"step\":1}\n{\"step\":2": 1,
		"{\"step\":1}\n\n[]\n{}\n": 1, "x\n": -1, "": -1} {
		line, _ := newestLine([]byte(text))
		got := int64(-1)
		if line != nil {
			got = *line.Step
		}
		if got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

// TestALossThatHasDiverged shows that the step of a line counts although its metric is not a
// number.
func TestALossThatHasDiverged(t *testing.T) {
	line, _ := newestLine([]byte(`{"step":1}` + "\n" +
		`{"step": 7, "saved_step": 5, "metrics": {"loss": NaN, "grad": -Infinity, "lr": 0.5}}` + "\n"))
	if line == nil || *line.Step != 7 || line.Saved != 5 || len(line.Metrics) != 1 || line.Metrics["lr"] != 0.5 {
		t.Fatalf("got %+v", line)
	}
}
