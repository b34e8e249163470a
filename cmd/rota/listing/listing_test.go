package listing_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/listing"
	"github.com/rota-hpc/rota/cmd/rota/manual"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
)

// thing is what the lists of these tests have.
type thing struct {
	Name   string            `json:"name"`
	Size   uint64            `json:"size"`
	Weight float64           `json:"weight"`
	Heavy  bool              `json:"heavy"`
	At     *api.Time         `json:"at"`
	Tags   []string          `json:"tags"`
	Labels map[string]string `json:"labels,omitempty"`
	Inner  *struct {
		Depth int `json:"depth"`
	} `json:"inner,omitempty"`
	Any    any `json:"any,omitempty"`
	hidden int
}

var cells = append([]listing.Cell[thing]{
	listing.TextCell("name", "NAME", 8, "name", func(t *thing) string { return t.Name }),
	listing.NumberCell("size", "SIZE", "size", func(t *thing) uint64 { return t.Size }),
	listing.TimeCell("at", "AT", "at", func(t *thing) *api.Time { return t.At }),
	listing.TextCell("tags", "TAGS", 0, "tags", func(t *thing) string { return strings.Join(t.Tags, "+") }).AtRight().
		SortedBy(func(t *thing) int64 { return int64(len(t.Tags)) }).InWide(),
}, listing.OnDemand(listing.Titled(listing.TextCell("heavy", "HEAVY", 0, "heavy weight", func(t *thing) string {
	return fmt.Sprint(t.Heavy)
}), "IS HEAVY", "is-heavy"))...)

func things() []thing {
	return []thing{
		{Name: "b", Size: 10, Weight: 1.5, At: rotatest.At("2026-11-21T08:00:00Z"), Tags: []string{"x", "y"},
			Labels: map[string]string{"rack": "a"}},
		{Name: "a", Size: 9, Heavy: true, hidden: 1},
		{Name: "c\x1b", Size: 10, At: rotatest.At("2026-11-20T08:00:00Z"), Tags: []string{"z"}},
	}
}

// commands has the command list, which prints things, and fields, which prints the fields that it
// would ask for.
func commands() []*command.Command {
	flags := listing.ViewFlags(command.Switch("long,l", "the same as -o wide"))
	own := []*command.Command{
		{Name: "list", Flags: flags, Values: listing.Completions(cells, nil), Action: func(env *command.Env,
			c *cli.Context) error {
			v, _, err := listing.Open(env, c, cells)
			if err != nil {
				return err
			}
			list := rotatest.List("ThingList", things()...)
			return v.Show(env, &list)
		}},
		{Name: "fields", Flags: flags, Action: func(env *command.Env, c *cli.Context) error {
			v, session, err := listing.Open(env, c, cells)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(env.Stdout, v.Fields("id"), v.RowByRow(), v.AsReceived(), v.Structured(), session.AsJSON)
			return err
		}},
	}
	style := []listing.Cell[thing]{{Name: "full", Text: func(_ *thing, s listing.Style) string { return fmt.Sprint(s) }}}
	own = append(own, &command.Command{Name: "style", Flags: flags, Action: func(env *command.Env, c *cli.Context) error {
		v, _, err := listing.Open(env, c, style)
		if err != nil {
			return err
		}
		list := rotatest.List("ThingList", thing{})
		return v.Show(env, &list)
	}})
	return append(own, manual.Commands(own)...)
}

func session(t *testing.T) rotatest.Session {
	return rotatest.Session{T: t, Commands: commands, Addr: "unix:/nowhere"}
}

