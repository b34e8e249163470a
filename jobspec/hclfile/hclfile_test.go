package hclfile_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hclfile"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
)

type daemon struct {
	Name    string            `hcl:"name"`
	Dir     string            `hcl:"data_dir,optional"`
	Join    []string          `hcl:"join,optional"`
	Labels  map[string]string `hcl:"labels,optional"`
	Cores   int               `hcl:"cores,optional"`
	Memory  jobspec.Bytes     `hcl:"memory,optional"`
	Timeout time.Duration     `hcl:"timeout,optional"`
	Debug   bool              `hcl:"debug,optional"`
	Queues  []queue           `hcl:"queue,block"`
	Policy  *policy           `hcl:"policy,block"`
	Lease   lease             `hcl:"lease,block"`
	Ignored string
}

type queue struct {
	Name    string          `hcl:"name,label"`
	MaxTime jobspec.Seconds `hcl:"max_time,optional"`
}

type policy struct {
	Bypass int `hcl:"max_bypass,optional"`
}

type lease struct {
	Length time.Duration `hcl:"length,optional"`
}

func TestDecode(t *testing.T) {
	got := daemon{Dir: "/var/lib/rota", Cores: 4, Lease: lease{Length: time.Minute}}
	diags := hclfile.Decode("d.hcl", []byte(`
locals { host = "c1" }
name    = local.host
join    = ["a:1", "b:2"]
labels  = { rack = "r1", row = 2 }
memory  = "64GiB"
timeout = "300ms"
debug   = true
queue "default" { max_time = "2d" }
queue "te" {}
policy { max_bypass = 3 }
`), &got)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	want := daemon{
		Name: "c1", Dir: "/var/lib/rota", Join: []string{"a:1", "b:2"}, Labels: map[string]string{"rack": "r1", "row": "2"},
		Cores:  4,
		Memory: 64 * jobspec.GiB, Timeout: 300 * time.Millisecond, Debug: true,
		Queues: []queue{{"default", 172800}, {Name: "te"}}, Policy: &policy{3}, Lease: lease{time.Minute},
	}
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if string(a) != string(b) {
		t.Errorf("got  %s\nwant %s", a, b)
	}
}

func TestDecodeRefuses(t *testing.T) {
	diags := hclfile.Decode("d.hcl",
		[]byte("nam = \"x\"\ntimeout = 5\nlease {\n  lengt = \"1s\"\n}\nlease {}\nqueue {}\n"), &daemon{})
	want := []struct {
		line       int
		code, hint string
	}{
		{1, diagnostic.CodeMissing, "name"}, {1, diagnostic.CodeUnknownName, `did you mean "name"?`},
		{2, diagnostic.CodeNoUnit, `"5s"`},
		{4, diagnostic.CodeUnknownName, `did you mean "length"?`}, {6, diagnostic.CodeDuplicate, ""},
		{7, diagnostic.CodeLabels, "queue"},
	}
	if len(diags) != len(want) {
		t.Fatalf("%d diagnostics, want %d:\n%v", len(diags), len(want), diags)
	}
	for i, w := range want {
		found := false
		for _, d := range diags {
			found = found || d.Code == w.code && strings.Contains(d.Hint, w.hint) &&
				(d.Start.Line == w.line || w.code == diagnostic.CodeMissing)
		}
		if !found {
			t.Errorf("%d: %+v is not in\n%v", i, w, diags)
		}
	}
}

// FuzzDecode wants no file to make a daemon's configuration panic.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("name = \"x\"\nqueue \"a\" { max_time = \"1h\" }\n"))
	f.Add([]byte("name = [for x in range(9) : x]\nlease { length = 1 }"))
	f.Fuzz(func(t *testing.T, src []byte) {
		hclfile.Decode("d.hcl", src, &daemon{})
	})
}
