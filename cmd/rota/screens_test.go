package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/slurm"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// longText is a text that finds no room in a column of any list, with characters of two columns and of none.
const longText = "größe-测试-e\u0301-with-a-name-that-is-much-longer-than-any-column-of-any-list-is-wide-測試"

// filled returns a value of type T whose texts are long, whose numbers are large and whose lists have members.
func filled[T any]() T {
	var v T
	fill(reflect.ValueOf(&v).Elem(), 0)
	return v
}

func fill(v reflect.Value, depth int) {
	if depth > 6 || !v.CanSet() {
		return
	}
	switch v.Interface().(type) {
	case api.Time:
		v.Set(reflect.ValueOf(api.Time{Time: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}))
		return
	case model.JobState:
		v.SetString(string(model.Running))
		return
	case model.Cause:
		v.SetString(string(model.CauseNodeLost))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(longText)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(min(123_456_789, int64(1)<<(v.Type().Bits()-2)))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(min(123_456_789, uint64(1)<<(v.Type().Bits()-2)))
	case reflect.Float64:
		v.SetFloat(0.123456789)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth+1)
		fill(value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), depth+1)
		}
	}
}

// wideJob is a job that has everything, and nothing short.
func wideJob(id model.JobID) api.Job {
	j := filled[api.Job]()
	j.ID, j.State, j.Code, j.Class = id, "OUT_OF_MEMORY", model.OutOfMemory, jobspec.BE
	j.Array, j.Groups, j.Group = api.ArrayPlace{}, nil, nil
	j.Spec = &jobspec.Job{Name: longText, Groups: []jobspec.Group{{Name: "main", Count: 4, Tasks: []jobspec.Task{{
		Name: "main", Image: longText, Command: []string{longText, longText}}}}}}
	return j
}

// wideCluster answers every list with members that find no room.
func wideCluster(t *testing.T) *rotatest.Answers {
	a := rotatest.NewAnswers(t)
	job, waiting := wideJob(1234567), wideJob(1234568)
	waiting.State, waiting.Code, waiting.Nodes, waiting.Ended = "PENDING", model.Pending, nil, nil
	a.On("GET /v1/jobs", rotatest.StreamOf([]api.Job{job, waiting}))
	for path, list := range map[string]any{
		"history": rotatest.List("JobList", job, waiting), "nodes": api.NodeList{List: rotatest.List("NodeList",
			filled[api.Node]()), Shares: true},
		"shares": rotatest.List("ShareList", filled[api.Share]()), "events": rotatest.List("EventList", filled[api.Event]()),
		"audit":      api.AuditList{List: rotatest.List("AuditList", filled[api.AuditEntry]())},
		"priorities": rotatest.List("PriorityList", filled[api.Priority]()),
		"tokens":     rotatest.List("TokenList", filled[api.APIToken]()),
		"jobs/7":     job, "jobs/7/why": filled[api.Why](),
	} {
		a.Give("GET /v1/"+path, list)
	}
	a.Give("GET /v1/config", cluster.DefaultConfig())
	a.Give("GET /v1/cluster", api.Cluster{Name: "lab"})
	a.Give("POST /v1/plan", filled[api.PlanResponse]())
	return a
}

// onTerminal runs a command line whose standard output is a terminal of so many columns, and returns what it shows.
func onTerminal(t *testing.T, s rotatest.Session, columns int, args []string) (code int, shown, complaint string) {
	t.Helper()
	term := rotatest.NewTerminal(t, columns)
	s.Out, s.Terminal = term.File, true
	got := s.Run(args...)
	return got.Code, term.Shown(), got.Stderr
}

// listings are the command lines of all commands that print a list, and of the others that print tables.
func listings(t *testing.T) [][]string {
	var all [][]string
	for _, c := range commands() {
		if slices.ContainsFunc(c.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), "columns") }) {
			all = append(all, []string{c.Name}, append([]string{c.Name}, "--columns", columnsOf(c)))
		}
	}
	if len(all) < 2*7 {
		t.Fatalf("only %d commands print lists: %v", len(all)/2, all)
	}
	job := rotatest.JobFile(t, rotatest.SmallJob)
	for _, line := range []string{"queue --start", "queue --tree", "nodes --summary", "status 7", "why 7", "eff 7",
		"share --explain " + longText, "token list", "init", "doctor --users", "plan " + job,
		"sim --trace gen:poisson:jobs=20 --nodes 2x32c/256g/8gpu --seeds 1..2 --compare fifo,fairshare"} {
		all = append(all, strings.Fields(line))
	}
	return all
}

// columnsOf returns the names of all columns of a list.
func columnsOf(c *command.Command) string {
	var names []string
	for _, candidate := range c.Values["columns"](&command.Line{}) {
		names = append(names, candidate.Word)
	}
	return strings.Join(names, ",")
}

// titles are words as titles of columns are written.
var titles = regexp.MustCompile(`\b[A-Z][A-Z_|%()/]+\b`)

