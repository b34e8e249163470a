// Package settings answers requests about the configuration of the cluster and its versions, and about the
// pauses and the dry run of the scheduler.
package settings

import "log/slog"

// Handlers answers requests about the configuration and the scheduler.
type Handlers struct{ Log *slog.Logger }