// TestListsInEveryFormat notices a format that shows something else than was asked for.
func TestListsInEveryFormat(t *testing.T) {
	table := "NAME SIZE AT\nb      10 2026-11-21T08:00:00Z\na       9\nc?     10 2026-11-20T08:00:00Z\n"
	wide := "NAME SIZE AT                   TAGS\nb      10 2026-11-21T08:00:00Z  x+y\na       9\n" +
		"c?     10 2026-11-20T08:00:00Z    z\n"
	for args, want := range map[string]string{
		"":                           table,
		"-o table":                   table,
		"-o wide":                    wide,
		"--long":                     wide,
		"-l -o table":                wide,
		"-l -o name":                 "b\na\nc\x1b\n",
		"--no-header --columns size": "10\n 9\n10\n",
		"--columns IS-HEAVY,name":    "IS HEAVY NAME\nfalse    b\ntrue     a\nfalse    c?\n",
		"-o " +
			"csv": "NAME,SIZE,AT,TAGS\nb,10,2026-11-21T08:00:00Z,x+y\na,9,,\nc\x1b,10,2026-11-20T08:00:00Z,z\n",
		"-o csv --columns name":              "NAME\nb\na\nc\x1b\n",
		"-o name --sort name":                "a\nb\nc\x1b\n",
		"-o name --sort -size,name":          "b\nc\x1b\na\n",
		"-o name --sort size,-name":          "a\nc\x1b\nb\n",
		"-o name --sort +at":                 "a\nc\x1b\nb\n",
		"-o name --sort tags":                "a\nc\x1b\nb\n",
		"-o name --filter size>9":            "b\nc\x1b\n",
		"-o name --filter heavy":             "a\n",
		"-o template={{.name}}:{{.size}}":    "b:10\na:9\nc\x1b:10\n",
		"-o json --filter heavy --sort size": "",
	} {
		got := session(t).Run(append([]string{"list", "--utc"}, strings.Fields(args)...)...)
		if want == "" {
			var list api.List[thing]
			if err := json.Unmarshal([]byte(got.Stdout), &list); err != nil || len(list.Items) != 1 || list.Kind != "ThingList" {
				t.Errorf("list %s: %+v, %v", args, got, err)
			}
			continue
		}
		if got.Code != 0 || got.Stdout != want || got.Stderr != "" {
			t.Errorf("list %s: %+v\nwant\n%s", args, got, want)
		}
	}
	got := session(t).Run("list", "-o", "yaml", "--filter", "heavy")
	if got.Code != 0 || !strings.HasPrefix(got.Stdout, "apiVersion: v1\nkind: ThingList\n") ||
		!strings.Contains(got.Stdout, "  - name: a\n    size: 9\n") {
		t.Errorf("YAML: %+v", got)
	}
	s := session(t)
	for output, want := range map[string]string{"csv": "NAME,SIZE", "template={{.name}}": "b\n", "nonsense": "NAME SIZE"} {
		s.Env = []string{"ROTA_OUTPUT=" + output}
		if got := s.Run("list"); got.Code != 0 || !strings.HasPrefix(got.Stdout, want) {
			t.Errorf("ROTA_OUTPUT=%s: %+v", output, got)
		}
		if got := s.Run("list", "-o", "name"); got.Code != 0 || !strings.HasPrefix(got.Stdout, "b\na\n") {
			t.Errorf("-o name over ROTA_OUTPUT=%s: %+v", output, got)
		}
	}
}

// TestFilters notices an expression that means something else than its words.
func TestFilters(t *testing.T) {
	for expr, want := range map[string]string{
		`name == "a" or size > 9 and weight > 1`: "b a",
		`"y" in tags`:                            "b",
		`len(tags) == 0`:                         "a",
		`labels.rack == "a"`:                     "b",
		`at < date("2026-11-21T00:00:00Z")`:      "a c\x1b", // without a time it is the zero time
		`inner.depth == 0`:                       "b a c\x1b",
		`name matches "^[ab]$" and not heavy`:    "b",
		"size >\n9":                              "b c\x1b",
		// counting steps changes no result
		`one(tags, # == "y") and all(1..3, # > 0)`:                      "b",
		`sum(filter(1..4, # > 2)) == 7 and reduce(1..3, #acc + #) == 6`: "b a c\x1b",
		`len(map(5..4, #)) == 0 and count(1..size, # > 3) == size - 3`:  "b a c\x1b",
		`(find(1..9, # > 3) ?? 0) == 4 and not (name matches "b")`:      "a c\x1b",
	} {
		got := session(t).Run("list", "-o", "name", "--filter", expr)
		if text := strings.Join(strings.Fields(got.Stdout), " "); got.Code != 0 || text != want {
			t.Errorf("%s: %+v, want %s", expr, got, want)
		}
	}
}

