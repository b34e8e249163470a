package fields

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
)

// Joining is how nodes become rows.
type Joining struct {
	JSON   bool // each row is of nodes that are alike
	Apart  bool // each node has rows of its own
	Exact  bool // nodes that differ in any amount are apart
	Barren bool // partitions without a row get one
	Wanted func(*api.Node) bool
}

// Join joins nodes that do not differ in what is shown.
func Join(src *Source, parts []*Partition, columns []Column[*NodeRow], o Joining) []*NodeRow {
	var split []*Field[*NodeRow]
	byPart := o.JSON
	for i := range columns {
		f := columns[i].Field
		if f == nil {
			continue
		}
		if byPart = byPart || f.letter == 'P' || f.letter == 'R' || f.letter == 'l' || f.letter == 'L'; !f.joins ||
			o.Exact {
			split = append(split, f)
		}
	}
	if o.JSON {
		split = nil
		for i := range Nodes {
			if f := &Nodes[i]; f.json != "" && !f.joins || f.letter == 'c' || f.letter == 'm' {
				split = append(split, f)
			}
		}
	}
	if !byPart && len(parts) > 0 {
		parts = parts[:1] // each has all nodes
	}
	var rows []*NodeRow
	at := map[string]*NodeRow{}
	for _, p := range parts {
		some := false
		for _, n := range p.Nodes {
			if !o.Wanted(n) {
				continue
			}
			some = true
			one := &NodeRow{Source: src, part: p, nodes: []*api.Node{n}}
			key := one.key(split, byPart, o.Apart)
			if r := at[key]; r == nil {
				at[key] = one
				rows = append(rows, one)
			} else {
				r.nodes = append(r.nodes, n)
			}
		}
		if !some && byPart && !o.Apart && !o.JSON && o.Barren {
			rows = append(rows, &NodeRow{Source: src, part: p})
		}
	}
	order := map[*Partition]int{}
	for i, p := range parts {
		order[p] = i
	}
	slices.SortStableFunc(rows, func(a, b *NodeRow) int {
		if o.Apart {
			return cmp.Or(cmp.Compare(a.first().Name, b.first().Name), cmp.Compare(order[a.part], order[b.part]))
		}
		return cmp.Or(cmp.Compare(order[a.part], order[b.part]), stateRank(b)-stateRank(a))
	})
	return rows
}

// key is what rows must have in common to be joined.
func (r *NodeRow) key(split []*Field[*NodeRow], byPart, each bool) string {
	var key []string
	if byPart {
		key = append(key, r.part.Name)
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
func stateRank(r *NodeRow) int {
	return slices.Index([]string{"n/a", "idle", "alloc", "mix", "drain", "drng", "down"}, r.first().State)
}
