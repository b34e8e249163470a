package settings

import (
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/config"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/fsm/versions"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// listConfigVersions answers GET /v1/config/versions, the one in force first.
func listConfigVersions(x *exchange.Exchange) (*api.List[api.ConfigVersion], error) {
	list := exchange.NewList[api.ConfigVersion]("ConfigVersionList", x.View)
	list.Items = configVersions(x.View)
	return list, nil
}

// configVersions are the versions that are remembered, the one in force first.
func configVersions(v *state.View) []api.ConfigVersion {
	known := v.ConfigVersions().Versions
	if len(known) == 0 {
		known = []versions.Version{{Number: 1, Config: v.Config()}}
	}
	list := make([]api.ConfigVersion, 0, len(known))
	for i, k := range known {
		item := api.ConfigVersion{Number: k.Number, By: k.By, Comment: k.Comment, At: api.At(k.Made.Wall),
			Config: k.Config, Changes: []api.ConfigChange{}}
		if i > 0 {
			for _, c := range config.Changes(known[i-1].Config, k.Config) {
				item.Changes = append(item.Changes, api.ConfigChange(c))
			}
		}
		list = append(list, item)
	}
	slices.Reverse(list)
	return list
}

// setConfig answers POST /v1/config.
func (h *Handlers) setConfig(x *exchange.Exchange, req *api.ConfigRequest) (*api.ConfigVersion, error) {
	if req.Config == nil {
		return nil, problem.Invalid("config is missing")
	}
	next, have := *req.Config, x.View.Config()
	next.Version = have.Version
	if next.Policy.Name == "" {
		next.Policy.Name = have.Policy.Name
	}
	if err := config.CheckReplicated(&next); err != nil {
		return nil, problem.Invalid("%v", err)
	}
	if err := cluster.MayRun(next.Policy.Name, have.Policy.Name); err != nil {
		return nil, problem.Invalid("%v", err)
	}
	return h.proposeConfig(x, fsm.SetConfig{Config: next, Comment: req.Comment, IfVersion: req.IfVersion})
}

// rollBackConfig answers POST /v1/config/rollback.
func (h *Handlers) rollBackConfig(x *exchange.Exchange, req *api.RollbackRequest) (*api.ConfigVersion, error) {
	if req.Version < 1 {
		return nil, problem.Invalid("version is missing")
	}
	return h.proposeConfig(x, fsm.SetConfig{Restore: req.Version, Comment: req.Comment, IfVersion: req.IfVersion})
}

// proposeConfig puts a configuration in force and returns the version that is in force then.
func (h *Handlers) proposeConfig(x *exchange.Exchange, c fsm.SetConfig) (*api.ConfigVersion, error) {
	if len(c.Comment) > versions.MaxComment {
		return nil, problem.Invalid("the comment has %d bytes, at most %d are allowed", len(c.Comment), versions.MaxComment)
	}
	c.By = x.Caller.User.User
	n, err := exchange.ProposeFor[int](x, c)
	if err != nil {
		return nil, err
	}
	h.Log.Info("configuration set", "version", n, "by", c.By, "comment", c.Comment)
	list := configVersions(x.View)
	i := slices.IndexFunc(list, func(v api.ConfigVersion) bool { return v.Number == n })
	if i < 0 {
		return nil, problem.WrongState("version %d of the configuration is too old: many other versions have been in force "+
			"since", n)
	}
	list[i].Warnings = configWarnings(x.View)
	return &list[i], nil
}

// configWarnings says what of the configuration in force has no effect with the nodes that there are.
func configWarnings(v *state.View) []string {
	if v.AnySuspends() || !v.Config().TakesTurns() {
		return nil
	}
	return []string{"oversubscribe and pack have no effect, because no node can suspend jobs"}
}

// getConfig answers GET /v1/config.
func getConfig(x *exchange.Exchange) (*cluster.Config, error) {
	cfg := x.View.Config()
	if x.May(access.PartAccounts) {
		return cfg, nil
	}
	own, out := x.OwnAccounts(), *cfg
	out.Accounts = maps.Clone(cfg.Accounts)
	maps.DeleteFunc(out.Accounts, func(name string, _ cluster.Account) bool {
		return !own[name] && !x.MayOnAccount(access.PartAccounts, name)
	})
	return &out, nil
}
