package fields

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
)

// Joining controls which nodes share a row.
type Joining struct {
	JSON   bool // rows join nodes as JSON output does
	Apart  bool // each node has its own rows
	Exact  bool // nodes with different amounts get different rows
	Barren bool // partitions without nodes get a row
	Wanted func(*api.Node) bool
}

// Join puts nodes into one row if all shown fields are equal.
func Join(src *Source, parts []*Partition, columns []Column[*NodeRow], o Joining) []*NodeRow {
	var split []*Field[*NodeRow]
	byPart := o.JSON
	for i := range columns {
		f := columns[i].Field
		if f == nil {
			continue
		}
		if byPart = byPart || f.letter == 'P' || f.letter == 'R' || f.letter == 'l' || f.letter == 'L'; !f.joins ||
			o.Exact && f.letter != 'N' && f.letter != 'C' {
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
	var rows []*NodeRow
	seen := map[string]bool{} // nodes, if partitions do not matter
	at := map[string]*NodeRow{}
	for _, p := range parts {
		some := false
		for _, n := range p.Nodes {
			if !o.Wanted(n) || !byPart && seen[n.Name] {
				continue
			}
			seen[n.Name] = true
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

// key returns the values that nodes of one row must have in common.
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

// stateRank orders states as sinfo does: unusable nodes first, idle nodes last.
func stateRank(r *NodeRow) int {
	return slices.Index([]string{"n/a", "idle", "alloc", "mix", "drain", "drng", "down"}, r.first().State)
}
