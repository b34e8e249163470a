package admin

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/config"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hostlist"
)

// clusterShown is the JSON of rota cluster.
type clusterShown struct {
	*api.Cluster
	Settings *cluster.Policy `json:"settings"` // settings of the policy
}

// controllers shows the controllers and the scheduling policy, or removes controllers.
func controllers(env *command.Env, c *cli.Context) error {
	names := c.Args().Tail()
	if c.Args().First() == "join-token" && len(names) == 0 {
		return joinToken(env, c)
	}
	if err := command.RefuseFlags(c, "rota cluster join-token", "role"); err != nil {
		return err
	}
	if c.Args().First() == "backup" {
		return writeBackup(env, c, names)
	}
	if err := command.RefuseFlags(c, "rota cluster backup", "with-keys", "passphrase-file", "force"); err != nil {
		return err
	}
	if c.Args().First() == "rotate-authority" && len(names) == 0 {
		return rotateAuthority(env, c)
	}
	if err := command.RefuseFlags(c, "rota cluster rotate-authority", "finish"); err != nil {
		return err
	}
	switch verb := c.Args().First(); {
	case verb == "rotate-key" && len(names) == 0:
		return rotateKey(env, c)
	case verb == "revoke" && len(names) > 0:
		return revoke(env, c, names)
	case verb != "" && (verb != "remove" || len(names) == 0):
		return exit.Usagef("rota cluster %s", c.Command.ArgsUsage)
	}
	session, err := env.Connect(c)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		return session.ForEach(names, "controller", "removed", func(name string) (*api.ControlResponse, error) {
			if err := session.RemoveController(c.Context, name); err != nil {
				return nil, err
			}
			return &api.ControlResponse{Items: []api.ControlItem{{Ref: name}}}, nil
		})
	}
	cl, answer, err := session.Cluster(c.Context)
	if err != nil {
		return err
	}
	cfg, _, err := session.Config(c.Context, api.Read{})
	if err != nil {
		return err
	}
	env.WarnStale(answer)
	if session.AsJSON {
		return table.PrintJSON(env.Stdout, clusterShown{cl, &cfg.Policy})
	}
	_, err = fmt.Fprint(env.Stdout, clusterText(cl, &cfg.Policy, c.Bool("utc")))
	return err
}

// joiningRoles are what a machine can join as.
var joiningRoles = []string{"node", "login", "controller"}

// joinToken prints a token that lets one machine join.
func joinToken(env *command.Env, c *cli.Context) error {
	if err := command.RefuseOthers(c, "role", joiningRoles...); err != nil {
		return err
	}
	session, err := env.Connect(c)
	if err != nil {
		return err
	}
	token, err := session.CreateJoinToken(c.Context, c.String("role"))
	if err != nil {
		return exit.LostAnswer(err, "a token may have been made, but its text is lost: repeat the command to make another "+
			"one")
	}
	if session.AsJSON {
		return table.PrintJSON(env.Stdout, token)
	}
	fmt.Fprintln(env.Stdout, token.Token)
	env.Notef("good for one machine of role %s, for %s", token.Role, jobspec.Seconds(token.ExpiresIn))
	return nil
}

// revoke has the certificates of members refused.
func revoke(env *command.Env, c *cli.Context, members []string) error {
	for _, m := range members {
		if role, name, ok := strings.Cut(m, "/"); !ok || role == "" || name == "" {
			return exit.Usagef("%q: write ROLE/NAME, such as node/%s", m, m)
		}
	}
	session, err := env.Connect(c)
	if err != nil {
		return err
	}
	return session.ForEach(members, "member", "revoked", func(m string) (*api.ControlResponse, error) {
		role, name, _ := strings.Cut(m, "/")
		if _, err := session.Revoke(c.Context, role, name); err != nil {
			return nil, err
		}
		return &api.ControlResponse{Items: []api.ControlItem{{Ref: m}}}, nil
	})
}

// rotateKey begins to replace the key of the gossip.
func rotateKey(env *command.Env, c *cli.Context) error {
	session, err := env.Connect(c)
	if err != nil {
		return err
	}
	key, err := session.RotateGossipKey(c.Context)
	if err != nil {
		return err
	}
	if session.AsJSON {
		return table.PrintJSON(env.Stdout, key)
	}
	fmt.Fprintf(env.Stdout, "gossip key %d is installed; members use it in about a minute, and drop the old key a "+
		"minute later\n", key.Number)
	return nil
}

// rotateAuthority begins to replace the authority that issues certificates, or ends that.
func rotateAuthority(env *command.Env, c *cli.Context) error {
	session, err := env.Connect(c)
	if err != nil {
		return err
	}
	change := session.ReplaceAuthority
	if c.Bool("finish") {
		change = session.FinishAuthority
	}
	a, err := change(c.Context)
	if err != nil {
		return err
	}
	if session.AsJSON {
		return table.PrintJSON(env.Stdout, a)
	}
	if !c.Bool("finish") {
		fmt.Fprintf(env.Stdout, "authority %d is now trusted in addition to the old one. It issues certificates once every "+
			"controller has its key. The old authority is dropped once every machine has a new certificate (rota cluster "+
			"shows the progress).\n",
			a.Number)
		return nil
	}
	fmt.Fprintf(env.Stdout, "only authority %d is trusted now\n", a.Number)
	if n := len(a.Lacking) + a.More; n > 0 {
		fmt.Fprintf(env.Stdout, "%s no certificate of this authority and must join again with a token\n", lacking(a, "has",
			"have"))
	}
	return nil
}

