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

// TestAliases: a queue is found by its other names, which belong to one queue alone.
func TestAliases(t *testing.T) {
	f, err := Parse("c.hcl", []byte("queue \"long\" { aliases = [\"gpu\", \"debug\"] }\n"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := f.Replicated()
	for name, want := range map[string]string{"gpu": "long", "long": "long", "": "default", "other": "other"} {
		if got := cfg.QueueName(name); got != want {
			t.Errorf("%q is queue %q, want %q", name, got, want)
		}
	}
	if got := settings(cfg)[`queue "long".aliases`]; !strings.Contains(got, "debug") {
		t.Errorf("told as %q", got)
	}
	for text, want := range map[string]string{
		`queue "a" { aliases = ["default"] }`:                                  "is also the name of a queue",
		"queue \"a\" { aliases = [\"x\"] }\nqueue \"b\" { aliases = [\"x\"] }": `belongs to both queue "a" and queue "b"`,
		`queue "a" { aliases = ["b c"] }`:                                      "not a name",
	} {
		if _, err := Parse("c.hcl", []byte(text+"\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
