package controld

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"regexp"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
)

// TestMonitoringNamesRealMetrics: the alert rules and the dashboard in packaging ask for metrics and
// labels that a controller exports.
func TestMonitoringNamesRealMetrics(t *testing.T) {
	exported := exportedMetrics(t)
	rules, err := os.ReadFile("../packaging/monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	for _, m := range regexp.MustCompile(`(?m)^ +expr: (.+)$`).FindAllStringSubmatch(string(rules), -1) {
		asked = append(asked, m[1])
	}
	text, err := os.ReadFile("../packaging/monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	alerts := len(asked)
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			asked = append(asked, target.Expr)
		}
	}
	if alerts == 0 || len(asked) == alerts {
		t.Fatalf("%d expressions in the rules, %d in the dashboard", alerts, len(asked)-alerts)
	}
	for _, expr := range asked {
		if bad := unknown(expr, exported); bad != "" {
			t.Errorf("%s: no controller exports %q", expr, bad)
		}
	}
	for _, wrong := range []string{"rota_job", `rota_jobs{status="PENDING"}`, "sum by (kind) (rota_jobs)"} {
		if unknown(wrong, exported) == "" {
			t.Errorf("%s is not found to be wrong", wrong)
		}
	}
}

// exportedMetrics returns the labels of every metric that a controller with a node exports after a
// job was started, by the metric's name.
func exportedMetrics(t *testing.T) map[string]string {
	t.Helper()
	s := startOne(t)
	go newNode(t, s.addrs.HTTP, "n1", 1).run(t.Context())
	if _, err := s.client(user(1000)).Submit(t.Context(), api.NewKey(), job("first")); err != nil {
		t.Fatal(err)
	}
	var text []byte
	eventually(t, "decisions are counted", func() error {
		resp, err := http.Get("http://" + s.addrs.Loopback + "/metrics")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if text, err = io.ReadAll(resp.Body); err == nil && !bytes.Contains(text, []byte("rota_actions_total")) {
			err = errors.New("no decision was made yet")
		}
		return err
	})
	labels := map[string]string{"up": ""} // Prometheus's own
	for _, m := range regexp.MustCompile(`(?m)^([a-z_]+)(\{[^}]*\})? `).FindAllStringSubmatch(string(text), -1) {
		labels[m[1]] += " " + m[2]
	}
	return labels
}

var (
	word     = regexp.MustCompile(`[a-z_]+`)
	selector = regexp.MustCompile(`([a-z_]+)\{([^}]*)\}`)
	grouping = regexp.MustCompile(`\b(?:by|without) \(([^)]*)\)`)
	constant = regexp.MustCompile(`"[^"]*"|\[[^\]]*\]`)
	function = regexp.MustCompile(`[a-z_]+ *\(`)
)

// given are labels that Prometheus adds.
var given = map[string]bool{"job": true, "instance": true, "and": true, "or": true}

// unknown returns the first metric or label of an expression that is not exported, or "".
func unknown(expr string, exported map[string]string) string {
	expr = constant.ReplaceAllString(expr, "")
	groups := grouping.FindAllStringSubmatch(expr, -1)
	expr = grouping.ReplaceAllString(expr, "")
	var all string
	bare := selector.ReplaceAllString(function.ReplaceAllString(expr, "("), "$1")
	for _, metric := range word.FindAllString(bare, -1) {
		labels, ok := exported[metric]
		if !ok && !given[metric] {
			return metric
		}
		all += labels
	}
	for _, g := range append(groups, selector.FindAllStringSubmatch(expr, -1)...) {
		for _, label := range word.FindAllString(g[len(g)-1], -1) {
			if !given[label] && !regexp.MustCompile(`\b`+label+`\b`).MatchString(all) {
				return label
			}
		}
	}
	return ""
}
