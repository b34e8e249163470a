package slurm

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/controld/api"
)

// Formats of sinfo, by the options that choose them.
const (
	infoFormat        = "%#P %.5a %.10l %.6D %.6t %N"
	infoLongFormat    = "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %.11i %N"
	infoNodeFormat    = "%#N %.6D %#P %6t"
	infoNodeLong      = "%#N %.6D %#P %.11T %.4c %.8z %.6m %.8d %.6w %.8f %20E"
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

// flagsOfSinfo defines the options of sinfo.
func flagsOfSinfo(f *pflag.FlagSet) *infoOptions {
	o := &infoOptions{}
	o.add(f, "h")
	f.StringVarP(&o.format, "format", "o", "", "")
	f.StringVarP(&o.names, "Format", "O", "", "")
	f.StringVarP(&o.queues, "partition", "p", "", "")
	f.StringVarP(&o.nodes, "nodes", "n", "", "")
	f.StringVarP(&o.states, "states", "t", "", "")
	f.StringVarP(&o.sort, "sort", "S", "", "")
	f.BoolVarP(&o.all, "all", "a", false, "") // no partition is hidden
	f.BoolVarP(&o.apart, "Node", "N", false, "")
	f.BoolVarP(&o.exactly, "exact", "e", false, "")
	f.BoolVarP(&o.long, "long", "l", false, "")
	f.BoolVarP(&o.summary, "summarize", "s", false, "") //nolint:misspell // Slurm's word
	f.BoolVarP(&o.reasons, "list-reasons", "R", false, "")
	f.BoolVarP(&o.dead, "dead", "d", false, "")
	f.BoolVarP(&o.responding, "responding", "r", false, "")
	aliased(f, "partition", "partitions")
	aliased(f, "nodes", "nodelist")
	aliased(f, "states", "state")
	return o
}

// variablesOfSinfo name the environment variables that stand for options which are not given.
var variablesOfSinfo = map[string]string{"format": "SINFO_FORMAT", "Format": "SINFO_FORMAT2",
	"partition": "SINFO_PARTITION",
	"sort":      "SINFO_SORT", "all": "SINFO_ALL", "clusters": "SLURM_CLUSTERS"}

// letters returns the format in letters.
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
func (t *tool) sinfo(ctx context.Context, args []string) error {
	f := t.flags()
	o := flagsOfSinfo(f)
	if done, err := t.begin(f, &o.common, args, variablesOfSinfo); done || err != nil {
		return err
	}
	src, err := t.newSource()
	if err != nil {
		return err
	}
	var columns []column[*nodeRow]
	if o.names != "" {
		columns, err = parseNames(nodeFields, o.names)
	} else {
		columns, err = parseLetters(nodeFields, o.letters())
	}
	if err != nil {
		return err
	}
	keys, err := parseSort(nodeFields, strings.ReplaceAll(o.sort, "#", ""))
	if err != nil {
		return err
	}
	wanted, err := o.nodeFilter()
	if err != nil {
		return err
	}
	parts, err := t.partitions(ctx, src, &o.common, command.SplitList(o.queues))
	if err != nil {
		return err
	}
	rows := o.rows(src, parts, columns, wanted)
	sortRows(rows, keys)
	out := bufio.NewWriter(t.Stdout)
	if o.asJSON {
		d := document{out: out}
		d.begin("sinfo")
		tree := treeOf(nodeFields, func(f *field[*nodeRow]) string { return f.json })
		for _, r := range rows {
			if err := addRow(&d, tree, r); err != nil {
				return err
			}
		}
		return d.end(t, src.cluster)
	}
	l := lines[*nodeRow]{columns, out}
	l.fit(rows)
	if !o.noHeader {
		if o.clusters != "" {
			fmt.Fprintf(out, "CLUSTER: %s\n", src.cluster)
		}
		if o.long {
			fmt.Fprintln(out, src.now.Local().Format("Mon Jan 02 15:04:05 2006"))
		}
		l.header()
	}
	for _, r := range rows {
		l.row(r)
	}
	return out.Flush()
}

// partitions returns the partitions of names or aliases, all if there are none, with their nodes.
func (t *tool) partitions(ctx context.Context, src *source, c *common, names []string) ([]*partition, error) {
	s, err := t.connect()
	if err != nil {
		return nil, err
	}
	config, _, err := s.Config(ctx, api.Read{})
	if err != nil {
		return nil, &loadError{"slurm_load_partitions", asSlurm(err).Error()}
	}
	for i, name := range names {
		names[i] = config.QueueName(name)
	}
	if err := t.setCluster(ctx, s, src, c.clusters, true); err != nil {
		return nil, err
	}
	list, _, err := s.Nodes(ctx, api.Read{})
	if err != nil {
		return nil, &loadError{"slurm_load_nodes", asSlurm(err).Error()}
	}
	var nodes []*api.Node
	for i := range list.Items {
		nodes = append(nodes, &list.Items[i])
	}
	var parts []*partition
	for _, name := range slices.Sorted(maps.Keys(config.Queues)) {
		if len(names) == 0 || slices.Contains(names, name) {
			parts = append(parts, &partition{name: name, Queue: config.Queues[name], nodes: nodes})
		}
	}
	return parts, nil
}

// nodeFilter returns whether a node is asked for.
func (o *infoOptions) nodeFilter() (func(*api.Node) bool, error) {
	var names []string
	var err error
	if o.nodes != "" {
		if names, err = command.NodeRefs(command.SplitOutsideBrackets(o.nodes)); err != nil {
			return nil, fmt.Errorf("Invalid node name %s: %w", o.nodes, err)
		}
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

// nodeStates are the words of --states with the states of Rota's nodes that they mean.
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

// rows joins nodes that do not differ in what is shown. In JSON each row is of nodes that are alike,
// and with --Node of one.
func (o *infoOptions) rows(src *source, parts []*partition, columns []column[*nodeRow],
	wanted func(*api.Node) bool) []*nodeRow {
	var split []*field[*nodeRow]
	byPart := o.asJSON
	for i := range columns {
		f := columns[i].field
		if f == nil {
			continue
		}
		if byPart = byPart || f.letter == 'P' || f.letter == 'R' || f.letter == 'l' || f.letter == 'L'; !f.joins ||
			o.exactly {
			split = append(split, f)
		}
	}
	if o.asJSON {
		split = nil
		for i := range nodeFields {
			if f := &nodeFields[i]; f.json != "" && !f.joins || f.letter == 'c' || f.letter == 'm' {
				split = append(split, f)
			}
		}
	}
	if !byPart && len(parts) > 0 {
		parts = parts[:1] // each has all nodes
	}
	var rows []*nodeRow
	at := map[string]*nodeRow{}
	for _, p := range parts {
		some := false
		for _, n := range p.nodes {
			if !wanted(n) {
				continue
			}
			some = true
			one := &nodeRow{source: src, part: p, nodes: []*api.Node{n}}
			key := one.key(split, byPart, o.apart)
			if r := at[key]; r == nil {
				at[key] = one
				rows = append(rows, one)
			} else {
				r.nodes = append(r.nodes, n)
			}
		}
		if !some && byPart && !o.apart && !o.asJSON && o.states+o.nodes == "" && !o.reasons {
			rows = append(rows, &nodeRow{source: src, part: p})
		}
	}
	order := map[*partition]int{}
	for i, p := range parts {
		order[p] = i
	}
	slices.SortStableFunc(rows, func(a, b *nodeRow) int {
		if o.apart {
			return cmp.Or(cmp.Compare(a.first().Name, b.first().Name), cmp.Compare(order[a.part], order[b.part]))
		}
		return cmp.Or(cmp.Compare(order[a.part], order[b.part]), stateRank(b)-stateRank(a))
	})
	return rows
}

// key is what rows must have in common to be joined.
func (r *nodeRow) key(split []*field[*nodeRow], byPart, each bool) string {
	var key []string
	if byPart {
		key = append(key, r.part.name)
	}
	if each {
		key = append(key, r.first().Name)
	}
	for _, f := range split {
		key = append(key, f.text(r))
	}
	return strings.Join(key, "\x00")
}

// stateRank orders states as sinfo does: what is out of use first, and what is idle last.
func stateRank(r *nodeRow) int {
	return slices.Index([]string{"n/a", "idle", "alloc", "mix", "drain", "drng", "down"}, r.first().State)
}
