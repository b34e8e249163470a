package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/server/access"
)

// TestSteeringIsForOperators: every user sees what is paused, and operators change it.
func TestSteeringIsForOperators(t *testing.T) {
	c := startCluster(t)
	pause := `{"what":"preemption","on":true,"reason":"a demonstration"}`
	if status, text := c.ask(access.User, "POST", "/v1/sched", pause); !denied(status, text) {
		t.Errorf("a user pauses preemption: %d %s", status, text)
	}
	if status, text := c.ask(access.Operator, "POST", "/v1/sched", pause); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	held := fmt.Sprintf("/v1/jobs/%d/why", c.ids["held"])
	for role, path := range map[access.Role]string{access.User: "/v1/sched", access.Owner: held,
		access.Login: "/v1/cluster"} {
		if _, text := c.ask(role, "GET", path, ""); !strings.Contains(text, `"what":"preemption"`) ||
			!strings.Contains(text, "a demonstration") {
			t.Errorf("%s in role %s: %s", path, role, text)
		}
	}
	if _, text := c.ask(access.Operator, "GET", "/metrics", ""); !strings.Contains(text,
		`rota_sched_paused{what="preemption"} 1`) || !strings.Contains(text, `rota_sched_paused{what="all"} 0`) {
		t.Error("the metrics do not have the pause")
	}
	for _, body := range []string{`{"what":"brakes","on":true}`, `{"on":true}`, `{"what":"growth","reason":"x"}`} {
		if status, text := c.ask(access.Operator, "POST", "/v1/sched", body); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
}

// TestConfigurationByTheAPI: what no file could say is refused without a file as well, a version
// that is no longer in force is too, and the configuration in force stays.
func TestConfigurationByTheAPI(t *testing.T) {
	c := startCluster(t)
	body := func(version int, change func(*cluster.Config)) string {
		var cfg cluster.Config
		_, text := c.ask(access.Admin, "GET", "/v1/config", "")
		if err := json.Unmarshal([]byte(text), &cfg); err != nil {
			t.Fatal(err)
		}
		cfg.Policy.Name = "rota"
		change(&cfg)
		out, err := json.Marshal(api.ConfigRequest{Config: &cfg, IfVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	bypass := func(n int) func(*cluster.Config) { return func(c *cluster.Config) { c.Policy.MaxBypass = n } }
	status, text := c.ask(access.Admin, "POST", "/v1/config", body(0, bypass(5)))
	var made api.ConfigVersion
	if err := json.Unmarshal([]byte(text), &made); err != nil || status != http.StatusOK || made.Number < 2 {
		t.Fatalf("%d %s", status, text)
	}
	for _, test := range []struct {
		role   access.Role
		body   string
		status int
	}{
		{access.Operator, body(0, bypass(6)), http.StatusForbidden},
		{access.Admin, body(made.Number-1, bypass(6)), http.StatusConflict},
		{access.Admin, body(0, func(c *cluster.Config) { c.Policy.Name = "fastest" }), http.StatusBadRequest},
		{access.Admin, body(0, func(c *cluster.Config) { c.Policy.Name = "las" }), http.StatusBadRequest},
		{access.Admin, body(0, func(c *cluster.Config) { c.Policy.HalfLifeMS = 1 }), http.StatusBadRequest},
		{access.Admin, `{}`, http.StatusBadRequest},
		{access.Admin, `{"config":{"brakes":1}}`, http.StatusBadRequest},
	} {
		if status, text := c.ask(test.role, "POST", "/v1/config", test.body); status != test.status {
			t.Errorf("%.80s: %d %s, want %d", test.body, status, text, test.status)
		}
	}
	if _, text := c.ask(access.Admin, "GET", "/v1/config", ""); !strings.Contains(text, `"max_bypass":5`) {
		t.Errorf("in force is %s", text)
	}
	roll := fmt.Sprintf(`{"version":%d}`, made.Number-1)
	if status, text := c.ask(access.Admin, "POST", "/v1/config/rollback", roll); status != http.StatusOK {
		t.Errorf("rollback: %d %s", status, text)
	}
	roll = `{"version":999}`
	if status, text := c.ask(access.Admin, "POST", "/v1/config/rollback", roll); status != http.StatusNotFound {
		t.Errorf("rollback to a version that there is not: %d %s", status, text)
	}
}
