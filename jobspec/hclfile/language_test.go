package hclfile_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hclfile"
	"github.com/rota-hpc/rota/jobspec/hclfile/decode"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
)

// The tests of this file and its neighbours load a small language of their own that has every kind
// of attribute and block.

var update = flag.Bool("update", false, "write the golden files anew; read the difference before committing it")

type workload struct {
	Name   string              `json:"name"`
	Limit  jobspec.Seconds     `json:"limit,omitempty"`
	Count  int                 `json:"count,omitempty"`
	Share  float64             `json:"share,omitempty"`
	Tags   []string            `json:"tags,omitempty"`
	Codes  []int               `json:"codes,omitempty"`
	Tokens map[string]int      `json:"tokens,omitempty"`
	Lists  map[string][]string `json:"lists,omitempty"`
	Axes   []axis              `json:"axes,omitempty"`
	Path   string              `json:"path,omitempty"`
	Where  string              `json:"where,omitempty"`
	Meta   map[string]string   `json:"meta,omitempty"`
	Tasks  []work              `json:"tasks,omitempty"`
}

type axis struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

type work struct {
	Name     string            `json:"name"`
	Template bool              `json:"template,omitempty"`
	Command  []string          `json:"command,omitempty"`
	Script   string            `json:"script,omitempty"`
	Image    string            `json:"image,omitempty"`
	Cores    int               `json:"cores,omitempty"`
	Memory   jobspec.Bytes     `json:"memory,omitempty"`
	Debug    bool              `json:"debug,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Mounts   []place           `json:"mounts,omitempty"`
	Log      *place            `json:"log,omitempty"`
}

type place struct {
	Source string `json:"source,omitempty"`
	Target string `json:"target,omitempty"`
}

var language = &hclfile.Block{Blocks: []hclfile.Nested{{
	Name: "job", Label: "its name", Required: true, Body: workloadSchema,
	Enter: func(parent any, label string) (any, string) {
		w := parent.(*workload)
		w.Name = label
		return w, ""
	},
}}}

var workloadSchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		hclfile.Field("limit", func(w *workload) *jobspec.Seconds { return &w.Limit }).AtLeastOne(),
		hclfile.Field("count", func(w *workload) *int { return &w.Count }),
		hclfile.Field("share", func(w *workload) *float64 { return &w.Share }),
		hclfile.Field("tags", func(w *workload) *[]string { return &w.Tags }),
		hclfile.Field("codes", func(w *workload) *[]int { return &w.Codes }),
		hclfile.Field("tokens", func(w *workload) *map[string]int { return &w.Tokens }),
		hclfile.Field("lists", func(w *workload) *map[string][]string { return &w.Lists }),
		hclfile.Any("axes", "map(list)", setAxes),
		hclfile.Field("path", func(w *workload) *string { return &w.Path }).MayDefer(),
		hclfile.Field("where", func(w *workload) *string { return &w.Where }).OrName("node"),
		hclfile.Later("nodes", "leave it out"),
	},
	Blocks: []hclfile.Nested{
		{
			Name: "task", Label: "its name", Many: true, Body: workSchema,
			Template: func(target any) *bool { return &target.(*work).Template },
			Enter: func(parent any, label string) (any, string) {
				w := parent.(*workload)
				w.Tasks = append(w.Tasks, work{Name: label})
				return &w.Tasks[len(w.Tasks)-1], fmt.Sprintf("tasks[%d]", len(w.Tasks)-1)
			},
		},
		{
			Name: "meta", Body: &hclfile.Block{Free: func(target any) *map[string]string { return &target.(*workload).Meta }},
			Enter: func(parent any, _ string) (any, string) { return parent, "meta" },
		},
		hclfile.LaterBlock("hang", "leave it out"),
	},
}

func setAxes(w *workload, value decode.Value, _ hclfile.Source) error {
	entries, err := value.Entries()
	for _, e := range entries {
		values, err := e.Value.Texts()
		if err != nil {
			return err
		}
		w.Axes = append(w.Axes, axis{e.Name, values})
	}
	return err
}

var workSchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		hclfile.Field("command", func(t *work) *[]string { return &t.Command }).MayDefer(),
		hclfile.Text("script", "string",
			func(t *work, text string, _ hclfile.Source) error { t.Script = text; return nil }).MayDefer(),
		hclfile.Text("script_file", "path", func(t *work, name string, from hclfile.Source) error {
			text, err := from.ReadFile(name)
			t.Script = from.Literal(string(text))
			return err
		}).As("script").MayDefer(),
		hclfile.Field("image", func(t *work) *string { return &t.Image }),
		hclfile.Field("cores", func(t *work) *int { return &t.Cores }),
		hclfile.Field("memory", func(t *work) *jobspec.Bytes { return &t.Memory }),
		hclfile.Field("debug", func(t *work) *bool { return &t.Debug }),
	},
	Blocks: []hclfile.Nested{
		{
			Name: "env", Body: &hclfile.Block{Deferred: true,
				Free: func(target any) *map[string]string { return &target.(*work).Env }},
			Enter: func(parent any, _ string) (any, string) { return parent, "env" },
		},
		{
			Name: "mount", Many: true, Body: placeSchema,
			Enter: func(parent any, _ string) (any, string) {
				t := parent.(*work)
				t.Mounts = append(t.Mounts, place{})
				return &t.Mounts[len(t.Mounts)-1], fmt.Sprintf("mounts[%d]", len(t.Mounts)-1)
			},
		},
		{
			Name: "log", Body: placeSchema,
			Enter: func(parent any, _ string) (any, string) {
				t := parent.(*work)
				t.Log = &place{}
				return t.Log, "log"
			},
		},
	},
}

var placeSchema = &hclfile.Block{Attrs: []hclfile.Attr{
	hclfile.Field("source", func(p *place) *string { return &p.Source }).MayDefer(),
	hclfile.Field("target", func(p *place) *string { return &p.Target }).MayDefer(),
}}

// options give the files of testdata what they may ask for.
func options() hclfile.Options {
	environment := map[string]string{"ROTA_VAR_from_env": "seven", "ROTA_VAR_absent": "x", "ALLOWED": "yes"}
	return hclfile.Options{
		Vars:     map[string]string{},
		Getenv:   func(name string) (string, bool) { v, ok := environment[name]; return v, ok },
		AllowEnv: []string{"ALLOWED"},
		ReadFile: func(name string) ([]byte, error) { return os.ReadFile(filepath.Join("testdata/files", name)) },
		ReadVars: os.ReadFile,
		Now:      func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
		NewUUID:  func() string { return "00000000-0000-4000-8000-000000000000" },
		Quantities: map[string]func(string) (int64, error){
			"duration": func(text string) (int64, error) { d, err := jobspec.ParseSeconds(text); return int64(d), err },
			"size":     func(text string) (int64, error) { b, err := jobspec.ParseSize(text); return int64(b), err },
		},
	}
}

func load(name string, src []byte, opts hclfile.Options) (*workload, *hclfile.Result, diagnostic.Diagnostics) {
	w := &workload{}
	result, diags := hclfile.Load(name, src, language, w, opts)
	return w, result, diags
}

// mustLoad returns the JSON of what a good file says.
func mustLoad(t *testing.T, name, src string, opts hclfile.Options) string {
	t.Helper()
	w, _, diags := load(name, []byte(src), opts)
	if diags.HasErrors() {
		t.Fatalf("%s is refused:\n%v\n%s", name, diags, src)
	}
	return toJSON(t, w)
}

func toJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test -update writes it anew)\ngot:\n%s\nwant:\n%s", name, got, want)
	}
}

func files(t testing.TB, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no files match %s: %v", pattern, err)
	}
	return names
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	src, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return src
}
