package noded

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/reconcile"
)

// silentNamed is how many containers whose shims do not answer a notice names.
const silentNamed = 3

// noteSilent notes which shims do not answer. Their jobs go on: a shim may be slow because its machine is.
// The mutex is held.
func (a *Agent) noteSilent(all []container.Status) {
	var named []string
	n := 0
	for _, s := range all {
		if s.Silent == "" || reconcile.Ended(s.State) {
			continue
		}
		if n++; n <= silentNamed {
			named = append(named, model.SilentNotice(s.ID.String(), strings.ReplaceAll(s.Silent, "; ", ", ")))
		}
	}
	text := strings.Join(named, "; ")
	if n > silentNamed {
		text += fmt.Sprintf("; and %d more", n-silentNamed)
	}
	if text != "" {
		text += model.SilentAdvice
	}
	if text != "" && text != a.silentShims {
		a.Log.Warn("shims do not answer", "which", text)
	}
	a.silentShims = text
}

// noticeText returns what rota nodes is to say of this node. The mutex is held.
func (a *Agent) noticeText() string {
	parts := []string{a.notice, a.silentShims, a.kept.Notice()}
	return strings.Join(slices.DeleteFunc(parts, func(one string) bool { return one == "" }), "; ")
}

// silentGrace is how long after the end of its lease a container goes on whose shim does not answer. A shim
// that wakes up meanwhile stops it in its own way.
const silentGrace = 10 * time.Second

// leaseOver reports whether this daemon has to do what the shim of a container does at the end of its lease,
// because the shim does not answer. The mutex is held.
func (a *Agent) leaseOver(w *worker) bool {
	end := a.lease.end()
	return w.Silent != "" && !end.IsZero() && time.Now().After(end.Add(silentGrace))
}
