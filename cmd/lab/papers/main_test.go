package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const sample = "# Papers\n" +
	"\n## One\n\nText.\n\n" +
	"```sh\nrota sim --trace gen:fitgpp --nodes 4x8c \\\n    --policy fifo --compare lrtp --seeds 1..2\n```\n" +
	"<!-- table policy\n" +
	"TE p95 | classes.te.p95 | 1\n" +
	"hours | wait | 2 /3600\n" +
	"against FIFO | classes.te.p95 | 0 change fifo\n" +
	"of FIFO's | classes.te.p95 | 0 of fifo\n" +
	"theirs fifo | 33.4 |\n" +
	"name fifo | FIFO\n" +
	"goal lrtp | against FIFO | <= -50\n" +
	"goal lrtp | TE p95 | >= 6\n" +
	"-->\nold\n<!-- end -->\nAfter.\n" +
	"\n## Two\n\n```sh\nrota sim --trace $ROTA_TRACES/none.csv --nodes 1x8c\n```\n" +
	"<!-- table trace\nwait | wait | 0\n-->\nold too\n<!-- end -->\n"

// fake answers commands with results whose numbers are easy to check.
func fake(t *testing.T, want string) func(context.Context, []string) ([]byte, error) {
	t.Helper()
	return func(_ context.Context, words []string) ([]byte, error) {
		if got := strings.Join(words, " "); got != want {
			t.Errorf("ran %s\nwant %s", got, want)
		}
		group := func(policy string, values ...float64) string {
			var runs []string
			for _, v := range values {
				runs = append(runs, fmt.Sprintf(`{"wait":7200,"classes":{"te":{"p95":%g}}}`, v))
			}
			return fmt.Sprintf(`{"policy":%q,"trace":"gen:fitgpp","runs":[%s]}`, policy, strings.Join(runs, ","))
		}
		return []byte("[" + group("fifo", 10, 20) + "," + group("lrtp", 4, 6) + "]"), nil
	}
}

func TestFile(t *testing.T) {
	t.Setenv(tracesVariable, t.TempDir())
	name := filepath.Join(t.TempDir(), "papers.md")
	if err := os.WriteFile(name, []byte(sample), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	p := &press{out: &out, run: fake(t,
		"rota sim --trace gen:fitgpp --nodes 4x8c --policy fifo --compare lrtp --seeds 1..2")}
	if err := p.file(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	table := strings.Join([]string{
		"",
		"| | | TE p95 | hours | against FIFO | of FIFO's |",
		"|---|---|---|---|---|---|",
		"| FIFO | paper | 33.4 |  |  |  |",
		"| FIFO | ours | 15.0 ± 63.5 | 2.00 |  |  |",                   // 12.706 x 7.071 / sqrt(2)
		"| lrtp | ours | 5.0 ± 12.7 | 2.00 | -65 ± 64 % | 35 ± 64 % |", // -60 and -70, each against its own seed
		"",
		"- TE p95: at least 6 — **missed**",
		"- against FIFO: at most -50 — met",
		"",
	}, "\n")
	if want := strings.Replace(sample, "old\n", table+"\n", 1); string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !strings.Contains(out.String(), "Two: kept as it is: $ROTA_TRACES/none.csv is missing") {
		t.Errorf("nothing says what was left out:\n%s", &out)
	}
	p.sections, p.run = []string{"three"}, nil
	if err := p.file(t.Context(), name); err != nil {
		t.Errorf("no section called so: %v", err)
	}
}

func TestMistakes(t *testing.T) {
	for _, test := range []struct{ from, to, want string }{
		{"<!-- table policy", "<!-- table user", `line 11: rows are named by policy or trace, not "user"`},
		{"rota sim --trace gen", "sim --trace gen", "no command"},
		{"| 1\n", "| one\n", "line 12"},
		{"/3600", "/0", "cannot be a divisor"},
		{"change fifo", "chance fifo", `"chance"`},
		{"theirs fifo | 33.4 |", "theirs fifo | 1 | 2 | 3 | 4 | 5", "5 numbers for 4 columns"},
		{"| against FIFO | <= -50", "| against SJF | <= -50", "line 18"},
		{"| <= -50", "| < -50", "line 18"},
		{"name fifo | FIFO", "gibberish", "not column, theirs, name or goal"},
		{"-->\nold\n<!-- end -->", "", "does not end"},
	} {
		text := strings.Replace(sample, test.from, test.to, 1)
		if test.from != "-->\nold\n<!-- end -->" && text == sample {
			t.Fatalf("the sample has no %q", test.from)
		}
		if test.to == "" {
			text = strings.ReplaceAll(strings.ReplaceAll(text, "<!-- end -->", ""), "-->", "")
		}
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.to, err, test.want)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	for _, test := range []struct{ from, to, want string }{
		{"change fifo", "change sjf", "no row sjf"},
		{"theirs fifo", "theirs sjf", "theirs sjf"},
		{"goal lrtp | TE", "goal sjf | TE", "a missing row"},
		{"| wait |", "| weight |", "weight is not a number"},
	} {
		doc, err := parse(strings.Replace(sample, test.from, test.to, 1))
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := fake(t, "")(t.Context(), []string{""})
		all, err := outcomes(raw)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := doc.blocks[0].render(all); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.to, err)
		}
	}
}

