package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
)

// shareLine is one line of rota share: an account, or a user in the account above it. What programs are given has users in their accounts.
type shareLine struct {
	api.Share
	User string `json:"user,omitempty"`
}

var shareCells = []cell[shareLine]{
	textCell("account", "ACCOUNT", 10, "", func(s *shareLine) string { return s.Account }),
	textCell("user", "USER", 6, "", func(s *shareLine) string { return dashIfEmpty(s.User) }),
	numberCell("weight", "WEIGHT", "", func(s *shareLine) int64 { return s.Weight }),
	partCell("deserved", "DESERVED", func(s *shareLine) int64 { return s.Deserved }),
	partCell("fair", "FAIR", func(s *shareLine) int64 { return s.Fair }),
	partCell("alloc", "ALLOC", func(s *shareLine) int64 { return s.Alloc }),
	partCell("borrowed", "BORROWED", func(s *shareLine) int64 { return s.Borrowed }),
	textCell("usage", "USAGE", 0, "", func(s *shareLine) string { return clockText(jobspec.Seconds(s.Usage)) }).atRight().
		sortedBy(func(s *shareLine) int64 { return s.Usage }),
	textCell("ratio", "RATIO", 0, "", func(s *shareLine) string { return ratioText(s.Ratio) }).atRight().
		sortedBy(func(s *shareLine) int64 { return s.Ratio }),
	textCell("jobs", "JOBS", 0, "", func(s *shareLine) string { return s.ofAccount(s.Jobs) }).atRight(),
	textCell("running", "RUNNING", 0, "", func(s *shareLine) string { return s.ofAccount(s.Running) }).atRight(),
	numberCell("gpus", "GPUS", "", func(s *shareLine) int64 { return int64(s.GPUs) }),
	textCell("share", "SHARE", 0, "", func(s *shareLine) string {
		if s.User != "" {
			return "-"
		}
		return partText(s.Share.Share)
	}).atRight().sortedBy(func(s *shareLine) int64 { return s.Share.Share }),
}

func partCell(name, title string, of func(*shareLine) int64) cell[shareLine] {
	return textCell(name, title, 0, "", func(s *shareLine) string { return partText(of(s)) }).atRight().sortedBy(of)
}

// partText writes thousandths as a percentage.
func partText(thousandths int64) string {
	return fmt.Sprintf("%d.%d%%", thousandths/10, thousandths%10)
}

// ratioText writes a ratio in thousandths. Usage of somebody who deserves nothing has none.
func ratioText(thousandths int64) string {
	if thousandths < 0 {
		return "-"
	}
	return fmt.Sprintf("%d.%02d", thousandths/1000, thousandths%1000/10)
}

// ofAccount writes what is only known of accounts.
func (s *shareLine) ofAccount(n int) string {
	if s.User != "" {
		return "-"
	}
	return fmt.Sprint(n)
}

func (w *world) share(c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	o, err := w.viewOptions(c)
	if err != nil {
		return err
	}
	v, err := newView(o, shareCells)
	if err != nil {
		return err
	}
	client, err := w.dial(c)
	if err != nil {
		return err
	}
	list, answer, err := client.Shares(c.Context, api.Read{})
	if err != nil {
		return err
	}
	w.warnStale(answer)
	whole := v.form == formatJSON || v.form == formatYAML || v.form == formatTemplate
	return v.show(w, &api.List[shareLine]{APIVersion: list.APIVersion, Kind: list.Kind, Index: list.Index, Items: shareLines(list.Items, !whole), Next: list.Next})
}

// shareLines lists accounts, with users each after its account.
func shareLines(items []api.Share, users bool) []shareLine {
	lines := make([]shareLine, 0, len(items))
	for _, s := range items {
		lines = append(lines, shareLine{Share: s})
		for _, u := range s.Users {
			if users {
				lines = append(lines, shareLine{Share: api.Share{Account: s.Account, GPUs: u.GPUs, Fairness: u.Fairness}, User: u.User})
			}
		}
	}
	return lines
}
