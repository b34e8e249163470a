package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// CheckInventory refuses what the grid cannot hold.
func CheckInventory(n *model.Node) error {
	bad := func(text string) error { return &model.InventoryError{Node: n.Name, Text: text} }
	switch {
	case n.Name == "" || len(n.Name) > 255 || strings.ContainsAny(n.Name, " \t\n/"):
		return bad("the name is empty, longer than 255 bytes, or has spaces or slashes")
	case n.BootID == "":
		return bad("the boot id is missing")
	case n.Cores < 1 || n.Cores > jobspec.MaxNodeCores || n.Memory < 1 || n.Memory > jobspec.MaxSize:
		return bad("cores or memory are out of range")
	case len(n.GPUs) > model.MaxGPUsPerNode:
		return bad(fmt.Sprintf("%d GPUs, at most %d", len(n.GPUs), model.MaxGPUsPerNode))
	case n.PortMin < 0 || n.PortMax > 65535 || n.PortMin > n.PortMax:
		return bad(fmt.Sprintf("port range %d to %d", n.PortMin, n.PortMax))
	}
	return nil
}

// CheckConfig refuses what would make the state misbehave. The proposer reports what is merely
// unwise.
func CheckConfig(c *cluster.Config) error {
	switch {
	case len(c.Queues) == 0:
		return fmt.Errorf("no queue: %w", model.ErrBadConfig)
	case slices.ContainsFunc(slices.Collect(maps.Values(c.Queues)), func(q cluster.Queue) bool {
		return q.MaxRequeues != nil && *q.MaxRequeues < 0
	}):
		return fmt.Errorf("max_requeues of a queue is below 0: %w", model.ErrBadConfig)
	case len(c.Queues) > model.MaxQueues:
		return fmt.Errorf("%d queues, at most %d: %w", len(c.Queues), model.MaxQueues, model.ErrBadConfig)
	case c.MaxSubmitJobs < 0 || c.MaxRequests < 0 || c.MaxReads < 0 || c.MaxProcessor < 0:
		return fmt.Errorf("max_submit_jobs, max_requests, max_reads or max_processor is below 0: %w", model.ErrBadConfig)
	case c.MaxSpecBytes < 0 || c.MaxAllSpecBytes < 0:
		return fmt.Errorf("max_spec_bytes or max_all_spec_bytes is below 0: %w", model.ErrBadConfig)
	case c.HistoryKeep != 0 && c.HistoryKeep < cluster.MinHistoryKeep:
		return fmt.Errorf("history keeps jobs for %v, and %v is the least: %w", c.HistoryKeep, cluster.MinHistoryKeep,
			model.ErrBadConfig)
	case len(c.Licenses) > cluster.MaxLicenses || slices.ContainsFunc(slices.Collect(maps.Values(c.Licenses)),
		func(n int) bool { return n < 0 || n > jobspec.MaxLicenseCount }):
		return fmt.Errorf("more than %d licences, or a count that is not from 0 to %d: %w", cluster.MaxLicenses,
			jobspec.MaxLicenseCount, model.ErrBadConfig)
	case slices.ContainsFunc(slices.Collect(maps.Keys(c.Licenses)), func(n string) bool { return !jobspec.ValidName(n) }):
		return fmt.Errorf("a licence is named by 1 to 63 letters, digits, '.', '_' and '-': %w", model.ErrBadConfig)
	case c.LeaseMS <= 0 || c.MarginMS < 0 || c.NodeDownMS <= 0:
		return fmt.Errorf("lease and node_down must be positive: %w", model.ErrBadConfig)
	}
	if err := c.CheckSharing(); err != nil {
		return fmt.Errorf("%w: %w", model.ErrBadConfig, err)
	}
	if err := c.CheckAliases(); err != nil {
		return fmt.Errorf("%w: %w", model.ErrBadConfig, err)
	}
	if err := cluster.CheckAccounts(c); err != nil {
		return fmt.Errorf("%w: %w", model.ErrBadConfig, err)
	}
	return nil
}
