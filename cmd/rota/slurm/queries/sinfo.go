package queries

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/slurm/fields"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
)

// Formats of sinfo, by the options that select them.
const (
	infoFormat        = "%#P %.5a %.10l %.6D %.6t %N"
	infoLongFormat    = "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %.11i %N"
	infoNodeFormat    = "%#9N %.6D %#P %6t"
	infoNodeLong      = "%#9N %.6D %#P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"
	infoSummaryFormat = "%#P %.5a %.10l %.16F %N"
	infoReasonFormat  = "%20E %9u %19H %N"
	infoReasonLong    = "%20E %12u %19H %6t %N"
)

// infoOptions are the options of sinfo.
type infoOptions struct {
	common
	format, names, queues, nodes, states, sort                    string
	all, apart, exactly, long, summary, reasons, dead, responding bool
}

// flagsOfSinfo defines the flags of sinfo.
func flagsOfSinfo(f *pflag.FlagSet) *infoOptions {
	o := &infoOptions{}
	o.add(f, "h")
	f.StringVarP(&o.format, "format", "o", "", "")
	f.StringVarP(&o.names, "Format", "O", "", "")
	f.StringVarP(&o.queues, "partition", "p", "", "")
	f.StringVarP(&o.nodes, "nodes", "n", "", "")
	f.StringVarP(&o.states, "states", "t", "", "")
	f.StringVarP(&o.sort, "sort", "S", "", "")
	f.BoolVarP(&o.all, "all", "a", false, "") // no partition is hidden anyway
	f.BoolVarP(&o.apart, "Node", "N", false, "")
	f.BoolVarP(&o.exactly, "exact", "e", false, "")
	f.BoolVarP(&o.long, "long", "l", false, "")
	f.BoolVarP(&o.summary, "summarize", "s", false, "") //nolint:misspell // Slurm's word
	f.BoolVarP(&o.reasons, "list-reasons", "R", false, "")
	f.BoolVarP(&o.dead, "dead", "d", false, "")
	f.BoolVarP(&o.responding, "responding", "r", false, "")
	tool.Aliased(f, "partition", "partitions")
	tool.Aliased(f, "nodes", "nodelist")
	tool.Aliased(f, "states", "state")
	return o
}

// variablesOfSinfo maps environment variables to the options that they set if the command line does
// not.
var variablesOfSinfo = map[string]string{"format": "SINFO_FORMAT", "Format": "SINFO_FORMAT2",
	"partition": "SINFO_PARTITION",
	"sort":      "SINFO_SORT", "all": "SINFO_ALL", "clusters": "SLURM_CLUSTERS"}

// letters returns the format as -o takes it.
func (o *infoOptions) letters() string {
	switch {
	case o.format != "":
		return o.format
	case o.reasons && o.long:
		return infoReasonLong
	case o.reasons:
		return infoReasonFormat
	case o.summary:
		return infoSummaryFormat
	case o.apart && o.long:
		return infoNodeLong
	case o.apart:
		return infoNodeFormat
	case o.long:
		return infoLongFormat
	}
	return infoFormat
}

// sinfo lists partitions and nodes.
func sinfo(ctx context.Context, t *tool.Tool, args []string) error {
	f := t.Flags()
	o := flagsOfSinfo(f)
	if err := begin(t, f, args, variablesOfSinfo); err != nil {
		return err
	}
	src, err := fields.NewSource(t.Env)
	if err != nil {
		return err
	}
	var columns []fields.Column[*fields.NodeRow]
	if o.names != "" {
		columns, err = fields.ParseNames(fields.Nodes, o.names)
	} else {
		columns, err = fields.ParseLetters(fields.Nodes, o.letters())
	}
	if err != nil {
		return err
	}
	keys, err := fields.ParseSort(fields.Nodes, strings.ReplaceAll(o.sort, "#", ""))
	if err != nil {
		return err
	}
	wanted, err := o.nodeFilter()
	if err != nil {
		return err
	}
	parts, err := partitions(ctx, t, src, o.clusters, command.SplitList(o.queues))
	if err != nil {
		return err
	}
	rows := fields.Join(src, parts, columns, fields.Joining{JSON: o.asJSON, Apart: o.apart, Exact: o.exactly,
		Barren: o.states+o.nodes == "" && !o.reasons, Wanted: wanted})
	fields.SortRows(rows, keys)
	out := bufio.NewWriter(t.Stdout)
	if o.asJSON {
		d, tree := fields.NewDocument(out, "sinfo"), fields.NodeTree()
		for _, r := range rows {
			if err := fields.AddRow(d, tree, r); err != nil {
				return err
			}
		}
		return d.End(t, src.Cluster)
	}
	l := fields.Lines[*fields.NodeRow]{Columns: columns, Out: out}
	l.Fit(rows)
	if !o.noHeader {
		if o.clusters != "" {
			fmt.Fprintf(out, "CLUSTER: %s\n", src.Cluster)
		}
		if o.long {
			fmt.Fprintln(out, src.Now.Local().Format("Mon Jan 02 15:04:05 2006"))
		}
		l.Header()
	}
	for _, r := range rows {
		l.Row(r)
	}
	return out.Flush()
}

