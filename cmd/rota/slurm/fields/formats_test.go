package fields

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/slurm/slurmtest"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// pair is a row of two values.
type pair struct {
	name  string
	count int
}

var pairs = []Field[pair]{
	{letter: 'n', long: "Name", acct: "The Name", width: -6, needs: "name", text: func(p pair) string { return p.name }},
	{letter: 'c', long: "Count", title: "COUNTED", acct: "Count", needs: "count total", text: func(p pair) string {
		return fmt.Sprint(p.count)
	}, value: func(p pair) any { return p.count }},
	{long: "Text", text: func(p pair) string { return p.name + "!" }},
	{letter: 'x', acct: "CountTwo", text: func(p pair) string { return fmt.Sprint(p.count) }},
}

var some = []pair{{"äbcdef", 12}, {"b", 9}, {"c", 100}}

// TestFormats writes rows in formats of -o and -O: widths, sides, texts between and behind, the widest value,
// and what is refused.
func TestFormats(t *testing.T) {
	for _, c := range []struct {
		format string
		names  bool // of -O
		want   string
	}{
		{"%n", false, "NAME|äbcdef|b|c"},
		{"%3n", false, "NAM|äbc|b  |c  "},
		{"%.3n", false, "NAM|äbc|  b|  c"},
		{"%6n.", false, "NAME  .|äbcdef.|b     .|c     ."},
		{"%7n", false, "NAME   |äbcdef |b      |c      "},
		{"<%c> %n", false, "<COUNTED> NAME|<12> äbcdef|<9> b|<100> c"},
		{"%#n:", false, "NAME  :|äbcdef:|b     :|c     :"},
		{"%#.c", false, "!'.' without a width"},
		{"%#.9c", false, "  COUNTED|       12|        9|      100"},
		{"%#9n", false, "NAME     |äbcdef   |b        |c        "},
		{"%8192n", false, "NAME" + strings.Repeat(" ", 8188)},
		{"%8193n", false, "!above 8192"},
		{"%.n", false, "!'.' without a width"},
		{"%.:3n", false, "!'.' without a width"},
		{"%./3n", false, "!'.' without a width"},
		{"%.0n", false, "NAME|äbcdef|b|c"},
		{"%.9n", false, "     NAME|   äbcdef|        b|        c"},
		{"%", false, "!ends in a '%'"},
		{"%3", false, "!ends in a '%'"},
		{"%z", false, "!%c %n %x are"},
		{"Name,Count", true, "NAME                COUNTED             |äbcdef              12                  "},
		{" name :3x,, TEXT:.4", true, "NAMxTEXT|äbcxäbcd|b  x  b!|c  x  c!"},
		{"Name:", true, "NAME|äbcdef|b|c"},
		{",", true, "!has no field"},
		{"Nam", true, "!Name Count Text are supported"},
		{"Name:9999", true, "!above 8192"},
	} {
		read := ParseLetters[pair]
		if c.names {
			read = ParseNames[pair]
		}
		columns, err := read(pairs, c.format)
		if refused, ok := strings.CutPrefix(c.want, "!"); ok {
			if err == nil || !strings.Contains(err.Error(), refused) {
				t.Errorf("%q: %v, want %q", c.format, err, refused)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.format, err)
			continue
		}
		var out bytes.Buffer
		l := Lines[pair]{columns, bufio.NewWriter(&out)}
		if l.Fits() != strings.Contains(c.format, "#") {
			t.Errorf("%q: all rows are needed first: %t", c.format, l.Fits())
		}
		l.Fit(some)
		l.Header()
		for _, r := range some {
			l.Row(r)
		}
		_ = l.Out.Flush()
		if got := strings.ReplaceAll(strings.TrimSuffix(out.String(), "\n"), "\n", "|"); !strings.HasPrefix(got, c.want) ||
			len(c.want) < 30 && got != c.want {
			t.Errorf("%q:\n%q, want\n%q", c.format, got, c.want)
		}
	}
}

// TestMembers: what columns need, and which are shown.
func TestMembers(t *testing.T) {
	columns, err := ParseLetters(pairs, "%c - %n .")
	if err != nil {
		t.Fatal(err)
	}
	if got := Members(columns); !slices.Equal(got, []string{"count", "total", "name"}) {
		t.Errorf("members %v", got)
	}
	for name, want := range map[string]bool{"Name": true, "The Name": true, "Count": true, "Text": false,
		"CountTwo": false} {
		if Shows(columns, name) != want {
			t.Errorf("%s is shown: %t", name, !want)
		}
	}
}

