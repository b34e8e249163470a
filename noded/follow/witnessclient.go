package follow

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
)

// WitnessClient asks other nodes. Connections are kept between questions.
type WitnessClient struct {
	Credential *pki.Credential

	mu      sync.Mutex
	clients map[string]*http.Client // by node
}

// Ask returns for how long a node has heard of no leader, in milliseconds.
func (c *WitnessClient) Ask(ctx context.Context, node, addr string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+addr+api.WitnessPath, nil)
	if err != nil {
		return 0, err
	}
	resp, err := c.of(node).Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var answer api.WitnessAnswer
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers %s", resp.Status)
	}
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	return answer.SilentMS, err
}

func (c *WitnessClient) of(node string) *http.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clients[node] == nil {
		transport := &http.Transport{DialTLSContext: pki.Dialer(c.Credential.ClientOf(pki.Node, node)),
			DisableCompression: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: 2 * time.Minute}
		if c.clients == nil {
			c.clients = map[string]*http.Client{}
		}
		c.clients[node] = &http.Client{Transport: transport}
	}
	return c.clients[node]
}
