package config

import (
	"strings"
	"testing"
)

// TestLicenses: a file counts licences by name, and a change of a count is told.
func TestLicenses(t *testing.T) {
	f, err := Parse("c.hcl", []byte("license \"matlab\" { count = 5 }\nlicense \"ansys\" { count = 0 }\n"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := f.Replicated()
	if cfg == nil || cfg.Licenses["matlab"] != 5 || len(cfg.Licenses) != 2 {
		t.Fatalf("got %+v", cfg)
	}
	if got := settings(cfg)[`license "matlab".count`]; got != "5" {
		t.Errorf("told as %q", got)
	}
	for text, want := range map[string]string{
		"license \"m\" { count = 1 }\nlicense \"m\" { count = 2 }": "written twice",
		"license \"m\" { count = -1 }":                             "count = -1",
		"license \"m n\" { count = 1 }":                            "not a name",
		"license \"m\" {}":                                         "count",
	} {
		if _, err := Parse("c.hcl", []byte(text+"\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
