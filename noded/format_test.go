package noded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDataDirectoryIsMarked(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // new, and marked
		if err := checkFormat(dir); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, formatFile)
	if err := os.WriteFile(path, fmt.Appendf(nil, `{"format":%d}`, DataFormat+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkFormat(dir); !errors.Is(err, ErrNewer) {
		t.Errorf("of a later version: %v", err)
	}
	for _, damaged := range []string{"", "{}", "rubbish"} {
		if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := checkFormat(dir); err == nil || !strings.Contains(err.Error(), "not a version") {
			t.Errorf("%q: %v", damaged, err)
		}
	}
}
