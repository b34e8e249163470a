package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
)

// BackupRequest asks a controller for a backup.
type BackupRequest struct {
	WithKeys   bool   `json:"with_keys"`            // include the cluster's keys, encrypted under the passphrase
	Passphrase string `json:"passphrase,omitempty"` // 12 bytes or more
}

// Backup returns a backup of the cluster; only root on a controller may request it. The caller
// closes it.
func (c *Client) Backup(ctx context.Context, req BackupRequest) (io.ReadCloser, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	resp, err := c.roundTrip(ctx, call{method: http.MethodPost, path: "/v1/backup", body: body, repeat: true,
		stream: true})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
