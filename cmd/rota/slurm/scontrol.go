package slurm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rota-hpc/rota/cmd/rota/slurm/actions"
	"github.com/rota-hpc/rota/cmd/rota/slurm/queries"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/model"
)

// controlOptions are the options of scontrol.
type controlOptions struct {
	queries.ShowOptions
	quiet, all, details bool
	clusters            string
}

// flagsOfScontrol defines the flags of scontrol.
func flagsOfScontrol(f *pflag.FlagSet) *controlOptions {
	o := &controlOptions{}
	f.SetInterspersed(true)
	f.BoolVarP(&o.OneLine, "oneliner", "o", false, "")
	f.BoolVarP(&o.quiet, "quiet", "Q", false, "")     // scontrol prints nothing about success anyway
	f.BoolVarP(&o.all, "all", "a", false, "")         // no partition is hidden anyway
	f.BoolVarP(&o.details, "details", "d", false, "") // details are always shown
	f.BoolVar(&o.JSON, "json", false, "")
	f.StringVarP(&o.clusters, "clusters", "M", "", "")
	tool.Aliased(f, "clusters", "cluster")
	return o
}

// scontrolHelp is the help line of scontrol.
const scontrolHelp = "show job|step|node|partition|config|hostnames|hostlist, ping, requeue, hold, release, " +
	"update JobId=ID Name=NAME Comment=TEXT TimeLimit=TIME, update NodeName=NAMES State=DRAIN|RESUME Reason=TEXT"

// control has only scontrol, which both shows and changes things.
var control = tool.Commands{"scontrol": {Does: scontrol, Help: scontrolHelp}}

// scontrol runs one command of scontrol.
func scontrol(ctx context.Context, t *tool.Tool, args []string) error {
	f := t.Flags()
	o := flagsOfScontrol(f)
	words, err := t.Parse(f, args)
	switch {
	case err != nil:
		return err
	case len(words) == 0:
		return errors.New("no command given (there is no interactive mode): " + scontrolHelp)
	}
	if o.clusters != "" {
		s, err := t.Connect()
		if err == nil {
			_, err = tool.ClusterName(ctx, s, o.clusters)
		}
		if err != nil {
			return err
		}
	}
	switch verb := strings.ToLower(words[0]); verb {
	case "show":
		return queries.Show(ctx, t, words[1:], &o.ShowOptions)
	case "version":
		t.About("--version")
		return nil
	case "ping":
		return queries.Ping(ctx, t)
	case "requeue", "hold", "release":
		return actions.Control(ctx, t, model.Verb(verb), words[1:])
	case "update":
		return actions.Update(ctx, t, words[1:])
	}
	return fmt.Errorf("invalid keyword: %s: Rota's scontrol supports: %s", words[0], scontrolHelp)
}
