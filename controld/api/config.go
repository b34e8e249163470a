package api

import (
	"context"

	"github.com/rota-hpc/rota/controld/model/cluster"
)

// ConfigRequest puts another configuration in force.
type ConfigRequest struct {
	Config    *cluster.Config `json:"config"` // without a policy name the present policy stays
	Comment   string          `json:"comment,omitempty"`
	IfVersion int             `json:"if_version,omitempty"` // that has to be in force; 0: whichever is
}

// RollbackRequest puts an old version of the configuration in force again, as a new version.
type RollbackRequest struct {
	Version   int    `json:"version"`
	Comment   string `json:"comment,omitempty"`
	IfVersion int    `json:"if_version,omitempty"`
}

// ConfigVersion is one version of the replicated configuration.
type ConfigVersion struct {
	Number  int             `json:"number"`
	By      string          `json:"by,omitempty"`
	Comment string          `json:"comment,omitempty"`
	At      *Time           `json:"at"`
	Changes []ConfigChange  `json:"changes"` // since the version before, if that is remembered
	Config  *cluster.Config `json:"config"`
	// of the answer to a change: what of the configuration has no effect in this cluster
	Warnings []string `json:"warnings,omitempty"`
}

// ConfigChange is a setting that a version has differently.
type ConfigChange struct {
	Path string `json:"path"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
}

// SetConfig puts another configuration in force and returns the version that is in force then.
func (c *Client) SetConfig(ctx context.Context, req ConfigRequest) (*ConfigVersion, error) {
	return c.change(ctx, "/v1/config", req)
}

func (c *Client) change(ctx context.Context, path string, req any) (*ConfigVersion, error) {
	made, err := post[ConfigVersion](ctx, c, call{path: path}, req)
	if err == nil {
		c.warn(made.Warnings)
	}
	return made, err
}

// RollBackConfig puts an old version of the configuration in force again.
func (c *Client) RollBackConfig(ctx context.Context, req RollbackRequest) (*ConfigVersion, error) {
	return c.change(ctx, "/v1/config/rollback", req)
}

// ConfigVersions lists the versions of the configuration that are remembered, the one in force
// first.
func (c *Client) ConfigVersions(ctx context.Context) (*List[ConfigVersion], Answer, error) {
	return get[List[ConfigVersion]](ctx, c, "/v1/config/versions", nil, Read{})
}
