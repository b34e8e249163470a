package views

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/listing"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
)

// shareLine is a line of rota share: an account, or a user of the account above. In JSON, users are
// within their accounts.
type shareLine struct {
	api.Share
	User string `json:"user,omitempty"`
}

var shareCells = []listing.Cell[shareLine]{
	listing.TextCell("account", "ACCOUNT", 10, "", func(s *shareLine) string { return s.Account }),
	listing.TextCell("user", "USER", 6, "", func(s *shareLine) string { return show.DashIfEmpty(s.User) }),
	listing.NumberCell("weight", "WEIGHT", "", func(s *shareLine) int64 { return s.Weight }),
	partCell("deserved", "DESERVED", func(s *shareLine) int64 { return s.Deserved }),
	partCell("fair", "FAIR", func(s *shareLine) int64 { return s.Fair }),
	partCell("alloc", "ALLOC", func(s *shareLine) int64 { return s.Alloc }),
	partCell("borrowed", "BORROWED", func(s *shareLine) int64 { return s.Borrowed }),
	listing.TextCell("usage", "USAGE", 0, "",
		func(s *shareLine) string { return show.Clock(jobspec.Seconds(s.Usage)) }).AtRight().
		SortedBy(func(s *shareLine) int64 { return s.Usage }),
	listing.TextCell("ratio", "RATIO", 0, "", func(s *shareLine) string { return ratioText(s.Ratio) }).AtRight().
		SortedBy(func(s *shareLine) int64 { return s.Ratio }),
	listing.TextCell("jobs", "JOBS", 0, "", func(s *shareLine) string { return s.ofAccount(s.Jobs) }).AtRight(),
	listing.TextCell("running", "RUNNING", 0, "", func(s *shareLine) string { return s.ofAccount(s.Running) }).AtRight(),
	listing.NumberCell("gpus", "GPUS", "", func(s *shareLine) int64 { return int64(s.GPUs) }),
	listing.TextCell("share", "SHARE", 0, "", func(s *shareLine) string {
		if s.User != "" {
			return "-"
		}
		return partText(s.Share.Share)
	}).AtRight().SortedBy(func(s *shareLine) int64 { return s.Share.Share }),
}

func partCell(name, title string, of func(*shareLine) int64) listing.Cell[shareLine] {
	return listing.TextCell(name, title, 0, "",
		func(s *shareLine) string { return partText(of(s)) }).AtRight().SortedBy(of)
}

// partText writes thousandths as a percentage.
func partText(thousandths int64) string {
	return fmt.Sprintf("%d.%d%%", thousandths/10, thousandths%10)
}

// ratioText writes a ratio in thousandths. It is undefined for an account without quota.
func ratioText(thousandths int64) string {
	if thousandths < 0 {
		return "-"
	}
	return fmt.Sprintf("%d.%02d", thousandths/1000, thousandths%1000/10)
}

// ofAccount writes a number that only accounts have.
func (s *shareLine) ofAccount(n int) string {
	if s.User != "" {
		return "-"
	}
	return fmt.Sprint(n)
}

func showShares(env *command.Env, c *cli.Context) error {
	if err := command.RefuseArguments(c); err != nil {
		return err
	}
	o, err := listing.ReadOptions(env, c)
	if err != nil {
		return err
	}
	v, err := listing.New(o, shareCells)
	if err != nil {
		return err
	}
	client, err := env.Dial(c)
	if err != nil {
		return err
	}
	list, answer, err := client.Shares(c.Context, api.Read{})
	if err != nil {
		return err
	}
	env.WarnStale(answer)
	whole := v.Format == table.JSON || v.Format == table.YAML || v.Format == table.Template
	return v.Show(env, &api.List[shareLine]{APIVersion: list.APIVersion, Kind: list.Kind, Index: list.Index,
		Items: shareLines(list.Items, !whole), Next: list.Next})
}

// shareLines returns a line for each account, followed by its users if asked for.
func shareLines(items []api.Share, users bool) []shareLine {
	lines := make([]shareLine, 0, len(items))
	for _, s := range items {
		lines = append(lines, shareLine{Share: s})
		for _, u := range s.Users {
			if users {
				lines = append(lines, shareLine{Share: api.Share{Account: s.Account, GPUs: u.GPUs, Fairness: u.Fairness},
					User: u.User})
			}
		}
	}
	return lines
}