var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// TestListingsFitTheirTerminal: no line of any list wraps in a terminal of 80, 120 or 200 columns. A wider one has
// every column that a narrower one has, and a pipe gets all of the text.
func TestListingsFitTheirTerminal(t *testing.T) {
	s := rotatest.Session{T: t, Addr: wideCluster(t).URL, Commands: commands, Env: []string{"LANG=C.UTF-8"}}
	for _, args := range listings(t) {
		narrower := map[string]bool{}
		for _, columns := range []int{80, 120, 200} {
			code, shown, complaint := onTerminal(t, s, columns, args)
			if code != 0 && code != 6 { // a plan that waits
				t.Errorf("rota %q: exit %d, %s", args, code, complaint)
			}
			if !strings.Contains(shown, "\n") {
				t.Errorf("rota %q shows nothing", args)
			}
			wider := map[string]bool{}
			for _, word := range titles.FindAllString(shown, -1) {
				wider[word] = true
			}
			for line := range strings.Lines(shown) {
				line = colours.ReplaceAllString(strings.TrimSuffix(line, "\n"), "")
				if n := show.Width(line); n > columns || strings.ContainsRune(line, '\x1b') {
					t.Errorf("rota %q shows a line of %d columns in a terminal of %d:\n%q", args, n, columns, line)
				}
			}
			for word := range narrower {
				if !wider[word] {
					t.Errorf("rota %q has no column %s in %d columns, and has it in fewer", args, word, columns)
				}
			}
			narrower = wider
		}
		piped := s.Run(args...)
		if strings.Contains(piped.Stdout, "…") || strings.ContainsRune(piped.Stdout, '\x1b') {
			t.Errorf("rota %q cuts or colours what a pipe gets:\n%s", args, piped.Stdout)
		}
	}
}

// TestColoursOfStates: on a terminal alone, not if the user asked for none, and never in a format that programs read.
func TestColoursOfStates(t *testing.T) {
	s := rotatest.Session{T: t, Addr: wideCluster(t).URL, Commands: commands}
	for _, c := range []struct {
		env  string
		args string
		want bool
	}{
		{"", "queue", true}, {"", "hist", true}, {"", "nodes", false}, {"", "status 7", true}, {"", "queue -o wide", true},
		{"TERM=xterm", "queue", true}, {"TERM=dumb", "queue", false}, {"NO_COLOR=1", "queue", false},
		{"NO_COLOR=1", "status 7", false}, {"NO_COLOR=1", "queue --color always", true}, {"CLICOLOR=0", "queue", false},
		{"CLICOLOR=1", "queue", true}, {"", "queue --color never", false}, {"", "queue -o json", false},
		{"", "queue -o yaml", false}, {"", "queue -o csv", false}, {"", "queue -o name", false},
		{"", "queue -o template={{.code}}", false}, {"", "queue -o json --color always", false},
		{"", "queue -o csv --color always", false}, {"", "status 7 -o json", false},
	} {
		session := s
		session.Env = []string{c.env}
		code, shown, complaint := onTerminal(t, session, 200, strings.Fields(c.args))
		if got := strings.ContainsRune(shown, '\x1b'); code != 0 || got != c.want {
			t.Errorf("%s rota %s: colours %v, exit %d, %s", c.env, c.args, got, code, complaint)
		}
	}
	if got := s.Run("queue", "--no-header"); strings.ContainsRune(got.Stdout, '\x1b') {
		t.Errorf("a pipe gets colours: %q", got.Stdout)
	}
	code, shown, _ := onTerminal(t, s, 200, []string{"queue", "--columns", "code,id", "--no-header"})
	if want := "\x1b[31mOOM\x1b[0m 1234567\n\x1b[33mPD\x1b[0m  1234568\n"; code != 0 || shown != want {
		t.Errorf("%q, want %q", shown, want)
	}
}

// TestTablesKnowTheirScreen: a command that prints a table says where, so that the next one fits its terminal too.
// Only CSV, which no terminal shortens, is printed without.
func TestTablesKnowTheirScreen(t *testing.T) {
	calls := 0
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		tree, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if method, ok := call.Fun.(*ast.SelectorExpr); !ok || method.Sel.Name != "Print" || len(call.Args) != 4 {
				return true
			}
			calls++
			format, _ := call.Args[2].(*ast.SelectorExpr)
			if _, none := call.Args[1].(*ast.CompositeLit); none && (format == nil || format.Sel.Name != "CSV") {
				t.Errorf("%s prints a table that does not know its terminal: use env.Screen()", files.Position(call.Pos()))
			}
			if format != nil && format.Sel.Name == "Wide" {
				t.Errorf("%s prints a table that is always wide: use table.AsTable", files.Position(call.Pos()))
			}
			return true
		})
		return nil
	})
	if err != nil || calls < 10 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// TestSlurmsNamesHaveNoColours: programs parse what commands print under Slurm's names, on a terminal too.
func TestSlurmsNamesHaveNoColours(t *testing.T) {
	addr := wideCluster(t).URL
	for _, line := range []string{"squeue", "squeue -l", "sacct", "sacct --parsable", "sinfo", "sprio",
		"scontrol show job 7"} {
		var out, complaint bytes.Buffer
		environ := []string{"ROTA_ADDR=" + addr, "TERM=xterm-256color", "CLICOLOR=1"}
		env := &command.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &complaint, Now: time.Now,
			Environ: func() []string { return environ }, IsTerminal: func(io.Writer) bool { return true }}
		env.Getenv = func(name string) string { value, _ := env.LookupEnv(name); return value }
		code := slurm.Run(t.Context(), strings.Fields(line), env, slurm.Submitter{})
		if code != 0 || out.Len() == 0 || strings.ContainsRune(out.String(), '\x1b') {
			t.Errorf("%s: exit %d, %q, %s", line, code, out.String(), complaint.String())
		}
	}
}
