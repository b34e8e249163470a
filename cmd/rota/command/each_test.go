package command

import (
	"errors"
	"testing"
)

// TestAbout: an error that names what it is about is not told so twice.
func TestAbout(t *testing.T) {
	for text, want := range map[string]string{
		"there is no job 7":               "there is no job 7",
		"job 7 has ended":                 "job 7 has ended",
		"job 7: it is held":               "job 7: it is held",
		`there is no "job 7"`:             `there is no "job 7"`,
		"there is no job 70":              "job 7: there is no job 70",
		"priority is 0 to 100, not 170":   "job 7: priority is 0 to 100, not 170",
		"job 71 stands for job 7, at all": "job 7: job 71 stands for job 7, at all",
	} {
		if got := About("job 7", errors.New(text)).Error(); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
