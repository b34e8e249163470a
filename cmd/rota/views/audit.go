package views

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/listing"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
)

// Limits of the number of listed requests: the default, and the most.
const (
	auditLimit    = 1000
	auditLimitMax = 10_000
)

// auditCells are the columns of rota audit.
var auditCells = []listing.Cell[api.AuditEntry]{
	listing.TimeCell("at", "TIME", "at", func(e *api.AuditEntry) *api.Time { return e.At }),
	listing.TextCell("user", "USER", 6, "user", func(e *api.AuditEntry) string { return show.DashIfEmpty(e.User) }),
	listing.TextCell("from", "FROM", 10, "from", func(e *api.AuditEntry) string {
		return show.DashIfEmpty(e.From)
	}).Ranked(2),
	listing.TextCell("action", "ACTION", 20, "action", func(e *api.AuditEntry) string { return shortAction(e.Action) }),
	listing.TextCell("jobs", "JOBS", 10, "jobs", func(e *api.AuditEntry) string { return show.DashIfEmpty(e.Jobs) }),
	listing.TextCell("object", "OBJECT", 8, "object", func(e *api.AuditEntry) string {
		return show.DashIfEmpty(e.Object)
	}),
	listing.TextCell("result", "RESULT", 8, "code", func(e *api.AuditEntry) string { return e.Code }).Painted(resultPaint),
	listing.NumberCell("times", "TIMES", "times", func(e *api.AuditEntry) int { return e.Times }).Ranked(3),
	listing.TextCell("account", "ACCOUNT", 0, "account", func(e *api.AuditEntry) string {
		return show.DashIfEmpty(e.Account)
	}).InWide(),
	listing.TextCell("token", "TOKEN", 0, "token", func(e *api.AuditEntry) string {
		return show.DashIfEmpty(e.Token)
	}).InWide(),
	listing.TextCell("controller", "CONTROLLER", 0, "controller", func(e *api.AuditEntry) string {
		return e.Controller
	}).InWide(),
}

// resultPaint returns the colour for the result of a request: that of a refusal.
func resultPaint(code string) table.Paint {
	if code == "ok" {
		return table.Plain
	}
	return table.Bad
}

// shortAction removes the prefix that all routes share.
func shortAction(action string) string { return strings.Replace(action, " /v1/", " ", 1) }

func auditFlags() []cli.Flag {
	return []cli.Flag{
		command.Switch("me", "only your requests"),
		command.Text("user,u", "only requests of `USER`"),
		command.Text("job,j,jobs", "only requests for job `ID`"),
		command.Switch("denied", "only requests that were refused"),
		&cli.StringFlag{Name: "since", Aliases: []string{"S"}, Usage: "only requests at or after `TIME`",
			DefaultText: histSince},
		command.Text("until,E", "only requests before `TIME`"),
		&cli.IntFlag{Name: "limit", Usage: "only the last `N` requests, at most 10000", Value: auditLimit},
		command.Switch("long,l", "the same as -o wide"),
	}
}

func showAudit(env *command.Env, c *cli.Context) error {
	v, session, err := listing.Open(env, c, auditCells)
	if err != nil {
		return err
	}
	filter, err := auditFilter(env, c)
	if err != nil {
		return err
	}
	if ref := c.String("job"); ref != "" {
		refs, err := command.JobRefs([]string{ref})
		if err != nil {
			return err
		}
		if len(refs) != 1 {
			return exit.Usagef("--job %s: name one job", ref)
		}
		if filter.Job, err = session.JobID(c.Context, refs[0]); err != nil {
			return err
		}
	}
	list, answer, err := session.Audit(c.Context, filter)
	if err != nil {
		return err
	}
	env.WarnStale(answer)
	if len(list.Unreachable) > 0 {
		env.Notef("warning: requests to these controllers are missing from the list, because they are unreachable: %s",
			strings.Join(list.Unreachable, ", "))
	}
	if len(list.Items) == filter.Limit && !c.IsSet("limit") {
		env.Notef("only the last %d requests are shown: use --limit N for more, or --until TIME for earlier ones", auditLimit)
	}
	if !v.Structured() {
		slices.Reverse(list.Items) // the newest request comes last, next to the prompt
	}
	return v.Show(env, &list.List)
}

func auditFilter(env *command.Env, c *cli.Context) (api.AuditFilter, error) {
	f := api.AuditFilter{Denied: c.Bool("denied"), Limit: c.Int("limit")}
	if err := command.RefuseEmpty(c, "user", "job"); err != nil {
		return f, err
	}
	if f.Limit < 1 || f.Limit > auditLimitMax {
		return f, exit.Usagef("--limit %d: must be from 1 to %d", f.Limit, auditLimitMax)
	}
	var err error
	if f.User, err = env.SelectedUser(c); err != nil {
		return f, err
	}
	since := c.String("since")
	if since == "" {
		since = histSince
	}
	if f.Since, err = command.ParseWhen(since, env.Now(), c.Bool("utc")); err != nil {
		return f, err
	}
	if until := c.String("until"); until != "" {
		f.Until, err = command.ParseWhen(until, env.Now(), c.Bool("utc"))
	}
	return f, err
}
