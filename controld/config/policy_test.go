package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/docs"
)

// value is a value of a parameter that is not the one of a new cluster, and what it means.
type value struct {
	text string
	want func(*cluster.Policy)
}

// valid has a value for every parameter but the tunables of policy rota.
var valid = map[string]value{
	"reserve_after":       {`"1m"`, func(p *cluster.Policy) { p.ReserveAfterMS = 60_000 }},
	"reserve_hold":        {`"1d"`, func(p *cluster.Policy) { p.ReserveHoldMS = 86_400_000 }},
	"max_bypass":          {`0`, func(p *cluster.Policy) { p.MaxBypass = 0 }},
	"max_launch_failures": {`5`, func(p *cluster.Policy) { p.MaxLaunchFails = 5 }},
	"max_requeues":        {`0`, func(p *cluster.Policy) { p.MaxRequeues = 0 }},
	"max_node_losses":     {`7`, func(p *cluster.Policy) { p.MaxNodeLosses = 7 }},
	"s":                   {`2.5`, func(p *cluster.Policy) { p.GraceWeight = 2500 }},
	"p":                   {`"inf"`, func(p *cluster.Policy) { p.MaxPreempts = -1 }},
	"min_runtime":         {`"90s"`, func(p *cluster.Policy) { p.MinRuntimeMS = 90_000 }},
	"min_turn":            {`"never"`, func(p *cluster.Policy) { p.MinTurnMS = -1 }},
	"headroom":            {`0`, func(p *cluster.Policy) { p.HeadroomPM = -1 }},
	"te_borrow":           {`0`, func(p *cluster.Policy) { p.TEBorrowPM = -1 }},
	"te_account_gpus":     {`8`, func(p *cluster.Policy) { p.TEAccountGPUs = 8 }},
	"te_account_share":    {`500`, func(p *cluster.Policy) { p.TEAccountPM = 500 }},
	"te_user_share":       {`0`, func(p *cluster.Policy) { p.TEUserPM = -1 }},
	"half_life":           {`"7d"`, func(p *cluster.Policy) { p.HalfLifeMS = 7 * 86_400_000 }},
	"usage_influence":     {`0.25`, func(p *cluster.Policy) { p.UsageInfluence = 250 }},
	"min_run":             {`"500ms"`, func(p *cluster.Policy) { p.MinRunMS = 500 }},
	"fit":                 {`"frag"`, func(p *cluster.Policy) { p.Placement = "frag" }},
	"seed":                {`18446744073709551615`, func(p *cluster.Policy) { p.Seed = 1<<64 - 1 }},
	"grow_after":          {`"5m"`, func(p *cluster.Policy) { p.GrowAfterMS = 300_000 }},
	"cooldown":            {`"10m"`, func(p *cluster.Policy) { p.CooldownMS = 600_000 }},
	"gain":                {`100`, func(p *cluster.Policy) { p.GrowGainPM = 100 }},
	"elastic":             {`false`, func(p *cluster.Policy) { p.Rigid = true }},
	"random_obeys_p":      {`false`, func(p *cluster.Policy) { p.RandomUncapped = true }},
}

// validValue returns the value of a parameter to try, and what it means. A tunable of policy rota is
// set beyond its default, the first of them to 0.
func validValue(name string) (v value, known bool) {
	for i, t := range cluster.Tunables() {
		switch {
		case t.Name == name && i == 0:
			return value{"0", func(p *cluster.Policy) { *t.Field(p) = -1 }}, true
		case t.Name == name:
			n := t.Default + 1
			return value{strconv.FormatInt(n, 10), func(p *cluster.Policy) { *t.Field(p) = n }}, true
		}
	}
	v, known = valid[name]
	return v, known
}

