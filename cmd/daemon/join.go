package daemon

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/member"
)

// Identity is where a daemon keeps its data, and its name: what init and join have to know.
type Identity struct {
	Name    string
	DataDir string
}

// JoinCommand returns the command join of a daemon. Place returns the settings that its flags and
// its configuration file give; role is that of the machine that joins.
func JoinCommand(program string, own []cli.Flag, out io.Writer, role func(*cli.Context) pki.Role,
	place func(*cli.Context) (Identity, error),
) *cli.Command {
	return &cli.Command{
		Name: "join", Usage: "make this machine a member of a cluster", ArgsUsage: "ADDR --token TOKEN",
		Description: "ADDR is host:port of a controller's API. TOKEN is what \"rota cluster join-token\" printed on a " +
			"machine of the cluster.\nIt is good for one machine, for 24 hours. Start the daemon afterwards with the same " +
			"--name and " +
			"--data-dir.",
		Flags: append([]cli.Flag{&cli.StringFlag{Name: "token", Usage: "join `TOKEN`", EnvVars: []string{"ROTA_JOIN_TOKEN"}}},
			own...),
		Before: OwnFlags,
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return fmt.Errorf("write: %s join ADDR --token TOKEN (ADDR comes first or last)", program)
			}
			token, err := pki.ParseToken(c.String("token"))
			if err != nil {
				return fmt.Errorf("--token: %w", err)
			}
			at, err := place(c)
			if err != nil {
				return err
			}
			if !member.ValidName(at.Name) {
				return fmt.Errorf("--name %q: a name has 1 to 63 letters, digits, '-', '_' or '.'", at.Name)
			}
			if err := ActAsOwner(at.DataDir, out); err != nil {
				return err
			}
			r := role(c)
			if _, err := api.Join(c.Context, c.Args().First(), token, r, at.Name, pki.Dir(at.DataDir)); err != nil {
				return explainJoin(err, r)
			}
			fmt.Fprintf(out, "joined as %s %s; now start %s with --name %s and --data-dir %s\n", r, at.Name, program, at.Name,
				at.DataDir)
			return nil
		},
	}
}

// explainJoin adds to a refusal how to get a token of the right role.
func explainJoin(err error, r pki.Role) error {
	var p *api.Problem
	if errors.As(err, &p) && p.Code == api.CodeDenied {
		return fmt.Errorf("%w (rota cluster join-token --role %s)", err, r)
	}
	return err
}

// ArgumentLast moves the argument of `join ADDR --flag ...` or `restore FILE --flag ...` behind the
// flags. The flag library reads flags up to the first argument only.
func ArgumentLast(args []string) []string {
	if len(args) < 4 || args[1] != "join" && args[1] != "restore" || strings.HasPrefix(args[2], "-") {
		return args
	}
	moved := append([]string{args[0], args[1]}, args[3:]...)
	return append(moved, args[2])
}
