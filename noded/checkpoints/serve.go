package checkpoints

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/noded/container"
)

// ServeKept answers a controller: which folders this node keeps.
func (k *Keeper) ServeKept(w http.ResponseWriter, r *http.Request) {
	if !fromController(w, r) {
		return
	}
	out := api.KeptFolders{Items: k.Kept.list()}
	for i := range out.Items {
		out.Items[i].Path = k.path(out.Items[i].ID)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // the controller may be gone
}

// path is where a kept folder is, "" if that is not known.
func (k *Keeper) path(name string) string {
	id, ok := container.ParseID(name)
	if at, known := k.Folders.(interface{ Files(container.ID) string }); ok && known {
		return at.Files(id)
	}
	return ""
}

// DropKept removes folders that an admin has no use for.
func (k *Keeper) DropKept(w http.ResponseWriter, r *http.Request) {
	if !fromController(w, r) {
		return
	}
	var req api.DropFolders
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&req); err != nil {
		api.WriteProblem(w, http.StatusBadRequest, api.CodeInvalid, "read the request: "+err.Error())
		return
	}
	var ids []container.ID
	for _, name := range req.IDs {
		id, ok := container.ParseID(name)
		if !ok || !k.Kept.has(id) {
			api.WriteProblem(w, http.StatusNotFound, api.CodeNotFound, fmt.Sprintf("this node keeps no unknown checkpoint "+
				"folder %q", name))
			return
		}
		ids = append(ids, id)
	}
	if err := k.Kept.release(req.IDs); err != nil {
		api.WriteProblem(w, http.StatusInternalServerError, api.CodeInternal, err.Error())
		return
	}
	for _, id := range ids {
		k.logOf(id).Info("removing a checkpoint folder for an admin")
		k.Folders.Remove(id)
	}
	k.ServeKept(w, r)
}

// fromController refuses requests of other machines.
func fromController(w http.ResponseWriter, r *http.Request) bool {
	if c, ok := identity.CallerOf(r.Context()); ok && c.Role == string(pki.Controller) {
		return true
	}
	api.WriteProblem(w, http.StatusForbidden, api.CodeDenied, "only controllers may do this")
	return false
}
