package explain_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/rota-hpc/rota/docs"
	"github.com/rota-hpc/rota/jobspec/explain"
	"github.com/rota-hpc/rota/jobspec/jobfile"
)

// declared finds words in the source of packages, where they are declared.
func declared(t *testing.T, pattern, expression string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no files match %s: %v", pattern, err)
	}
	var found []string
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(string(src), -1) {
			found = append(found, m[1])
		}
	}
	return found
}

// TestEverythingIsExplained wants an entry for each code, state and reason that there is, and no
// others.
func TestEverythingIsExplained(t *testing.T) {
	codes := append(declared(t, "../*.go", `(?m)^\tCode\w+ *= "(JS-\d+)"`),
		declared(t, "../hclfile/diagnostic/*.go", `(?m)^\tCode\w+ *= "(JS-\d+)"`)...)
	codes = append(codes, declared(t, "../script/*.go", `(?m)^\tCode\w+ *= "(SB-\d+)"`)...)
	states := declared(t, "../../controld/model/*.go", `(?m)^\t\w+ +(?:JobState|NodeState) += "(\w+)"`)
	// what nodes are shown as
	states = append(states, declared(t, "../../controld/server/present/*.go", `(?m)^\t+return "(\w+)"$`)...)
	reasons := declared(t, "../../controld/model/*.go", `(?m)^\t\w+ +ReasonCode += "(\w+)"`)
	reasons = append(reasons, declared(t, "../../controld/model/limitreason.go", `"((?:Assoc|QOS)\w+)"`)...)
	for kind, want := range map[explain.Kind][]string{explain.Code: codes, explain.State: states,
		explain.Reason: reasons} {
		slices.Sort(want)
		want = slices.Compact(want)
		if len(want) < 10 {
			t.Fatalf("only %d of kind %s were found in the source", len(want), kind)
		}
		var got []string
		for _, e := range explain.All() {
			if e.Kind == kind {
				got = append(got, e.Name)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("kind %s: explained are\n%v\nthere are\n%v", kind, got, want)
		}
	}
}

func TestEntriesAreWhole(t *testing.T) {
	for _, e := range explain.All() {
		if e.Title == "" || len(e.Text) < 10 || !strings.HasSuffix(e.Text, ".") {
			t.Errorf("%s %s: %q, %q", e.Kind, e.Name, e.Title, e.Text)
		}
		if found := explain.Find(e.Name); !slices.Contains(found, e) {
			t.Errorf("%s is not found by its name", e.Name)
		}
	}
}

// TestAttributes wants every attribute of the job file's tables.
func TestAttributes(t *testing.T) {
	for _, a := range jobfile.Attributes() {
		if found := explain.Find(a.Block + "." + a.Name); len(found) != 1 || found[0].Name != a.Name {
			t.Errorf("%s.%s: %v", a.Block, a.Name, found)
		}
	}
}

// TestPage wants an entry for each row of the page.
func TestPage(t *testing.T) {
	text, err := docs.Pages.ReadFile("codes.md")
	if err != nil {
		t.Fatal(err)
	}
	entries, before := 0, ""
	for _, e := range explain.All() {
		if e.Kind == explain.State || e.Kind == explain.Reason || e.Kind == explain.Code {
			if entries++; e.Text == before { // another name of the same row
				entries--
			}
			before = e.Text
		}
	}
	if rows := strings.Count(string(text), "\n| `"); rows != entries {
		t.Errorf("the page has %d rows, and there are %d entries", rows, entries)
	}
}

func TestFind(t *testing.T) {
	for word, want := range map[string]string{
		"JS-112": "JS-112", "js-112": "JS-112", "js112": "JS-112", "pd": "PD", "oom": "OOM", "priority": "Priority",
		"jobhelduser":      "JobHeldUser",
		"group.time_limit": "time_limit", "elastic": "elastic", "log_policy": "log_policy",
	} {
		if found := explain.Find(word); len(found) == 0 ||
			!slices.ContainsFunc(found, func(e explain.Entry) bool { return e.Name == want }) {
			t.Errorf("%s: %v", word, found)
		}
	}
	if found := explain.Find("time_limit"); len(found) != 2 {
		t.Errorf("time_limit: %v", found)
	}
	if found := explain.Find("nothing-of-the-kind"); found != nil {
		t.Errorf("%v", found)
	}
	if near := explain.Nearest("priorty"); len(near) == 0 || near[0] != "Priority" {
		t.Errorf("%v", near)
	}
	if near := explain.Nearest("xyzzyxyzzy"); len(near) != 0 {
		t.Errorf("%v", near)
	}
}

func TestWrite(t *testing.T) {
	var b strings.Builder
	if err := explain.Write(&b, append(explain.Find("JS-011"), explain.Find("group.gang")...)); err != nil {
		t.Fatal(err)
	}
	want := `JS-011 (code): no unit

  A duration or size is a bare number. Slurm would read 30 as minutes and 64 as MiB, other programs
  as seconds and bytes, so the unit must be written: "30m", "64MiB".

group.gang (attribute): bool

  Start either all workers together or none. With false each worker starts by itself, as an array
  element; array.index is its number. Default: true.
`
	if b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", &b, want)
	}
}

// TestTermsAreExplained wants the terms of the glossary, each by itself.
func TestTermsAreExplained(t *testing.T) {
	for _, term := range []string{"grace period", "array task", "Queue head", "workload mix"} {
		found := explain.Find(term)
		if len(found) == 0 || found[len(found)-1].Kind != explain.Term || found[len(found)-1].Text == "" {
			t.Errorf("%s: %+v", term, found)
		}
	}
}

// TestThePolicyIsExplained prints the page about the policy unchanged. It has at most 700 words,
// and fits a terminal that is wide enough for its tables.
func TestThePolicyIsExplained(t *testing.T) {
	var b strings.Builder
	found := explain.Find("Policy")
	err := explain.Write(&b, found)
	if err != nil || len(found) != 1 || !strings.HasPrefix(b.String(), "# Policy rota\n") {
		t.Fatalf("%d entries, %v:\n%s", len(found), err, b.String())
	}
	words, picture := 0, false
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, "```") {
			picture = !picture
		}
		for _, w := range strings.Fields(line) {
			if !picture && strings.ContainsFunc(w, unicode.IsLetter) {
				words++
			}
		}
	}
	if words > 700 {
		t.Errorf("the page has %d words", words)
	}
}