// lacking names members, with the verb for one or several.
func lacking(a *api.AuthorityChange, one, several string) string {
	text := strings.Join(a.Lacking, ", ")
	if a.More > 0 {
		text += fmt.Sprintf(" and %d more", a.More)
	}
	if len(a.Lacking) == 1 {
		return text + " " + one
	}
	return text + " " + several
}

// authorityText says how far a replacement of the authority is.
func authorityText(a *api.AuthorityChange) string {
	text := fmt.Sprintf("  authority %d of certificates: %s", a.Number, a.Phase)
	if len(a.Lacking) == 0 {
		return text + "\n"
	}
	what := "no certificate from it yet"
	if a.Phase == string(trust.AuthorityTrusted) {
		what = "no copy of its key yet"
	}
	return text + "; " + lacking(a, "has", "have") + " " + what + "\n"
}

// clusterText writes the controllers, and the policy in the form of a configuration file.
func clusterText(cl *api.Cluster, p *cluster.Policy, utc bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Cluster %s, version %d\n", cl.Name, cl.Version)
	for _, m := range cl.Controllers {
		fmt.Fprintf(&b, "  controller %s%s\n", m.Name, roleOf(&m))
	}
	b.WriteString(generationText(cl))
	for _, s := range cl.Steering {
		fmt.Fprintf(&b, "  %s\n", show.Steering(s, utc))
	}
	if k := cl.GossipKey; k != nil {
		fmt.Fprintf(&b, "  gossip key %d: %s\n", k.Number, k.Phase)
	}
	b.WriteString(witnessText(cl.Witnesses))
	if cl.Authority != nil {
		b.WriteString(authorityText(cl.Authority))
	}
	return b.String() + "\n" + config.Text(p)
}

// witnessText says which nodes keep jobs in an outage of the controllers, and which of them the leader does not
// reach.
func witnessText(w *api.WitnessState) string {
	if w == nil {
		return ""
	}
	text := fmt.Sprintf("  %d witnesses: %s", len(w.Nodes), hostlist.Compress(w.Nodes))
	if n := len(w.Nodes) - len(w.OutOfTouch); w.ByLeader && len(w.OutOfTouch) > 0 {
		text += fmt.Sprintf("; %d of %d are in touch with the leader, out of touch: %s", n, len(w.Nodes),
			hostlist.Compress(w.OutOfTouch))
		if n <= len(w.Nodes)/2 {
			text += ". Jobs of lost nodes wait, because no majority is in touch"
		}
	}
	return text + "\n"
}

// generationText says how the generation of a cluster began that was recovered or restored, and which
// nodes do not follow it.
func generationText(cl *api.Cluster) string {
	var b strings.Builder
	if g := cl.Generation; g != nil {
		fmt.Fprintf(&b, "  generation %s, by %s on %s: %d nodes follow it\n", g.Generation, g.Means, g.Controller, g.Accepted)
		if !g.Settled {
			fmt.Fprintf(&b, "    nothing starts until %d nodes follow it\n", g.Need)
		}
		if len(g.Missing) > 0 {
			fmt.Fprintf(&b, "    not yet: %s\n", hostlist.Compress(g.Missing))
		}
		if g.Settled && g.OldJobsIn > 0 {
			fmt.Fprintf(&b, "    jobs that ran before the recovery may start in %s, when the leases of these nodes have ended\n",
				jobspec.Seconds(g.OldJobsIn))
		}
		if g.Held > 0 {
			fmt.Fprintf(&b, "    %d jobs ran after the state was saved: those that are pending again are held (rota ps, rota "+
				"why)\n", g.Held)
		}
		if g.Unknown > 0 {
			fmt.Fprintf(&b, "    nodes have %d jobs that the controllers do not know: running ones end with their leases, "+
				"output and checkpoints stay\n", g.Unknown)
		}
	}
	for _, n := range cl.RefusedBy {
		fmt.Fprintf(&b, "  node %s refuses these controllers: it follows generation %s\n", n.Node, n.Generation)
	}
	return b.String()
}

func roleOf(m *api.Controller) string {
	switch {
	case m.Leader:
		return ", leader"
	case m.State == api.ControllerNoLog:
		return ", has lost its log: no vote until it has caught up with a leader"
	case m.HTTP == "":
		return ", unreachable"
	case m.State == api.ControllerLearner:
		return ", no vote yet: it is catching up"
	case !m.Voter:
		return ", no vote yet"
	}
	return ""
}

func completeControllers(l *command.Line) []command.Candidate {
	var found []command.Candidate
	l.Ask(func(ctx context.Context, client *api.Client) error {
		cl, _, err := client.Cluster(ctx)
		if err != nil {
			return err
		}
		for _, m := range cl.Controllers {
			found = append(found, command.Candidate{Word: m.Name, About: strings.TrimPrefix(roleOf(&m), ", ")})
		}
		return nil
	})
	return found
}