// TestEveryParameterOfEveryPolicy writes each parameter of each policy in both forms and sees it,
// and nothing else, in what is replicated.
func TestEveryParameterOfEveryPolicy(t *testing.T) {
	base := cluster.DefaultConfig().Policy
	set := map[string]bool{"Name": true}
	for _, policy := range Policies() {
		for _, name := range Parameters(policy) {
			v, known := validValue(name)
			if !known {
				t.Errorf("no value is known for %s of %s", name, policy)
				continue
			}
			want := base
			want.Name = policy
			v.want(&want)
			for _, form := range []string{"policy %q {\n  %s = %s\n}\n", "policy {\n  name = %q\n  %s = %s\n}\n"} {
				src := fmt.Sprintf(form, policy, name, v.text)
				f, err := Parse("c.hcl", []byte(src))
				if err != nil {
					t.Errorf("%s%v", src, err)
					continue
				}
				got := f.Replicated().Policy
				if got != want {
					t.Errorf("%sgot  %+v\nwant %+v", src, got, want)
				}
				again, err := Parse("again.hcl", []byte(Text(&got)))
				if err != nil || again.Replicated().Policy != got {
					t.Errorf("%swritten as\n%sand read: %v", src, Text(&got), err)
				}
			}
			markChanged(set, reflect.ValueOf(base), reflect.ValueOf(want))
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[cluster.Policy]()) {
		if !f.Anonymous && !set[f.Name] {
			t.Errorf("nothing in a policy block sets %s", f.Name)
		}
	}
}

// markChanged marks the fields in which two values differ, by name, those of embedded structs too.
func markChanged(set map[string]bool, before, after reflect.Value) {
	for i := range before.NumField() {
		f := before.Type().Field(i)
		if f.Anonymous {
			markChanged(set, before.Field(i), after.Field(i))
		} else if before.Field(i).Interface() != after.Field(i).Interface() {
			set[f.Name] = true
		}
	}
}

func TestMistakesOfPoliciesAreShown(t *testing.T) {
	for _, test := range []struct {
		src  string
		line int
		want string
	}{
		{"policy \"rota\" {\n  p = 0\n}", 2, "0 is not a whole number from 1"},
		{"policy \"rota\" {\n  p = \"often\"\n}", 2, `nor "inf"`},
		{"policy \"rota\" {\n  pp = 2\n}", 2, "there are name, comeback, cooldown, cost_worth, elastic, fit, " +
			"gain, grow_after"},
		{"policy \"rota\" {\n  min_runtim = \"5m\"\n}", 2, `did you mean "min_runtime"?`},
		{"policy \"rota\" {\n  min_turn = \"0s\"\n}", 2, `"0s" is zero`},
		{"policy \"rota\" {\n  min_runtime = 5\n}", 2, `5 has no unit; write "5s"`},
		{"policy \"rota\" {\n  min_runtime = \"-5m\"\n}", 2, "is not a duration"},
		{"policy \"rota\" {\n  reserve_hold = \"99999999999d\"\n}", 2, "is not a duration of at most 100 years"},
		{"policy \"rota\" {\n  headroom = 1001\n}", 2, "1001 is not a whole number from 0 to 1000"},
		{"policy \"rota\" {\n  headroom = 0.5\n}", 2, "0.5 is not a whole number"},
		{"policy \"rota\" {\n  te_account_gpus = 0\n}", 2, "from 1"},
		{"policy \"rota\" {\n  s = -1\n}", 2, "-1 is not a number from 0"},
		{"policy \"rota\" {\n  min_run = \"1h\"\n}", 2, `policy "rota" has no min_run`},
		{"policy \"fairshare\" {\n  usage_influence = 11\n}", 2, "11 is not a number from 0 to 10"},
		{"policy \"fairshare\" {\n  usage_influence = \"nan\"\n}", 2, "not a number from 0 to 10"},
		{"policy \"rota\" {\n  fit = \"worst\"\n}", 2, `policy "rota" has no fit`},
		{"policy \"fifo\" {\n  fit = \"loose\"\n}", 2, `"loose" is not one of first, best, worst, random, frag`},
		{"policy \"fitgpp\" {\n  seed = -1\n}", 2, "-1 is not a whole number"},
		{"policy \"fitgpp\" {\n  random_obeys_p = 2\n}", 2, "not true or false"},
		{"\npolicy \"fastest\" {}", 2, `unknown policy "fastest"`},
		{"\npolicy \"srtf\" {}", 2, "only rota sim can run it"},
		{"policy \"rota\" {\n  name = \"fifo\"\n}", 2, `already names policy "rota"`},
		{"policy {\n  p = 2\n}", 2, "name the policy: "},
		{"policy \"rota\" {}\npolicy \"fifo\" {}", 2, "policy is written twice"},
		{"policy \"rota\" \"fifo\" {}", 1, "policy has one label"},
		{"policy \"rota\" {\n  elastic = false\n  grow_after = \"5m\"\n}", 3, "elastic = false, grow_after"},
		{"policy \"rota\" {\n  cooldown = \"5m\"\n  elastic = false\n}", 2, "elastic = false, cooldown"},
		{"policy \"fitgpp\" {\n  p = \"inf\"\n  random_obeys_p = true\n}", 3, "random_obeys_p has no meaning"},
		{"queue \"q\" {\n  max_time = \"1h\"\n  te_max_time = \"2h\"\n}", 3, "no job may run longer"},
		{"policy {\n  max_bypass = -1\n}", 2, "-1 is not a whole number from 0"},
		{"policy {\n  max_launch_failures = 0\n}", 2, "from 1"},
	} {
		_, err := Parse("c.hcl", []byte(test.src))
		if err == nil || !strings.Contains(err.Error(), test.want) ||
			!strings.Contains(err.Error(), fmt.Sprintf("c.hcl:%d:", test.line)) {
			t.Errorf("%s:\ngot %v\nwant %q in line %d", test.src, err, test.want, test.line)
		}
	}
}

// TestAFileWithoutANameKeepsThePolicy reads a file that says something of the policy, but not
// which.
func TestAFileWithoutANameKeepsThePolicy(t *testing.T) {
	f, err := Parse("c.hcl", []byte("policy {\n  max_bypass = 7\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if p := f.Replicated().Policy; p.Name != "" || p.MaxBypass != 7 {
		t.Errorf("got %+v", p)
	}
	if got := Parameters(""); !slices.Contains(got, "max_bypass") || slices.Contains(got, "p") {
		t.Errorf("without a name there are %v", got)
	}
}

// TestPoliciesInJSON reads both forms of the block.
func TestPoliciesInJSON(t *testing.T) {
	for _, src := range []string{`{"policy": {"rota": {"p": 2}}}`, `{"policy": {"name": "rota", "p": 2}}`,
		`{"policy": [{"rota": {"p": "2"}}]}`} {
		f, err := Parse("c.json", []byte(src))
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		if p := f.Replicated().Policy; p.Name != "rota" || p.MaxPreempts != 2 {
			t.Errorf("%s: got %+v", src, p)
		}
	}
}

// TestThePageHasEveryParameter compares the page about the parameters of policy rota with the
// attributes of a policy block. Each has a row with its default, and there are at most 25.
func TestThePageHasEveryParameter(t *testing.T) {
	page, err := docs.Pages.ReadFile("policy-parameters.md")
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[string]int64{}
	for _, tunable := range cluster.Tunables() {
		defaults[tunable.Name] = tunable.Default
	}
	want := slices.DeleteFunc(Parameters("rota"), func(name string) bool {
		return slices.ContainsFunc(common, func(p parameter) bool { return p.name == name })
	})
	if len(want) > 25 {
		t.Errorf("policy rota has %d parameters", len(want))
	}
	for _, name := range want {
		_, rest, there := strings.Cut(string(page), "\n| `"+name+"` | ")
		row, _, _ := strings.Cut(rest, "\n")
		if n, tunable := defaults[name]; !there || tunable && !strings.Contains(row, fmt.Sprintf(" | %d | ", n)) {
			t.Errorf("the row of %s is %q", name, row)
		}
	}
}
