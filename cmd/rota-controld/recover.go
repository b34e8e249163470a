package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/daemon"
	"github.com/rota-hpc/rota/cmd/rota/terminal/progress"
	"github.com/rota-hpc/rota/controld/api/directory"
	"github.com/rota-hpc/rota/controld/recovery"
)

// recoverCommand makes a cluster of one of a controller that survived.
func recoverCommand(out io.Writer) *cli.Command {
	flags := append(placeFlags(), aboveFlag())
	return &cli.Command{Name: "recover",
		Usage: "make this controller a cluster of one, after a majority of the controllers is lost for good",
		Description: "Stop the daemon, and run this on one survivor only: the controller that was up last. It begins a new " +
			"generation of the cluster.\n" +
			"Nodes follow it once their old leader is silent, and running jobs continue. Controllers of the old generation " +
			"can no longer lead\n" +
			"nodes; they must join again with an empty data directory. If two survivors are recovered, the nodes follow the " +
			"one that a\n" +
			"majority of them reaches first.",
		Flags: flags, Before: daemon.OwnFlags, Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return fmt.Errorf("unexpected argument %q: recover takes flags only", c.Args().First())
			}
			o, err := recoveryOptions(c, out)
			if err != nil {
				return err
			}
			line := progress.Show(os.Stderr, progress.Task{What: "recovering"})
			r, err := recovery.Recover(c.Context, o)
			line.Stop()
			if r != nil {
				tellRecovered(out, o, r)
				fmt.Fprintf(out, "the old log is kept in %s\n", r.Aside)
			}
			return err
		}}
}

func aboveFlag() cli.Flag {
	return &cli.Int64Flag{Name: "above", Usage: "begin a generation above `NUMBER`, if nodes already follow generation " +
		"NUMBER"}
}

// recoveryOptions are what recover and restore have in common. Only root, or the account that the
// data directory belongs to, may run them.
func recoveryOptions(c *cli.Context, out io.Writer) (recovery.Options, error) {
	at, err := placeOf(c)
	if err != nil {
		return recovery.Options{}, err
	}
	o := recovery.Options{DataDir: at.DataDir, Name: at.Name, Above: c.Int64("above"), UID: os.Getuid()}
	if c.Int64("above") < 0 {
		return o, errors.New("--above: a generation's number is 0 or more")
	}
	o.User = strconv.Itoa(o.UID)
	if u, err := directory.Machine.UserByID(uint32(o.UID)); err == nil {
		o.User = u.Name
	}
	return o, daemon.ActAsOwner(at.DataDir, out)
}

// tellRecovered says what a cluster of one has, and what comes next.
func tellRecovered(out io.Writer, o recovery.Options, r *recovery.Result) {
	fmt.Fprintf(out, "cluster %s is a cluster of one now: controller %s, generation %s\n", r.Cluster, o.Name, r.Generation)
	fmt.Fprintf(out, "its state is from %s: %d nodes, %d jobs with a live attempt, %d pending, last job %d\n",
		r.Saved.UTC().Format(time.RFC3339), r.Nodes, r.Live, r.Waiting, r.LastJob)
	fmt.Fprintf(out, "start rota-controld now; nothing new starts until %d of %d nodes follow it "+
		"(rota cluster shows them)\n",
		min(r.Nodes, r.Nodes/2+1), r.Nodes)
}