// TestAFilterIsBounded: predicates and ranges inside of others, which would run for hours, end with a
// message in seconds, whichever way they repeat.
func TestAFilterIsBounded(t *testing.T) {
	nest := func(inner, outer string, n int) string {
		for range n {
			inner = fmt.Sprintf(outer, inner)
		}
		return inner
	}
	for _, filter := range []string{
		nest("1", "reduce(1..300, #acc + %s)", 6) + " > 0",
		nest("true", "all(1..300, %s)", 6),
		nest("true", "none(1..300, not %s)", 6),
		nest("1", "sum(map(1..300, %s))", 6) + " > 0",
		nest("1", "count(1..300, %s > 0)", 6) + " > 0",
		"len(1..900000) + len(1..900000) + " + nest("1", "reduce(1..30, #acc + len(1..900000) + %s)", 1) + " > 0",
		"len(-9223372036854775807..9223372036854775807) > 0",
	} {
		ended := make(chan func(), 1)
		go func() {
			got := session(t).Run("list", "-o", "name", "--filter", filter)
			ended <- func() {
				if got.Code != exit.Usage || !strings.Contains(got.Stderr, "--filter: column") ||
					!strings.Contains(got.Stderr, "steps") && !strings.Contains(got.Stderr, "memory budget") {
					t.Errorf("%s: %+v", filter, got)
				}
			}
		}()
		select {
		case judge := <-ended:
			judge()
		case <-time.After(20 * time.Second):
			t.Fatalf("%s is not bounded: it goes on after 20 s", filter)
		}
	}
}

// TestMistakesInExpressions notices a message without the place or without what to write, and a list
// that is printed all the same.
func TestMistakesInExpressions(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--filter", "siez > 4"}, "rota: --filter: column 1: unknown name siez\n  siez > 4\n  ^\n  hint: use " +
			"the names of -o json"},
		{[]string{"--filter", "size >"}, "  size >\n       ^\n"},
		{[]string{"--filter", "size > 4 and\nnmae == 1"}, "\n  nmae == 1\n  ^\n"},
		{[]string{"--filter", "\nsiez > 4"}, "\n  siez > 4\n  ^\n"},
		{[]string{"-o", "template={{nope}} {{.name}}"}, "column 1: function \"nope\" not defined\n  {{nope}} " +
			"{{.name}}\n  ^\n"},
		{[]string{"-o", "template={{if .name}}{{end}}{{end}}"}, "column 20: unexpected {{end}}\n"},
		{[]string{"--filter", "size"}, "--filter: "},
		{[]string{"--filter", "hidden == 1"}, "unknown name hidden"},
		{[]string{"--filter", `labels["a"] > 4`}, "--filter: "},
		{[]string{"-o", "template={{.name"}, "rota: -o template: column 1: unclosed action\n  {{.name\n  ^\n  hint: " +
			"write a Go template"},
		{[]string{"-o", "template={{.name}} {{nope}}"}, "column 11: function \"nope\" not defined\n  {{.name}} " +
			"{{nope}}\n            ^\n"},
		{[]string{"-o", "template={{if .name}}x"}, "-o template: "},
		{[]string{"-o", "template={{.name}}\n{{.nmae}}"}, "\n  {{.nmae}}\n"},
		{[]string{"-o", "template={{index .name 9}}"}, "-o template: "},
		{[]string{"-o", "template"}, "-o template needs a template: -o 'template={{.id}} {{.name}}'"},
		{[]string{"-o", "jsn"}, "unknown format -o jsn: must be one of table, wide, json, yaml, csv, name, template\n" +
			"  hint: did you mean -o json?"},
		{[]string{"--columns", "name,siez"}, "--columns: unknown column \"siez\": must be one of name, size, at, " +
			"tags, is-heavy\n" +
			"  hint: did you mean size?"},
		{[]string{"--sort", "-siez"}, "--sort: unknown column \"siez\""},
		{[]string{"--columns", "help"}, "available columns: name, size, at, tags, is-heavy"},
		{[]string{"extra"}, "unexpected argument for rota list: \"extra\""},
		{[]string{"--addr", "ftp://x"}, "address \"ftp://x\" is not the address of a controller"},
	} {
		got := session(t).Run(append([]string{"list"}, c.args...)...)
		if got.Code != exit.Usage || got.Stdout != "" || !strings.Contains(got.Stderr, c.want) {
			t.Errorf("list %q: %+v\nwant %s", c.args, got, c.want)
		}
	}
}

