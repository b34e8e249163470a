package views

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
)

// explainShare explains how the share of one account is calculated.
func explainShare(env *command.Env, c *cli.Context) error {
	if err := command.RefuseEmpty(c, "explain"); err != nil {
		return err
	}
	session, err := env.Dial(c)
	if err != nil {
		return err
	}
	name := c.String("explain")
	list, answer, err := session.ExplainShare(c.Context, name)
	if err != nil {
		return err
	}
	env.WarnStale(answer)
	i := slices.IndexFunc(list.Items, func(s api.Share) bool { return s.Account == name })
	if i < 0 || list.Items[i].Explanation == nil {
		return &exit.CodeError{Code: exit.NotFound, Text: "unknown account " + name}
	}
	if session.AsJSON {
		return table.PrintJSON(env.Stdout, list.Items[i])
	}
	return printExplainedShare(env.Stdout, env.Screen(), &list.Items[i])
}

func printExplainedShare(out io.Writer, screen table.Screen, s *api.Share) error {
	b, e := bufio.NewWriter(out), s.Explanation
	l := sections{b, screen}
	l.text("Account " + show.Clean(s.Account))
	fmt.Fprintln(b)
	t := &table.Table{Columns: []table.Column{{Title: "  LEVEL", Least: 10}, {Title: "WEIGHT", Right: true},
		{Title: "OF", Right: true}, {Title: "DESERVED", Right: true}, {Title: "ASKS FOR", Right: true},
		{Title: "FAIR", Right: true}, {Title: "HOLDS", Right: true}}}
	for depth, step := range e.Steps {
		t.Add("  "+strings.Repeat("  ", depth)+show.Clean(step.Account), fmt.Sprint(step.Weight), fmt.Sprint(step.Weights),
			partText(step.Deserved), partText(step.Demand), partText(step.Fair), partText(step.Alloc))
	}
	if err := t.Print(b, screen, table.AsTable, true); err != nil {
		return err
	}
	fmt.Fprintln(b)
	l.line("deserved", deservedText(s))
	l.line("fair", partText(s.Fair)+": its quota, as far as its jobs need it, and a part of the spare capacity by weight"+
		influenceText(e))
	l.line("holds", fmt.Sprintf("%s, of which %s is beyond its quota", partText(s.Alloc), partText(s.Borrowed)))
	l.line("usage", usageText(s))
	l.line("takes back", takenText(e.Reclaims, e.From, "accounts above their shares",
		"nothing: it holds its quota, or its jobs need no more"))
	l.line("gives back", takenText(e.Over, e.By, "accounts below their quotas", "nothing: it is not above its share"))
	return b.Flush()
}

func deservedText(s *api.Share) string {
	if s.Explanation.Promised {
		return partText(s.Deserved) + " of the cluster, by the configured quota"
	}
	return partText(s.Deserved) + " of the cluster: an equal part of the capacity without quota, which is not guaranteed"
}

func influenceText(e *api.ShareExplanation) string {
	if e.Influence == 0 {
		return ""
	}
	return fmt.Sprintf(", adjusted for past usage (usage_influence %d.%03d)", e.Influence/1000, e.Influence%1000)
}

func usageText(s *api.Share) string {
	text := show.Clock(jobspec.Seconds(s.Usage)) + " of the whole cluster"
	if half := s.Explanation.HalfLife; half > 0 {
		text += ", what is " + show.Clock(jobspec.Seconds(half)) + " old counted half"
	}
	if s.Ratio >= 0 {
		text += fmt.Sprintf("; %s times its quota, over the time in which it had jobs", ratioText(s.Ratio))
	}
	return text
}

// takenText says how much an account lends to, or borrows from, other accounts.
func takenText(part int64, of []api.ShareOf, which, none string) string {
	if part == 0 {
		return none
	}
	var names []string
	for _, o := range of {
		names = append(names, fmt.Sprintf("%s (%s)", show.Clean(o.Account), partText(o.Part)))
	}
	if len(names) == 0 {
		return fmt.Sprintf("up to %s, but there are no %s", partText(part), which)
	}
	return fmt.Sprintf("up to %s; %s: %s", partText(part), which, strings.Join(names, ", "))
}
