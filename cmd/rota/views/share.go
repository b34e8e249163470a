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

// shareLine is a line of rota share: an account, or a user of the account above it. In JSON, users
// are members of their account.
type shareLine struct {
	api.Share
	User string `json:"user,omitempty"`
}

var shareCells = []listing.Cell[shareLine]{
	listing.TextCell("account", "ACCOUNT", 10, "", func(s *shareLine) string { return s.Account }),
	listing.TextCell("user", "USER", 6, "", func(s *shareLine) string { return show.DashIfEmpty(s.User) }),
	listing.NumberCell("weight", "WEIGHT", "", func(s *shareLine) int64 { return s.Weight }).Ranked(3),
	partCell("deserved", "DESERVED", func(s *shareLine) int64 { return s.Deserved }),
	partCell("fair", "FAIR", func(s *shareLine) int64 { return s.Fair }),
	partCell("alloc", "ALLOC", func(s *shareLine) int64 { return s.Alloc }),
	partCell("borrowed", "BORROWED", func(s *shareLine) int64 { return s.Borrowed }).Ranked(2),
	listing.AmountCell("usage", "USAGE", "", func(s *shareLine) jobspec.Seconds { return jobspec.Seconds(s.Usage) },
		show.Clock),
	listing.AmountCell("ratio", "RATIO", "", func(s *shareLine) int64 { return s.Ratio }, ratioText),
	listing.TextCell("jobs", "JOBS", 0, "", func(s *shareLine) string { return s.ofAccount(s.Jobs) }).AtRight().Ranked(1),
	listing.TextCell("running", "RUNNING", 0, "",
		func(s *shareLine) string { return s.ofAccount(s.Running) }).AtRight().Ranked(4),
	listing.AmountCell("gpus", "GPUS", "",
		func(s *shareLine) int64 { return show.GPUAmount(s.GPUs, s.GPUThousandths) }, show.GPUs),
	listing.TextCell("share", "SHARE", 0, "", func(s *shareLine) string {
		if s.User != "" {
			return "-"
		}
		return partText(s.Share.Share)
	}).AtRight().SortedBy(func(s *shareLine) int64 { return s.Share.Share }),
}

func partCell(name, title string, part func(*shareLine) int64) listing.Cell[shareLine] {
	return listing.AmountCell(name, title, "", part, partText)
}

// partText formats thousandths as a percentage.
func partText(thousandths int64) string {
	return fmt.Sprintf("%d.%d%%", thousandths/10, thousandths%10)
}

// ratioText formats a ratio given in thousandths. It is undefined for an account without quota.
func ratioText(thousandths int64) string {
	if thousandths < 0 {
		return "-"
	}
	return fmt.Sprintf("%d.%02d", thousandths/1000, thousandths%1000/10)
}

// ofAccount formats a number that only accounts have.
func (s *shareLine) ofAccount(n int) string {
	if s.User != "" {
		return "-"
	}
	return fmt.Sprint(n)
}

func showShares(env *command.Env, c *cli.Context) error {
	if c.IsSet("explain") {
		return explainShare(env, c)
	}
	return simpleList(env, c, shareCells, func(client *api.Client, v *listing.View[shareLine]) (*api.List[shareLine],
		api.Answer, error) {
		list, answer, err := client.Shares(c.Context, api.Read{})
		if err != nil {
			return nil, answer, err
		}
		whole := v.Structured() || v.Format == table.Template
		return &api.List[shareLine]{APIVersion: list.APIVersion, Kind: list.Kind, Index: list.Index,
			Items: shareLines(list.Items, !whole), Next: list.Next}, answer, nil
	})
}

// shareLines returns a line for each account, followed by its users if requested.
func shareLines(items []api.Share, users bool) []shareLine {
	lines := make([]shareLine, 0, len(items))
	for _, s := range items {
		lines = append(lines, shareLine{Share: s})
		for _, u := range s.Users {
			if users {
				lines = append(lines, shareLine{User: u.User, Share: api.Share{Account: s.Account, GPUs: u.GPUs,
					GPUThousandths: u.GPUThousandths, Fairness: u.Fairness}})
			}
		}
	}
	return lines
}
