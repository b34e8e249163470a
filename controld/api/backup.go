package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
)

// BackupRequest asks a controller for a backup.
type BackupRequest struct {
	WithKeys   bool   `json:"with_keys"`            // include the cluster's keys, encrypted under the passphrase
	Passphrase string `json:"passphrase,omitempty"` // 12 bytes or more
}

// HeaderUnpacked is how many bytes a backup has before it is compressed.
const HeaderUnpacked = "Rota-Unpacked"

// Backup returns a backup of the cluster, and how many bytes it has once it is unpacked, 0 if that is unknown.
// Only root on a controller may request it. The caller closes it.
func (c *Client) Backup(ctx context.Context, req BackupRequest) (_ io.ReadCloser, unpacked int64, _ error) {
	body, err := json.Marshal(req)
	if err != nil {
		return nil, 0, err
	}
	resp, err := c.roundTrip(ctx, call{method: http.MethodPost, path: "/v1/backup", body: body, repeat: true,
		stream: true})
	if err != nil {
		return nil, 0, err
	}
	unpacked, _ = strconv.ParseInt(resp.Header.Get(HeaderUnpacked), 10, 64) // 0 if it is missing
	return resp.Body, unpacked, nil
}
