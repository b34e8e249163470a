package fsm

import "github.com/rota-hpc/rota/controld/model/trust"

// KindFoundCluster is the kind of [FoundCluster].
var KindFoundCluster = newKind("found-cluster/1")

// FoundCluster gives the log the id of its cluster. The first leader proposes it before anything
// else, so that a log is never taken for that of another cluster.
type FoundCluster struct {
	Cluster string `json:"cluster"` // id of the cluster, as in its certificates
}

// Kind implements Command.
func (FoundCluster) Kind() Kind { return KindFoundCluster }

// apply enters the id, once.
func (c FoundCluster) apply(m *Machine) (any, error) {
	t := *m.v.Trust()
	if t.Cluster != "" {
		return nil, trust.ErrFounded
	}
	t.Cluster = c.Cluster
	m.s.SetTrust(&t)
	return nil, nil
}