// TestSorting sorts by numbers and texts, up and down, by the second key among equals of the first.
func TestSorting(t *testing.T) {
	rows := []pair{{"b", 9}, {"a", 100}, {"c", 9}, {"a", 12}}
	for key, want := range map[string]string{"c": "b9 c9 a12 a100", "-c": "a100 a12 b9 c9", "+c,-n": "c9 b9 a12 a100",
		"n,c": "a12 a100 b9 c9", "n": "a100 a12 b9 c9", "-n,-c": "c9 b9 a100 a12", "x": "b9 c9 a12 a100"} {
		keys, err := ParseSort(pairs, key)
		if err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}
		list := slices.Clone(rows)
		SortRows(list, keys)
		var got []string
		for _, r := range list {
			got = append(got, fmt.Sprint(r.name, r.count))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("by %s: %v, want %s", key, got, want)
		}
		if m := keys[0].Members(); len(m) != len(strings.Fields(keys[0].needs)) {
			t.Errorf("by %s: members %v", key, m)
		}
	}
	for _, key := range []string{"z", "nc", "-"} {
		if _, err := ParseSort(pairs, key); err == nil {
			t.Errorf("by %q: not refused", key)
		}
	}
	for _, c := range []struct {
		value any
		want  float64
		ok    bool
	}{{numberOf(5), 5, true}, {number{Number: 5}, 5, false}, {7, 7, true}, {int64(8), 8, true}, {uint32(9), 9, true},
		{model.JobID(3), 3, true}, {"4", 0, false}} {
		if got, ok := asNumber(c.value); got != c.want || ok != c.ok {
			t.Errorf("%#v is the number %v, %t", c.value, got, ok)
		}
	}
}

// TestSheets prints for people and for programs, and reads the names of columns, their beginnings and widths.
func TestSheets(t *testing.T) {
	for _, c := range []struct {
		format string
		flags  []string
		bare   bool
		want   string
	}{
		{"thename,count", nil, false, "The Na      Count \n------ ---------- \näbcdef         12 \n"},
		{"THEN%3,Count%-4", nil, false, "The Coun \n--- ---- \näb+ 12   \n"},
		{"count", nil, true, "        12 \n"},
		{"countt,count", []string{"-p"}, false, "CountTwo|Count|\n12|12|\n"},
		{"thename,count", []string{"-P"}, false, "The Name|Count\näbcdef|12\n"},
		{"thename,count", []string{"-P"}, true, "äbcdef|12\n"},
		{"all", []string{"-P"}, true, "äbcdef|12|12\n"},
		{"thename%6", nil, true, "äbcdef \n"},
		{"thename%-8192", []string{"-P"}, true, "äbcdef\n"},
		{"thename%8192", []string{"-P"}, true, "äbcdef\n"},
		{"thename%-8193", nil, true, "!width"}, {"thename%8193", nil, true, "!width"}, {"thename%x", nil, true, "!width"},
		{"", nil, true, "!no field requested"}, {"z", nil, true, "!field requested"}, {"%3", nil, true, "!field requested"},
	} {
		s := Sheet[pair]{NoHeader: c.bare, Delimiter: "|"}
		for _, f := range c.flags {
			s.ended, s.apart = f == "-p", f == "-P"
		}
		err := s.Choose(pairs, c.format)
		if refused, ok := strings.CutPrefix(c.want, "!"); ok {
			if err == nil || !strings.Contains(err.Error(), refused) {
				t.Errorf("%q: %v, want %q", c.format, err, refused)
			}
			continue
		}
		var out bytes.Buffer
		if err == nil {
			err = s.Print(&out, slices.Values(some[:1]))
		}
		if err != nil || out.String() != c.want {
			t.Errorf("%q %v: %v\n%q, want\n%q", c.format, c.flags, err, out.String(), c.want)
		}
	}
	var out bytes.Buffer
	PrintNames(&out, []string{"e", "d", "c", "b", "a"})
	if want := fmt.Sprintf("%-19s %-19s %-19s %-19s\n%-19s\n", "a", "b", "c", "d", "e"); out.String() != want {
		t.Errorf("names:\n%q, want\n%q", out.String(), want)
	}
	if f := Titled("T", -3, func(p pair) string { return p.name }); f.acct != "T" || f.width != -3 ||
		f.text(some[0]) != "äbcdef" {
		t.Errorf("%+v", f)
	}
}

// TestStates reads states by letters and long names.
func TestStates(t *testing.T) {
	for text, want := range map[string]string{"r": "[R] false", "PENDING,cd": "[PD CD] false", "all": "[] true",
		"R,All": "[R] true", "": "[] false"} {
		states, all, err := ReadStates(text)
		if got := fmt.Sprint(states, all); err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", text, got, err, want)
		}
	}
	if _, _, err := ReadStates("R,dancing"); err == nil ||
		!strings.Contains(err.Error(), "BOOT_FAIL,CANCELLED,COMPLETED") {
		t.Error(err)
	}
}

