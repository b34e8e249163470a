package script

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/rota-hpc/rota/jobspec/jobfile"
	"github.com/rota-hpc/rota/jobspec/rules"
)

// FuzzRead looks for scripts that are read wrongly. There is either a job or a mistake, the job
// breaks no rule, and its script keeps the first line.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/scripts/*.sh")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(src))
	}
	for _, m := range mistakes {
		if len(m.src) < 1000 {
			f.Add(m.src)
		}
	}
	f.Fuzz(func(t *testing.T, src string) {
		r := Read([]byte(src), Options{Name: "x.sh", Dir: "/home/ada", Clock: clock()})
		if (r.Job == nil) != r.Problems.Has(Mistake) {
			t.Fatalf("job %v, problems %v", r.Job, r.Problems)
		}
		if text := r.Problems.Format("x.sh"); !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\x1b\r\u009b\u202e") {
			t.Fatalf("messages that cannot be shown: %q", text)
		}
		if r.Job == nil {
			return
		}
		if bad := rules.Validate(r.Job); len(bad) > 0 {
			t.Fatalf("the job breaks rules: %v", bad)
		}
		first, _, _ := strings.Cut(strings.ReplaceAll(strings.TrimPrefix(src, "\uFEFF"), "\r\n", "\n"), "\n")
		if !strings.HasPrefix(task(r.Job).Script, first) {
			t.Fatalf("the script does not begin with %q", first)
		}
		if _, err := jobfile.Write(r.Job); err == nil && !strings.ContainsFunc(src,
			func(c rune) bool { return c > unicode.MaxASCII }) {
			r.Job.Begin, r.Job.Deadline = "", "" // they may have passed
			sameAsFile(t, r.Job)
		}
	})
}

// FuzzFlags looks for words that getopt loses: each is a flag, a value, a mistake, or the rest.
func FuzzFlags(f *testing.F) {
	for _, words := range []string{"-N1 -t1:00:00", "--part=x --time 3", "-K0 --exclusive -K", "-Hx 3", "--no", "-- a b",
		"- a", "--gres=gpu:a100:4,gpu", "-d afterok:1?afterok:2"} {
		f.Add(words)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words, err := SplitWords(line, true)
		if err != nil {
			return
		}
		taken := 0
		g := &getopt{specs: table, each: func(given string, spec *Spec, value string, has bool) {
			taken++
			if spec == nil || given == "" || spec.Takes == Value && !has || spec.Takes == Nothing && has && value != "" {
				t.Fatalf("%q: %q of %+v with %q, %v", line, given, spec, value, has)
			}
		}, bad: func(code, given, hint, text string) {
			taken++
			if code == "" || text == "" {
				t.Fatalf("%q: an error that says nothing", line)
			}
		}}
		if rest := g.read(words); len(rest) > len(words) || taken == 0 && len(words) > 0 && len(rest) == 0 &&
			words[len(words)-1] != "--" {
			t.Fatalf("%q: %d flags, rest %q", line, taken, rest)
		}
	})
}