// TestDocument checks that the document has a table at each marker, with its columns.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../papers.md")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if doc.String() != string(text) {
		t.Error("the document changes although nothing was run")
	}
	if len(doc.blocks) < 8 {
		t.Errorf("only %d tables", len(doc.blocks))
	}
	for _, b := range doc.blocks {
		i := slices.IndexFunc(b.table, func(line string) bool { return strings.HasPrefix(line, "| |") })
		if i < 0 {
			t.Errorf("%s: no table", b.title)
			continue
		}
		for _, c := range b.columns {
			if !strings.Contains(b.table[i], " "+c.title+" |") {
				t.Errorf("%s: no column %s: make papers", b.title, c.title)
			}
		}
		for _, g := range b.goals {
			if !strings.Contains(strings.Join(b.table, "\n"), b.columns[g.column].title+":") {
				t.Errorf("%s: the goal for %s is not told", b.title, g.row)
			}
		}
	}
}

// TestEvidence checks that the sections which docs/tunables.md names as evidence are in the
// document.
func TestEvidence(t *testing.T) {
	var texts [2]string
	for i, name := range []string{"../../../docs/tunables.md", "../papers.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	cited := regexp.MustCompile(`papers\.md\), "([^"]+)"`).FindAllStringSubmatch(texts[0], -1)
	if len(cited) == 0 {
		t.Error("no section is named")
	}
	for _, c := range cited {
		if !strings.Contains(texts[1], "# "+c[1]+"\n") {
			t.Errorf("cmd/lab/papers.md has no section %q", c[1])
		}
	}
}

// A number may be compared with that of any row, also of another trace, and be told as how many
// times smaller it is.
func TestTimes(t *testing.T) {
	doc, err := parse("```sh\nrota sim --trace gen:fitgpp\n```\n<!-- table trace policy\n" +
		"speed-up | wait | 1 times gen:long fifo\nof it | wait | 0 /60 of gen:long fifo\n" +
		"goal gen:short las | speed-up | >= 3\n-->\n<!-- end -->\n")
	if err != nil {
		t.Fatal(err)
	}
	all, err := outcomes([]byte(`[{"policy":"fifo","trace":"gen:long","runs":[{"wait":6000},{"wait":9000}]},
		{"policy":"las","trace":"gen:short","runs":[{"wait":2000},{"wait":3000}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	lines, err := doc.blocks[0].render(all)
	if err != nil {
		t.Fatal(err)
	}
	want := "| gen:long fifo |  |  |\n| gen:short las | 3.0x | 33 % |\n\n- speed-up: at least 3 — met\n"
	if got := strings.Join(lines, "\n"); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant it to end with\n%s", got, want)
	}
}
