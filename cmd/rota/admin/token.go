package admin

import (
	"cmp"
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/complete"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model/trust"
)

// tokenCommand makes, lists and revokes API tokens.
func tokenCommand() *command.Command {
	return &command.Command{Name: "token", Usage: "make, list and revoke API tokens for pipelines",
		ArgsUsage: "create [OPTIONS] | list [--user USER] | revoke ID...", Action: tokens,
		Description: "With a token a pipeline acts for a user from a machine without a daemon: with ROTA_TOKEN or --token, " +
			"commands connect to\n" +
			"https://host:7070. create prints the token once; the cluster keeps only its digest.\n" +
			"Scope read allows reading; submit also submits jobs and controls the user's own jobs; all allows everything that " +
			"the user may do.\n" +
			"Tokens cannot be made or revoked with a token. Only admins make and revoke tokens of other users.",
		Flags: command.WithCommon(
			command.Text("name", "call the token `NAME`, such as the pipeline's name"),
			&cli.StringFlag{Name: "scope", Usage: "`SCOPE` of the token: read, submit or all",
				Value: string(trust.ScopeSubmit)},
			&cli.IntFlag{Name: "days", Usage: fmt.Sprintf("valid for `N` days, at most %d", trust.MaxAPITokenDays),
				Value: trust.APITokenDays},
			command.Text("user,u", "make a token of `USER`, or list the tokens of `USER`"),
		),
		Arguments: complete.Subcommand(complete.Words("create", "list", "revoke"), completeTokens),
		Values:    map[string]command.Source{"scope": complete.Words(show.Words(trust.TokenScopes)...)}}
}

func tokens(env *command.Env, c *cli.Context) error {
	ids := c.Args().Tail()
	if err := command.RefuseEmpty(c, "name", "scope", "user"); err != nil {
		return err
	}
	switch verb := c.Args().First(); {
	case verb == "create" && len(ids) == 0:
		return createToken(env, c)
	case verb == "list" && len(ids) == 0:
		if err := command.RefuseFlags(c, "rota token create", "name", "scope", "days"); err != nil {
			return err
		}
		return listTokens(env, c)
	case verb == "revoke" && len(ids) > 0:
		if err := cmp.Or(command.RefuseFlags(c, "rota token create", "name", "scope", "days"),
			command.RefuseFlags(c, "rota token create and list", "user")); err != nil {
			return err
		}
		session, err := env.Connect(c)
		if err != nil {
			return err
		}
		return session.ForEach(ids, "API token", "revoked", func(id string) (*api.ControlResponse, error) {
			if _, err := session.RevokeToken(c.Context, id); err != nil {
				return nil, err
			}
			return &api.ControlResponse{Items: []api.ControlItem{{Ref: id}}}, nil
		})
	}
	return exit.Usagef("rota token %s", c.Command.ArgsUsage)
}

// createToken prints a new token alone on standard output, and what it is good for beside it.
func createToken(env *command.Env, c *cli.Context) error {
	if n := c.Int("days"); n < 1 || n > trust.MaxAPITokenDays {
		return exit.Usagef("--days %d: must be from 1 to %d", n, trust.MaxAPITokenDays)
	}
	if err := command.RefuseOthers(c, "scope", show.Words(trust.TokenScopes)...); err != nil {
		return err
	}
	session, err := env.Connect(c)
	if err != nil {
		return err
	}
	token, err := session.CreateToken(c.Context, api.TokenRequest{Name: c.String("name"), User: c.String("user"),
		Scope: trust.TokenScope(c.String("scope")), Days: c.Int("days")})
	if err != nil {
		return exit.LostAnswer(err, "a token may have been made, but its text is lost: \"rota token list\" shows its id, "+
			"and \"rota token revoke\" revokes it")
	}
	if session.AsJSON {
		return table.PrintJSON(env.Stdout, token)
	}
	fmt.Fprintln(env.Stdout, token.Token)
	env.Notef("token %s of %s, scope %s, valid until %s: it is not shown again", token.ID, token.User, token.Scope,
		show.Time(token.Expires, c.Bool("utc")))
	return nil
}

func listTokens(env *command.Env, c *cli.Context) error {
	session, err := env.Connect(c)
	if err != nil {
		return err
	}
	list, answer, err := session.Tokens(c.Context, c.String("user"))
	if err != nil {
		return err
	}
	env.WarnStale(answer)
	if session.AsJSON {
		return table.PrintJSON(env.Stdout, list)
	}
	utc := c.Bool("utc")
	t := table.New("ID", "NAME", "USER", "SCOPE", "STATE", "CREATED", "EXPIRES", "BY")
	t.Columns[1].Least, t.Columns[2].Least, t.Columns[4].Paint = 8, 6, table.StateOf
	t.Columns[5].Rank, t.Columns[7].Rank = 1, 2
	for i := range list.Items {
		k := &list.Items[i]
		t.Add(k.ID, show.DashIfEmpty(k.Name), k.User, string(k.Scope), k.State, show.Time(k.Created, utc),
			show.Time(k.Expires, utc), k.By)
	}
	return t.Print(env.Stdout, env.Screen(), table.AsTable, true)
}

func completeTokens(l *command.Line) []command.Candidate {
	var found []command.Candidate
	l.Ask(func(ctx context.Context, client *api.Client) error {
		list, _, err := client.Tokens(ctx, "")
		if err != nil {
			return err
		}
		for i := range list.Items {
			if k := &list.Items[i]; k.State == "valid" {
				found = append(found, command.Candidate{Word: k.ID, About: k.Name})
			}
		}
		return nil
	})
	return found
}
