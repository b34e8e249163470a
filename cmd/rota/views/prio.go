package views

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/listing"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
)

// priorityCells are the columns of rota prio.
var priorityCells = append([]listing.Cell[api.Priority]{
	listing.AmountCell("pos", "POS", "", func(p *api.Priority) int { return p.Position }, show.NumberOrDash[int]),
	listing.TextCell("id", "JOBID", 0, "", func(p *api.Priority) string { return p.Ref }).AtRight().SortedBy(
		func(p *api.Priority) int64 { return int64(p.ID) }),
	listing.TextCell("user", "USER", 6, "", func(p *api.Priority) string { return p.User }),
	listing.TextCell("account", "ACCOUNT", 6, "", func(p *api.Priority) string { return p.Account }),
	listing.TextCell("class", "CLASS", 0, "", func(p *api.Priority) string { return string(p.Class) }).Ranked(3),
	listing.TextCell("over", "OVER", 0, "", overText).Ranked(2),
	listing.NumberCell("pri", "PRI", "", func(p *api.Priority) int { return p.Priority }),
	listing.TextCell("level", "LEVEL", 0, "", levelText).AtRight().SortedBy(
		func(p *api.Priority) int64 { return int64(p.Level) }),
	listing.AmountCell("service", "GPUH", "", func(p *api.Priority) int64 { return p.Service }, show.Hours),
	listing.AmountCell("age", "AGE", "", func(p *api.Priority) jobspec.Seconds { return jobspec.Seconds(p.Age) },
		show.Clock),
	listing.TextCell("accountshare", "ACCT(A/D)", 0, "",
		func(p *api.Priority) string { return heldOf(&p.AccountShare) }).AtRight().Ranked(4),
	listing.TextCell("usershare", "USER(A/D)", 0, "",
		func(p *api.Priority) string { return heldOf(&p.UserShare) }).AtRight().Ranked(5),
	listing.TextCell("reason", "REASON", 8, "", func(p *api.Priority) string { return p.Reason.Code }),
}, listing.OnDemand(
	listing.TextCell("name", "NAME", 8, "", func(p *api.Priority) string { return p.Name }),
	listing.TextCell("reserved", "RESERVED", 0, "", func(p *api.Priority) string { return yesOrDash(p.Reserved) }),
	listing.TextCell("text", "TEXT", 10, "", func(p *api.Priority) string { return show.Clean(p.Reason.Text) }),
)...)

// overText says whether the job's account or user holds its full quota or more; such jobs come
// after others.
func overText(p *api.Priority) string {
	text := ""
	switch n := bits.OnesCount(uint(max(0, p.AccountsOver))); {
	case n == 1:
		text = "account"
	case n > 1:
		text = fmt.Sprintf("%d accounts", n)
	}
	switch {
	case !p.UserOver:
	case text == "":
		text = "user"
	default:
		text += ",user"
	}
	return show.DashIfEmpty(text)
}

// levelText formats a service level; "first" marks a job that left its room to a job that did not
// want it.
func levelText(p *api.Priority) string {
	if p.OwnRoom {
		return "first"
	}
	return fmt.Sprint(p.Level)
}

// heldOf formats the held amount beside the quota.
func heldOf(f *api.Fairness) string { return partText(f.Alloc) + "/" + partText(f.Deserved) }

func yesOrDash(is bool) string {
	if is {
		return "yes"
	}
	return "-"
}

// showPriorities prints the pending jobs in scheduling order.
func showPriorities(env *command.Env, c *cli.Context) error {
	if err := command.RefuseEmpty(c, "user", "account", "jobs"); err != nil {
		return err
	}
	user, err := env.SelectedUser(c)
	if err != nil {
		return err
	}
	return simpleList(env, c, priorityCells, func(client *api.Client, _ *listing.View[api.Priority]) (
		*api.List[api.Priority], api.Answer, error) {
		list, answer, err := client.Priorities(c.Context)
		if err != nil {
			return nil, answer, err
		}
		wanted := command.SplitList(c.String("jobs"))
		list.Items = slices.DeleteFunc(list.Items, func(p api.Priority) bool {
			return user != "" && p.User != user || c.IsSet("account") && p.Account != c.String("account") ||
				len(wanted) > 0 && !slices.Contains(wanted, show.ID(p.ID)) && !slices.Contains(wanted, p.Ref)
		})
		return list, answer, nil
	})
}