// TestDocuments: items are separated by commas, and the end says what was asked.
func TestDocuments(t *testing.T) {
	for n, want := range map[int]string{0: "[]", 1: "[\n    1\n  ]", 2: "[\n    1,\n    1\n  ]"} {
		var out bytes.Buffer
		d := NewDocument(bufio.NewWriter(&out), "jobs")
		for range n {
			if err := d.Add(1); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.End(&tool.Tool{Env: &command.Env{Name: "squeue"}, Args: []string{"--json"}}, "lab"); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.Contains(got, "\"jobs\": "+want+",") ||
			!strings.Contains(got, `"command":["squeue","--json"]`) || !strings.Contains(got, `"cluster":"lab"`) {
			t.Errorf("%d items: %s", n, got)
		}
	}
}

// TestTimesOfASource: the formats of SLURM_TIME_FORMAT, and what is written for a time that has not come.
func TestTimesOfASource(t *testing.T) {
	at := slurmtest.Minute(7)
	for format, want := range map[string]string{"": "2026-11-21T12:07:00", "standard": "2026-11-21T12:07:00",
		"%H.%M": "12.07", "relative": ""} {
		env := &command.Env{Now: time.Now, Getenv: func(string) string { return format }}
		s, err := NewSource(env)
		if (err != nil) != (want == "") {
			t.Errorf("%q: %v", format, err)
		}
		if err == nil && (s.when(at) != want || s.when(nil) != "N/A" || s.when(&api.Time{}) != "N/A") {
			t.Errorf("%q: %s, %s", format, s.when(at), s.when(nil))
		}
	}
	for _, c := range []struct {
		at   *api.Time
		past bool
		want string
	}{{at, true, "1795262820"}, {at, false, "{true false 1795262820}"}, {nil, true, "0"}, {nil, false, "{true false 0}"},
		{&api.Time{}, true, "0"}} {
		if got := fmt.Sprint((&Source{Past: c.past}).stamp(c.at)); got != c.want {
			t.Errorf("%v, past %t: %s, want %s", c.at, c.past, got, c.want)
		}
	}
	if stampOf(at) != 1795262820 || stampOf(nil) != 0 || stampOf(&api.Time{}) != 0 {
		t.Error("stamps of times and of none")
	}
}

// TestRowsOfAnArray unfolds arrays, pipelines and jobs that save.
func TestRowsOfAnArray(t *testing.T) {
	job := func(edit func(*api.Job)) *api.Job {
		j := slurmtest.JobOf(8, "sweep", model.Running, "RUNNING", func(j *api.Job) {
			j.Started, j.Ended, j.Elapsed, j.Nodes = slurmtest.Minute(1), slurmtest.Minute(2), 60, []string{"n1"}
			j.Reason = api.Reason{Code: "Resources"}
		})
		edit(&j)
		return &j
	}
	array := func(waiting, dropped string) func(*api.Job) {
		return func(j *api.Job) { j.Array = api.ArrayPlace{Indices: waiting, Dropped: dropped, Size: 9} }
	}
	for _, c := range []struct {
		name string
		job  *api.Job
		each bool
		want string
	}{
		{"a job", job(func(*api.Job) {}), false, "8 R RUNNING 60 [n1] Resources"},
		{"one that saves", job(func(j *api.Job) { j.Code, j.State = model.Checkpointing, "CHECKPOINTING" }), false,
			"8 CG COMPLETING 60 [n1] Resources"},
		{"one that waits", job(func(j *api.Job) { j.Code, j.State = model.Pending, "PENDING" }), false,
			"8 PD PENDING 0 [] Resources"},
		{"an array", job(array("4-6", "1,3")), false,
			"8_[4-6] PD PENDING 0 [] Resources; 8_[1,3] CA CANCELLED 0 [] None"},
		{"its tasks", job(array("4-5", "1")), true,
			"8_4 PD PENDING 0 [] Resources; 8_5 PD PENDING 0 [] Resources; 8_1 CA CANCELLED 0 [] None"},
		{"none waits", job(array("", "7")), false, "8_[7] CA CANCELLED 0 [] None"},
		{"all have begun", job(array("", "")), false, ""},
	} {
		var got []string
		for _, r := range new(Source).Unfold(c.job, c.each) {
			got = append(got, fmt.Sprint(r.FullID(), " ", r.Code, " ", r.State, " ", int(r.Elapsed), " ", r.Nodes, " ",
				reasonCode(r.Job)))
			if waits := r.Code == model.Pending; c.name == "an array" && (r.Ended == nil) != waits {
				t.Errorf("%s: it ended at %v", r.FullID(), r.Ended)
			}
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
}
