package fsm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/admission"
	"github.com/rota-hpc/rota/controld/fsm/versions"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// KindSetConfig is the kind of [SetConfig].
var KindSetConfig = newKind("set-config/1")

// SetConfig replaces the replicated configuration, which becomes a new version of it. One that says
// nothing new makes no version. Its result is the number of the version in force, an int.
type SetConfig struct {
	Config cluster.Config `json:"config"` // the whole configuration

	By      string `json:"by,omitempty"`      // user, or the controller of which it is the file
	Comment string `json:"comment,omitempty"` // given by the admin
	// IfVersion is the version that has to be in force; 0: whichever is.
	IfVersion int `json:"if_version,omitempty"`
	// File is the digest of a controller's file that says so, "" for one that an admin applies. A
	// configuration that an admin applies may promise no more than the nodes have. A file at the
	// start may, because nodes may register later.
	File string `json:"file,omitempty"`
	// Restore is the number of the version to be put in force again, in place of Config; 0: none.
	Restore int `json:"restore,omitempty"`
}

// Kind implements Command.
func (SetConfig) Kind() Kind { return KindSetConfig }

// apply replaces the configuration, whose cluster version never goes back.
func (c SetConfig) apply(m *Machine) (any, error) {
	h, before := m.v.ConfigVersions(), m.v.Config()
	next := &c.Config
	switch old := h.Version(c.Restore); {
	case len(c.Comment) > versions.MaxComment:
		return nil, fmt.Errorf("the comment is too long: %w", model.ErrBadConfig)
	case c.IfVersion != 0 && c.IfVersion != h.Number():
		return nil, fmt.Errorf("version %d is in force, not %d: %w", h.Number(), c.IfVersion, model.ErrConfigChanged)
	case c.Restore != 0 && old == nil:
		return nil, fmt.Errorf("version %d: %w", c.Restore, model.ErrNoConfigVersion)
	case c.Restore != 0:
		again := *old.Config
		next = &again
	}
	if err := admission.CheckConfig(next); err != nil {
		return nil, err
	}
	if c.By != "" && c.File == "" {
		if err := m.checkQuotas(next); err != nil {
			return nil, err
		}
	}
	if c.File != "" {
		m.s.NoteConfigFile(c.File)
	}
	next.Version = max(next.Version, before.Version)
	if sameConfig(next, before) {
		return h.Number(), nil
	}
	m.s.SetConfig(next)
	m.s.AddConfigVersion(before, c.By, c.Comment)
	n := m.v.ConfigVersions().Number()
	m.s.Emit(model.Event{Type: model.EventConfig, Text: c.text(n)})
	return n, nil
}

// sameConfig compares as the log has it: an empty list and none are the same there.
func sameConfig(a, b *cluster.Config) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func (c *SetConfig) text(n int) string {
	text := fmt.Sprintf("version %d by %s", n, cmp.Or(c.By, "the leader"))
	if c.Comment != "" {
		text += ": " + c.Comment
	}
	return text
}

// checkQuotas refuses quotas that all nodes together cannot hold, if no capacity block says what
// the cluster is to have. Nodes that are down or drained count. Before the first node nothing is
// known.
func (m *Machine) checkQuotas(c *cluster.Config) error {
	if c.Capacity != nil || len(m.v.Nodes()) == 0 {
		return nil
	}
	whole := *c
	whole.Capacity = capacityOf(m.v.Nodes())
	for _, a := range c.Accounts {
		if a.Deserved == nil {
			continue
		}
		for name := range a.Deserved.Models {
			whole.Capacity.Models[name] += 0 // a model that no node has is one of which there is none
		}
	}
	if err := cluster.CheckAccounts(&whole); err != nil {
		return fmt.Errorf("%w: %w. Without a capacity block, quotas are checked against the registered nodes; a capacity "+
			"block states the planned size of the cluster", model.ErrBadConfig, err)
	}
	return nil
}

// capacityOf adds up what nodes have.
func capacityOf(nodes []*model.Node) *cluster.Quota {
	q := &cluster.Quota{GPUs: new(int64), Cores: new(int64), Memory: new(jobspec.Bytes), Models: map[string]int64{}}
	for _, n := range nodes {
		*q.Cores += n.Cores
		*q.Memory += n.Memory
		for _, g := range n.GPUs {
			*q.GPUs += model.WholeGPU
			q.Models[g.Model] += model.WholeGPU
		}
	}
	return q
}
