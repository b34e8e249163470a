package doctor

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
)

// level is the severity of a finding. A greater level is worse.
type level int

const (
	ok   level = iota // nothing to do
	note              // information
	warn              // works, but is unsafe or will fail later
	bad               // keeps Rota from working
)

var levelNames = []string{"ok", "note", "warn", "bad"}

// String implements fmt.Stringer.
func (l level) String() string { return levelNames[l] }

// MarshalText implements encoding.TextMarshaler.
func (l level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// exitCode returns the command's exit code, which follows from the worst finding.
func (l level) exitCode() int {
	return []int{exit.OK, exit.OK, exit.Failed, exit.Broken}[l]
}

// finding is the result of one check.
type finding struct {
	Subject string `json:"subject"`
	Check   string `json:"check"`
	Level   level  `json:"level"`
	Text    string `json:"text"`          // what was found
	Fix     string `json:"fix,omitempty"` // what to do; "" if the level is ok or no action is needed
}

// report holds all findings of one machine, as -o json prints them.
type report struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Host       string         `json:"host"`
	Roles      []string       `json:"roles"` // controller, node, login; empty if nothing is configured
	Worst      level          `json:"worst"`
	Counts     map[string]int `json:"counts"` // number of findings of each level
	Items      []finding      `json:"items"`
}

// newReport counts the findings.
func newReport(host string, roles []string, found []finding) *report {
	r := &report{APIVersion: "v1", Kind: "Doctor", Host: host, Roles: roles, Counts: map[string]int{}, Items: found}
	for _, f := range found {
		r.Worst = max(r.Worst, f.Level)
		r.Counts[f.Level.String()]++
	}
	return r
}

// colours are those of the levels.
var colours = []table.Paint{table.Good, table.Moving, table.Waiting, table.Bad}

// write prints the report as text, with the fix below each finding that needs one.
func (r *report) write(to io.Writer, s table.Screen) error {
	b := bufio.NewWriter(to)
	as := "Rota is not configured"
	if len(r.Roles) > 0 {
		as = strings.Join(r.Roles, ", ")
	}
	fmt.Fprintf(b, "%s (%s)\n", show.Clean(r.Host), as)
	subject := ""
	for _, f := range r.Items {
		if f.Subject != subject {
			subject = f.Subject
			fmt.Fprintf(b, "\n%s\n", subject)
		}
		word := fmt.Sprintf("%-4s", f.Level)
		fmt.Fprintf(b, "  %s  %-16s %s\n", s.Of(colours[f.Level], word), f.Check, indent(s, f.Text))
		if f.Fix != "" {
			fmt.Fprintf(b, "  %-22s %s\n", "", indent(s, "fix: "+f.Fix))
		}
	}
	fmt.Fprintf(b, "\n%s, %s, %d ok\n", show.Count(r.Counts["bad"], "thing keeps", "things keep")+" Rota from working",
		show.Count(r.Counts["warn"], "warning", "warnings"), r.Counts["ok"]+r.Counts["note"])
	return b.Flush()
}

// indent aligns the further lines of a text below its first line, and breaks those that are too wide for
// the terminal.
func indent(s table.Screen, text string) string {
	const column = 25
	var lines []string
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		lines = append(lines, show.Wrap(strings.TrimRight(show.Clean(line), " "), s.Room(column))...)
	}
	return strings.Join(lines, "\n"+strings.Repeat(" ", column))
}
