package system

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/clock"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/backup"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// backups lets one backup be written at a time.
type backups struct{ mu sync.Mutex }

// writeBackup answers POST /v1/backup. It writes the state of the cluster at one index, the history
// up to it and, if requested, the keys. The state is a view, so that the log goes on meanwhile.
func (h *Handlers) writeBackup(x *exchange.Exchange) (any, error) {
	if err := localRoot(x); err != nil {
		return nil, err
	}
	req := new(api.BackupRequest)
	if err := x.Decode(req); err != nil {
		return nil, err
	}
	if req.WithKeys {
		x.About.Object = "keys"
	}
	if !x.Fresh() {
		return nil, problem.NoLeader("this controller has just started and may be behind: try again in a moment")
	}
	if !h.backups.mu.TryLock() {
		return nil, problem.WrongState("another backup is being made on this controller")
	}
	defer h.backups.mu.Unlock()
	dir, err := os.MkdirTemp(h.DataDir, ".backup-*")
	if err != nil {
		return nil, fmt.Errorf("make room for the backup: %w", err)
	}
	defer os.RemoveAll(dir)
	v := h.Replica.View()
	if v.Trimmed() > h.History.Last() {
		return nil, problem.WrongState("the history on this controller has only jobs up to number %d of %d, and it is "+
			"fetching the others: try again later, or on another controller", h.History.Last(), v.Trimmed())
	}
	parts, err := h.backupParts(x, req, v, dir)
	if err != nil {
		return nil, err
	}
	size, err := parts.Size()
	if err != nil {
		return nil, err
	}
	x.Sent = true
	x.Writer.Header().Set("Content-Type", "application/octet-stream")
	x.Writer.Header().Set(api.HeaderUnpacked, strconv.FormatInt(size, 10))
	if err := backup.Write(x.Writer, *parts); err != nil { // the reader finds that the end is missing
		return nil, fmt.Errorf("send the backup: %w", err)
	}
	h.Log.Info("backup written", "index", v.Index(), "keys", req.WithKeys)
	return nil, nil
}

// localRoot refuses every caller but root of this machine, by the socket of this controller.
func localRoot(x *exchange.Exchange) error {
	at, ok := x.Request.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if ok && at.Network() == "unix" {
		if p, err := identity.PeerOf(x.Request.Context()); err == nil && p.UID == 0 {
			return nil
		}
	}
	return problem.Denied("a backup has the scripts and environments of all users: only root may make one; run the " +
		"command on a controller, which uses its socket")
}

// backupParts makes what the backup is written from.
func (h *Handlers) backupParts(x *exchange.Exchange, req *api.BackupRequest, v *state.View, dir string) (*backup.Parts,
	error) {
	p := &backup.Parts{State: filepath.Join(dir, "state"), History: filepath.Join(dir, "history")}
	p.Manifest = backup.Manifest{DataFormat: state.DataFormat, Version: api.Build(),
		Cluster: v.Trust().Cluster, Name: v.Config().ClusterName,
		Controller: h.Name, Index: v.Index(), LastSeq: v.LastSeq(), Generation: v.Recovery().Generation.String(),
		Saved: clock.Wall().UTC().Truncate(time.Millisecond)}
	if req.WithKeys {
		files, err := h.Credential.Files()
		if err == nil {
			p.Sealed, err = backup.Seal(backup.Keys{Files: files}, p.Cluster, req.Passphrase)
		}
		if err != nil {
			return nil, problem.Invalid("keys: %v", err)
		}
	}
	if err := writeFile(p.State, v.WriteSnapshot); err != nil {
		return nil, err
	}
	return p, h.History.CopyTo(x.Context(), p.History, v.LastSeq())
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