// partitions returns the partitions with these names or aliases, or all, with their nodes.
func partitions(ctx context.Context, t *tool.Tool, src *fields.Source, clusters string,
	names []string) ([]*fields.Partition, error) {
	s, err := t.Connect()
	if err != nil {
		return nil, err
	}
	config, _, err := s.Config(ctx, api.Read{})
	if err != nil {
		return nil, &tool.LoadError{What: "slurm_load_partitions", Text: tool.AsSlurm(err).Error()}
	}
	for i, name := range names {
		names[i] = config.QueueName(name)
	}
	if err := setCluster(ctx, s, src, clusters, true); err != nil {
		return nil, err
	}
	list, _, err := s.Nodes(ctx, api.Read{})
	if err != nil {
		return nil, &tool.LoadError{What: "slurm_load_nodes", Text: tool.AsSlurm(err).Error()}
	}
	var parts []*fields.Partition
	for _, name := range slices.Sorted(maps.Keys(config.Queues)) {
		if len(names) == 0 || slices.Contains(names, name) {
			q := config.Queues[name]
			var nodes []*api.Node
			for i := range list.Items {
				if n := &list.Items[i]; q.Has(n.Name, n.Labels) {
					nodes = append(nodes, n)
				}
			}
			parts = append(parts, &fields.Partition{Name: name, Queue: q, Nodes: nodes})
		}
	}
	return parts, nil
}

// nodeFilter returns a function that reports whether a node matches the options.
func (o *infoOptions) nodeFilter() (func(*api.Node) bool, error) {
	names, err := readNodes(o.nodes)
	if err != nil {
		return nil, err
	}
	states := map[string]bool{}
	for _, word := range command.SplitList(strings.ToLower(o.states)) {
		some, known := nodeStates[word]
		if !known {
			return nil, fmt.Errorf("Bad state string: \"%s\": valid node states are %s", word,
				strings.Join(slices.Sorted(maps.Keys(nodeStates)), ","))
		}
		for _, state := range some {
			states[state] = true
		}
	}
	return func(n *api.Node) bool {
		down := n.State == "down"
		switch {
		case o.dead && !down, o.responding && down, o.reasons && (n.Reason == "" || n.State == "idle"):
			return false
		case len(names) > 0 && !slices.Contains(names, n.Name):
			return false
		}
		return o.states == "" || states[n.State]
	}, nil
}

// nodeStates maps the words of --states to states of Rota's nodes.
var nodeStates = map[string][]string{
	"idle": {"idle"}, "mix": {"mix"}, "mixed": {"mix"}, "alloc": {"alloc"}, "allocated": {"alloc"}, "down": {"down"},
	"drain": {"drain", "drng"}, "drained": {"drain"}, "draining": {"drng"}, "drng": {"drng"},
	"all": {"idle", "mix", "alloc", "down", "drain", "drng"}, "no_respond": {"down"},
	"comp": {}, "completing": {}, "fail": {}, "failing": {}, "future": {}, "futr": {}, "maint": {}, "perfctrs": {},
	"npc":     {},
	"planned": {}, "plnd": {}, "power_down": {}, "powering_down": {}, "powered_down": {}, "powering_up": {},
	"power_up": {},
	"reboot":   {}, "resv": {}, "reserved": {}, "unk": {}, "unknown": {}, "inval": {}, "blocked": {},
}