// TestATemplateIsCheckedFirst notices one that is found wrong only when the list has arrived.
func TestATemplateIsCheckedFirst(t *testing.T) {
	for _, template := range []string{"{{.name", "{{nope}}", "{{end}}"} {
		if got := session(t).Run("fields", "-o", "template="+template); got.Code != exit.Usage || got.Stdout != "" {
			t.Errorf("%s: %+v", template, got)
		}
	}
}

// TestWhatIsAskedFor notices a field that a column shows and the request does not ask for.
func TestWhatIsAskedFor(t *testing.T) {
	for args, want := range map[string]string{
		"":                           "[at id name size] true false false false",
		"-o wide":                    "[at id name size tags] true false false false",
		"--columns is-heavy":         "[heavy id weight] true false false false",
		"--columns name --sort at":   "[at id name] false false false false",
		"-o name":                    "[at id name size] false false false false",
		"-o json":                    "[] false true true true",
		"-o json --sort name":        "[] false false true true",
		"-o json --filter heavy":     "[] false false true true",
		"-o yaml":                    "[] false false true false",
		"-o template={{.id}}":        "[] false false false false",
		"--filter heavy":             "[] false false false false",
		"-o csv --columns name":      "[id name] true false false false",
		"--no-header --columns name": "[id name] true false false false",
	} {
		if got := session(t).Run(append([]string{"fields"}, strings.Fields(args)...)...); got.Code != 0 ||
			got.Stdout != want+"\n" {
			t.Errorf("fields %s: %+v\nwant %s", args, got, want)
		}
	}
}

// TestCellsInFull notices a cell that is cut short where there is no limit, or is not where there is.
func TestCellsInFull(t *testing.T) {
	for args, want := range map[string]string{"": "{false false}", "--utc": "{true false}", "-l": "{false true}",
		"-o csv": "{false true}", "-o name": "{false true}"} {
		got := session(t).Run(append([]string{"style", "--no-header"}, strings.Fields(args)...)...)
		if got.Code != 0 || got.Stdout != want+"\n" {
			t.Errorf("style %s: %+v", args, got)
		}
	}
}

// TestPages notices an item that is missing or shown twice, and a list that ends too early in silence.
func TestPages(t *testing.T) {
	all := []int{1, 2, 3, 4, 5}
	fetch := func(page string) (*api.List[int], error) {
		at := map[string]int{"": 0, "b": 2, "c": 4}[page]
		list := rotatest.List("List", all[at:min(at+2, 5)]...)
		list.Next = map[string]string{"": "b", "b": "c"}[page]
		return &list, nil
	}
	for limit, want := range map[int]struct {
		n    int
		more bool
	}{0: {5, false}, 1: {1, true}, 2: {2, true}, 3: {3, true}, 4: {4, true}, 5: {5, false}, 9: {5, false}} {
		fetched := 0
		got, more, err := listing.JoinPages(func(page string) (*api.List[int], error) { fetched++; return fetch(page) },
			limit)
		if fetched != (max(want.n, 1)+1)/2 {
			t.Errorf("limit %d: %d pages were fetched for %d items", limit, fetched, want.n)
		}
		if err != nil || more != want.more || !slices.Equal(got.Items, all[:want.n]) || got.Next != "" {
			t.Errorf("limit %d: %+v, %v, %v", limit, got, more, err)
		}
	}
	broken := errors.New("cut off")
	for _, at := range []string{"", "b"} {
		_, _, err := listing.JoinPages(func(page string) (*api.List[int], error) {
			if page == at {
				return nil, broken
			}
			return fetch(page)
		}, 0)
		if !errors.Is(err, broken) {
			t.Errorf("page %q: %v", at, err)
		}
	}
	none, _, err := listing.JoinPages(func(string) (*api.List[int], error) { return &api.List[int]{}, nil }, 0)
	if err != nil || none.Items == nil {
		t.Errorf("an empty list is null in JSON: %+v, %v", none, err)
	}
}

// TestCompletionsOfLists notices a column or a format that cannot be completed.
func TestCompletionsOfLists(t *testing.T) {
	for line, want := range map[string]string{"list --columns ": "name size at tags is-heavy", "list --sort s": "size",
		"list -o t": "table template=", "list --columns name,is": "name,is-heavy"} {
		got := session(t).Run(append([]string{"complete", "bash", "--"}, strings.Split(line, " ")...)...)
		if text := strings.Join(strings.Fields(got.Stdout), " "); text != want {
			t.Errorf("%q: %q, want %q", line, text, want)
		}
	}
}
