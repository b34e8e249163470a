package submit

import (
	"errors"
	"testing"
)

func TestAboutSpec(t *testing.T) {
	for text, want := range map[string]string{
		`job "x": queue "gpu": no such queue`: `job "x": queue "gpu": no such queue`,
		"there is no leader now":              "submit x: there is no leader now",
	} {
		if got := aboutSpec("submit", "x", errors.New(text)).Error(); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
