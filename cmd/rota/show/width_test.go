package show

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestWidth: the columns that terminals give characters, by what xterm and wcwidth(3) do.
func TestWidth(t *testing.T) {
	for s, want := range map[string]int{
		"": 0, "train": 5, "größe": 5, "gro\u0308ße": 5, "e\u0302\u0301": 1, "测试": 4, "テスト": 6, "ﾃｽﾄ": 3, "한국어": 6,
		"\u1112\u1161\u11ab": 2, "ＡＢ": 4, "🚀": 2, "\u2764\ufe0f": 2, "नमस्ते": 4, "naïve…": 6,
		"a\x1bb": 3, "└ x": 3, "a\u200bb": 3,
	} {
		if got := Width(s); got != want {
			t.Errorf("%q takes %d columns, and %d are counted", s, want, got)
		}
	}
}

// TestCut: what is left has its width, keeps combining characters with theirs, and is nothing but cut.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"abcd", 1, "…"}, {"abcd", 0, ""}, {"测试测", 5, "测试…"}, {"测试测", 4, "测…"},
		{"测试测", 6, "测试测"}, {"e\u0301e\u0301e\u0301", 2, "e\u0301…"}, {"测", 1, "…"},
	} {
		if got := Cut(c.text, c.n); got != c.want || Width(got) > c.n {
			t.Errorf("%q in %d columns: %q, want %q", c.text, c.n, got, c.want)
		}
	}
}

// TestWrap: lines fit, end at spaces where they can, and lose no word.
func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want []string
	}{
		{"no node is free", 0, []string{"no node is free"}}, {"no node is free", 8, []string{"no node", "is free"}},
		{"no node is free", 7, []string{"no node", "is free"}}, {"/a/long/path x", 7, []string{"/a/long", "/path x"}},
		{"测试测试 x", 5, []string{"测试", "测试", "x"}}, {"", 5, []string{""}}, {"测", 1, []string{"测"}},
	} {
		if got := Wrap(c.text, c.n); !slices.Equal(got, c.want) {
			t.Errorf("%q in %d columns: %q, want %q", c.text, c.n, got, c.want)
		}
	}
	const text = "a job waits for four GPUs of one node, and none has more than two"
	for n := 8; n < 80; n++ {
		lines := Wrap(text, n)
		if got := strings.Join(lines, " "); got != text {
			t.Errorf("%d columns: %q", n, got)
		}
		for _, line := range lines {
			if Width(line) > n {
				t.Errorf("%d columns: %q", n, line)
			}
		}
	}
}

// TestFold: a line that is written in pieces is one line, and its parts begin below each other.
func TestFold(t *testing.T) {
	var b strings.Builder
	w := Fold(&b, 12)
	for _, piece := range []string{"one", " two", " three four\n", "\n  a list of", " words\nend\n"} {
		if n, err := fmt.Fprint(w, piece); err != nil || n != len(piece) {
			t.Errorf("%d, %v", n, err)
		}
	}
	if want := "one two\nthree four\n\n  a list of\n  words\nend\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	b.Reset()
	if fmt.Fprint(Fold(&b, 0), "not broken, and not ended"); b.String() != "not broken, and not ended" {
		t.Errorf("%q", b.String())
	}
}
